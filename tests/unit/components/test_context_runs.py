"""Runs with a context: what is made again when it changes, what a report says, and which files are refused when."""

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from corpora import write_rows
from expectations import message_of
from experiments import Experiment, write_experiment
from ragtrial import load_config
from ragtrial.errors import LabelsError, PrefixesError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.chunk_preview import cut_settings, distinct_rows
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.report.model import Report
from ragtrial.scoring.query_details import load_query

pytestmark = pytest.mark.slow

KINDS = ("documents", "chunks", "contexts", "lengths", "embeddings", "indexes", "rankings")
FROM_TEXTS_ON = {"lengths", "embeddings", "indexes", "rankings"}


def stages(experiment: Experiment) -> set[tuple[str, str]]:
    return {(kind, path.name) for kind in KINDS for path in (experiment.workspace / kind).glob("[!.]*")}


def rows_of(experiment: Experiment, prefix: Callable[[int], str], *overrides: str) -> list[dict[str, Any]]:
    """A row with a prefix for each chunk of the experiment, by its number."""
    found = distinct_rows(cut_settings(experiment.config(*overrides)))
    return [{"chunk": row["chunk"], "doc": row["doc"], "prefix": prefix(number)} for number, row in enumerate(found)]


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path / "first")


@pytest.fixture
def prefixed(experiment: Experiment) -> Experiment:
    """An experiment with a file of prefixes for all its chunks, that has run."""
    rows = rows_of(experiment, lambda number: f"prefix {number}")
    write_rows(experiment.folder / "prefixes.jsonl", rows)
    change_config(experiment, context={"prefixes": "prefixes.jsonl"})
    run_experiment(experiment.config())
    return experiment


def change_config(experiment: Experiment, **changes: object) -> None:
    config = json.loads(experiment.file.read_text())
    experiment.file.write_text(json.dumps({**config, **changes}))


def edit_rows(experiment: Experiment, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]) -> None:
    file = experiment.folder / "prefixes.jsonl"
    write_rows(file, change([json.loads(line) for line in file.read_text().splitlines()]))


def replace_prefix(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**row, "prefix": "another"} if number == 2 else row for number, row in enumerate(rows)]


@pytest.mark.parametrize(("context", "made_again"), [
    ({}, set()),
    ({"title": True, "headings": False, "sentences": 0, "prefixes": None}, set()),
    ({"headings": True}, {"contexts", *FROM_TEXTS_ON}),
    ({"sentences": 1}, {"contexts", *FROM_TEXTS_ON}),
    ({"title": False}, {"chunks", *FROM_TEXTS_ON}),
])  # fmt: skip
def test_a_context_makes_again_what_depends_on_it_and_the_default_nothing(
    experiment: Experiment, context: Mapping[str, object], made_again: set[str]
) -> None:
    run_experiment(experiment.config())
    before = stages(experiment)
    change_config(experiment, context=context)
    run_experiment(experiment.config())
    assert {kind for kind, _ in stages(experiment) - before} == made_again


def test_texts_too_long_for_the_model_are_counted_with_their_context(tmp_path: Path, tiny_model: Path) -> None:
    embedder = {"kind": "sentence-transformer", "model": str(tiny_model), "device": "cpu"}
    made = write_experiment(tmp_path, chunker={"kind": "recursive", "size": 30, "overlap": 0}, embedder=embedder)
    write_rows(made.folder / "prefixes.jsonl", rows_of(made, lambda number: "word " * (70 if number < 2 else 1)))
    run = Run.of(made.config("context.prefixes=" + str(made.folder / "prefixes.jsonl")))
    (warning,) = run.too_long(run.settings[0])
    assert warning.message.startswith("dense: chunks longer than the 64 tokens that the model reads: 2;")
    assert not list(Run.of(made.config()).too_long(run.settings[0])[1:])


def test_the_report_has_the_context_and_the_place_of_its_file_is_no_matter(prefixed: Experiment) -> None:
    report = run_experiment(prefixed.config("context.sentences=2"))
    (setting,) = report.settings
    assert setting.parameters["context"] == {
        "title": True, "headings": False, "sentences": 2, "prefixes": "prefixes.jsonl",
    }  # fmt: skip
    assert "context" not in setting.parameters["retriever"]
    (ranking,) = load_query(report, report.settings, "rye")
    for hit in ranking.hits:
        text = (prefixed.folder / "documents" / hit.doc).read_text(encoding="utf-8")
        assert hit.text == text[hit.start : hit.end]
    assert report.warnings == [one for one in report.warnings if one.code != "no-prefix"]
    before = stages(prefixed)
    shutil.move(prefixed.folder / "prefixes.jsonl", prefixed.folder / "moved.jsonl")
    change_config(prefixed, context={"prefixes": "moved.jsonl"})
    run_experiment(prefixed.config())
    assert stages(prefixed) == before
    file = prefixed.folder / "moved.jsonl"
    file.write_text("".join(reversed(file.read_text().splitlines(keepends=True))))
    run_experiment(prefixed.config())
    assert {kind for kind, _ in stages(prefixed) - before} == {"contexts"}


def no_prefix_warnings(report: Report) -> list[str]:
    return [warning.message for warning in report.warnings if warning.code == "no-prefix"]


def test_chunks_without_a_row_are_counted_and_said_and_an_error_when_strict(prefixed: Experiment) -> None:
    edit_rows(prefixed, lambda rows: rows[2:])
    count = len(rows_of(prefixed, str))
    message = (
        f"dense: chunks without a row in {prefixed.folder / 'prefixes.jsonl'}: 2 of {count}; "
        "they are indexed without a prefix."
    )
    assert no_prefix_warnings(run_experiment(prefixed.config())) == [message]
    assert message in message_of(LabelsError, run_experiment, prefixed.config(), RunOptions(strict=True)).split("\n")


def test_a_stale_file_embeds_nothing_and_a_change_of_one_prefix_one_text(prefixed: Experiment) -> None:
    before = prefixed.embedded()
    with pytest.raises(PrefixesError, match=r"prefixes\.jsonl:\d+: rows of chunks that setting 'dense' does not"):
        run_experiment(prefixed.config("chunker.size=60"))
    assert prefixed.embedded() == before
    edit_rows(prefixed, replace_prefix)
    run_experiment(prefixed.config())
    compared, *again = prefixed.embedded()[len(before) :]
    assert compared in before  # once, to see whether the function is still the same
    (text,) = again
    assert " another " in text or text.startswith("another ")


def test_one_file_may_serve_settings_of_several_chunkings(tmp_path: Path) -> None:
    small = {"kind": "recursive", "size": 60, "overlap": 0, "unit": "characters"}
    retrievers = {"large": {"kind": "dense"}, "small": {"kind": "dense", "chunker": small}}
    made = write_experiment(tmp_path, retrievers=retrievers)
    rows = rows_of(made, lambda number: f"prefix {number}")
    assert len({row["chunk"] for row in rows}) == len(rows)
    write_rows(made.folder / "prefixes.jsonl", rows)
    change_config(made, context={"prefixes": "prefixes.jsonl"})
    report = run_experiment(load_config(made.file))
    assert [setting.name for setting in report.settings] == ["large", "small"]
    assert no_prefix_warnings(report) == []
    with pytest.raises(PrefixesError, match="setting 'small'"):
        run_experiment(made.config("retrievers.small.chunker.size=50"))
