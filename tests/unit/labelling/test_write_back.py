"""Labels written back: nothing but the new labels changes in the file, and nobody's work is lost."""

import json
import stat
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from label_texts import label_texts
from ragtrial.config import load_config
from ragtrial.dataset.labels import load_prompt_queries, prompt_queries
from ragtrial.errors import Fault, InputError, LabelsError
from ragtrial.labelling.edits import AnswerSheet, beside, judged, labels_form
from ragtrial.labelling.label_files import (
    Change,
    Done,
    Form,
    Grade,
    LabelsConflictError,
    LabelsText,
    NewQuery,
    edit,
    history_file,
    write_back,
)
from ragtrial.progress import Silent
from ragtrial.records import FoundText, Judgment, PromptQueries
from small_experiment import small_experiment

NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

LABELS = """\
{
  "prompt": "Answer {query} \\u2013 from {contexts}",
  "queries": [
    {"id": 7, "text": "How long can I send something back?", "tags": ["policy"],
     "where": {"price": 1.50, "rank": 1e3},
     "relevant_docs": [
       {"doc": "returns.md", "relevance": 3, "quote": "within 30 days"},
       {"doc": "old.md"}
     ]},
    {"id": "q2", "text": "Who pays?", "relevant_docs": []}
  ]
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "prompt_queries.json"
    path.write_text(LABELS, encoding="utf-8")
    return path


def written(file: Path, *changes: Change, base: LabelsText | None = None) -> str:
    write_back(base or LabelsText.read(file), changes, "ada", NOON)
    return file.read_text(encoding="utf-8")


def row(file: Path, query: str) -> Any:
    return next(one for one in json.loads(file.read_text(encoding="utf-8"))["queries"] if str(one["id"]) == query)


def test_files_are_read_with_marks_and_written_indented_with_letters_as_they_are(file: Path) -> None:
    changed = written(file, Grade("q2", "costs.md", 2))
    assert changed == json.dumps(json.loads(changed), indent=2, ensure_ascii=False) + "\n"
    assert "–" in changed
    file.write_bytes(b"\xef\xbb\xbf" + LABELS.replace("\n", "\r\n").encode())
    written(file, Grade("q2", "costs.md", 2))
    assert row(file, "q2")["relevant_docs"] == [{"doc": "costs.md", "relevance": 2}]
    file.write_text(LABELS.replace("old.md", "\\ud800"), encoding="utf-8")
    written(file, Grade("q2", "costs.md", 2))
    assert row(file, "7")["relevant_docs"][1] == {"doc": "\ud800"}


def test_labels_that_are_not_there_yet_are_begun(tmp_path: Path) -> None:
    file = tmp_path / "new" / "prompt_queries.json"
    written(file, NewQuery("q1", "Why?"), Grade("q1", "a.md", 3), NewQuery("q2", "How?"), Grade("q2", "b.md", 1))
    assert file.read_text(encoding="utf-8").startswith('{\n  "')
    assert json.loads(file.read_text(encoding="utf-8")) == {
        "queries": [
            {"id": "q1", "text": "Why?", "relevant_docs": [{"doc": "a.md", "relevance": 3}]},
            {"id": "q2", "text": "How?", "relevant_docs": [{"doc": "b.md", "relevance": 1}]},
        ]
    }
    assert len(load_prompt_queries(file).queries) == 2


def edited(text: str, grade: Grade) -> tuple[Any, list[Done]]:
    value = json.loads(text)
    return value, edit(value["queries"], [grade])


@given(label_texts(), st.data())
def test_a_label_that_is_added_is_all_that_is_new(text: str, data: st.DataObject) -> None:
    value = json.loads(text)
    index = data.draw(st.integers(0, len(value["queries"]) - 1))
    query = str(value["queries"][index]["id"])
    label = {"doc": "no such\u00e9 \"doc'", "relevance": 2, "quote": "a\nb"}
    new, (done,) = edited(text, Grade(query, str(label["doc"]), 2, quote="a\nb"))
    value["queries"][index]["relevant_docs"].append(label)
    assert new == value
    assert (done.action, done.before, done.after) == ("add", None, label)


@given(label_texts(), st.data())
def test_another_grade_is_all_that_changes(text: str, data: st.DataObject) -> None:
    value = json.loads(text)
    rows = [row for row in value["queries"] if row["relevant_docs"]]
    if not rows:
        return
    row = data.draw(st.sampled_from(rows))
    label = data.draw(st.sampled_from(row["relevant_docs"]))
    grade = Grade(str(row["id"]), str(label["doc"]), 77, quote=label.get("quote"))
    new, done = edited(text, grade)
    same = [label for label in row["relevant_docs"] if grade.speaks_of(label)]
    for label in same:
        label["relevance"] = 77
    assert new == value
    assert [change.action for change in done] == ["change"] * len(same)
    assert edit(new["queries"], [grade]) == []


def test_the_history_says_who_when_and_what_was_before(file: Path) -> None:
    written(file, Grade("7", "old.md", 0), NewQuery("q3", "Why?"), Grade("q3", "a.md", 1), Grade("7", "old.md", 0))
    assert history_file(file).name == "prompt_queries.history.jsonl"
    rows = [json.loads(line) for line in history_file(file).read_text(encoding="utf-8").splitlines()]
    common = {"when": "2026-01-31T12:00:00+00:00", "who": "ada", "file": "prompt_queries.json"}
    assert [row.pop("text") for row in rows] == ["How long can I send something back?", "Why?", "Why?"]
    assert rows == [
        {**common, "query": "7", "action": "change", "before": {"doc": "old.md"},
         "after": {"doc": "old.md", "relevance": 0}},
        {**common, "query": "q3", "action": "query", "before": None,
         "after": {"id": "q3", "text": "Why?", "relevant_docs": []}},
        {**common, "query": "q3", "action": "add", "before": None, "after": {"doc": "a.md", "relevance": 1}},
    ]  # fmt: skip


def test_a_label_keeps_its_group_unless_another_is_named(file: Path) -> None:
    file.write_text(LABELS.replace('"doc": "old.md"', '"doc": "old.md", "group": 3'), encoding="utf-8")
    grades = [Grade("7", "old.md", 2), Grade("7", "old.md", 2, group="3"), Grade("7", "new.md", 1, group="3")]
    written(file, *grades, Grade("7", "returns.md", 3, quote="within 30 days", group="3"))
    assert row(file, "7")["relevant_docs"] == [
        {"doc": "returns.md", "relevance": 3, "quote": "within 30 days", "group": "3"},
        {"doc": "old.md", "group": 3, "relevance": 2},
        {"doc": "new.md", "relevance": 1, "group": "3"},
    ]
    actions = [json.loads(line)["action"] for line in history_file(file).read_text(encoding="utf-8").splitlines()]
    assert actions == ["change", "add", "change"]
    written(file, Grade("7", "old.md", 2, group="x"))
    assert row(file, "7")["relevant_docs"][1] == {"doc": "old.md", "group": "x", "relevance": 2}


def test_what_changes_nothing_writes_nothing_and_other_edits_are_kept(file: Path) -> None:
    time = file.stat().st_mtime_ns
    written(file, Grade("7", "returns.md", 3, quote="within 30 days"))
    assert file.stat().st_mtime_ns == time
    assert not history_file(file).exists()
    base = LabelsText.read(file)
    file.write_text(LABELS.replace('"Who pays?"', '"Who pays for it?"'), encoding="utf-8")
    changed = written(file, Grade("7", "old.md", 2), base=base)
    assert '"Who pays for it?"' in changed
    assert {"doc": "old.md", "relevance": 2} in json.loads(changed)["queries"][0]["relevant_docs"]
    file.write_text(LABELS.replace('"text": "Who pays?", ', ""), encoding="utf-8")
    before = file.read_bytes()
    with pytest.raises(LabelsError, match=r"prompt_queries\.json:10:5: .*text"):
        written(file, Grade("7", "x.md", 1))
    assert file.read_bytes() == before


CONFLICTS: dict[str, tuple[str, Change]] = {
    "another grade": (LABELS.replace('"doc": "old.md"', '"doc": "old.md", "relevance": 2'), Grade("7", "old.md", 0)),
    "another text": (LABELS.replace("How long can I", "Since when may I"), Grade("7", "old.md", 2)),
    "another id": (LABELS.replace('"id": 7', '"id": 8'), Grade("7", "old.md", 2)),
    "the new query": (LABELS.replace('"id": 7', '"id": "q3"'), NewQuery("q3", "Yours?")),
}


@pytest.mark.parametrize("case", CONFLICTS)
def test_a_query_that_somebody_else_edited_meanwhile_is_a_conflict_and_kept(file: Path, case: str) -> None:
    theirs, change = CONFLICTS[case]
    base = LabelsText.read(file)
    file.write_text(theirs, encoding="utf-8")
    with pytest.raises(LabelsConflictError, match="was changed by somebody else since it was read; nothing was"):
        written(file, change, Grade("q2", "a.md", 1), base=base)
    assert file.read_text(encoding="utf-8") == theirs
    assert not history_file(file).exists()


@pytest.mark.parametrize(("changes", "told"), [
    ([Grade("7", "x.md", 2_000_000)], "relevance"),
    ([Grade("7", " ", 1)], "is empty"),
    ([Grade("7", "gone.md", 1)], "is no document"),
    ([Grade("7", "x.md", 1, start=3)], "start and end belong together"),
    ([Grade("nobody", "x.md", 1)], "there is no query 'nobody'."),
    ([NewQuery("7", "Again?")], "query '7' is there already."),
    ([NewQuery("q9", "  ")], "text: it is empty"),
])  # fmt: skip
def test_labels_that_would_be_invalid_are_refused_unwritten(file: Path, changes: list[Change], told: str) -> None:
    def check(labels: PromptQueries) -> None:
        if "gone.md" in str(asdict(labels)):
            raise LabelsError(Fault("gone.md", message="is no document."))

    with pytest.raises(LabelsError, match=told):
        write_back(LabelsText.read(file), changes, "ada", NOON, check)
    assert file.read_text(encoding="utf-8") == LABELS
    assert [path.name for path in file.parent.iterdir()] == ["prompt_queries.json"]


def test_a_link_to_the_labels_stays_one_and_the_file_keeps_its_permissions(file: Path, tmp_path: Path) -> None:
    file.chmod(0o664)
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "elsewhere" / "prompt_queries.json"
    link.symlink_to(file)
    written(link, Grade("7", "old.md", 2))
    assert link.is_symlink()
    assert stat.S_ISREG(file.stat().st_mode)
    assert file.stat().st_mode & 0o777 == 0o664
    assert row(file, "7")["relevant_docs"][1] == {"doc": "old.md", "relevance": 2}


def test_a_search_whose_query_somebody_else_judged_meanwhile_says_so_and_what_to_do(tmp_path: Path) -> None:
    small_experiment(tmp_path)
    query = json.loads((tmp_path / "prompt_queries.json").read_text(encoding="utf-8"))["queries"][0]
    sheet = AnswerSheet(load_config(tmp_path / "experiment.yaml"), query["text"], Silent())
    file = tmp_path / "prompt_queries.json"
    labels = json.loads(file.read_text(encoding="utf-8"))
    labels["queries"][0]["relevant_docs"].append({"doc": "shipping.txt", "relevance": 0})
    file.write_text(json.dumps(labels), encoding="utf-8")
    assert message_of(LabelsConflictError, sheet.write, [Grade(query["id"], "warranty.md", 1)], "ada").splitlines() == [
        f"{file}: query 'q1' was changed by somebody else since it was read; nothing was written.",
        f"{file}: Look at what is there now, and label these queries again.",
    ]


@pytest.mark.parametrize("grades", [(2, 0), (0, 2), (2, 2), (1, 2)])
def test_the_label_of_a_whole_document_gets_the_highest_grade_of_its_passages(grades: tuple[int, int]) -> None:
    made = [Grade("q", "a.md", grade, quote) for grade, quote in zip(grades, ("One.", "Two."), strict=True)]
    changed = list(beside([Judgment("a.md", 1)], made, "quote"))
    assert {one.relevance for one in changed if one.quote is None} == {2}


PLACE = {"start": 34, "end": 45}
THIRTY = Grade("q", "a.md", 2, "thirty days", 34, 45)
PASSAGES = [{"doc": "a.md", "relevance": 3, "quote": "thirty days"}, {"doc": "a.md", "relevance": 1, "quote": "any"}]
REGRADED: dict[str, tuple[list[dict[str, Any]], Grade, Form, list[dict[str, Any]]]] = {
    "a quote without characters": (
        [{"quote": "thirty days", "relevance": 1}], Grade("q", "a.md", 3, "thirty  days"), "quote",
        [{"quote": "thirty days", "relevance": 3}]),
    "a quote in other case": (
        [{"quote": "THIRTY days", **PLACE}], THIRTY, "quote", [{"quote": "THIRTY days", **PLACE, "relevance": 2}]),
    "characters without a quote": ([PLACE], THIRTY, "quote", [{**PLACE, "relevance": 2}]),
    **{
        f"a document with passages of grades 3 and 1 gets {grade}": (
            PASSAGES, Grade("q", "a.md", grade), "document",
            [{**label, "relevance": best} for label, best in zip(PASSAGES, after, strict=True)])
        for grade, after in ((3, [3, 1]), (4, [4, 1]), (2, [2, 1]), (1, [1, 1]), (0, [0, 0]))
    },
}  # fmt: skip


@pytest.mark.parametrize("case", REGRADED)
def test_a_new_grade_changes_the_judgments_of_the_same_passage_or_document(case: str) -> None:
    labels, grade, form, after = REGRADED[case]
    labels = [{"doc": "a.md", **label} for label in labels]
    rows = [{"id": "q", "text": "?", "relevant_docs": labels}]
    known = prompt_queries(json.dumps({"queries": rows}), Path("labels.json")).queries[0].relevant_docs
    edit(rows, list(beside(known, [grade], form)))
    assert labels == [{"doc": "a.md", **label} for label in after]


@pytest.mark.parametrize("text", ["", " \n", None])
@pytest.mark.parametrize("form", ["quote", "content"])
def test_a_hit_without_text_cannot_be_quoted(form: str, text: str | None) -> None:
    hit = FoundText(3, "a.md", "", 0, 0, 1.0, text)
    with pytest.raises(InputError, match=r"the text of 'a\.md' is empty and cannot be quoted"):
        judged(form, "q", hit, 1)  # type: ignore[arg-type]


def test_labels_of_a_beir_folder_are_of_documents_also_if_passages_are_scored(tmp_path: Path) -> None:
    content = {"experiment": "a", "dataset": {"beir": str(tmp_path)}, "evaluators": {"unit": "span"}}
    assert labels_form(load_config({**content, "retrievers": {"bm25": {"kind": "bm25"}}})) == "document"
