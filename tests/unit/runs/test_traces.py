"""Spans of OpenTelemetry and OpenInference, and predictions of MTEB, are runs: the rankings that were retrieved."""

import gzip
import json
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

import traced_search
from forms import Rows, run_rows, told
from ragtrial import score
from ragtrial.dataset.texts import text_hash
from ragtrial.errors import RunFileError
from ragtrial.records import Judgment, PromptQueries, Query
from ragtrial.runs.inputs import read_runs
from small_experiment import Capture, ragtrial, small_experiment, succeeded

TRACES = Path(__file__).parents[2] / "support" / "traces"
FILES = sorted(path.name for path in TRACES.iterdir())
LABELS = PromptQueries(
    tuple(Query(name, traced_search.QUESTIONS[name], (Judgment(doc),)) for name, doc in traced_search.RELEVANT.items())
)
CONFIG = """\
experiment: small
dataset: {corpus: documents, queries: prompt_queries.json}
latency: false
retrievers:
  own: {kind: custom, function: "traced_search:search", top_k: 4}
"""
SEEN = "  {}: {{kind: run_file, path: {}, top_k: 4}}\n"


@pytest.fixture(scope="module")
def rankings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The documents of each question in each setting of a run, and the report."""
    from ragtrial import load_report, run_experiment

    folder = tmp_path_factory.mktemp("traced")
    labels = {"queries": [{"id": query.id, "text": f" {query.text}\n", "relevant_docs": [{"doc": "returns.md"}]}
                          for query in LABELS.queries]}  # fmt: skip
    seen = [SEEN.format(name.partition(".")[0], TRACES / name) for name in FILES]
    config = small_experiment(folder, config=CONFIG + "".join(seen), labels=labels, documents=traced_search.DOCUMENTS)
    (folder / "traced_search.py").write_text(Path(traced_search.__file__).read_text(encoding="utf-8"))
    report = load_report(run_experiment(config).folder)
    found = {}
    for setting in report.settings:
        rows = map(json.loads, gzip.decompress(report.ranking_file(setting.name).read_bytes()).splitlines())
        found[setting.name] = {row["query"]: row["docs"] for row in rows}
    return {"report": report, **found}


@pytest.mark.parametrize("name", FILES)
def test_recorded_spans_give_the_rankings_of_the_custom_retriever(rankings: dict[str, Any], name: str) -> None:
    assert rankings[name.partition(".")[0]] == rankings["own"]
    assert len(set(map(tuple, rankings["own"].values()))) == len(LABELS.queries)


def test_a_report_counts_the_spans_that_it_does_not_use(rankings: dict[str, Any]) -> None:
    spans = {"langchain-genai": 14, "llamaindex-genai": 7, "llamaindex-openinference": 14}
    messages = {one.message for one in rankings["report"].warnings if one.code == "spans-left-out"}
    assert len(messages) == len(FILES)
    for name in (name.partition(".")[0] for name in FILES):
        own, others = spans.get(name, 21), spans.get(name, 21) - 7
        counted = f"{others} of another kind or retriever, " if others else ""
        assert (
            f"{name}: spans that count: 5 of {own}; left out: {counted}1 that failed, 1 answered again later."
            in messages
        )


Found = Sequence[tuple[str, float]]


def flat(question: str, found: Found) -> dict[str, Any]:
    documents = {
        f"retrieval.documents.{number}.document.{key}": value
        for number, (name, score_) in enumerate(found)
        for key, value in (("id", name), ("score", score_), ("content", f"text of {name}"))
    }
    return {"openinference.span.kind": "RETRIEVER", "input.value": question, **documents}


def nested(question: str, found: Found) -> dict[str, Any]:
    documents = [{"document": {"id": name, "score": score_}} for name, score_ in found]
    kind = {"span": {"kind": "RETRIEVER"}}
    return {"openinference": kind, "input": {"value": question}, "retrieval": {"documents": documents}}


def genai(question: str, found: Found) -> dict[str, Any]:
    documents = [{"id": name, "score": score_} for name, score_ in found]
    return {"gen_ai.retrieval.query.text": question, "gen_ai.retrieval.documents": documents}


def genai_text(question: str, found: Found) -> dict[str, Any]:
    documents = json.dumps([{"id": name} for name, _ in found])
    return {"gen_ai.retrieval.query.text": question, "gen_ai.retrieval.documents": documents}


def as_text(question: str, found: Found) -> str:
    return json.dumps(flat(question, found))


def in_console(spans: list[dict[str, Any]]) -> str:
    return "\n".join(
        json.dumps({**span, "context": {"trace_id": "t", "span_id": span["id"]}}, indent=4) for span in spans
    )


def span(number: int, attributes: object, *, name: str = "shop", failed: bool = False) -> dict[str, Any]:
    status = {"status_code": "ERROR"} if failed else {}
    start = f"2026-11-26T10:00:00.{number:06d}Z"
    return {"name": name, "id": f"{number:016x}", "attributes": attributes, "status": status, "start_time": start}


def rows_of(path: Path, labels: PromptQueries | None = LABELS, **how: Any) -> Rows:
    (run,) = read_runs(path, labels=labels, **how)
    return run_rows(run)


_RANKED = st.lists(st.sampled_from(["d1", "d2", "d3", "a/b.md", "7"]), unique=True, min_size=1, max_size=4)


@given(
    st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), st.lists(_RANKED, min_size=1, max_size=3), min_size=1),
    st.sampled_from([flat, nested, genai, genai_text, as_text]), st.integers(0, 3), st.randoms(),
)  # fmt: skip
def test_the_latest_answer_to_each_question_counts_in_every_way_of_writing(
    tmp_path_factory: pytest.TempPathFactory,
    answers: dict[str, list[list[str]]],
    attributes: Callable[[str, Found], object],
    others: int,
    chance: random.Random,
) -> None:
    spans, number = [], 0
    for name, rankings in answers.items():
        for ranking in rankings:
            number += 1
            found = [(doc, 1 / (place + 1)) for place, doc in enumerate(ranking)]
            spans.append(span(number, attributes(traced_search.QUESTIONS[name], found)))
        spans.append(span(900_000 + number, attributes(traced_search.QUESTIONS[name], [("d9", 1.0)]), failed=True))
    spans += [span(500 + number, {"llm.model_name": "x"}) for number in range(others)]
    chance.shuffle(spans)
    path = tmp_path_factory.mktemp("forms") / "trace.json"
    path.write_text(in_console(spans))
    (run,) = read_runs(path, labels=LABELS)
    assert {query: [doc for doc, _ in hits] for query, hits in run_rows(run).items()} == {
        name: rankings[-1] for name, rankings in answers.items()
    }
    again = sum(len(rankings) - 1 for rankings in answers.values())
    assert run.note.startswith(f"spans that count: {len(answers):,} of {len(spans):,}; left out: ")
    assert f"{len(answers)} that failed" in run.note
    assert (f"{again} answered again later" in run.note) == (again > 0)
    assert (f"{others} of another kind" in run.note) == (others > 0)


def test_retrievers_and_services_are_runs_of_their_own(tmp_path: Path) -> None:
    def of_service(service: str, name: str, found: str) -> str:
        own = span(1, genai(traced_search.QUESTIONS["q1"], [(found, 1.0)]), name=name)
        resource = {"attributes": {"service.name": service}}
        return json.dumps({**own, "trace_id": "t", "span_id": found, "resource": resource}) + "\n"

    path = tmp_path / "trace.jsonl"
    path.write_text(of_service("shop", "bm25", "d1") + of_service("shop", "dense", "d2"))
    runs = {run.name: list(run.documents) for run in read_runs(path, labels=LABELS)}
    assert runs == {"shop/bm25": ["d1"], "shop/dense": ["d2"]}
    path.write_text(of_service("shop", "bm25", "d1") + of_service("desk", "bm25", "d2"))
    assert [run.name for run in read_runs(path, labels=LABELS, name="may")] == ["may:shop/bm25", "may:desk/bm25"]


def test_passages_are_documents_by_metadata_by_id_or_by_the_text_of_a_label(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    begin = "retrieval.documents.0.document."
    asked = {"openinference.span.kind": "RETRIEVER", "input.value": '{"top_k": 3, "query": "Which?"}'}

    def found(**document: str) -> Rows:
        own = {**asked, **{begin + key: value for key, value in document.items()}}
        path.write_text(in_console([span(1, own)]))
        labels = PromptQueries((Query("q", "Which?", (Judgment("Six  months."), Judgment("a.md"))),))
        return rows_of(path, labels, columns={"document": "source"} if "at" in document else None)

    assert found(id="n1", content="Six\nmonths.") == {"q": [("Six  months.", None)]}
    assert found(id="n1", content="Other.") == {"q": [("n1", None)]}
    assert found(content="Other.") == {"q": [("Other.", None)]}
    assert found(id="n1", metadata='{"doc": "a.md"}') == {"q": [("a.md", None)]}
    assert found(at="", id="n1", metadata='{"source": "a.md"}') == {"q": [("a.md", None)]}


def test_a_hit_that_is_longer_than_a_labelled_passage_is_counted_and_is_another_document(tmp_path: Path) -> None:
    path, content = tmp_path / "trace.jsonl", "retrieval.documents.0.document.content"
    texts = {"q1": "Before. It is\nsix months. After.", "q2": "It is  six months.", "q3": "see a.md", "q4": "no"}
    path.write_text(in_console([
        span(at, {"openinference.span.kind": "RETRIEVER", "input.value": name, content: text})
        for at, (name, text) in enumerate(texts.items(), 1)
    ]))  # fmt: skip
    judged = Judgment("It is six months."), Judgment("a.md")
    (run,) = read_runs(path, labels=PromptQueries(tuple(Query(name, name, judged) for name in texts)))
    assert run_rows(run)["q1"] == [("Before. It is\nsix months. After.", None)]
    assert run.note.startswith("for 1 question a hit holds a labelled passage and more text")


def test_an_empty_list_is_a_ranking_where_the_retriever_records_documents(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(in_console([
        span(1, flat(traced_search.QUESTIONS["q1"], [("d1", 0.5)])),
        span(2, flat(traced_search.QUESTIONS["q2"], [])),
        span(3, flat(traced_search.QUESTIONS["q3"], []), name="part"),
        span(4, genai(traced_search.QUESTIONS["q4"], [])),
    ]))  # fmt: skip
    assert rows_of(path) == {"q1": [("d1", 0.5)], "q2": [], "q4": []}


SECRET = "My name is Ada Lovelace \x1b[2J, am I pregnant?"
GOOD = json.dumps({**span(1, genai(SECRET, [("d1", 1.0)])), "trace_id": "t"})
OTHER, UNRECORDED = ({**span(1, own), "trace_id": "t"} for own in ({"a": "b"}, {"gen_ai.operation.name": "retrieval"}))
REDACTED = {"openinference.span.kind": "RETRIEVER", "input.value": "__REDACTED__",
            "retrieval.documents.0.document.content": "__REDACTED__"}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), [
    (f'{GOOD}\n{{"name": "x", "attr\n{GOOD}\n', "trace.jsonl:2: is not JSON: Invalid control character."),
    (GOOD + "\n" + "[" * 100_000, "trace.jsonl:2: is not JSON: a number is too long, or it is nested too deeply."),
    (json.dumps(OTHER), "spans: 1, of a retriever: 0, failed: 0."),
    (json.dumps(UNRECORDED), "spans: 1, of a retriever: 1, failed: 0. A retrieval needs"),
    (in_console([span(1, REDACTED, failed=True)]), "of a retriever: 1, failed: 1."),
])  # fmt: skip
def test_what_cannot_be_scored_is_named_without_a_question(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(text)
    (line,) = told(tmp_path, RunFileError, read_runs, path, labels=LABELS, form="spans")
    assert message in line
    assert "Ada" not in line


def test_questions_without_ids_need_labels_with_texts_that_differ(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(GOOD)
    twice = PromptQueries((Query("a", SECRET), Query("b", SECRET)))
    for labels, message in ((None, "has questions without ids"), (twice, "is that of the queries 'a', 'b'")):
        with pytest.raises(RunFileError, match=message) as caught:
            read_runs(path, labels=labels)
        assert "Ada" not in str(caught.value)
    own = {**genai(SECRET, [("d1", 1.0)]), "metadata": '{"question_id": "b"}'}
    path.write_text(json.dumps({**span(1, own), "trace_id": "t"}))
    assert [rows_of(path, labels) for labels in (None, twice)] == [{"b": [("d1", 1.0)]}] * 2
    assert [run.name for run in read_runs(path)] == ["trace"]
    with pytest.raises(RunFileError, match="have no columns score: only document=KEY"):
        read_runs(path, columns={"score": "x"})


def test_no_question_is_printed(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = small_experiment(tmp_path, config=CONFIG[: CONFIG.index("  own")] + SEEN.format("seen", "trace.jsonl"))
    (tmp_path / "trace.jsonl").write_text(GOOD)
    scored = ragtrial(capsys, "score", "prompt_queries.json", "trace.jsonl", "--per-query", "-")
    refused = ragtrial(capsys, "run", config)
    assert (scored.code, refused.code) == (0, 2)
    for outcome in (scored, refused):
        assert "Ada" not in outcome.out + outcome.err
        assert text_hash(SECRET) in outcome.err


def test_predictions_of_mteb_are_runs(tmp_path: Path, capsys: Capture) -> None:
    path = tmp_path / "NFCorpus_predictions.json"
    meta, ranking = {"model_name": "intfloat/e5", "revision": "1"}, {"q1": {"d1": 0.2, "d2": 0.9}}
    path.write_text(json.dumps({"mteb_model_meta": meta, "default": {"test": ranking}}))
    (run,) = read_runs(path)
    assert (run.name, run_rows(run)) == ("intfloat/e5", {"q1": [("d1", 0.2), ("d2", 0.9)]})
    assert score({"q1": {"d2": 1}}, path, "rr")["intfloat/e5"].scores["rr"].mean == 1
    path.write_text(
        json.dumps({"mteb_model_meta": meta, "de": {"test": ranking, "dev": ranking}, "en": {"test": ranking}})
    )
    assert [run.name for run in read_runs(path, name="e5")] == ["e5:de/test", "e5:de/dev", "e5:en/test"]
    done = succeeded(capsys, "export", path, tmp_path / "a.trec", "--run", "intfloat/e5:en/test")
    assert "2 hits of 1 query" in done.err
    for wrong, message in (
        ({"default": {"test": [1, 2]}}, "must be an object in objects"),
        ({"default": {"test": {"q1": {"d": "x"}}}}, "query 'q1', document 'd': the score 'x' is no number"),
        ({}, "has no predictions"),
    ):
        path.write_text(json.dumps({"mteb_model_meta": meta, **wrong}))
        with pytest.raises(RunFileError, match=message):
            read_runs(path)
