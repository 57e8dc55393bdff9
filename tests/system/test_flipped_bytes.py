"""A byte that is changed anywhere, or an end that is cut off, is seen: numbers are right, or there is an error."""

from __future__ import annotations

import logging
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from experiments import QUERIES, Experiment, write_experiment
from ragtrial.errors import ReportError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report, load_report
from ragtrial.report.rows import read_rows

pytestmark = pytest.mark.slow

QUOTED = [
    {**query, "relevant_docs": [{**label, "quote": quote} for label, quote in zip(labels, quotes, strict=True)]}
    for query, labels, quotes in (
        (QUERIES[0], QUERIES[0]["relevant_docs"], ["Bake it for an hour in a hot oven.", "Bake the rolls"]),
        (QUERIES[1], QUERIES[1]["relevant_docs"], ["Soup keeps for three days", "Blend half of the soup"]),
        (QUERIES[2], QUERIES[2]["relevant_docs"], ["Blend the soup until it is smooth", "Blend half of the soup"]),
    )
]
SETTINGS = {
    "near": {"kind": "dense", "top_k": 5, "store": {"kind": "chroma"}},
    "exact": {"kind": "dense", "top_k": 5, "context": {"headings": True}},
    "words": {"kind": "bm25", "top_k": 5},
    "fused": {"kind": "fusion", "inputs": ["exact", "words"]},
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Report]:
    """A finished experiment under unit: span, with stages of nearly every kind."""
    folder = tmp_path_factory.mktemp("flipped") / "first"
    evaluators = {"unit": "span", "primary_metric": "rr@5"}
    experiment = write_experiment(folder, queries=QUOTED, retrievers=SETTINGS, evaluators=evaluators)
    return experiment, run_experiment(experiment.config())


def numbers(report: Report) -> list[dict[str, Any]]:
    """All that the settings found, without times and without the name of a build."""
    return [one.model_dump(exclude={"timings", "costs", "latency", "index"}) for one in report.settings]


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)


def flip(path: Path, drawn: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[drawn.randrange(len(content))] ^= drawn.randint(1, 255)
    path.write_bytes(content)


def cut(path: Path, drawn: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: drawn.randrange(path.stat().st_size)])


@pytest.mark.parametrize("damage", [flip] * 20 + [cut] * 5)
def test_damage_in_every_file_of_a_workspace_changes_no_number(
    finished: tuple[Experiment, Report],
    tmp_path: Path,
    damage: Any,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each file is damaged once; whatever was made of it is made again, and that is said."""
    drawn = random.Random(request.node.name)
    experiment = Experiment(shutil.copytree(finished[0].folder, tmp_path / "copy"))
    for path in files(experiment.workspace):
        damage(path, drawn)
    with caplog.at_level(logging.WARNING):
        report = run_experiment(experiment.config())
    assert numbers(report) == numbers(finished[1])
    assert "is damaged" in caplog.text
    caplog.clear()
    assert numbers(run_experiment(experiment.config())) == numbers(finished[1])
    assert "damaged" not in caplog.text, "and once is enough"


def read_all(folder: Path) -> list[Any]:
    """All that commands read of a report: its values, every hit, the texts, the config."""
    report = load_report(folder)
    report.verify()
    rankings = [list(read_rows(report.ranking_file(one.name))) for one in report.settings]
    texts = list(read_rows(report.file("texts.jsonl.gz")))
    return [report.model_dump(), rankings, texts, report.file("config.yaml").read_text()]


@pytest.mark.parametrize("damage", [flip] * 20 + [cut] * 5)
def test_damage_in_any_file_of_a_report_is_refused_by_name(
    finished: tuple[Experiment, Report], tmp_path: Path, damage: Any, request: pytest.FixtureRequest
) -> None:
    drawn = random.Random(request.node.name)
    whole = finished[1].folder
    for path in files(whole):
        folder = shutil.copytree(whole, tmp_path / f"without-{path.name}")
        assert read_all(folder) == read_all(whole)
        damaged = folder / path.relative_to(whole)
        damage(damaged, drawn)
        with pytest.raises(ReportError) as caught:
            read_all(folder)
        assert str(caught.value).startswith(f"{damaged}: ")
