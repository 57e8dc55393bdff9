"""``labels convert`` says how every label was resolved and all faults at once; ``labels list`` lists the labels."""

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from foreign_labels import BOTH, DOCUMENTS, RED, TWICE, WHITE, Conversions, label, lines, written
from ragtrial.labelling.importers.base import IMPORTERS
from small_experiment import CONFIG, HASHING, Capture, ragtrial, refused, small_experiment, succeeded


@pytest.fixture
def convert(tmp_path: Path, capsys: Capture) -> Conversions:
    return Conversions(tmp_path, capsys)


def own(**answer: Any) -> dict[str, Any]:
    return {"queries": [{"id": "a", "text": "?", "relevant_docs": [answer]}]}


def passages(*texts: str, **more: Any) -> dict[str, Any]:
    return {"queries": [{"id": "q", "text": "?", "relevant_docs": [{"doc": text, **more} for text in texts]}]}


MANY = passages(
    WHITE, f"\n {WHITE} ", WHITE.replace(", then ", ",\n\tthen "), RED.upper(), TWICE, BOTH, f"Reset the hub\n{WHITE}"
)  # fmt: skip


def test_each_label_is_told_with_how_it_was_resolved(convert: Conversions) -> None:
    answer = convert.answer(MANY)
    assert [(one["how"], one["match"]) for one in answer["labels"]] == [
        ("exact", "exact"), ("exact", "exact"), ("spacing", "spacing"), ("case", "case"), ("several", "exact"),
        ("several", "exact"), ("title", "exact"),
    ]  # fmt: skip
    assert answer["counts"] == {"exact": 2, "spacing": 1, "case": 1, "title": 1, "several": 2}
    assert answer["repeated"] == 3
    assert answer["labels"][4] == {
        "query": "q", "line": None, "at": "queries[0].relevant_docs[4]", "how": "several", "match": "exact",
        "score": 1.0, "notes": [], "text": TWICE,
        "places": [{"doc": "hub/reset.md", "start": start, "end": start + 32} for start in (17, 139)],
    }  # fmt: skip


def test_at_most_twenty_are_listed_unless_all_are_asked_for(convert: Conversions) -> None:
    rows = lines([{"question": f"{number}?", "quote": TWICE} for number in range(23)])
    assert "... and 3 more (-v lists all)" in convert(rows).out
    made = convert(rows, "-v", "--force").out
    assert "more" not in made
    assert made.count("hub/reset.md 17-49") == 23


def test_strict_writes_nothing_unless_all_is_exact(convert: Conversions) -> None:
    assert convert.faults(passages(WHITE, TWICE, RED.upper()), "--strict") == [
        ":1:114: a label of query 'q' is several: hub/reset.md 17-49, hub/reset.md 139-171.",
        ":1:159: a label of query 'q' is case: hub/lights.md 37-63.",
    ]
    assert convert(passages(WHITE), "--strict").code == 0


def test_fuzzy_places_are_taken_only_when_asked_for_and_told_with_their_score(convert: Conversions) -> None:
    mistyped = passages(WHITE.replace("turns white", "turnz white"))
    (lost, summary) = convert.faults(mistyped)
    assert lost == (
        ":1:57: 'The ring turnz white, then the hub restarts.' of query 'q' is neither the id nor a passage of "
        f"a document (4 documents). The nearest is in 'hub/reset.md': {WHITE!r}."
    )
    assert summary == (
        ": labels lost: 1 of 1; nothing was written. --skip-lost leaves them out; --fuzzy 0.9 takes the most "
        "similar passages."
    )
    (query,) = convert.rows(mistyped, "--fuzzy", "0.9")
    assert query["relevant_docs"] == [label("hub/reset.md", WHITE)]
    (told,) = convert.answer(mistyped, "--fuzzy", "0.9")["labels"]
    assert (told["how"], told["match"]) == ("fuzzy", "fuzzy")
    assert 0.9 <= told["score"] < 1
    assert f"fuzzy {told['score']:.3f}" in convert(mistyped, "--fuzzy", "0.9", "--force").out
    assert "nan is no likeness" in convert(mistyped, "--fuzzy", "nan", "--force").err


def test_two_grades_for_one_passage_are_refused_wherever_they_come_from(convert: Conversions) -> None:
    rows = [
        {"question": "?", "quote": RED, "relevance": 2},
        {"question": "?", "quote": RED.upper(), "relevance": 1},
        {"question": "?", "doc": "hub/lights.md", "relevance": 3},
        {"question": "!", "quote": RED, "relevance": 1},
    ]
    assert convert.faults(lines(rows)) == [
        ":2: query 'q1' gives 'hub/lights.md' the grade 1, and that passage of it the grade 2 before; "
        "one document (or one passage of it) has one grade.",
        ":3: query 'q1' gives 'hub/lights.md' the grade 3, and it, as a whole or a passage of it, the grade 2 before; "
        "one document (or one passage of it) has one grade.",
    ]


def test_an_answer_in_many_documents_is_named(convert: Conversions, capsys: Capture) -> None:
    """``n/a`` is no answer, and is in many documents that have a table."""
    for number in range(6):
        (convert.folder / "documents" / f"table{number}.md").write_text(f"Table {number}: n/a\n", encoding="utf-8")
    written(convert.source, lines([{"question": "moon?", "answer": "n/a"}, {"question": "who?", "answer": BOTH}]))
    made = succeeded(capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", "new.json")
    assert [line for line in made.err.splitlines() if "many documents" in line] == [
        "'n/a' of query 'q1' is in many documents; all count as correct. If it is not an answer, leave that cell empty."
    ]


def test_a_name_in_other_case_is_its_document_if_only_one_can_be_meant(convert: Conversions, capsys: Capture) -> None:
    for folder in ("one", "two"):
        written_to = convert.folder / "documents" / folder / "Twice.md"
        written_to.parent.mkdir()
        written_to.write_text("Twice.\n", encoding="utf-8")
    named = {"Hub\\Reset.md": "hub/reset.md", "FAQ": "faq.txt", "lights.md": "hub/lights.md"}
    written(convert.source, lines([{"question": name, "source": name} for name in named]))
    made = succeeded(capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", "new.json")
    rows = json.loads((convert.folder / "new.json").read_text(encoding="utf-8"))["queries"]
    assert [row["relevant_docs"][0]["doc"] for row in rows] == list(named.values())
    (noted,) = [line for line in made.err.splitlines() if "other case" in line]
    assert noted == ("labels: names of documents are in other case: 'Hub\\\\Reset.md' is 'hub/reset.md', "
                     "'FAQ' is 'faq.txt'.")  # fmt: skip
    assert "is not the id of a document" in convert.faults(lines([{"question": "?", "source": "twice.md"}]))[0]


NEEDED = "it needs question and answer, or question alone. Rename them in the first line."
TOO_MANY = "has more cells than the header has columns (2). Quote texts that contain"


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("", ": is empty."),
        (" \n", ": is empty."),
        ('{"queries": [', ":1:14: is not JSON: Expecting value."),
        ("some text", ": is not JSON, and as CSV has no row below its first line; it begins 'some text'."),
        ('question,quote\n?,a,b\n', f":2: {TOO_MANY} a comma: \"...\"."),
        ('question;quote\n?;a;b\n', f":2: {TOO_MANY} a semicolon: \"...\"."),
        ('question,quote\n?,"a\n', ": is neither JSON nor CSV: unexpected end of data."),
        ('{"query": "a"}\n{"query": \n', ":2:11: is not JSON: Expecting value."),
        ({"queries": []}, ":1:1: the file has no question."),
        ("q,a\n1,2\n", f":1: is CSV with the columns q, a; {NEEDED}"),
        ("question,antwort\n1,2\n", f":1: is CSV with the columns question, antwort; {NEEDED}"),
        (f"question,quote,question\n?,{RED},why?\n",
         ":1: has more than one column 'question'; which one counts is not known."),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_read_is_told(convert: Conversions, content: object, fault: str) -> None:
    assert convert.faults(content) == [fault]


@pytest.mark.parametrize(
    ("content", "seen"),
    [
        ({"a": 1, "b": 2}, "a JSON object with the keys a, b"),
        ("{\n}", "a JSON object with the keys (none)"),
        ([], "JSON that holds a list"),
        ([1], "JSON that holds a list"),
        ([{"a": 1}], "a JSON list, the first with the keys a"),
        (lines([{"a": 1}, {"b": 2}]), "JSON lines with the keys a"),
    ],
)
def test_a_file_of_no_known_form_is_told_with_what_was_tried(convert: Conversions, content: object, seen: str) -> None:
    (fault,) = convert.faults(content)
    assert fault.startswith(f": has labels of no known form: it is {seen}. Tried: ")
    assert all(f"{name} ({importer.recognised_by})" in fault for name, importer in IMPORTERS.members())


@pytest.mark.parametrize(
    ("content", "faults"),
    [
        (
            {"queries": [3, {"text": " ", "relevant_docs": {}}, {"text": "a", "relevant_docs": [{"quote": ""}]}]},
            [
                ":1:14: queries[0] is 3; it must be a mapping of keys to values.",
                ":1:26: queries[1].text: it is empty.",
                ":1:48: queries[1].relevant_docs is a mapping; it must be a list.",
                ":1:85: queries[2].relevant_docs[0].doc is missing; it is required.",
                ":1:95: queries[2].relevant_docs[0].quote: it is empty.",
            ],
        ),
        (
            lines([{"quote": RED, "tags": [1]}, {"question": ["?"], "doc": "f", "start": 1.5}]),
            [":1: question is missing; it is required.", ":1: tags[0] is 1; it must be a text (put it in quotes).",
             ":2: question is a list; it must be a text (put it in quotes).",
             ":2: start is 1.5; it must be a whole number."],
        ),
        ("question,references\n?,[1]\n?,{}\n?,[\n",
         [":2: references is 1; it must be a mapping of keys to values.",
         ":3: references is a mapping; it must be a list.", ":4: references is '['; it must be a list."]),
        ({"queries": [{"id": 1, "text": "?", "relevant_docs": []}, {"id": "1", "text": "!", "relevant_docs": []}]},
         [":1:59: queries[1] has the id '1', which queries[0] has already."]),
        (lines([{"id": "a", "question": "?", "quote": RED}, {"id": "a", "question": "!", "quote": RED}]),
         [":2: the row has the id 'a', which line 1 has already."]),
        (lines([{"question": "?", "context": "x", "answers": {"text": ["x", "y"], "answer_start": [0]}}]),
         [":1: answers: it has 2 texts and 1 first characters."]),
    ],
)  # fmt: skip
def test_all_faults_of_a_file_are_told_at_once(convert: Conversions, content: object, faults: list[str]) -> None:
    assert convert.faults(content) == faults


def test_an_output_that_is_there_is_replaced_only_by_force(convert: Conversions) -> None:
    convert.target.write_text("mine")
    made = convert(passages(WHITE))
    assert (made.code, made.out, convert.target.read_text()) == (2, "", "mine")
    assert made.err == "error: prompt_queries.json: already exists; use --force to replace it.\n"
    assert convert(passages("lost", WHITE), "--force").code == 2
    assert convert.target.read_text() == "mine"
    assert convert(passages(WHITE), "--force").code == 0
    assert sorted(path.name for path in convert.folder.iterdir()) == ["documents", "labels", "prompt_queries.json"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["labels", "-o", "x.json"], "give --corpus or --config: a label is a place in documents, so they are needed. "
                                     "Try 'ragtrial labels convert --help'."),
        (["labels", "-o", "labels/x.json", "--corpus", "documents"],
         "labels/x.json: cannot be written: there is no folder labels; make it, or name another place."),
        (["none", "-o", "x.json", "--corpus", "documents"], "none: there is no such file."),
        (["labels", "-o", "x.json", "--corpus", "none"],
         "none: there is no such folder or file, seen from {here}."),
    ],
)  # fmt: skip
def test_wrong_arguments_are_told(convert: Conversions, capsys: Capture, arguments: list[str], error: str) -> None:
    written(convert.source, passages(WHITE))
    made = ragtrial(capsys, "labels", "convert", *arguments, "-q")
    assert (made.code, made.out, made.err) == (2, "", f"error: {error.format(here=Path.cwd())}\n")


def test_what_is_written_fits_schema_and_experiment(convert: Conversions, capsys: Capture, root: Path) -> None:
    import jsonschema

    written(convert.folder / "experiment.yaml", CONFIG)
    written(convert.folder / "hashing.py", HASHING)
    written(convert.source, MANY)
    convert_labels = ("labels", "convert", "labels", "--config", "experiment.yaml", "-o")
    succeeded(capsys, *convert_labels, "prompt_queries.json")
    rows = json.loads(convert.target.read_text(encoding="utf-8"))
    jsonschema.validate(rows, json.loads((root / "schemas" / "labels.schema.json").read_text()))
    first = ragtrial(capsys, "validate", "experiment.yaml", "--json")
    assert (first.code, sum(first.json["judgments"].values())) == (0, 5)
    assert [one["code"] for one in first.json["warnings"]] == ["quote-twice"]
    assert "documents:" not in ragtrial(capsys, *convert_labels, "again.json").err


@pytest.mark.parametrize(
    ("options", "following"),
    [
        (("--config", "experiment.yaml", "-o", "prompt_queries.json"), "ragtrial run"),
        (("--corpus", "documents", "-o", "prompt_queries.json"), "ragtrial run"),
        (("--config", "experiment.yaml", "-o", "of mine.json"), "ragtrial run --set 'dataset.queries=of mine.json'"),
        (("--corpus", "documents", "-o", "new.json"), "ragtrial init trial --corpus documents --labels new.json"),
    ],
)
def test_the_last_line_is_a_command_that_uses_the_labels(
    convert: Conversions, capsys: Capture, options: tuple[str, ...], following: str
) -> None:
    written(convert.folder / "experiment.yaml", CONFIG)
    written(convert.folder / "hashing.py", HASHING)
    written(convert.source, MANY)
    converted = succeeded(capsys, "labels", "convert", "labels", *options)
    assert converted.out.splitlines()[-1] == f"Next: {following}"
    succeeded(capsys, *shlex.split(following)[1:])


def test_no_command_follows_labels_that_answer_no_question(convert: Conversions) -> None:
    assert "Next: " not in convert(passages()).out


def test_a_span_without_a_quote_gets_the_text_that_stands_there(convert: Conversions) -> None:
    good = label("hub/lights.md", RED)
    quote = good.pop("quote")
    (query,) = convert.rows(own(**good))
    assert query["relevant_docs"] == [{**good, "quote": quote}]
    convert.target.unlink()
    for change, why in (
        ({"end": 1000}, "hub/lights.md has 85 characters"),
        ({"text_hash": "0" * 16}, "hub/lights.md was changed since this label was made"),
    ):
        changed = {**good, **change}
        place = f"characters {changed['start']} to {changed['end']:,} of 'hub/lights.md' of query 'a'"
        assert convert.faults(own(**changed))[0] == f":1:57: {place}: {why}."


def test_documents_are_read_from_one_file_too_and_nothing_is_left_behind(
    convert: Conversions, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"_id": name, "text": text} for name, text in DOCUMENTS.items()]
    written(convert.folder / "corpus.jsonl", lines(rows))
    written(convert.source, passages(WHITE))
    (convert.folder / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(convert.folder / "temporary"))
    succeeded(capsys, "labels", "convert", "labels", "--corpus", "corpus.jsonl", "-o", "out.json")
    (query,) = json.loads((convert.folder / "out.json").read_text())["queries"]
    assert query["relevant_docs"][0].items() >= label("hub/reset.md", WHITE).items()
    assert list((convert.folder / "temporary").iterdir()) == []


def test_a_document_that_is_not_there_is_not_looked_for_and_ids_are_new(convert: Conversions) -> None:
    """`ring` is in the documents, but is the name of none."""
    for content in ([{"question": "?", "doc": "ring"}], "question,doc\n?,ring\n", own(doc="ring", start=3, end=9)):
        assert "'ring' of query" in convert.faults(content)[0]
        assert convert.faults(content, "--fuzzy", "0.5")[0].endswith(" is not the id of a document (4 documents).")
    rows = [{"question": "?", "quote": RED}, {"id": "q1", "question": "why?", "quote": WHITE}]
    assert [query["id"] for query in convert.rows(lines(rows))] == ["q1-2", "q1"]


def test_a_dash_writes_the_labels_alone_to_standard_output(convert: Conversions, capsys: Capture) -> None:
    written(convert.source, own(doc=RED))
    made = succeeded(capsys, "labels", "convert", "labels", "--corpus", "documents", "-o", "-")
    (query,) = json.loads(made.out)["queries"]
    assert query["relevant_docs"][0].items() >= label("hub/lights.md", RED).items()
    assert "wrote standard output: 1 question with 1 label" in made.err
    assert not Path("-").exists()
    both = ("labels", "convert", "labels", "--corpus", "documents", "-o", "-", "--json")
    refused(capsys, *both, says="would both go to standard output")


def test_queries_are_listed_with_their_judgments(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    listed = succeeded(capsys, "labels", "list")
    assert listed.out.splitlines()[0].split() == ["query", "judgments", "relevant", "tags", "text"]
    rows = ragtrial(capsys, "labels", "list", "--json").json["queries"]
    assert [(row["id"], row["judgments"]) for row in rows] == [("q1", 1), ("q2", 1)]
