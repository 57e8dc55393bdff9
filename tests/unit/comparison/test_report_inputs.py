"""The reports of a comparison must have labels, queries and meanings of metrics in common."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from contests import changed_queries, metric_of, report_of, run_into
from expectations import message_of
from experiments import DOCUMENTS
from ragtrial import load_report
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.errors import ComparisonError
from ragtrial.report.model import Report
from ragtrial.report.schema import FailurePart, JudgmentPart, QueryPart, SpanPart
from small_experiment import Capture, succeeded

VALUES = {"a": [0.5, 0.25, 0.125, 1.0]}
AGAIN = "Score their rankings by the same labels (`ragtrial rescore REPORT --labels FILE` searches nothing)"


def called(name: str, **changes: Any) -> Report:
    return report_of(VALUES, experiment=name, **changes)


def refusal(*reports: Report, **asked: Any) -> list[str]:
    return message_of(ComparisonError, input_of, reports, **asked).splitlines()


def warnings(inputs: ComparisonInput) -> dict[str, str]:
    return {warning.code: warning.message for warning in inputs.warnings}


def judged(*grades: tuple[str, int]) -> dict[str, list[JudgmentPart]]:
    return {"relevant_docs": [JudgmentPart(doc=doc, relevance=grade) for doc, grade in grades]}


def test_queries_in_common_are_compared_and_others_refused_one_by_one() -> None:
    other = changed_queries(called("branch"), q1=judged(("a.md", 2), ("b.md", 3)), q2={"text": "x" * 70}, q3=judged())
    assert refusal(called("main"), other) == [
        "3 queries have other labels in main and branch (query 'q1' has other labels of 'b.md', query 'q2' has another "
        "text, query 'q3' has other labels of 'a.md').",
        f"{AGAIN}.",
    ]
    shorter = report_of({"a": VALUES["a"][:2]}, experiment="branch")
    renamed = changed_queries(shorter, q2={"id": "q9"})
    assert refusal(called("main"), renamed) == [
        "3 of 4 queries are only in main ('q2', 'q3', 'q4').",
        "1 of 2 queries is only in branch ('q9').",
        f"{AGAIN}.",
    ]
    dozen = [report_of({"a": [None, *[0.5] * 11]}, experiment=name) for name in ("main", "branch")]
    common = f"{AGAIN}. Or add --common to this command, to compare over the 10 scored queries that are the same."
    assert refusal(dozen[0], changed_queries(dozen[1], q12=judged()))[1] == common
    assert refusal(dozen[0], changed_queries(dozen[1], q11=judged(), q12=judged()))[1] == f"{AGAIN}."
    other = changed_queries(report_of({"a": VALUES["a"][:3]}, experiment="branch"), q1=judged(("a.md", 1)))
    inputs = input_of([called("main"), other], common=True)
    assert [query.id for query in inputs.queries] == ["q2", "q3"]
    assert inputs.scores("ndcg@3").values.tolist() == [[0.25, 0.125], [0.25, 0.125]]
    assert warnings(inputs) == {
        "common-queries": "compared over the 2 queries that are the same everywhere. Left out: 1 of 4 queries "
        "is only in main ('q4'). 1 query has other labels in main and branch (query 'q1' has other labels of 'a.md')."
    }
    means = [(one.part.scores["ndcg@3"].mean, one.part.scores["ndcg@3"].n) for one in inputs.settings]
    assert means == [(0.1875, 2), (0.1875, 2)]
    assert [part.mean for part in compare_settings(inputs, ComparisonOptions(inputs.baseline)).comparisons] == [0.1875]
    whole = called("main")
    assert input_of([whole, called("branch")]).settings[0].part is whole.settings[0]
    plain = report_of(VALUES, "rbo(p=0.9)@3", experiment="main")
    ordered = changed_queries(plain, q1={"ordered": True})
    turned = changed_queries(plain, q1={"ordered": True, **judged(("b.md", 1), ("a.md", 2))})
    assert "query 'q1' has another order of its labels" in refusal(ordered, turned)[0]
    graded = changed_queries(plain, q1={"ordered": True, **judged(("b.md", 1), ("a.md", 1))})
    assert "query 'q1' has other labels of 'a.md'" in "\n".join(refusal(ordered, graded))
    assert "query 'q1' has another order of its labels" in refusal(plain, ordered)[0]
    assert input_of([called("main"), changed_queries(called("branch"), q1={"ordered": True})]).warnings == ()


RUNS = ("20260101T000000Z-ffffff", "20260102T000000Z-aaaaaa", "20260103T000000Z-aaaaaa")


@pytest.mark.parametrize(("parent", "is_first", "warns"), [
    (RUNS[0], False, True),  # the earlier run, scored again last, is given as the later one
    (RUNS[0], True, False),
    (RUNS[1].replace("a", "f"), False, False),  # of the same second: the order is not known
    (None, False, False),
])  # fmt: skip
def test_an_earlier_run_scored_again_is_not_silently_the_later(parent: str | None, is_first: bool, warns: bool) -> None:
    again, later = called("again", run_id=RUNS[2], parent=parent), called("later", run_id=RUNS[1])
    both = [again, later] if is_first else [later, again]
    warning = warnings(input_of(both)).get("later-baseline", "")
    assert bool(warning) == warns
    assert not warns or f"again is the earlier run {parent} scored again, and later, the baseline" in warning
    assert "later-baseline" not in warnings(input_of(both, all_pairs=True))
    named = warnings(input_of([*both, called("newest", run_id=RUNS[2])], baseline=again))
    assert "later-baseline" not in named


LABELS = st.lists(st.tuples(st.sampled_from(["a", "b", "c"]), st.integers(0, 2)), max_size=4)


@given(LABELS, LABELS)
def test_queries_of_equal_best_grades_are_compared(ones: list[tuple[str, int]], others: list[tuple[str, int]]) -> None:
    first = changed_queries(called("main"), q1=judged(*ones))
    inputs = input_of([first, changed_queries(called("branch"), q1=judged(*others))], common=True)
    assert (len(inputs.queries) == 4) == (highest(ones) == highest(others))


def highest(labels: Sequence[tuple[str, int]]) -> dict[str, int]:
    return {doc: max(grade for other, grade in labels if other == doc) for doc, _ in labels}


def spanned(*places: tuple[int, int]) -> dict[str, list[JudgmentPart]]:
    spans = [[SpanPart(start=start, end=end)] for start, end in places]
    return {"relevant_docs": [JudgmentPart(doc="a.md", relevance=1, spans=one) for one in spans]}


@pytest.mark.parametrize(("place", "documents", "unit", "is_refused"), [
    ((4, 9), "d", "span", False), ((5, 10), "d", "span", True), ((5, 10), "e", "span", False),
    ((5, 11), "e", "span", True), ((5, 10), "d", "document", False),
])  # fmt: skip
def test_passages_have_one_place_or_length(place: tuple[int, int], documents: str, unit: str, is_refused: bool) -> None:
    main, branch = called("main", unit=unit), called("branch", unit=unit)
    dataset = main.dataset.model_copy(update={"documents_fingerprint": documents * 32})
    main = changed_queries(main, q1=spanned((4, 9), (20, 30)))
    branch = changed_queries(branch.model_copy(update={"dataset": dataset}), q1=spanned((20, 30), place))
    if is_refused:
        assert "query 'q1' has other labels of 'a.md'" in refusal(main, branch)[0]
    else:
        assert len(input_of([main, branch]).queries) == 4


def test_other_units_and_all_differences_of_rules_are_told_at_once() -> None:
    assert refusal(called("main"), called("branch", unit="span")) == [
        "other unit: document in main, span in branch.",
        "Run or score one again by the rules of the other.",
    ]
    metrics = {"recall@3": metric_of("recall@3", 2), "ndcg@3": metric_of("ndcg@3").model_copy(update={"formula": "f"})}
    main = called("main", metrics={"recall@3": metric_of("recall@3"), "ndcg@3": metric_of("ndcg@3")})
    formula, counted, _ = refusal(main, called("branch", metrics=metrics))
    assert counted.startswith("other queries that are counted (recall@3): ")
    assert formula == (
        "other formula (ndcg@3): dcg@k / dcg@k of all judged documents in the order of their gains in main, "
        "f in branch."
    )
    usual, half = called("main", unit="span"), called("main", unit="span", span_coverage=0.5)
    for main in (usual, half):
        message, _ = refusal(main, called("branch", unit="span", span_coverage=0.8))
        assert message == "other span_coverage: 0.5 in main, 0.8 in branch."
    assert input_of([usual, half]).warnings == ()


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real runs of one experiment with other rules or documents; of the setting dense alone."""
    folder = tmp_path_factory.mktemp("rules")
    one: dict[str, Any] = {"retrievers": {"dense": {"kind": "dense", "top_k": 3}}}
    run_into(folder, "main", **one)
    run_into(folder, "threshold", evaluators={"relevance_threshold": 2}, **one)
    run_into(folder, "zero", evaluators={"no_relevant": "zero"}, **one)
    run_into(folder, "grown", documents={**DOCUMENTS, "new.txt": "Knead the dough twice."}, **one)
    gain = {"graded": {"k": [3], "metrics": ["ndcg(gain=exp)@3"]}, "primary_metric": "ndcg(gain=exp)@3"}
    run_into(folder, "gain", evaluators=gain, **one)
    return folder


@pytest.fixture
def here(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shelf)
    return shelf


@pytest.mark.parametrize(("other", "message"), [
    ("threshold",
     "other queries that are counted (precision@1, precision@3, recall@1, and 7 more): queries with at least one "
     "relevant document (relevant: grade 1 and above) in main, queries with at least one relevant document "
     "(relevant: grade 2 and above) in threshold."),
    ("zero",
     "other queries that are counted (ndcg@3, dcg@3, judged@3): queries with at least one document of a grade "
     "above 0 in main, all queries in zero."),
])  # fmt: skip
def test_real_runs_by_other_rules_are_refused(other: str, message: str, here: Path) -> None:
    assert message in message_of(ComparisonError, input_of, ["main", other]).splitlines()


def test_other_gains_and_documents_are_warnings_and_other_rules_of_no_matter_none(here: Path) -> None:
    inputs = input_of(["main", "gain"])
    assert (inputs.primary, inputs.names) == ("ndcg@3", ("main:dense", "gain:dense"))
    assert warnings(inputs) == {
        "other-primary-metric": "ndcg@3 decides, the primary metric of main; it is ndcg(gain=exp)@3 in gain.",
        "metrics-left-out": "left out, not in every report: ndcg(gain=exp)@3.",
    }
    message = message_of(ComparisonError, input_of, ["gain", "main"])
    assert message.startswith("main has no ndcg(gain=exp)@3, the metric that decides. All have: ")
    assert warnings(input_of(["main", "grown"])) == {
        "other-documents": "the documents of main and grown are not the same: differences may come from these."
    }
    assert input_of(["main", "threshold"], ["ndcg@3", "dcg@3"]).warnings == ()


@pytest.fixture
def scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> Path:
    """Reports of `ragtrial score`: plain, deeper and condensed, of the runs one and two."""
    monkeypatch.chdir(tmp_path)
    Path("qrels").write_text("q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq2 0 c 0\n")
    Path("one").write_text("q1 Q0 a 1 9 x\nq1 Q0 b 2 8 x\nq2 Q0 c 1 9 x\nq2 Q0 a 2 8 x\n")
    Path("two").write_text("q1 Q0 d 1 9 x\nq1 Q0 a 2 8 x\nq2 Q0 a 1 9 x\nq2 Q0 b 2 8 x\n")
    for name, options in (("plain", ()), ("cut", ("--depth", "1")), ("condensed", ("--judged-only",))):
        succeeded(capsys, "score", "qrels", "one", "two", "--metrics", "ndcg@2,ap", *options, "-o", name)
    return tmp_path


def test_runs_that_were_scored_by_other_rules_are_refused(scored: Path) -> None:
    condensed, _ = refusal(load_report("plain"), load_report("condensed"))
    assert condensed == "other judged_only: False in plain, True in condensed."
    assert refusal(load_report("plain"), load_report("cut"))[0] == "other depth (ap): all hits in plain, 1 in cut."
    assert input_of(["plain", "cut"], ["ndcg@2"]).baseline == "plain"


def test_a_run_and_scores_by_its_labels_are_compared_over_unknown_documents(scored: Path, capsys: Capture) -> None:
    queries = [
        QueryPart(id="q1", text="first", tags=["t"], **judged(("a", 2), ("b", 1))),
        QueryPart(id="q2", text="second", tags=[], **judged(("a", 1), ("c", 0))),
    ]
    run = report_of({"mine": [0.5, 0.5]}, "ndcg@2", queries=queries)
    for reports in ((run, load_report("plain")), (load_report("plain"), run)):
        inputs = input_of(reports, ["ndcg@2"])
        assert [query.text for query in inputs.queries] == ["first", "second"]
        assert warnings(inputs) == {
            "documents-unknown": f"the documents of {' and '.join(inputs.report_names)} are not known to be the same: "
            "differences may come from these."
        }


def test_a_report_of_nothing_is_nothing_to_compare() -> None:
    assert refusal(report_of({"a": [], "b": []})) == ["kitchen has no queries; there is nothing to compare."]
    failed = called("main", settings=[], failures=[FailurePart(name="a", error="x")])
    assert refusal(failed) == ["main has no settings; there is nothing to compare."]
