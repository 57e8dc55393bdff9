"""What is known of parts that are no settings of their own, findings and versions, is in the report."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import pytest

from corpora import write_files
from experiments import DOCUMENTS, write_experiment
from ragtrial.config.load import load_config
from ragtrial.errors import ConfigError
from ragtrial.experiment import run_experiment

DENSE = {"kind": "dense", "chunker": {"kind": "document"}, "top_k": 3}
MADE = {"kind": "run_file", "path": "made.trec", "top_k": 1}
WORDS = {"kind": "bm25", "stemmer": "german", "top_k": 3}
RUN = "rye Q0 bread/rye.md 1 2.0 made\nsmooth Q0 soup/leek.md 1 1.0 made\nkeep Q0 storage.txt 1 1.0 made\n"

TOLD = {
    "duplicate-texts": "flat{}: chunks with the same text as an earlier one: 1 of 7; identical chunks compete for "
    "the same ranks.",
    "queries-not-in-run": "made{}: labelled queries that are not in made.trec: 1 ('coffee'); they score 0.",
    "bm25-languages": "words{}: `stemmer: german` with `stop_words: english`, two languages; is one of them the "
    "default, and forgotten?",
}


def told(folder: Path, *, scored: bool) -> dict[str, str]:
    parts = {"flat": DENSE, "made": MADE, "words": WORDS}
    retrievers: Mapping[str, object] = {
        **{name: {**part, "score": scored} for name, part in parts.items()},
        "both": {"kind": "fusion", "inputs": ["flat", "made"], "score": False},
        "hybrid": {"kind": "fusion", "inputs": ["both", "words"], "top_k": 3},
    }
    experiment = write_experiment(folder, {**DOCUMENTS, "copy.txt": DOCUMENTS["oven.txt"]}, retrievers=retrievers)
    write_files(folder, {"made.trec": RUN})
    found = [warning for warning in run_experiment(experiment.config()).warnings if warning.code in TOLD]
    assert len(found) == len({warning.code for warning in found})
    return {warning.code: warning.message for warning in found}


@pytest.mark.slow
@pytest.mark.parametrize("scored", [False, True])
def test_what_is_to_be_known_of_parts_is_told_once_and_again_when_all_is_kept(tmp_path: Path, *, scored: bool) -> None:
    said = {"duplicate-texts": "both", "queries-not-in-run": "both", "bm25-languages": "hybrid"}
    names = {code: "" if scored else f", by itself, as a part of {whole}" for code, whole in said.items()}
    expected = {code: message.format(names[code]) for code, message in TOLD.items()}
    assert told(tmp_path, scored=scored) == expected
    assert told(tmp_path, scored=scored) == expected


@pytest.mark.slow
@pytest.mark.parametrize("candidates", [2, 3])
def test_a_refiner_that_looks_at_fewer_hits_than_are_scored_says_so(tmp_path: Path, candidates: int) -> None:
    parent = {"kind": "parent", "inputs": "dense", "candidates": candidates, "top_k": 3}
    dense = {"kind": "dense", "top_k": 3}
    experiment = write_experiment(tmp_path, DOCUMENTS, retrievers={"dense": dense, "wide": parent})
    (short,) = (one.message for one in run_experiment(experiment.config()).warnings if one.code == "short")
    told = " Only 2 hits of each part are looked at: raise candidates to 3 or more."
    assert short.startswith("wide: ")
    assert short.endswith("missing ones count as not relevant." + (told if candidates == 2 else ""))


def test_more_hits_than_memory_holds_are_refused_when_the_config_is_read(tmp_path: Path) -> None:
    file = write_experiment(tmp_path, retrievers={"dense": {"kind": "dense", "top_k": 10**9}}).file
    with pytest.raises(ConfigError) as raised:
        load_config(file)
    (fault,) = raised.value.faults
    assert fault.message == "retrievers.dense.top_k is 1000000000; it must be at most 100000 (default 10)."


def test_a_report_names_the_packages_of_its_parts_and_no_others(tmp_path: Path) -> None:
    retrievers = {
        "near": {"kind": "dense", "top_k": 3, "store": {"kind": "faiss"}},
        "words": {"kind": "bm25", "top_k": 3},
        "both": {"kind": "fusion", "inputs": ["near", "words"], "top_k": 3},
    }
    report = run_experiment(write_experiment(tmp_path, retrievers=retrievers).config())
    wanted = ("bm25s", "faiss-cpu", "numpy", "pystemmer", "ragtrial")
    assert report.environment["packages"] == {name: version(name) for name in wanted}
    retrievers = {
        "near": {"kind": "dense", "top_k": 3, "store": {"kind": "chroma"}, "score": False},
        "again": {"kind": "mmr", "inputs": "near", "top_k": 3},
    }
    report = run_experiment(write_experiment(tmp_path, retrievers=retrievers).config())
    assert "chromadb" in report.environment["packages"]
