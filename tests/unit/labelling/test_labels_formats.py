"""Labels of other tools are recognised by what they hold, and every answer of theirs becomes a place in a document."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from haystack import Document
from haystack.evaluation import EvaluationRunResult

from expectations import message_of
from foreign_labels import BOTH, DOCUMENTS, LIGHTS, RED, RESET, TWICE, WHITE, Conversions, label, lines
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.errors import LabelsError
from ragtrial.labelling.importers.base import read_labels
from ragtrial.records import Question

AFTER_TITLE = RESET.index("##")


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Conversions:
    monkeypatch.chdir(tmp_path)
    return Conversions(tmp_path, capsys)


def only(query: str, text: str, *labels: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    return [{"id": query, "text": text, "relevant_docs": list(labels), **more}]


def squad(*questions: dict[str, Any], context: str = LIGHTS) -> dict[str, Any]:
    return {"version": "v2.0", "data": [{"title": "Lights", "paragraphs": [{"context": context, "qas": questions}]}]}


def answered(answer: str, start: int, name: str = "s") -> dict[str, Any]:
    return {"id": name, "question": "?", "answers": [{"text": answer, "answer_start": start}]}


SECOND, FLAT = LIGHTS.index("ring means an"), " ".join(LIGHTS.split())
IMPOSSIBLE = {"question": "?", "answers": [], "is_impossible": True}
BY = {"model_name": "gpt-4", "type": "ai"}
HUB = {"title": "Lights", "context": LIGHTS, "question": "?"}
READ: dict[str, tuple[Any, str, list[dict[str, Any]], list[str]]] = {
    "ids with and without a quote": (
        {"queries": [{"id": "a", "text": "?", "tags": ["x"], "ordered": True,
                      "relevant_docs": [{"doc": "hub/lights.md", "quote": RED, "relevance": 2},
                                        {"doc": "faq.txt", "relevance": 0}]}]},
        "prompt-queries",
        only("a", "?", label("hub/lights.md", RED, 2), {"doc": "faq.txt", "relevance": 0}, tags=["x"], ordered=True),
        ["exact", "document"],
    ),
    "passages, as Kirchhoff's framework has them": (
        {"queries": [{"id": 1, "text": "white?", "relevant_docs": [{"doc": WHITE, "relevance": 3}, {"doc": RED}]}]},
        "prompt-queries", only("1", "white?", label("hub/reset.md", WHITE, 3), label("hub/lights.md", RED)),
        ["exact", "exact"],
    ),
    "pairs of LlamaIndex": (
        {"queries": {"u-1": "white?", "u-2": "nothing?"}, "corpus": {"n-1": WHITE, "n-2": RED, "n-3": "not asked for"},
         "relevant_docs": {"u-1": ["n-1", "n-2"]}, "mode": "text"},
        "llamaindex",
        [*only("u-1", "white?", label("hub/reset.md", WHITE), label("hub/lights.md", RED)), *only("u-2", "nothing?")],
        ["exact", "exact"],
    ),
    "examples of LlamaIndex": (
        {"examples": [{"query": "white?", "query_by": BY, "reference_contexts": [WHITE], "reference_answer": "yes"},
                      {"query": "red?", "query_by": BY, "reference_contexts": None, "reference_answer": ""}]},
        "llamaindex",
        [*only("q1", "white?", label("hub/reset.md", WHITE), answers=["yes"]), *only("q2", "red?")], ["exact"],
    ),
    "words that are in two documents, or twice in one": (
        squad(answered("555", LIGHTS.index("555"), "s1"), answered("ring", SECOND, "s2")), "squad",
        [*only("s1", "?", label("hub/lights.md", "555")),
         *only("s2", "?", label("hub/lights.md", "ring", after=SECOND))],
        ["exact", "exact"],
    ),
    "impossible questions": (
        squad({"id": "s1", **IMPOSSIBLE},
              {"id": "s2", "plausible_answers": [{"text": "ring", "answer_start": SECOND}], **IMPOSSIBLE}), "squad",
        [*only("s1", "?", tags=["unanswerable"]), *only("s2", "?", tags=["unanswerable"])], [],
    ),
    "a paragraph whose white space was lost": (squad(answered("ring", FLAT.index("ring means an")), context=FLAT),
                                               "squad", only("s", "?", label("hub/lights.md", "ring", after=SECOND)),
                                               ["spacing"]),
    "an answer before its paragraph": (squad(answered("ring", -1)), "squad",
                                       only("s", "?", label("hub/lights.md", "ring")), ["moved"]),
    "the hub's copy of SQuAD": (
        lines([
            {"id": "s", **HUB, "answers": {"text": ["red", "error", "red"],
                                           "answer_start": [LIGHTS.index("red"), 3, LIGHTS.index("red")]}},
            {"id": "t", **HUB, "answers": {"text": [], "answer_start": []}},
        ]),
        "squad", [*only("s", "?", label("hub/lights.md", "red")), *only("t", "?", tags=["unanswerable"])], ["exact"],
    ),
}  # fmt: skip
"""The content of a file, its format, its labels, and how each was found."""


@pytest.mark.parametrize("case", READ)
def test_labels_of_another_tool_are_recognised_and_each_has_its_place(convert: Conversions, case: str) -> None:
    content, form, rows, hows = READ[case]
    assert convert.answer(content)["format"] == form
    assert convert.rows(content) == rows
    assert convert.hows(content) == hows


def test_wordings_and_filters_are_kept_also_by_what_was_converted(convert: Conversions) -> None:
    asked = {"phrasings": ["how?", "why?"], "where": {"lang": "en"}, "where_document": {"$contains": "ring"}}
    own = {"queries": [{"id": "a", "text": "?", "relevant_docs": [{"doc": "faq.txt"}], **asked}]}
    assert convert.rows(own) == only("a", "?", {"doc": "faq.txt", "relevance": 1}, **asked)
    assert load_prompt_queries(convert.target).queries[0].question == Question(
        "?", ("how?", "why?"), {"lang": "en"}, {"$contains": "ring"}, "a"
    )
    queries = [{"id": "a", "text": "?", "relevant_docs": [{"doc": WHITE}, {"doc": TWICE}]}]
    convert.answer({"prompt": "{query} {contexts}", "queries": queries})
    once = convert.target.read_text()
    assert json.loads(once)["prompt"] == "{query} {contexts}"
    assert convert.answer(once)["counts"] == {"exact": 1, "several": 1}
    assert convert.target.read_text() == once


def test_answers_with_one_group_are_alternatives(convert: Conversions) -> None:
    both = "question,doc,group\n?,hub/lights.md,a\n?,faq.txt,a\n"
    assert [one.get("group") for one in convert.rows(both)[0]["relevant_docs"]] == ["a", "a"]
    labels = [{"doc": "faq.txt", "group": 1}, {"doc": "hub/lights.md", "group": 1}]
    own = {"queries": [{"id": "a", "text": "?", "relevant_docs": labels}]}
    assert [one["group"] for one in convert.rows(own)[0]["relevant_docs"]] == ["1", "1"]
    (query,) = load_prompt_queries(convert.target).queries
    assert {one.group for one in query.relevant_docs} == {"1"}
    order = {"queries": [{"id": "a", "text": "?", "relevant_docs": [{"doc": BOTH}], "ordered": True}]}
    assert [one.get("group") for one in convert.rows(order)[0]["relevant_docs"]] == [None, None]


def test_a_row_of_what_must_not_be_found_is_in_no_group(convert: Conversions) -> None:
    rows = [{"question": "?", "document": "hub/reset.md", "relevance": -1, "group": "g"}]
    assert convert.faults(rows) == [
        ":1:74: [0].group is in a row with a grade below 0; what must not be found is in no group."
    ]


@pytest.mark.parametrize("flatten", [True, False])
@pytest.mark.parametrize("name", ["ground_truth_documents", "relevant_documents", "documents"])
def test_haystacks_documents_are_read_from_rows(convert: Conversions, flatten: bool, name: str) -> None:
    documents = [Document(content=WHITE, meta={"file_path": "kept/elsewhere/reset.md"}), Document(content=RED)]
    row = {"question": "white?", name: [one.to_dict(flatten=flatten) for one in documents]}
    expected = only("q1", "white?", label("hub/reset.md", WHITE), label("hub/lights.md", RED))
    for content in ([row], lines([row])):
        assert convert.answer(content)["format"] == "haystack"
        assert convert.rows(content) == expected


def test_haystacks_meta_decides_between_documents_that_have_the_same_text(convert: Conversions) -> None:
    def rows(meta: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"question": "?", "ground_truth_documents": [Document(content=BOTH, meta=meta).to_dict()]}]

    assert convert.rows(rows({"file_path": "/data/faq.txt"})) == only("q1", "?", label("faq.txt", BOTH))
    both = only("q1", "?", *({**label(doc, BOTH), "group": "faq.txt 69-89"} for doc in ("faq.txt", "hub/lights.md")))
    assert convert.rows(rows({})) == both
    assert convert.rows(rows({"file_path": "unknown.md"})) == both


def test_haystacks_lists_must_be_equally_long(convert: Conversions) -> None:
    inputs = {"query": ["a", "b"], "ground_truth_contexts": [[WHITE]]}
    assert convert.faults({"inputs": inputs}) == [":1:12: inputs has 2 questions and relevant documents of 1."]


def test_llamaindex_pairs_without_partners_are_all_named(convert: Conversions) -> None:
    pairs = {"queries": {"a": "white?"}, "corpus": {"n": WHITE}, "relevant_docs": {"a": ["n", "m"], "b": ["n"]}}
    assert convert.faults(pairs) == [
        ":1:124: relevant_docs.a[1] is 'm', which is no id in `corpus`.",
        ":1:135: relevant_docs.b has the id of no question in `queries`.",
    ]


def test_haystacks_evaluation_inputs_are_read_as_lists_side_by_side(convert: Conversions) -> None:
    documents = [[Document(content=WHITE)], [Document(content=RED)]]
    ran = EvaluationRunResult(
        "run",
        inputs={"question": ["white?", "red?"], "ground_truth_documents": documents},
        results={"mrr": {"score": 1.0, "individual_scores": [1.0, 1.0]}},
    )
    as_dicts = [[one.to_dict() for one in of_question] for of_question in documents]
    expected = [*only("q1", "white?", label("hub/reset.md", WHITE)), *only("q2", "red?", label("hub/lights.md", RED))]
    report = ran.detailed_report(output_format="json")
    assert isinstance(report, dict)
    assert convert.rows({**report, "ground_truth_documents": as_dicts}) == expected
    assert convert.rows({"inputs": {**ran.inputs, "ground_truth_documents": as_dicts}}) == expected
    texts = [[one.content for one in of_question] for of_question in documents]
    assert convert.rows({"inputs": {"questions": ["white?", "red?"], "ground_truth_contexts": texts}}) == expected


@pytest.mark.parametrize(("answers", "kept", "notes"), [
    (["red", "a red ring", "red"], "red", ["the most frequent of 2 different answers"]),
    (["red", "A red ring"], "A red ring", ["the most frequent of 2 different answers"]),
    (["white", "red rin"], "red rin", ["the most frequent of 2 different answers"]),
    (["white", "error"], "white", ["the most frequent of 2 different answers"]),
    (["red", "red"], "red", []),
])  # fmt: skip
def test_the_most_frequent_answer_counts(convert: Conversions, answers: list[str], kept: str, notes: list[str]) -> None:
    places = [{"text": one, "answer_start": LIGHTS.lower().index(one.lower())} for one in answers]
    questions = squad({"id": "s", "question": "?", "answers": places})
    assert convert.rows(questions) == only("s", "?", label("hub/lights.md", kept))
    assert convert.answer(questions)["labels"][0]["notes"] == notes


def test_an_answer_is_found_behind_a_title_moved_or_lost(convert: Conversions) -> None:
    beside = squad({"id": "s", "question": "?", "answers": [{"text": "red", "answer_start": 3}]})
    assert convert.rows(beside) == only("s", "?", label("hub/lights.md", "red"))
    assert convert.hows(beside) == ["moved"]
    convert.target.unlink()
    outside = squad({"id": "s", "question": "?", "answers": [{"text": "six months", "answer_start": 0}]})
    assert convert.faults(outside)[0] == (
        ":1:218: 'six months' of query 's' is in no document "
        "(4 documents; its context is in the documents, the answer is not in it)."
    )
    title = "Reset the hub\n"
    for letter, character in enumerate(WHITE):
        if character == "e":
            answer = {"text": "e", "answer_start": len(title) + letter}
            shown = squad({"id": "s", "question": "?", "answers": [answer]}, context=f"{title}{WHITE}")
            place = RESET.index(WHITE) + letter
            assert convert.rows(shown) == only("s", "?", label("hub/reset.md", "e", after=place))
            assert convert.hows(shown) == ["title"]


ELSEWHERE = [
    ({"quote": f"Reset the hub\n{WHITE}", "doc": "reset"}, "title", []),
    ({"quote": f"Reset the hub\n{WHITE}", "doc": "lights"}, "lost", []),
    ({"references": [{"content": RED, "start_index": 37}], "corpus_id": "faq.txt"}, "moved",
     ["it is not in 'faq.txt'"]),
    ({"references": [{"content": RED, "start_index": 37}], "corpus_id": "gone"}, "moved",
     ["the corpus has no document 'gone'"]),
    ({"ground_truth_documents": [Document(content=RED, meta={"file_path": "faq.txt"}).to_dict()]}, "exact", []),
]  # fmt: skip


@pytest.mark.parametrize(("row", "how", "notes"), ELSEWHERE)
def test_a_document_in_a_row_is_a_claim(convert: Conversions, row: dict[str, Any], how: str, notes: list[str]) -> None:
    (found,) = convert.answer([{"question": "?", **row}], "--skip-lost")["labels"]
    assert (found["how"], found["notes"]) == (how, notes)


def reference(doc: str, quote: str, after: int = 0) -> dict[str, Any]:
    start = DOCUMENTS[doc].index(quote, after)
    return {"content": quote, "start_index": start, "end_index": start + len(quote)}


def questions_csv(rows: list[dict[str, Any]]) -> str:
    """As pandas writes it: the references as JSON in a cell."""
    text = io.StringIO()
    writer = csv.DictWriter(text, ["question", "references", "corpus_id"])
    writer.writeheader()
    writer.writerows({**row, "references": json.dumps(row["references"])} for row in rows)
    return text.getvalue()


def test_references_stand_at_their_offsets_or_the_nearest_place(convert: Conversions) -> None:
    """The passage stands twice in the document; a corpus is called as its file is, without the end."""
    references = [reference("hub/reset.md", TWICE, AFTER_TITLE), reference("hub/reset.md", WHITE)]
    rows = [{"question": "hold,\nhow long?", "references": references, "corpus_id": "reset"}]
    expected = only(
        "q1", "hold,\nhow long?", label("hub/reset.md", TWICE, after=AFTER_TITLE), label("hub/reset.md", WHITE),
        tags=["reset"],
    )  # fmt: skip
    for content in (rows, lines(rows), questions_csv(rows)):
        answer = convert.answer(content)
        assert (answer["format"], answer["counts"]) == ("chunking-evaluation", {"exact": 2})
        assert convert.rows(content) == expected
    row = reference("hub/reset.md", TWICE, AFTER_TITLE)
    moved = {**row, "start_index": row["start_index"] - 30, "end_index": row["end_index"] - 30}
    rows = [{"query_id": "x", "question": "?", "references": [moved], "corpus_id": "hub/reset.md"}]
    assert convert.rows(rows) == only("x", "?", label("hub/reset.md", TWICE, after=AFTER_TITLE), tags=["hub/reset.md"])
    (told,) = convert.answer(rows)["labels"]
    assert (told["how"], told["match"], told["notes"]) == ("moved", "exact", ["the file says character 109"])


def test_every_reference_of_chunking_evaluation_resolves_where_it_says(
    convert: Conversions, shared_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from small_experiment import ragtrial

    folder = shared_data / "chunking_evaluation"
    if not folder.is_dir():
        pytest.skip("RAGTRIAL_TEST_DATA has no chunking_evaluation")
    made = ragtrial(
        capsys, "labels", "convert", folder / "spans.json", "--corpus", folder / "corpus.jsonl", "-o", "out.json",
        "--strict", "--json", "-q",
    )  # fmt: skip
    assert (made.code, made.json["counts"], made.json["repeated"]) == (0, {"exact": 790}, 0)
    rows = json.loads(Path("out.json").read_text())["queries"]
    spans = json.loads((folder / "spans.json").read_text())
    assert [[(label["start"], label["quote"]) for label in row["relevant_docs"]] for row in rows] == [
        [(one["start_index"], one["content"]) for one in row["references"]] for row in spans
    ]


OTHER = {"query": "?", "answer": "In other words.", "context": RED, "relevance": 2, "tags": ["t"]}
WHOLE = {"doc": "faq.txt", "relevance": 1}
ROWS: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "a context before an answer": (
        lines([OTHER]), only("q1", "?", label("hub/lights.md", RED, 2), tags=["t"], answers=["In other words."])),
    "a quote before both": (
        [{**OTHER, "quote": WHITE}],
        only("q1", "?", label("hub/reset.md", WHITE, 2), tags=["t"], answers=["In other words."])),
    "one line": (lines([{"query": "?", "quote": RED}]), only("q1", "?", label("hub/lights.md", RED))),
    "Ragas": ([{"user_input": "?", "reference": "yes", "reference_contexts": [RED, WHITE]}],
              only("q1", "?", label("hub/lights.md", RED), label("hub/reset.md", WHITE), answers=["yes"])),
    "a start": (f"question,quote,start\n?,{TWICE},{RESET.rindex(TWICE)}\n",
                only("q1", "?", label("hub/reset.md", TWICE, after=AFTER_TITLE))),
    "a start beside several passages": (
        f"question,answer,answer 2,start\n?,{RED},Six months.,{LIGHTS.index(RED)}\n",
        only("q1", "?", label("hub/lights.md", RED), label("faq.txt", "Six months."))),
    "a document alone": ([{"question": "?", "doc": "faq.txt"}], only("q1", "?", WHOLE)),
}  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), ROWS.values(), ids=ROWS)
def test_a_row_has_one_answer_or_a_document(convert: Conversions, content: Any, expected: list[dict[str, Any]]) -> None:
    assert convert.rows(content) == expected


def test_from_says_what_a_file_is_that_looks_like_something_else(convert: Conversions) -> None:
    row = {**HUB, "id": "s", "answers": {"text": ["red"], "answer_start": [LIGHTS.index("red")]}}
    assert convert.rows([row], "--from", "rows")[0]["relevant_docs"] == [label("hub/lights.md", LIGHTS.strip())]


def test_a_cell_is_cut_only_where_all_its_parts_are_found(convert: Conversions) -> None:
    for answer in (f"{RED} | Nine lives of a cat.", "red | white", "white\nerror"):
        assert (
            f"'{' '.join(answer.split())}' of query 'q1' is in no document"
            in convert.faults([{"question": "?", "answer": answer}])[0]
        )


SIX = "Six months."

SHEETS: dict[str, tuple[bytes, list[tuple[str, list[str]]]]] = {
    "blank rows": (b"question,answer\nred?,%b\n,\n,,\n  ,\n\n", [("red?", [RED])]),
    "Ragas": (b"user_input,reference\r\nred?,%b\r\n", [("red?", [RED])]),
    "questions alone": (b"question\nred, or white?\nwhy; and when?\n",
                        [("red, or white?", []), ("why; and when?", [])]),
    "questions with ids and tags": (b"id;question;tags\na;red?;x,y\n", [("red?", [])]),
    "an empty answer": (b"question,answer\nred?,%b\nwhy?,\n", [("red?", [RED]), ("why?", [])]),
    "semicolons after a line that says so": (b"sep=;\nquestion;answer\nred?;%b\n", [("red?", [RED])]),
    "CP1252": ("question;answer\nrouge à quoi sert‑il ?;%b\n".replace("‑", "-").encode("cp1252"),
               [("rouge à quoi sert-il ?", [RED])]),
    "UTF-16 of Excel": ("question\tanswer\n赤い?\t%b\n".encode("utf-16"), [("赤い?", [RED])]),
    "a mark of UTF-8": ("question,answer\nкрасный?,%b\n".encode("utf-8-sig"), [("красный?", [RED])]),
    "a list in a cell": (b'question,answer\nred?,"[""%b"", ""%c""]"\n', [("red?", [RED, SIX])]),
    "answers in numbered columns": (b"question,answer,answer 2,answer_3\nred?,%b,%c,\n", [("red?", [RED, SIX])]),
    "a question in two rows, of a cluster": (b"question,answer,cluster\nred?,%b,7\nred?,%c,\n", [("red?", [RED, SIX])]),
    "rows that were cleared above the header": (b",\n,,\n\nquestion,answer\nred?,%b\n", [("red?", [RED])]),
    "an index of pandas, with tabs": (b"\tquestion\tanswer\n0\tred?\t%b\n", [("red?", [RED])]),
    "Notion": (b'\xef\xbb\xbfName,Question,Ground Truth,Created time\nr1,red?,%b,"May 1, 2026"\n', [("red?", [RED])]),
    "questions without a header": (
        "赤い？\n“why”, or when？\n".encode("utf-16"), [("赤い？", []), ("“why”, or when？", [])]),
    "a header that asks": (b"question,answer,Sure?\nred?,%b,yes\nwhite?,,no\n", [("red?", [RED]), ("white?", [])]),
    "answers on the lines of a cell": (b'question,answer\nred?,"%b\n%c"\n', [("red?", [RED, SIX])]),
    "answers between bars": (b"Query;Expected answer\nred?;%b | %c\n", [("red?", [RED, SIX])]),
    "answers in a list": (b'{"question": "red?", "answers": ["%b", "%c"]}\n', [("red?", [RED, SIX])]),
    "rows under a key": (b'{"version": 1, "items": [{"question": "red?", "answer": "%b"}]}', [("red?", [RED])]),
    "LangSmith": (b'{"inputs": {"question": "red?"}, "outputs": {"context": "%b"}, "metadata": {}}\n'
                  b'{"inputs": {"question": "white?"}, "outputs": {"answer": "yes"}}\n',
                  [("red?", [RED]), ("white?", [])]),
    "a question in two rows": (b"question,answer\nred?,%b\nred?,%c\n", [("red?", [RED, SIX])]),
}  # fmt: skip


@pytest.mark.parametrize(("content", "expected"), SHEETS.values(), ids=SHEETS)
def test_exported_sheets_are_read(convert: Conversions, content: bytes, expected: list[tuple[str, list[str]]]) -> None:
    encoding = "utf-16" if content.startswith(b"\xff\xfe") else "latin-1"
    text = content.decode(encoding).replace("%b", RED).replace("%c", SIX)
    rows = convert.rows(text.encode(encoding))
    assert [(row["text"], [one["quote"] for one in row["relevant_docs"]]) for row in rows] == expected
    assert [row.get("cluster") for row in rows] == ["7" if b"cluster" in content else None] * len(rows)


@pytest.mark.parametrize(
    "cell", ['"reset.md, faq.txt"', '"reset.md\nfaq.txt"', "hub/reset.md;faq.txt", '"[""reset"", ""faq""]"']
)
def test_several_documents_of_a_row_may_be_in_one_cell(convert: Conversions, cell: str) -> None:
    (row,) = convert.rows(f"Question,Source document\n?,{cell}\n")
    assert [one["doc"] for one in row["relevant_docs"]] == ["hub/reset.md", "faq.txt"]


WRONG_SHEETS: dict[str, tuple[str, bytes, str]] = {
    "Excel": ("labels.xlsx", b"PK", "is a spreadsheet; save it as CSV"),
    "Excel, misnamed": ("labels.csv", b"PK\x03\x04..xl/workbook.xml", "is a spreadsheet; save it as CSV"),
    "LibreOffice": ("labels.csv", b"PK\x03\x04 application/vnd.oasis.opendocument.spreadsheet", "is a spreadsheet"),
    "a page to sign in": ("labels.csv", b"<!DOCTYPE html><html>\n", "it begins '<!DOCTYPE html><html>'"),
    "other names": ("labels.csv", b"frage,antwort\na?,b\n", "columns frage, antwort; it needs question and answer"),
    "Cyrillic of Windows": ("labels.csv", "question,answer\nКогда?,Guarantee: six months.\n".encode("cp1251"),
                            "ENCODING"),
    "Greek of Windows": ("labels.csv", "question,answer\nΠότε;,Guarantee: six months.\n".encode("cp1253"), "ENCODING"),
    "a column twice": ("labels.csv", b"Answer,question,answer \na,b,c\n", "has more than one column 'answer'"),
    "a question that is null": ("labels.json", b'[{"question": null, "answer": "a"}]', "question is null; it is req"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_SHEETS)
def test_a_table_that_cannot_be_read_says_what_it_is(tmp_path: Path, case: str) -> None:
    name, content, said = WRONG_SHEETS[case]
    (tmp_path / name).write_bytes(content)
    assert said in message_of(LabelsError, read_labels, tmp_path / name)


STATES = [
    ("question,answer\na?,\n", (), []),
    ("question,answer\na?,\n", ("--empty", "unanswerable"), ["unanswerable"]),
    ("question\na?\n", (), []),
    ("question\na?\n", ("--empty", "unanswerable"), ["unanswerable"]),
    ("question,answer,tags\na?,,hard unanswerable\n", (), ["hard", "unanswerable"]),
    ("question,answer,answerable\na?,,no\n", (), ["unanswerable"]),
    ("question,answerable\na?,yes\n", (), []),
    ("question,answer,unanswerable\na?,,TRUE\n", (), ["unanswerable"]),
    ("question,answer,unanswerable\na?,,0\n", (), []),
]


@pytest.mark.parametrize(("content", "options", "tags"), STATES)
def test_no_answer_is_no_label(convert: Conversions, content: str, options: tuple[str, ...], tags: list[str]) -> None:
    (row,) = convert.rows(content, *options)
    assert row["relevant_docs"] == []
    assert row.get("tags", []) == tags


@pytest.mark.parametrize(("score", "grade"), [(3.0, 3), (2, 2), (0, 0), (None, 1)])
def test_whole_scores_of_haystacks_ground_truth_are_the_grades(convert: Conversions, score: Any, grade: int) -> None:
    document = {**Document(content=RED, id="a").to_dict(flatten=False), "score": score}
    rows = convert.rows([{"question": "red?", "ground_truth_documents": [document]}])
    assert [one["relevance"] for one in rows[0]["relevant_docs"]] == [grade]
