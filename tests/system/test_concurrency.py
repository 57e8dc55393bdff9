"""Runs that share a workspace share the work, find what a lone run finds, and never open one Chroma index at once."""

import json
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from commands import Outcome, commands_of, hooked
from experiments import Experiment, write_experiment
from forked import forked_command
from ragtrial import load_report
from report_hits import hits_of

EMBEDDING = """
import json
import time
import zlib
from pathlib import Path

import numpy as np

CALLS = Path(__file__).with_name("calls.jsonl")
HOLD = Path(__file__).with_name("hold")


def embed(texts):
    with CALLS.open("a", encoding="utf-8") as calls:
        calls.write(json.dumps(texts) + "\\n")
    time.sleep(0.01)
    while HOLD.exists() and sum(len(json.loads(line)) for line in CALLS.read_text().splitlines()) > 20:
        time.sleep(0.01)
    return [sum(map(direction, text.lower().split())) for text in texts]


def direction(word):
    return np.random.default_rng(zlib.crc32(word.strip(".?").encode())).normal(size=16)
"""
"""Words have directions of their own, so that no two scores are equal. Stops after 20 texts while there is a hold."""

WATCH = """
import json
import os
import sys
import time
from importlib.abc import MetaPathFinder
from pathlib import Path

LOG = Path(os.environ["CHROMA_LOG"])
RELEASE = LOG.with_name("release")


def note(what, path):
    with LOG.open("a", encoding="utf-8") as log:
        log.write(json.dumps([what, os.getpid(), str(path), time.monotonic()]) + "\\n")


def another_has_opened(path):
    rows = map(json.loads, LOG.read_text().splitlines())
    return any(what == "open" and where == str(path) and process != os.getpid() for what, process, where, _ in rows)


def watch():
    import chromadb

    connect = chromadb.PersistentClient

    def opened(path, **options):
        note("open", path)
        client = connect(path=path, **options)
        close = client.close
        end = time.monotonic() + float(os.environ["CHROMA_HOLD"])
        while time.monotonic() < end and not another_has_opened(path) and not RELEASE.exists():
            time.sleep(0.01)

        def closed():
            close()
            note("close", path)

        client.close = closed
        return client

    chromadb.PersistentClient = opened


class Finder(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "ragtrial.engines.chroma":
            sys.meta_path.remove(self)
            watch()
        return None


sys.meta_path.insert(0, Finder())
"""
"""Notes when each process opens and closes a Chroma directory; keeps it open for a while, or until another has it.

The note of an opening is written before it, that of a closing after it."""


TEXT = (
    "rye wheat oven crust dough yeast water salt flour bake knead rest rise shape slice toast butter jam leek onion "
    "garlic tomato basil stock pot stir boil simmer blend serve bowl spoon cream pepper carrot bean lentil rice"
)
WORDS = TEXT.split()
STORES: dict[str, dict[str, Any]] = {
    "chroma": {"store": {"kind": "chroma"}}, "exact": {"store": {"kind": "exact"}},
    "short": {
        "store": {"kind": "chroma"},
        "chunker": {"kind": "recursive", "size": 60, "overlap": 0, "unit": "characters"},
        # So that none of its texts is one of the others'.
        "embedder": {"kind": "custom", "function": "embedding:embed", "batch_size": 4, "document_prefix": "short "},
    },
    "few": {"store": {"kind": "chroma"}, "top_k": 2}, "few-exact": {"store": {"kind": "exact"}, "top_k": 2},
}  # fmt: skip
AT_ONCE = ("chroma", "chroma", "exact", "short", "few", "few-exact")


EVALUATORS = {
    "primary_metric": "ndcg@2", "order_unaware": {"k": [1, 2]}, "order_aware": {"k": [2]}, "graded": {"k": [2]}
}  # fmt: skip
"""The same metrics, whichever settings stand beside one in its config."""


def documents() -> dict[str, str]:
    """Texts of about 80 chunks: fewer than an index looks at in a search, so that it finds what exact search does."""
    sentences = [" ".join(WORDS[(7 * one + 3 * two) % len(WORDS)] for two in range(6 + one % 5)) for one in range(90)]
    return {f"{number}.txt": ". ".join(sentences[6 * number : 6 * number + 6]) + "." for number in range(15)}


def queries() -> list[dict[str, Any]]:
    texts = [" ".join(WORDS[(5 * one + two) % len(WORDS)] for two in range(4)) for one in range(12)]
    return [
        {"id": f"q{number}", "text": text, "relevant_docs": [{"doc": f"{number}.txt"}]}
        for number, text in enumerate(texts)
    ]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Any]:
    with commands_of(tmp_path / "logs") as start:
        yield start


def experiment_in(folder: Path, **changes: object) -> Experiment:
    made = write_experiment(folder, documents(), queries(), **changes)
    (folder / "embedding.py").write_text(EMBEDDING, encoding="utf-8")
    return made


def with_retrievers(experiment: Experiment, name: str, retrievers: Mapping[str, Any]) -> Path:
    """Another config of the same experiment: its own name, its own retrievers."""
    config = json.loads(experiment.file.read_text(encoding="utf-8"))
    kinds = {key: {"kind": "dense", "top_k": 5, **retriever} for key, retriever in retrievers.items()}
    path = experiment.folder / f"{name}.yaml"
    path.write_text(
        json.dumps({**config, "experiment": name, "retrievers": kinds, "evaluators": EVALUATORS}), encoding="utf-8"
    )
    return path


def settings_of(ended: Outcome) -> dict[str, Any]:
    """The settings of the report that a run with --json names, by name."""
    assert ended.code == 0, ended.err
    report = load_report(Path(ended.json["report"]).parent)
    return {one.name: {**one.model_dump(mode="json"), "hits": hits_of(report, one.name)} for one in report.settings}


def rounded(setting: Mapping[str, Any]) -> Any:
    """What was found and how it scores; scores of Chroma to the digits that do not depend on its graph."""
    hits = [[(hit.doc, hit.chunk, round(hit.score, 5)) for hit in hits] for hits in setting["hits"].values()]
    return hits, setting["scores"], setting["counts"]


def watching(folder: Path, hold: float) -> dict[str, str]:
    """The environment of a command whose use of Chroma is noted."""
    return {**hooked(folder, WATCH), "CHROMA_LOG": str(folder / "chroma.jsonl"), "CHROMA_HOLD": str(hold)}


def overlaps(log: Path) -> list[str]:
    """The folders that two processes had open at once. Asserts that every opening was followed by a closing."""
    opened: dict[tuple[int, str], float] = {}
    spans: dict[str, list[tuple[float, float]]] = {}
    for what, process, folder, when in map(json.loads, log.read_text(encoding="utf-8").splitlines()):
        if what == "open":
            assert (process, folder) not in opened
            opened[process, folder] = when
        else:
            spans.setdefault(folder, []).append((opened.pop((process, folder)), when))
    assert not opened
    return [
        folder
        for folder, times in spans.items()
        for (start, end), (other_start, other_end) in combinations(times, 2)
        if start < other_end and other_start < end
    ]


def test_runs_at_once_share_the_work_and_find_what_a_lone_run_finds(tmp_path: Path, start: Any) -> None:
    shared, alone = (experiment_in(tmp_path / name, latency=True) for name in ("shared", "alone"))
    environment = watching(tmp_path / "hook", 0.1)
    configs = {name: with_retrievers(shared, name, {name: STORES[name]}) for name in STORES}
    running = [start(shared.folder, "run", str(configs[name]), "--json", environment=environment) for name in AT_ONCE]
    ended = [command.ended() for command in running]
    lone = settings_of(forked_command(alone.folder, "run", str(with_retrievers(alone, "all", STORES)), "--json"))
    for name, one in zip(AT_ONCE, ended, strict=True):
        made = settings_of(one)[name]
        assert rounded(made) == rounded(lone[name]), name
        if name.endswith("exact"):
            assert made["hits"] == lone[name]["hits"]
        else:
            assert made["audit"]["overlap"] == 1.0
    indexes = {name: settings_of(one)[name]["index"].get("id") for name, one in zip(AT_ONCE, ended, strict=True)}
    assert indexes["chroma"] == indexes["few"] != indexes["short"]

    # Each of the three indexes asks for the queries by itself, and may do so while another is asking.
    texts = Counter(text for call in calls_of(shared) if len(call) > 1 for text in call)
    asked = {query["text"] for query in queries()}
    assert set(shared.embedded()) == set(alone.embedded())
    assert {text: count for text, count in texts.items() if text not in asked and count > 1} == {}
    assert max(texts[text] for text in asked) <= 3

    log = tmp_path / "hook" / "chroma.jsonl"
    assert overlaps(log) == []
    at_work: dict[str, set[int]] = {}
    for _, process, folder, _ in map(json.loads, log.read_text().splitlines()):
        at_work.setdefault(folder, set()).add(process)
    assert max(map(len, at_work.values())) > 1, "no two runs wanted the same index: nothing was tested"
    assert any("waiting for another run that works on the " in one.err for one in ended)
    assert not list(tmp_path.rglob(".partial-*"))


def calls_of(experiment: Experiment) -> list[list[str]]:
    return [*map(json.loads, (experiment.folder / "calls.jsonl").read_text(encoding="utf-8").splitlines())]


def test_who_wants_an_index_that_another_has_open_waits_for_it(tmp_path: Path, start: Any) -> None:
    experiment = experiment_in(tmp_path / "experiment", store={"kind": "chroma"})
    assert forked_command(experiment.folder, "run", "config.yaml").code == 0
    environment = watching(tmp_path / "hook", 60)
    first = start(experiment.folder, "search", "config.yaml", "rye bread", environment=environment)
    first.wait_until((tmp_path / "hook" / "chroma.jsonl").exists)
    second = start(experiment.folder, "search", "config.yaml", "rye bread", environment=environment)
    second.wait_until(lambda: "waiting for another run that works on the chroma index of dense (lock " in second.err)
    (tmp_path / "hook" / "release").touch()
    ended = [first.ended(), second.ended()]
    assert [one.code for one in ended] == [0, 0], ended
    assert ended[0].out == ended[1].out
    assert overlaps(tmp_path / "hook" / "chroma.jsonl") == []


def test_the_lock_of_a_killed_run_is_taken_over_and_what_it_embedded_is_kept(tmp_path: Path, start: Any) -> None:
    experiment = experiment_in(tmp_path / "experiment")
    (experiment.folder / "hold").touch()
    first = start(experiment.folder, "run", "config.yaml")
    first.wait_until(lambda: len(experiment.embedded()) > 20)
    second = start(experiment.folder, "run", "config.yaml", "--json")
    second.wait_until(lambda: "waiting for another run that works on the embeddings (" in second.err)
    first.process.send_signal(signal.SIGKILL)
    assert first.ended().code == -signal.SIGKILL
    before = calls_of(experiment)
    (experiment.folder / "hold").unlink()
    lone = experiment_in(tmp_path / "lone")
    wanted = settings_of(forked_command(lone.folder, "run", "config.yaml", "--json"))["dense"]
    made = settings_of(second.ended())["dense"]
    assert (made["hits"], made["scores"]) == (wanted["hits"], wanted["scores"])
    committed = {text for call in before[:-1] for text in call}
    again = [text for call in calls_of(experiment)[len(before) :] for text in call if text in committed]
    assert len(committed) == 20
    assert len(again) == 1, "one text is embedded once more, to see whether the embedder is still the same"
    assert not list(tmp_path.rglob(".partial-*"))
