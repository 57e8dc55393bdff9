"""Executors: whoever embeds, the vectors are the same; workers may die, and no text may end a run."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from commands import LONGEST
from expectations import message_of, present
from experiments import Experiment, write_experiment
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.components.batching import TextList
from ragtrial.components.embedders.base import Embedder, blaming_a_text
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.custom import CustomEmbedder
from ragtrial.components.executors.base import EXECUTORS, Executor, SerialExecutor
from ragtrial.components.executors.processes import ProcessExecutor
from ragtrial.components.user_functions import FunctionReference
from ragtrial.errors import ConfigError, EmbedderError
from ragtrial.experiment import run_experiment
from ragtrial.rankings import Floats

TEXTS = [" ".join(["loaf", str(number), *["rye bread"] * (number % 7)]) for number in range(60)]
BATCH = 4

BESIDE = '''
"""Embeds by length; beside that, what the test wants."""

import os
import signal
from pathlib import Path

HERE = Path(__file__).parent


def vectors(texts):
    return [[float(len(text)), float(os.getpid() > 0), 1.0 + sum(map(ord, text)) % 7] for text in texts]


def embed(texts):
    {code}
    return vectors(texts)
'''


MIXED = """(HERE / f"worker-{os.getpid()}").touch()
    return [[float(len(text)), 1 / len(text) + sum(map(len, texts[:2])), 1.0] for text in texts]"""
"""Vectors that depend on all texts of a batch and on their order, as those of models do."""


def with_function(folder: Path, code: str, **options: Any) -> CustomEmbedder:
    """An embedder that runs ``code`` for every batch of ``texts``."""
    folder.mkdir(exist_ok=True)
    (folder / "beside.py").write_text(BESIDE.replace("{code}", code))
    reference = FunctionReference("beside:embed", folder)
    return CustomEmbedder(function=reference, batch_size=BATCH, version="1", **options)


def embedded(embedder: Embedder, folder: Path, executor: Executor, texts: Sequence[str] = TEXTS) -> Floats:
    cached = CachedEmbedder(embedder, folder, start=executor.start)
    try:
        made = cached.embed(TextList(texts), "", cached.lengths(TextList(texts), ""))
        return np.concatenate(list(made.blocks()))
    finally:
        cached.release()


EVERY = [SerialExecutor(), ProcessExecutor(workers=1), ProcessExecutor(workers=2), ProcessExecutor(workers=8)]


def test_every_kind_is_tested() -> None:
    assert {one.kind for one in EVERY} | {"ray"} == set(EXECUTORS.names()), "test_ray.py has tests of Ray"


def test_every_executor_and_number_of_workers_gives_the_same_bytes(tmp_path: Path) -> None:
    embedder = with_function(tmp_path, MIXED)
    expected, *others = (embedded(embedder, tmp_path / str(place), one) for place, one in enumerate(EVERY))
    assert [made.tobytes() == expected.tobytes() for made in others] == [True] * len(others)
    assert len(list(tmp_path.glob("worker-*"))) >= 1 + 1 + 2 + 2, "several processes were at work"
    other_batches = embedder.model_copy(update={"batch_size": BATCH + 1})
    assert embedded(other_batches, tmp_path / "other", SerialExecutor()).tobytes() != expected.tobytes()


@pytest.mark.parametrize(("count", "is_here"), [(4 * BATCH, True), (4 * BATCH + 1, False)])
def test_four_batches_are_embedded_before_a_worker_is_there(count: int, is_here: bool, tmp_path: Path) -> None:
    embedded(with_function(tmp_path, MIXED), tmp_path / "vectors", ProcessExecutor(workers=1), TEXTS[:count])
    assert [file.name == f"worker-{os.getpid()}" for file in tmp_path.glob("worker-*")] == [is_here]


def test_workers_that_are_killed_are_replaced_and_cost_no_more_than_their_batch(tmp_path: Path) -> None:
    killed = """
    (HERE / "calls").open("a").write(f"{len(texts)}\\\\n")
    if any(text.startswith("loaf 1") for text in texts):
        try:
            (HERE / f"killed-{texts[0]}").touch(exist_ok=False)
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    """.replace("\\\\", "\\").strip()
    made = embedded(with_function(tmp_path, killed), tmp_path / "vectors", ProcessExecutor(workers=2))
    undisturbed = embedded(with_function(tmp_path / "other", "pass"), tmp_path / "again", SerialExecutor())
    assert made.tobytes() == undisturbed.tobytes()
    deaths = len(list(tmp_path.glob("killed-*")))
    assert deaths >= 3
    asked = sum(map(int, (tmp_path / "calls").read_text().split()))
    assert asked == len(TEXTS) + deaths * BATCH


@pytest.mark.parametrize("executor", [SerialExecutor(), ProcessExecutor(workers=2)], ids=lambda one: one.kind)
def test_an_error_names_the_text_at_fault_and_what_was_finished_is_kept(tmp_path: Path, executor: Executor) -> None:
    embedder = with_function(tmp_path, 'assert not any("poison" in text for text in texts), "tastes bad"')
    texts = [*TEXTS[:40], "a little poison", *TEXTS[40:]]
    assert message_of(EmbedderError, embedded, embedder, tmp_path / "vectors", executor, texts) == (
        "beside:embed raised AssertionError for 1 text: tastes bad. The text was 'a little poison'."
    )
    (file,) = (tmp_path / "vectors").glob("*.sqlite")
    with VectorCache(file) as cache:
        kept = ~cache.missing(text_keys(texts))
    assert not kept[40]
    assert kept.any()


def test_a_text_that_ends_every_process_is_named(tmp_path: Path) -> None:
    killer = 'if any("poison" in text for text in texts): os.kill(os.getpid(), signal.SIGKILL)'
    embedder = with_function(tmp_path, killer)
    with pytest.raises(EmbedderError) as caught:
        embedded(embedder, tmp_path / "vectors", ProcessExecutor(workers=1), ["a little poison", *TEXTS])
    assert str(caught.value) == (
        "a worker process was ended by SIGKILL (is there enough memory for all workers?) while it embedded. "
        "The text was 'a little poison'."
    )


def test_each_batch_may_end_three_workers(tmp_path: Path) -> None:
    killer = '(HERE / "calls").open("a").write("x"); (HERE / "calls").stat().st_size % 4 and os.kill(os.getpid(), 9)'
    workers = present(ProcessExecutor(workers=1).start(with_function(tmp_path, killer)))
    assert list(map(len, workers.embed([TEXTS[:BATCH], TEXTS[BATCH : 2 * BATCH]]))) == [BATCH, BATCH]
    workers.release()


def test_a_worker_is_missed_although_what_it_has_forked_lives_on(tmp_path: Path) -> None:
    forking = """
    if not (HERE / "child").exists():
        child = os.fork()
        if child == 0:
            signal.pause()
        (HERE / "child").write_text(str(child))
        os.kill(os.getpid(), signal.SIGKILL)
    """.strip()
    made = embedded(with_function(tmp_path, forking), tmp_path / "vectors", ProcessExecutor(workers=1))
    os.kill(int((tmp_path / "child").read_text()), signal.SIGKILL)
    assert len(made) == len(TEXTS)


@pytest.mark.parametrize("most", [0, 3])
def test_no_text_is_blamed_where_several_or_none_fail_alone(most: int) -> None:
    def embed(texts: Sequence[str]) -> Floats:
        if len(texts) > most:
            raise EmbedderError("out of memory")
        return np.zeros((len(texts), 2), dtype=np.float32)

    with pytest.raises(EmbedderError, match=r"^out of memory$") as caught:
        blaming_a_text(embed, TEXTS[:6])
    assert caught.value.position is None


def test_a_model_that_does_not_load_is_reported_as_it_is_without_workers(tmp_path: Path) -> None:
    embedder = with_function(tmp_path, "pass")
    (tmp_path / "beside.py").write_text("raise ImportError('no such library')")
    with pytest.raises(Exception, match="cannot be imported: ImportError: no such library") as caught:
        ProcessExecutor(workers=1).start(embedder).embed([TEXTS])  # type: ignore[union-attr]  # there are workers
    assert type(caught.value).__name__ == "ModelNotFoundError"


def test_output_is_harmless_and_another_dimension_refused(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    chatty = 'print("hello"); assert __import__("sys").stdin.read() == ""'
    assert embedded(with_function(tmp_path, chatty), tmp_path / "v", ProcessExecutor(workers=1)).shape == (60, 3)
    assert capfd.readouterr().out == ""
    shorter = 'if any("loaf 31" in text for text in texts): return [[1.0, 2.0]] * len(texts)'
    with pytest.raises(EmbedderError, match=r"returned vectors of dimension [23]; before they had [32]\.$"):
        embedded(with_function(tmp_path, shorter), tmp_path / "vectors", ProcessExecutor(workers=1))


def test_workers_have_gpus_of_their_own_and_share_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS"):
        monkeypatch.delenv(name, raising=False)
    executor = ProcessExecutor(workers=2, gpus=2)
    assert [executor.environment(number)["CUDA_VISIBLE_DEVICES"] for number in (0, 1)] == ["0,1", "2,3"]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    assert executor.environment(0)["OMP_NUM_THREADS"] == str(max(1, cores // 2))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-a,GPU-b,GPU-c,GPU-d")
    assert executor.environment(1)["CUDA_VISIBLE_DEVICES"] == "GPU-c,GPU-d"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    with pytest.raises(ConfigError, match=r"^executor needs 4 GPUs \(2 workers x 2\); CUDA_VISIBLE_DEVICES names 1\."):
        executor.environment(0)
    assert "CUDA_VISIBLE_DEVICES" not in ProcessExecutor(workers=2).environment(0)


@pytest.mark.slow
def test_a_worker_without_the_gpus_that_it_was_assigned_says_so(tmp_path: Path) -> None:
    import torch

    wanted = torch.cuda.device_count() + 1
    with pytest.raises(EmbedderError, match=rf"was assigned {wanted} GPUs? \(number .*\), and torch finds"):
        embedded(with_function(tmp_path, "pass"), tmp_path / "v", ProcessExecutor(workers=1, gpus=wanted))


DRIVER = """
import json
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_executors import *
folder, executor = Path(sys.argv[1]), EXECUTORS[json.loads(sys.argv[2])["kind"]].model_validate_json(sys.argv[2])
(folder / "driver").write_text(str(os.getpid()))
embedded(CustomEmbedder(function=FunctionReference("beside:embed", folder), batch_size=BATCH, version="1"),
         folder / "vectors", executor)
"""


def check_that_a_killed_run_goes_on(folder: Path, executor: Executor) -> int:
    """Kill a run with ``executor`` while it embeds; how many batches are embedded when it goes on."""
    killer = """
    (HERE / f"asked-{len(list(HERE.glob('asked-*')))}").write_text(repr(texts))
    if "loaf 0" in texts and not (HERE / "worker").exists():
        (HERE / "worker").write_text(str(os.getpid()))
        os.kill(int((HERE / "driver").read_text()), signal.SIGKILL)
    """.strip()
    embedder = with_function(folder, killer)
    paths = [str(Path(__file__).parent), str(Path(write_experiment.__code__.co_filename).parent)]
    command = [sys.executable, "-c", DRIVER, str(folder), executor.model_dump_json(), *paths]
    assert subprocess.run(command, timeout=LONGEST, check=False).returncode == -signal.SIGKILL
    wait_for_end(int((folder / "worker").read_text()))
    before = len(list(folder.glob("asked-*")))
    made = embedded(embedder, folder / "vectors", executor)
    undisturbed = embedded(with_function(folder / "other", "pass"), folder / "again", SerialExecutor())
    assert made.tobytes() == undisturbed.tobytes()
    return len(list(folder.glob("asked-*"))) - before


def test_workers_end_with_the_run_that_is_killed_and_the_next_one_goes_on(tmp_path: Path) -> None:
    again = check_that_a_killed_run_goes_on(tmp_path, ProcessExecutor(workers=1))
    assert again <= 4 < len(TEXTS) // BATCH, "one compares the function, one was interrupted, two were ready"


def wait_for_end(pid: int) -> None:
    deadline = time.monotonic() + LONGEST
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.01)
    pytest.fail(f"the worker {pid} goes on")


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path)


def test_the_executor_is_no_part_of_any_fingerprint(experiment: Experiment) -> None:
    first = run_experiment(experiment.config())
    asked, stages = experiment.embedded(), experiment.stages()
    again = run_experiment(experiment.config("executor.kind=processes", "executor.workers=2"))
    assert experiment.embedded() == asked
    assert experiment.stages() == stages
    assert [one.fingerprint for one in again.settings] == [one.fingerprint for one in first.settings]


def test_a_text_that_cannot_be_embedded_fails_its_setting_with_the_chunk_and_not_the_run(tmp_path: Path) -> None:
    retrievers = {"dense": {"kind": "dense", "top_k": 3}, "words": {"kind": "bm25", "top_k": 3}}
    experiment = write_experiment(tmp_path, retrievers=retrievers)
    file = experiment.folder / "embedding.py"
    begin = "def embed(texts):\n"
    file.write_text(file.read_text().replace(begin, f"{begin}    assert not any('crust' in text for text in texts)\n"))
    overrides = ["executor.kind=processes", "executor.workers=1", "embedder.batch_size=2"]
    report = run_experiment(experiment.config(*overrides))
    assert [one.name for one in report.settings] == ["words"]
    assert [one.name for one in report.failures] == ["dense"]
    assert "(bread/rye.md, characters " in report.failures[0].error
