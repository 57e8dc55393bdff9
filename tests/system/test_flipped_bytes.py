"""A byte that is changed anywhere, or an end that is cut off, is seen: numbers are right, or there is an error."""

import json
import logging
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from experiments import QUERIES, Experiment, write_experiment
from ragtrial.comparison.judge import JudgmentsError, ModelJudgment, read_judgments
from ragtrial.errors import ReportError
from ragtrial.experiment import run_experiment
from ragtrial.labelling.judging import write_judgments
from ragtrial.report.model import Report, load_report, read_rows
from report_hits import numbers_of
from tiny_models import write_tiny_late_encoder, write_tiny_sparse_encoder

pytestmark = pytest.mark.slow

QUOTED = [
    {**query, "relevant_docs": [{**label, "quote": quote} for label, quote in zip(labels, quotes, strict=True)]}
    for query, labels, quotes in (
        (QUERIES[0], QUERIES[0]["relevant_docs"], ["Bake it for an hour in a hot oven.", "Bake the rolls"]),
        (QUERIES[1], QUERIES[1]["relevant_docs"], ["Soup keeps for three days", "Blend half of the soup"]),
        (QUERIES[2], QUERIES[2]["relevant_docs"], ["Blend the soup until it is smooth", "Blend half of the soup"]),
    )
]
SETTINGS: dict[str, Any] = {
    "near": {"kind": "dense", "top_k": 5, "store": {"kind": "chroma"}},
    "exact": {"kind": "dense", "top_k": 5, "context": {"headings": True}},
    "words": {"kind": "bm25", "top_k": 5},
    "fused": {"kind": "fusion", "inputs": ["exact", "words"]},
}
ENGINES: dict[str, Any] = {
    kind: {"kind": "dense", "top_k": 5, "store": {"kind": kind}} for kind in ("faiss", "milvus", "qdrant")
}


@pytest.fixture(scope="module")
def finished(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, minilm_folder: Path
) -> tuple[Experiment, Report]:
    """A finished experiment under unit: span, which together have every kind of file that a workspace has."""
    folder = tmp_path_factory.mktemp("flipped")
    settings = {"most kinds": SETTINGS, "engines": ENGINES}.get(request.param) or tokens(folder, minilm_folder)
    evaluators = {"unit": "span", "primary_metric": "rr@5"}
    experiment = write_experiment(folder / "first", queries=QUOTED, retrievers=settings, evaluators=evaluators)
    embedding = experiment.folder / "embedding.py"
    # Engines order equal scores as they like, another way in each build: no two texts have the same vector.
    unlike = embedding.read_text().replace(
        "    return counts", "    return [*counts, zlib.crc32(text.encode()) / 2**32]"
    )
    embedding.write_text(unlike)
    report = run_experiment(experiment.config())
    return experiment, report


def tokens(folder: Path, tokenizer: Path) -> dict[str, Any]:
    """Retrievers whose vectors are one for each token, and whose vectors have a place for each term."""
    late, sparse = folder / "late", folder / "sparse"
    write_tiny_late_encoder(late, tokenizer, seed=1)
    write_tiny_sparse_encoder(sparse, tokenizer, seed=2)
    return {
        "late": {"kind": "late", "model": str(late), "top_k": 5},
        "sparse": {"kind": "sparse", "model": str(sparse), "top_k": 5},
        "again": {"kind": "late_rerank", "inputs": "sparse", "model": str(late), "candidates": 5, "top_k": 5},
    }


def files(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size)


def flip(path: Path, drawn: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[drawn.randrange(len(content))] ^= drawn.randint(1, 255)
    path.write_bytes(content)


def cut(path: Path, drawn: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: drawn.randrange(path.stat().st_size)])


DAMAGES = [flip] * 20 + [cut] * 5 if "FUZZ_SECONDS" in os.environ else [flip] * 3 + [cut]
"""Each changes every file once; `make fuzz` asks for more."""

each_damage = pytest.mark.parametrize("damage", DAMAGES)
each_experiment = pytest.mark.parametrize("finished", ["most kinds", "engines", "tokens"], indirect=True)


@each_damage
@each_experiment
def test_damage_in_every_file_of_a_workspace_changes_no_number(
    finished: tuple[Experiment, Report],
    tmp_path: Path,
    damage: Any,
    request: pytest.FixtureRequest,
    caplog: pytest.LogCaptureFixture,
) -> None:
    drawn = random.Random(request.node.name)
    experiment = Experiment(shutil.copytree(finished[0].folder, tmp_path / "copy"))
    for path in files(experiment.workspace):
        if path.name != "LAYOUT":
            damage(path, drawn)
    with caplog.at_level(logging.WARNING):
        report = run_experiment(experiment.config())
    assert numbers_of(report) == numbers_of(finished[1])
    assert "is damaged" in caplog.text
    caplog.clear()
    assert numbers_of(run_experiment(experiment.config())) == numbers_of(finished[1])
    assert "damaged" not in caplog.text, "and once is enough"


def read_all(folder: Path) -> list[Any]:
    """All that commands read of a report: its values, every hit, the texts, the config."""
    report = load_report(folder)
    for name in report.files:
        report.file(name)
    rankings = [list(read_rows(report.ranking_file(one.name))) for one in report.settings]
    texts = list(read_rows(report.file("texts.jsonl.gz")))
    return [report.model_dump(), rankings, texts, report.file("config.yaml").read_text()]


@each_damage
@each_experiment
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


def test_damage_in_judgments_of_a_model_gives_no_other_judgments(tmp_path: Path) -> None:
    file = tmp_path / "judgments.jsonl"
    rows = [
        ModelJudgment(query=f"q{row % 3}", doc=f"d{row}", grade=row % 4, model="m", prompt="0" * 16, reply="Grade: é")
        for row in range(12)
    ]
    write_judgments(rows, file)
    whole, kept = file.read_bytes(), read_judgments(file).rows
    for number in range(200):
        (flip if number % 5 else cut)(file, random.Random(number))
        with suppress(JudgmentsError):
            found = read_judgments(file).rows
            assert found == kept[: len(found)], "a space became another one, or lines are whole"
        file.write_bytes(whole)


def test_a_judgment_that_was_changed_by_hand_needs_no_checksum(tmp_path: Path) -> None:
    file = tmp_path / "judgments.jsonl"
    write_judgments([ModelJudgment(query="q", doc="d", grade=1, model="m", prompt="0" * 16)], file)
    row = json.loads(file.read_text()) | {"grade": 3}
    file.write_text(json.dumps(row))
    with pytest.raises(JudgmentsError, match="has other bytes than were written"):
        read_judgments(file)
    file.write_text(json.dumps({name: value for name, value in row.items() if name != "checksum"}))
    assert read_judgments(file).rows[0].grade == 3
