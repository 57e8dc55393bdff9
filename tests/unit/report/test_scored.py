"""How many questions are scored, of how many, and why not the others: in words, and in report.json."""

import json
from pathlib import Path

import pytest

from contests import changed_queries, report_of
from ragtrial.report.model import write_folder
from ragtrial.report.schema import ScoredPart, scored_part


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ((62, 62, 0, 0, 0), "62 questions"),
        ((1, 1, 0, 0, 0), "1 question"),
        ((59, 62, 3, 0, 0), "62 questions (59 scored; 3 have no answer in the documents)"),
        ((61, 62, 1, 0, 0), "62 questions (61 scored; 1 has no answer in the documents)"),
        ((60, 62, 0, 2, 0), "62 questions (60 scored; 2 have no label that counts)"),
        ((61, 62, 0, 1, 0), "62 questions (61 scored; 1 has no label that counts)"),
        ((60, 62, 0, 0, 2), "62 questions (60 scored; 2 could not be searched)"),
        (
            (1_000, 1_006, 3, 2, 1),
            "1,006 questions (1,000 scored; 3 have no answer in the documents; 2 have no label that counts; "
            "1 could not be searched)",
        ),
        ((0, 2, 0, 2, 0), "2 questions (0 scored; 2 have no label that counts)"),
        ((61, 62, 0, 0, 0, 1), "62 questions (61 scored; 1 has no score)"),
        ((60, 62, 0, 0, 0, 2), "62 questions (60 scored; 2 have no score)"),
    ],
)
def test_the_sentence_gives_each_reason_there_is(counts: tuple[int, ...], sentence: str) -> None:
    names = ("scored", "questions", "unanswerable", "unlabelled", "failed", "missing")
    assert ScoredPart(**dict(zip(names, counts, strict=False))).sentence == sentence


def test_a_written_report_has_the_counts_the_threshold_and_the_direction_as_fields(tmp_path: Path) -> None:
    scores = {"a": [0.5, None, None, None], "b": [0.4, None, None, None]}
    report = changed_queries(
        report_of(scores, "unjudged@3", relevance_threshold=2), q2={"tags": ["unanswerable"]}, q3={"relevant_docs": []}
    )
    skipped = [
        one.model_copy(update={"per_query": one.per_query.model_copy(update={"skipped": [False, False, False, True]})})
        for one in report.settings
    ]
    write_folder(report.model_copy(update={"settings": skipped}), tmp_path / "report", {}, [], {})
    kept = json.loads((tmp_path / "report" / "report.json").read_text(encoding="utf-8"))
    assert kept["scored"] == {"scored": 1, "questions": 4, "unanswerable": 1, "unlabelled": 1, "failed": 1}
    assert kept["relevance_threshold"] == 2
    assert kept["metrics"]["unjudged@3"]["better"] == "lower"
    assert report.ranked_settings()[0].name == "b"
    part = scored_part(report.queries, [False, True, True, True], [False] * 4, have_labels=False)
    assert (part.scored, part.unlabelled, part.missing) == (3, 0, 1)
