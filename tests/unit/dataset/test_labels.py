"""prompt_queries.json is read as it is written, or refused with every fault and its place."""

import json
from pathlib import Path

import pytest

from expectations import message_of
from ragtrial.dataset.labels import labels_file, load_prompt_queries
from ragtrial.errors import LabelsError
from ragtrial.records import Judgment, PromptQueries, Query, Span


def written(folder: Path, content: str | bytes, name: str = "prompt_queries.json") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return path


def faults_of(folder: Path, content: str | bytes) -> list[str]:
    """What is wrong, each without the name of the file."""
    path = written(folder, content)
    lines = message_of(LabelsError, load_prompt_queries, path).splitlines()
    assert all(line.startswith(str(path)) for line in lines)
    return [line.removeprefix(str(path)) for line in lines]


WHOLE = """{
  "prompt": "Answer {query} from {contexts}; {\\"json\\": true}",
  "queries": [
    {
      "id": "q1",
      "text": "How do I re\\u0073et\\r\\nthe cafe\\u0301 hub?",
      "relevant_docs": [
        {"doc": "hub/reset.md", "relevance": 3, "quote": "Hold  the button"},
        {"doc": "hub/lights.md"},
        {"doc": 31715818, "relevance": -1},
        {"doc": "a", "quote": "x", "start": 0, "end": 12, "text_hash": "0123456789abcdef"}
      ],
      "tags": ["hub", "how-to"],
      "ordered": true, "cluster": "chat-1"
    },
    {"id": 2, "text": "Unanswerable", "relevant_docs": [], "cluster": 7, "phrasings": ["cafe\\u0301\\r\\n", "z"],
     "where": {"$and": [{"lang": "en"}, {"page": {"$gte": 2}}]}, "where_document": {"$contains": "hub"}}
  ]
}"""


def test_every_field_of_the_format_is_read(tmp_path: Path) -> None:
    assert load_prompt_queries(written(tmp_path, WHOLE)) == PromptQueries(
        queries=(
            Query(
                id="q1",
                text="How do I reset\nthe caf\u00e9 hub?",
                relevant_docs=(Judgment("hub/reset.md", 3, "Hold  the button"), Judgment("hub/lights.md", 1),
                               Judgment("31715818", -1), Judgment("a", 1, "x", (Span(0, 12),), "0123456789abcdef")),
                tags=("hub", "how-to"),
                ordered=True,
                cluster="chat-1",
            ),
            Query(
                "2",
                "Unanswerable",
                phrasings=("caf\u00e9\n", "z"),
                where={"$and": [{"lang": "en"}, {"page": {"$gte": 2}}]},
                where_document={"$contains": "hub"},
                cluster="7",
            ),
        ),
        prompt='Answer {query} from {contexts}; {"json": true}',
    )  # fmt: skip


def test_the_older_format_is_read_with_ids_as_numbers_and_passages_as_docs(tmp_path: Path) -> None:
    older = {
        "prompt": "{query}\n{contexts}",
        "queries": [
            {
                "id": 1,
                "text": "What is LoRA?",
                "relevant_docs": [
                    {"doc": "LoRA freezes the weights.\nIt trains \ufb01ne matrices.", "relevance": 3},
                    {"doc": "page", "relevance": 0},
                ],
            },
            {"id": 2, "text": "Why?", "relevant_docs": [{"doc": "Because.", "relevance": 1}]},
        ],
    }
    labels = load_prompt_queries(written(tmp_path, json.dumps(older), "prompts_queries.json"))
    assert [query.id for query in labels.queries] == ["1", "2"]
    assert labels.queries[0].relevant_docs == (
        Judgment("LoRA freezes the weights.\nIt trains \ufb01ne matrices.", 3),
        Judgment("page", 0),
    )
    assert labels.prompt == "{query}\n{contexts}"


@pytest.mark.parametrize(
    ("there", "asked"),
    [("prompts_queries.json", "prompt_queries.json"), ("prompt_queries.json", "prompts_queries.json")],
)
def test_either_spelling_of_the_name_finds_the_file_with_the_other(tmp_path: Path, there: str, asked: str) -> None:
    path = written(tmp_path, WHOLE, there)
    assert labels_file(tmp_path / asked) == path
    assert load_prompt_queries(str(tmp_path / asked)).queries[0].id == "q1"


def test_the_named_file_wins_and_all_faults_of_form_are_reported(tmp_path: Path) -> None:
    paths = [written(tmp_path, WHOLE, name) for name in ("prompts_queries.json", "prompt_queries.json")]
    assert [labels_file(path) for path in paths] == paths
    written(tmp_path, WHOLE)
    absent = tmp_path / "labels.json"
    message = message_of(LabelsError, load_prompt_queries, absent)
    assert message.startswith(f"{absent}: there is no such file. `ragtrial search CONFIG ")
    assert "labels convert" in message
    content = """{"prompt": 5,
 "queries": [
  {"id": "a", "txt": "x", "relevant_docs": [{"doc": "d", "relevance": "high"}]},
  {"id": "b", "text": "y", "relevant_docs": {}}
]}"""
    places = [fault.partition(" ")[0] for fault in sorted(faults_of(tmp_path, content))]
    assert places == [":1:12:", ":3:22:", ":3:3:", ":3:71:", ":4:45:"]


CONVERT = 'Labels are {"queries": [...]}. `ragtrial labels convert labels.json --corpus DOCUMENTS -o'


@pytest.mark.parametrize(("content", "why"), [
    ("question,answer\nHow long?,30 days\n", ": is not a labels file. " + CONVERT),
    ('[{"question": "How long?", "answer": "30 days"}]', ": " + CONVERT),
    ('{"queries": [{"id": 1, "question": "How long?", "relevant_docs": []}]}', ": " + CONVERT),
    (" \n", ': is empty. `ragtrial search CONFIG "QUESTION" --label` labels a first question'),
])  # fmt: skip
def test_what_is_no_labels_file_names_the_command_that_makes_one(tmp_path: Path, content: str, why: str) -> None:
    file = tmp_path / "labels.json"
    file.write_text(content)
    assert f"{file}{why}" in message_of(LabelsError, load_prompt_queries, file)


@pytest.mark.parametrize(("content", "fault"), [
    ('{"queries": [\n  {"id": 1 "text": "x"}\n]}', ":2:12: is not JSON: Expecting ',' delimiter."),
    (' {"queries": [],}', ":1:17: is not JSON: there is a comma before '}'; remove it."),
    ('{\n  // mine\n  "queries": []}', ":2:3: is not JSON: JSON has no comments; remove this one."),
    ('{"queries": 1' + "0" * 5000 + "}", ": has a number too long, or is nested too deeply, to be labels."),
    ("[]", ":1:1: the file is a list; it must be a mapping of keys to values."),
    ("{}", ":1:1: queries is missing; it is required."),
    ('{"queries": []}', ":1:13: there is no query; an experiment needs at least one."),
    ('{"queries": {"id": 1}}', ":1:13: queries is a mapping; it must be a list."),
    ('{"querys": [],\n "queries": [{"id": 1, "text": "x", "relevant_docs": []}]}',
     ":1:12: unknown key 'querys'. Did you mean 'queries'? Allowed here: prompt, queries."),
])  # fmt: skip
def test_a_file_without_labels_is_refused_with_its_place(tmp_path: Path, content: str | bytes, fault: str) -> None:
    assert faults_of(tmp_path, content) == [fault]


LABEL = '{"id": 1, "text": "x", "relevant_docs": [%s]}'
ASIDE = '{"id": 1, "text": "x", "relevant_docs": [], %s}'
TEXT, WHOLE_NUMBER = "it must be a text (put it in quotes)", "it must be a whole number."
DOC = "queries[0].relevant_docs[0]"
WRONG = {  # a query, with a mark before the place of its fault, and the fault
    "¦7": "queries[0] is 7; it must be a mapping of keys to values.",
    '¦{"id": 1, "text": "x"}': "queries[0].relevant_docs is missing; it is required.",
    '¦{"text": "x", "relevant_docs": []}': "queries[0].id is missing; it is required.",
    '{"id": ¦true, "text": "x", "relevant_docs": []}': f"queries[0].id is true; {TEXT} or a whole number.",
    '{"id": 1, "text": ¦5, "relevant_docs": []}': f"queries[0].text is 5; {TEXT}.",
    '{"id": 1, "text": ¦" \\n", "relevant_docs": []}': "queries[0].text: it is empty.",
    '{"id": ¦"\\ud800", "text": "x", "relevant_docs": []}': "queries[0].id: it has half of a surrogate pair.",
    ASIDE % '"cluster": ¦"a\\udfff"': "queries[0].cluster: it has half of a surrogate pair.",
    ASIDE % '"tags": [¦"\\ud83d"]': "queries[0].tags[0]: it has half of a surrogate pair.",
    ASIDE % '"tag": ¦"a"': "unknown key 'tag' in queries[0]. Did you mean 'tags'? Allowed here: id, text, "
    "relevant_docs, tags, cluster, answers, ordered, phrasings, where, where_document.",
    LABEL
    % '¦{"doc": "a", "relevance": -1, "group": "g"}': f"{DOC}: a label with a grade below 0 says what must not be "
    "found; it is in no group.",
    '¦{"id": 1, "text": "x", "relevant_docs": [{"doc": "a", "group": 2}], "ordered": true}': "queries[0]: labels that "
    "are ordered have no group; remove `ordered` or `group`.",
    ASIDE % '"tags": ¦"a"': "queries[0].tags is 'a'; it must be a list.",
    ASIDE % '"phrasings": ["y", ¦" "]': "queries[0].phrasings[1]: it is empty.",
    "¦" + ASIDE % '"phrasings": ["\\u00e9", "z", "e\\u0301 "]': "queries[0]: a phrasing repeats the text or a "
    "phrasing; it must be another wording.",
    ASIDE % '"where": ¦{}': "queries[0].where has 0 entries; it must have at least 1.",
    LABEL % '¦{"relevance": 1}': f"{DOC}.doc is missing; it is required.",
    LABEL % '{"doc": "a", "relevence": ¦1}': "unknown key 'relevence' in queries[0].relevant_docs[0]. Did you mean "
    "'relevance'? Allowed here: doc, relevance, quote, start, end, text_hash, group.",
    LABEL % '{"doc": "a", "relevance": ¦2.5}': f"{DOC}.relevance is 2.5; {WHOLE_NUMBER}",
    LABEL % '{"doc": "a", "relevance": ¦null}': f"{DOC}.relevance is null; {WHOLE_NUMBER} Leave the "
    "key out for its default.",
    LABEL % '{"doc": "a", "relevance": ¦1000001}': f"{DOC}.relevance is 1000001; it must be at most "
    "1000000 (default 1).",
    LABEL % '{"doc": ¦""}': f"{DOC}.doc: it is empty.",
    LABEL % '{"doc": "a", "quote": ¦"\\t"}': f"{DOC}.quote: it is empty.",
    LABEL % '¦{"doc": "a", "start": 3}': f"{DOC}: start and end belong together; give both or neither.",
    LABEL % '¦{"doc": "a", "start": 3, "end": 3}': f"{DOC}: end is 3; it must be above start, 3.",
}


@pytest.mark.parametrize("query", WRONG)
def test_a_query_that_is_none_is_refused_with_line_and_column(tmp_path: Path, query: str) -> None:
    content = query.replace("¦", "")
    assert faults_of(tmp_path, f'{{"queries": [\n{content}\n]}}') == [f":2:{query.index('¦') + 1}: {WRONG[query]}"]


def test_an_id_that_stands_twice_is_refused_as_number_or_text(tmp_path: Path) -> None:
    content = """{"queries": [
  {"id": 1, "text": "x", "relevant_docs": []},
  {"id": "q", "text": "x", "relevant_docs": []},
  {"id": "1", "text": "x", "relevant_docs": []},
  {"id": 1, "text": "x", "relevant_docs": []}
]}"""
    assert faults_of(tmp_path, content) == [
        ":4:10: query id '1' is taken already by queries[0].",
        ":5:10: query id '1' is taken already by queries[0].",
    ]


@pytest.mark.parametrize("depth", [50, 400, 900, 5000])
def test_nesting_of_any_depth_is_refused_without_a_crash(tmp_path: Path, depth: int) -> None:
    (fault,) = faults_of(tmp_path, '{"queries": ' + "[" * depth + "]" * depth + "}")
    assert fault in {
        ":1:14: queries[0] is a list; it must be a mapping of keys to values.",
        ": has a number too long, or is nested too deeply, to be labels.",
    }
