"""A report has the versions of what its settings worked with, as the parts themselves name it."""

from importlib.metadata import version
from pathlib import Path

from experiments import write_experiment
from ragtrial.experiment import run_experiment


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
