"""Rankings made elsewhere join as a setting: queries and documents are found by name, and what is not is reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from asked import Workplace, scores, show, workplace
from expectations import message_of
from experiments import write_experiment
from ragtrial.cache.fingerprints import file_digest
from ragtrial.cli.outcome import run as command
from ragtrial.components.interfaces import Candidates
from ragtrial.components.retrievers.run_file import RunFileRetriever
from ragtrial.errors import ReportError, RunFileError
from ragtrial.experiment import run_experiment
from ragtrial.records import Question

QUESTIONS = [Question("How long?", id="q1"), Question("How warm?", id="q2")]
TREC = "q1 Q0 b 1 3.5 r\nq1 Q0 a 2 7 r\nq1 Q0 c 3 2 r\nq2 Q0 d/e.md 1 1 r\n"


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    return workplace(tmp_path)


def made(place: Workplace, content: str, file: str = "run.trec", **options: Any) -> RunFileRetriever:
    path = place.folder / file
    path.write_text(content)
    return RunFileRetriever(path=str(path), **options)


def search(place: Workplace, retriever: RunFileRetriever, depth: int = 10) -> Candidates:
    retriever.check(place.materials(), QUESTIONS)
    return retriever.open(place.materials()).search(QUESTIONS, depth)


@pytest.mark.parametrize(("name", "content"), [
    ("run.trec", TREC),
    (
        "run.jsonl",
        "".join(
            json.dumps({"query": query, "doc_id": document, "score": score}) + "\n"
            for query, document, score in [("q2", "d/e.md", 1), ("q1", "c", 2), ("q1", "a", 7), ("q1", "b", 3.5)]
        ),
    ),
])  # fmt: skip
def test_a_run_is_ranked_by_score(place: Workplace, name: str, content: str) -> None:
    found = search(place, made(place, content, name))
    assert show(found) == [["a", "b", "c"], ["d/e.md"]]
    assert scores(found) == [[7.0, 3.5, 2.0], [1.0]]
    assert found.skipped.tolist() == [False, False]


def test_ranks_alone_are_an_order_and_queries_are_found_by_text_too(place: Workplace) -> None:
    found = search(place, made(place, "q1\ta\t1\nq1\tc\t2\nq2\tb\t1\n"))
    assert show(found) == [["a", "c"], ["b"]]
    assert scores(found) == [[None, None], [None]]
    results = [{"name": "one", "results": [{"query": "How warm?", "hits": [{"doc": "b", "score": 1.0}]},
                                           {"id": "q1", "query": "Other?", "hits": [{"doc": "c"}]}]}]  # fmt: skip
    assert show(search(place, made(place, json.dumps(results), "results.json"))) == [["c"], ["b"]]
    by_text = json.dumps({"How warm?": {"b": 1}, "q1": {"c": 1}, "How long?": {"a": 1}})
    assert show(search(place, made(place, by_text, "run.json"))) == [["c"], ["b"]]


def test_a_ranking_is_cut_each_document_once_and_of_several_runs_one_is_named(place: Workplace) -> None:
    retriever = made(place, "q1 Q0 a 1 9 r\nq1 Q0 a 2 8 r\nq1 Q0 b 3 7 r\nq1 Q0 c 4 6 r\nq2 Q0 a 1 1 r\n")
    found = search(place, retriever, depth=2)
    assert show(found) == [["a", "b"], ["a"]]
    assert dict(found.facts) == {"duplicates": 1, "beyond_top_k": 1, "missing": 0}
    assert [one.message for one in retriever.warnings("r", found.facts)] == [
        "r: hits of a document that stands higher in the same ranking: 1; the first counts."
    ]
    results = json.dumps([{"name": name, "results": [{"id": "q1", "hits": [{"doc": doc}]}]}
                          for name, doc in (("one", "a"), ("other", "b"))])  # fmt: skip
    assert show(search(place, made(place, results, "results.json", name="other"))) == [["b"], []]
    with pytest.raises(RunFileError, match=r"holds several runs: one, other. Name one with `name:`"):
        made(place, results, "results.json").check(place.materials(), QUESTIONS)
    with pytest.raises(RunFileError, match=r"has no run 'othr'\. Did you mean 'other'"):
        made(place, results, "results.json", name="othr").check(place.materials(), QUESTIONS)


def test_a_query_or_a_file_that_is_not_there_finds_nothing(place: Workplace) -> None:
    retriever = made(place, "q1 Q0 a 1 9 r\n")
    found = search(place, retriever)
    assert (show(found), found.skipped.tolist()) == ([["a"], []], [False, False])
    (warning,) = retriever.warnings("r", found.facts)
    assert warning.message == "r: labelled queries that are not in run.trec: 1 ('q2'); they score 0."
    opened = made(place, "q1 Q0 a 1 9 r\n").open(place.materials())
    opened.search(QUESTIONS, 1)
    assert show(opened.search(QUESTIONS[1:], 2)) == [[]]
    retriever = RunFileRetriever(path=str(place.folder / "none.trec"))
    with pytest.raises(RunFileError, match="there is no such file, nor a report of that id"):
        retriever.check(place.materials(), QUESTIONS)
    with pytest.raises((RunFileError, ReportError), match="there is no such file"):
        retriever.hashed_content(file_digest)


@pytest.mark.parametrize(("content", "fault"), [
    ("q1 Q0 a 1 9 r\nq1 Q0 d/f.md 2 8 r\nq2 Q0 d/f.md 1 9 r\nq2 Q0 zzz 2 1 r\nq9 Q0 nowhere 1 1 r\n",
     "{file}: 3 of 4 hits name documents that are not in the corpus (4 documents): 'd/f.md', 'zzz'. Did you "
     "mean 'd/e.md'?"),
    ("7 Q0 a 1 9 r\n8 Q0 a 1 9 r\n",
     "{file}: has none of the 2 labelled queries, neither by id nor by text. It has: '7', '8'; the labels have: "
     "'q1', 'q2'."),
    ("q1 Q0 a 1 inf r\n", "{file}: has the score inf; scores must be finite numbers."),
    ("q1 Q0 a 1 -1e300 r\n", "{file}: has the score -1e+300; scores must be finite numbers."),
])  # fmt: skip
def test_what_does_not_fit_is_refused_before_anything_is_run(place: Workplace, content: str, fault: str) -> None:
    retriever = made(place, content)
    assert message_of(RunFileError, retriever.check, place.materials(), QUESTIONS) == fault.format(file=retriever.path)


def means(report: Any) -> dict[str, dict[str, float | None]]:
    return {one.name: {name: score.mean for name, score in one.scores.items()} for one in report.settings}


def test_what_was_exported_scores_what_it_was_exported_from(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path)
    report = run_experiment(experiment.config())
    assert command(["export", str(report.folder), str(tmp_path / "dense.trec"), "-q"]) == 0
    retrievers = {
        "dense": {"kind": "dense", "top_k": 3},
        "trec": {"kind": "run_file", "path": "dense.trec", "top_k": 3},
        "report": {"kind": "run_file", "path": str(report.folder), "name": "dense", "top_k": 3},
        "rows": {"kind": "run_file", "path": str(report.folder / "rankings" / "dense.jsonl.gz"), "top_k": 3},
    }
    again = run_experiment(write_experiment(tmp_path, retrievers=retrievers, latency=True).config())
    assert means(again) == dict.fromkeys(retrievers, means(report)["dense"])
    assert [one.name for one in again.settings if one.latency] == ["dense"]


def test_documents_that_changed_are_not_answered_from_rankings_of_the_old_ones(tmp_path: Path) -> None:
    (tmp_path / "run.trec").write_text("rye Q0 z.md 1 2 r\nrye Q0 a.md 2 1 r\n")
    setting = {"file": {"kind": "run_file", "path": "run.trec", "top_k": 2}}
    labels = [{"id": "rye", "text": "Rye?", "relevant_docs": [{"doc": "z.md"}]}]
    documents = {"a.md": "Rye.", "z.md": "Wheat."}
    for folder in (documents, {"0.md": "Oats.", **documents}):
        report = run_experiment(write_experiment(tmp_path, folder, labels, retrievers=setting).config())
        assert means(report)["file"]["precision@1"] == 1.0
