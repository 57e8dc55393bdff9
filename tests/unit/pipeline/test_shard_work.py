"""`ragtrial work`: machines that share a folder embed shards; a run that pulls from it embeds nothing."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from commands import LONGEST
from experiments import Experiment, write_experiment
from ragtrial.cache.file_systems import network_file_system
from ragtrial.cache.sharing import SharedCache
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.errors import InputError, RunError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.shard_work import Shard, ShardWork, embed_shard
from report_hits import hits_of
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]

DOCUMENTS = {
    f"{number}.txt": f"Loaf {number} has {number * 7} grams of rye{' and much water' * (number % 5)}."
    for number in range(40)
}
TEXTS = len(DOCUMENTS) + 4  # and the queries


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path / "experiment", DOCUMENTS, chunker={"kind": "document"}, queries=QUERIES)


QUERIES = [{"id": str(number), "text": f"How heavy is loaf {number}?", "relevant_docs": [{"doc": f"{number}.txt"}]}
           for number in range(4)]  # fmt: skip


def work(experiment: Experiment, shared: Path, shard: str, workspace: Path, every: int = 3) -> ShardWork:
    """What a machine does that has the experiment, the shared folder, and a workspace of its own."""
    config = experiment.config(f"workspace={workspace}")
    return embed_shard(config, Shard.parse(shard), SharedCache(str(shared)), texts_per_pack=every)


def vectors(workspace: Path) -> dict[bytes, bytes]:
    """The bytes of every cached vector by the key of its text."""
    (file,) = (workspace / "vectors").glob("*.sqlite")
    with VectorCache(file) as cache:
        keys = cache.keys_in_database()
        return dict(zip((key.tobytes() for key in keys), cache.read_each(keys), strict=True))


@given(st.lists(st.text(), min_size=1, max_size=30), st.integers(1, 70))
def test_shards_are_disjoint_and_complete(texts: list[str], count: int) -> None:
    keys = text_keys(texts)
    held = np.array([Shard(number, count).has(keys) for number in range(1, count + 1)])
    assert (held.sum(axis=0) == 1).all()
    np.testing.assert_array_equal(Shard(0, count).has(keys), held[-1])
    first = Shard(1, count).has(text_keys(texts[:1]))
    assert first[0] == held[0, 0], "the shard of a text depends on no other text"


@pytest.mark.parametrize("text", ["5/4", "1", "1/0", "0/0", "-1/4", "a/b", "1/4/5", "1.5/4", ""])
def test_what_is_no_shard_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(InputError, match="like 3/64"):
        Shard.parse(text)


def test_shards_in_any_order_and_twice_leave_a_run_nothing_to_embed(
    experiment: Experiment, tmp_path: Path, capsys: Capture
) -> None:
    """The vectors of a function that looks at each text alone are equal to those of a run without shards."""
    shared = tmp_path / "shared"
    made = [work(experiment, shared, f"{number}/4", tmp_path / str(number)) for number in (3, 0, 2, 1)]
    assert all(one.embedded == one.texts > 0 for each in made for one in each.embedders)
    assert sum(each.embedders[0].embedded for each in made) == TEXTS
    embedded = experiment.embedded()
    assert max(Counter(embedded).values()) == 1
    again = [work(experiment, shared, f"{number}/4", tmp_path / "again") for number in (1, 2, 3, 4)]
    assert [(each.embedders[0].present, each.embedders[0].bytes) for each in again] == [
        (each.embedders[0].texts, 0) for each in again
    ]
    assert sum(each.embedders[0].texts for each in again) == TEXTS
    assert ragtrial(capsys, "cache", "pull", str(shared), str(experiment.file)).code == 0
    report = run_experiment(experiment.config())
    assert experiment.embedded() == embedded
    alone = write_experiment(tmp_path / "alone", DOCUMENTS, chunker={"kind": "document"}, queries=QUERIES)
    expected = run_experiment(alone.config())
    assert hits_of(report, "dense") == hits_of(expected, "dense")
    assert vectors(experiment.workspace) == vectors(alone.workspace)


def test_a_changed_text_moves_no_other(experiment: Experiment, tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    for number in range(4):
        work(experiment, shared, f"{number}/4", tmp_path / "workspace")
    (experiment.folder / "documents" / "7.txt").write_text("Loaf 7 was eaten.")
    again = [work(experiment, shared, f"{number}/4", tmp_path / "new") for number in range(4)]
    assert sum(each.embedders[0].embedded for each in again) == 1
    assert experiment.embedded()[-1] == "Loaf 7 was eaten."


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
@pytest.mark.parametrize("workspace", ["lost", "kept"])
def test_a_killed_shard_continues(workspace: str, experiment: Experiment, tmp_path: Path, capsys: Capture) -> None:
    """With its workspace it embeds only the batch at work and a probe twice, else all since the last pack."""
    shared, every, batch, probe = tmp_path / "shared", 8, 4, int(workspace == "kept")
    experiment.trouble("kill", after=20)
    command = [sys.executable, "-m", "ragtrial", "work", str(experiment.file), "--shard", "1/1", "--out", str(shared)]
    options = ["--every", str(every), "--set", f"workspace={tmp_path / 'killed'}"]
    done = subprocess.run([*command, *options], capture_output=True, timeout=LONGEST, check=False)
    assert done.returncode == -signal.SIGKILL
    before = experiment.embedded()
    assert list(shared.rglob("*.keys")), "something was sent before the kill"
    experiment.no_trouble()
    made = work(experiment, shared, "1/1", tmp_path / ("killed" if workspace == "kept" else "new"), every)
    twice = len(experiment.embedded()) - TEXTS
    assert made.embedders[0].embedded == len(experiment.embedded()) - len(before) - probe
    assert 0 < twice <= (batch + probe if workspace == "kept" else every + batch)
    assert ragtrial(capsys, "cache", "pull", str(shared), str(experiment.file)).code == 0
    count = len(experiment.embedded())
    run_experiment(experiment.config())
    assert len(experiment.embedded()) == count


def test_a_pull_beside_shards_at_work_takes_whole_packs_alone(
    experiment: Experiment, tmp_path: Path, capsys: Capture
) -> None:
    """A process that was killed while it wrote leaves a file in `partial`, which nobody reads."""
    shared = tmp_path / "shared"
    work(experiment, shared, "1/2", tmp_path / "first")
    (pack, *_) = shared.rglob("*.sqlite")
    (shared / "partial" / "0a").write_bytes(pack.read_bytes()[:100])
    (pack.parent / f"{'0' * 32}.sqlite").write_bytes(pack.read_bytes()[:100])  # whose keys are not there yet
    (pack.parent / f"{'1' * 32}.keys").write_bytes(b"half of a key")
    done = ragtrial(capsys, "cache", "pull", str(shared), str(experiment.file), "--json")
    assert (done.code, done.json["damaged"]) == (0, [])
    made = work(experiment, shared, "1/2", tmp_path / "second")
    assert made.embedders[0].embedded == 0
    work(experiment, shared, "2/2", tmp_path / "second")
    assert ragtrial(capsys, "cache", "pull", str(shared), str(experiment.file)).code == 0
    assert len(vectors(experiment.workspace)) == TEXTS


def test_what_the_workspace_has_is_sent_and_not_embedded(experiment: Experiment, tmp_path: Path) -> None:
    run_experiment(experiment.config())
    count = len(experiment.embedded())
    made = work(experiment, tmp_path / "shared", "1/1", experiment.workspace)
    assert (made.embedders[0].kept, made.embedders[0].embedded) == (TEXTS, 0)
    assert len(experiment.embedded()) == count


def test_every_embedder_is_served_and_what_only_a_run_can_embed_is_named(tmp_path: Path, capsys: Capture) -> None:
    other = {"kind": "custom", "function": "embedding:embed", "version": "2"}
    made = write_experiment(
        tmp_path / "experiment",
        retrievers={
            "words": {"kind": "bm25"},
            "dense": {"kind": "dense", "top_k": 3},
            "both": {"kind": "fusion", "inputs": ["words", "dense"], "top_k": 3},
            "other": {"kind": "dense", "top_k": 3, "embedder": other},
            "semantic": {"kind": "dense", "top_k": 3, "chunker": {"kind": "semantic"}},
        },
    )
    done = ragtrial(capsys, "work", str(made.file), "--shard", "1/1", "--json", "-q")
    assert (done.code, done.err) == (0, "")
    assert len(done.json["embedders"]) == 2
    assert list(done.json["left"]) == ["semantic"]
    shared = Path(done.json["url"])
    assert (shared / ".gitignore").read_text() == "*\n"
    assert done.json["embedders"][0]["embedded"] == len(set(made.embedded())) == len(made.embedded()) / 2
    said = ragtrial(capsys, "work", str(made.file), "--shard", "0/1").out
    assert "semantic (its chunker (semantic) embeds while it cuts)" in said
    assert f"ragtrial cache pull {shared} {made.file}" in said


def test_one_embedder_that_fails_stops_no_other(tmp_path: Path, capsys: Capture) -> None:
    other = {"kind": "custom", "function": "gone:embed"}
    (folder := tmp_path / "experiment").mkdir()
    (folder / "gone.py").write_text("def embed(texts):\n    raise ValueError('no quota')\n")
    retrievers: dict[str, Any] = {"dense": {"kind": "dense", "top_k": 3}, "other": {"kind": "dense", "embedder": other}}
    made = write_experiment(folder, retrievers=retrievers)
    done = ragtrial(capsys, "work", str(made.file), "--shard", "1/1", "--json")
    assert done.code == 4
    assert [bool(one["error"]) for one in done.json["embedders"]] == [False, True]
    assert "no quota" in done.err
    alone = write_experiment(tmp_path / "alone", retrievers={"other": retrievers["other"]})
    (alone.folder / "gone.py").write_text("def embed(texts):\n    raise ValueError('no quota')\n")
    with pytest.raises(RunError, match="no quota"):
        work(alone, tmp_path / "shared", "1/1", tmp_path / "workspace")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--shard", "9/4"], "like 3/64"),
        ([], "Missing option '--shard'"),
        (["--shard", "1/4", "--out", "nowhere://x"], "nowhere://x cannot be used"),
        (["--shard", "1/4", "--set", "embedder.function=gone:embed"], "gone"),
    ],
)
def test_invalid_options_end_before_any_work(
    options: list[str], said: str, experiment: Experiment, capsys: Capture
) -> None:
    done = ragtrial(capsys, "work", str(experiment.file), *options)
    assert done.code == 2
    assert said in done.err
    assert experiment.embedded() == []


def test_a_model_gives_vectors_equal_to_rounding(tmp_path: Path, tiny_model: Path, capsys: Capture) -> None:
    """Batches of a shard have other texts, so padding differs, and with it the last bits."""
    embedder = {"kind": "sentence-transformer", "model": str(tiny_model), "batch_size": 4}
    folders = tmp_path / "sharded", tmp_path / "alone"
    sharded, alone = (
        write_experiment(folder, DOCUMENTS, QUERIES, chunker={"kind": "document"}, embedder=embedder)
        for folder in folders
    )
    for number in range(4):
        work(sharded, tmp_path / "shared", f"{number}/4", tmp_path / str(number), every=100)
    ragtrial(capsys, "cache", "pull", str(tmp_path / "shared"), str(sharded.file))
    got = vectors(sharded.workspace)
    run_experiment(alone.config())
    expected = vectors(alone.workspace)
    assert got.keys() == expected.keys()
    for key, vector in expected.items():
        np.testing.assert_allclose(np.frombuffer(got[key], "<f4"), np.frombuffer(vector, "<f4"), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("home/x", "nfs4"),
        ("home", "nfs4"),
        ("homely", None),
        ("home/local/x", None),
        ("my disk/x", "lustre"),
        ("", None),
    ],
)
def test_a_workspace_on_a_network_file_system_is_recognized(folder: str, kind: str | None, tmp_path: Path) -> None:
    root = tmp_path.resolve()
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/sda / ext4 rw 0 0\nautofs {root}/home autofs rw 0 0\nserver:/home {root}/home nfs4 rw 0 0\n"
        f"/dev/sdb {root}/home/local xfs rw 0 0\nmds:/x {root}/my\\040disk lustre rw 0 0\n"
    )
    assert network_file_system(root / folder, mounts) == kind
    assert network_file_system(root, tmp_path / "none") is None


def test_json_has_all_counts(experiment: Experiment, tmp_path: Path, capsys: Capture) -> None:
    done = ragtrial(
        capsys, "work", str(experiment.file), "--shard", "2/3", "--out", str(tmp_path / "shared"), "--json", "-q"
    )
    (one,) = done.json["embedders"]
    assert one["texts"] == one["present"] + one["kept"] + one["embedded"] == len(experiment.embedded())
    assert (done.json["shard"], done.json["url"]) == ("2/3", str(tmp_path / "shared"))
    assert json.loads(done.out)["exit_code"] == 0
