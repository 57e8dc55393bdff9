"""Questions of evaluation tools: each file is recognised, and nothing of it is dropped without a word."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from foreign_labels import RED, WHITE, Conversions, label, lines
from small_experiment import Capture


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Conversions:
    monkeypatch.chdir(tmp_path)
    return Conversions(tmp_path, capsys)


def table(*rows: dict[str, Any]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0].keys())
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def parquet_of(rows: list[dict[str, Any]]) -> bytes:
    content = io.BytesIO()
    parquet.write_table(pa.Table.from_pylist(rows), content)
    return content.getvalue()


GOLDEN: dict[str, Any] = {
    "input": "white?", "actual_output": None, "expected_output": "It restarts.", "retrieval_context": None,
    "context": [WHITE, RED], "name": None, "comments": None, "source_file": None, "tools_called": None,
    "expected_tools": None, "token_cost": None, "input_token_count": None, "output_token_count": None,
    "additional_metadata": {"evolutions": ["Reasoning"]}, "custom_column_key_values": None, "expectations": None,
}  # fmt: skip
"""A golden as EvaluationDataset.save_as of deepeval 4.3 writes it."""
BARE = {**GOLDEN, "input": "who?", "context": None, "expected_output": "You do."}
OF_FILE = {**GOLDEN, "input": "long?", "context": None, "source_file": "/data/faq.txt", "expected_output": None}

ITEM: dict[str, Any] = {
    "id": "i-1", "status": "ACTIVE", "input": {"question": "white?"}, "expectedOutput": {"answer": "It restarts."},
    "metadata": {"contexts": "?", "context": WHITE}, "sourceTraceId": None, "sourceObservationId": None,
    "datasetId": "d-1", "datasetName": "hub", "createdAt": "2026-01-31T12:00:00.000Z",
}  # fmt: skip
"""An item of a Langfuse dataset, as its API lists it; the export has one more column, and JSON in the cells of CSV."""
CHAT = {**ITEM, "id": "i-2", "status": "ARCHIVED", "expectedOutput": "You do.", "metadata": None,
        "input": {"messages": [{"role": "system", "content": "Be brief."},
                               {"role": "user", "content": "who?"}]}}  # fmt: skip
PLAIN = {**ITEM, "id": "i-3", "input": "red?", "expectedOutput": None, "metadata": {"source": "hub/lights.md"}}
IN_CELLS = [{key: json.dumps(value) if isinstance(value, dict) else value for key, value in item.items()}
            for item in (ITEM, CHAT, PLAIN)]  # fmt: skip

SESSION = [{"role": "user", "content": "I moved to Rome.", "has_answer": True}, {"role": "assistant", "content": "Oh."}]
MEMORY: dict[str, Any] = {
    "question_id": "e47becba", "question_type": "multi-session", "question": "Where?", "answer": 3,
    "question_date": "2023/05/30 (Tue) 23:40", "haystack_dates": ["2023/05/20 (Sat) 02:21"],
    "haystack_session_ids": ["faq.txt", "hub/lights.md"], "haystack_sessions": [SESSION, SESSION],
    "answer_session_ids": ["faq.txt", "hub/lights.md"],
}  # fmt: skip
"""A question as longmemeval_s.json has it; the documents here stand for the sessions."""
ABSENT = {**MEMORY, "question_id": "e47becba_abs", "question": "Why?", "answer": "That was not said."}

QA: list[dict[str, Any]] = [
    {"qid": "q-a", "query": "white?", "retrieval_gt": [["hub/lights.md", "faq.txt"]],
     "generation_gt": ["It restarts.", "Soon."]},
    {"qid": "q-b", "query": "red?", "retrieval_gt": [["hub/reset.md"], ["faq.txt"]], "generation_gt": ["An error."]},
]  # fmt: skip


def only(query: str, text: str, *labels: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"id": query, "text": text, "relevant_docs": list(labels), **more}]


def whole(doc: str, group: str = "") -> dict[str, Any]:
    return {"doc": doc, "relevance": 1, **({"group": group} if group else {})}


GOLDENS = [
    *only("q1", "white?", label("hub/reset.md", WHITE), label("hub/lights.md", RED), answers=["It restarts."]),
    *only("q2", "who?", answers=["You do."]),
    *only("q3", "long?", whole("faq.txt")),
]
ITEMS = [
    *only("i-1", "white?", label("hub/reset.md", WHITE), answers=["It restarts."]),
    *only("i-2", "who?", tags=["archived"], answers=["You do."]),
    *only("i-3", "red?", whole("hub/lights.md")),
]
READ: dict[str, tuple[Any, str, list[dict[str, Any]], str]] = {
    "deepeval": ([GOLDEN, BARE, OF_FILE], "deepeval", GOLDENS, "additional_metadata"),
    "deepeval in CSV": (
        table(*({**golden, "context": "|".join(golden["context"] or ()), "additional_metadata": None}
                for golden in (GOLDEN, BARE, OF_FILE))), "deepeval", GOLDENS, ""),
    "Langfuse": ({"data": [ITEM, CHAT, PLAIN], "meta": {"page": 1}}, "langfuse", ITEMS,
                 "contexts, createdat, datasetid, datasetname"),
    "Langfuse in CSV": (table(*IN_CELLS), "langfuse", ITEMS, "contexts, createdat, datasetid, datasetname"),
    "Langfuse in CSV as it was": (
        table(*({key: json.dumps("" if value is None else value) for key, value in item.items()}
                for item in (ITEM, CHAT, PLAIN))), "langfuse", ITEMS,
        "contexts, createdat, datasetid, datasetname"),
    "LongMemEval": (
        [MEMORY, ABSENT], "longmemeval",
        [*only("e47becba", "Where?", whole("faq.txt"), whole("hub/lights.md"), tags=["multi-session"], answers=["3"]),
         *only("e47becba_abs", "Why?", tags=["multi-session", "unanswerable"], answers=["That was not said."])],
        "haystack_dates, question_date"),
    "AutoRAG": (
        parquet_of(QA), "autorag",
        [*only("q-a", "white?", whole("hub/lights.md", "g1"), whole("faq.txt", "g1"),
               answers=["It restarts.", "Soon."]),
         *only("q-b", "red?", whole("hub/reset.md"), whole("faq.txt"), answers=["An error."])], ""),
    "a spreadsheet with a source": (
        table({"Question": "red?", "Answer": "Trouble.", "Source": "lights.md", "Topic": "hub"}), "rows",
        only("q1", "red?", whole("hub/lights.md"), answers=["Trouble."]), "topic"),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_questions_of_a_tool_are_recognised_and_all_that_is_not_used_is_named(convert: Conversions, case: str) -> None:
    content, form, rows, unused = READ[case]
    answer = convert.answer(content)
    assert (answer["format"], ", ".join(answer["unused"])) == (form, unused)
    assert convert.rows(content) == rows
    assert (f"not used: {unused}." in convert.noted(content)) == bool(unused)


def test_labels_of_autorag_are_the_texts_of_its_chunks_if_the_corpus_is_there(convert: Conversions) -> None:
    chunks = [{"doc_id": "hub/lights.md", "contents": RED, "metadata": {"path": "a"}},
              {"doc_id": "faq.txt", "contents": WHITE, "metadata": {"path": "b"}}]  # fmt: skip
    (convert.folder / "corpus.parquet").write_bytes(parquet_of(chunks))
    rows = convert.rows(parquet_of(QA[:1]))
    assert rows[0]["relevant_docs"] == [
        {**label(*passage), "group": "g1"} for passage in (("hub/lights.md", RED), ("hub/reset.md", WHITE))
    ]
    (convert.folder / "corpus.parquet").write_bytes(b"PAR1 and no more")
    assert "corpus.parquet: is no Parquet file, or a damaged one: " in convert(parquet_of(QA), "--force").err


@pytest.mark.parametrize("given", ["hub/lights.md", ["hub/lights.md"], [["hub/lights.md"]]])
def test_the_labels_of_autorag_may_be_an_id_a_group_or_groups(convert: Conversions, given: Any) -> None:
    rows = convert.rows(lines([{**QA[0], "retrieval_gt": given}, QA[1]]))
    assert rows[0]["relevant_docs"] == [whole("hub/lights.md")]


def test_answers_are_kept_converted_again_and_lost_ones_keep_their_words(convert: Conversions) -> None:
    rows = "question,answer,source\nred?,Trouble.,handbook\n"
    assert convert.faults(rows)[0] == (
        ":2: 'Trouble.' of query 'q1' is in no document (4 documents; the corpus has no document 'handbook')."
    )
    assert convert.rows(rows, "--skip-lost") == only("q1", "red?", answers=["Trouble."])
    convert.answer([GOLDEN])
    once = convert.target.read_text(encoding="utf-8")
    convert.answer(once)
    assert convert.target.read_text(encoding="utf-8") == once
    assert '"answers"' in once


@pytest.mark.parametrize(("content", "fault"), [
    ([{**ITEM, "input": {"country": "Italy", "lang": "it"}}], ":1:2: question is missing; it is required."),
    ([{**MEMORY, "answer_session_ids": ["gone"]}],
     "'gone' of query 'e47becba' is not the id of a document (4 documents)"),
    ([{**GOLDEN, "expected_output": {"a": 1}}], "[0].expected_output is a mapping; it must be a text."),
])  # fmt: skip
def test_what_is_wrong_in_the_file_of_a_tool_is_named(convert: Conversions, content: Any, fault: str) -> None:
    assert fault in convert.faults(content)[0]
