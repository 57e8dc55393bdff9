"""Passages in chunks: when one is found, what it gains, and how much of the text is relevant."""

from math import gcd, log2

import numpy as np
import pytest
from hypothesis import given, strategies as st

from ragtrial.errors import CutoffError, MetricError
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric
from ragtrial.evaluation.spans import cover
from scenarios import OF_SPANS
from span_scenarios import (
    Label,
    SpanScenario,
    in_place,
    labels_with_alternatives,
    one_query,
    span_scenarios,
    value,
    values,
)

QUARTERS = [(0, 0, 25), (0, 25, 50), (0, 50, 75), (0, 75, 100)]
"""A document of 100 characters in four chunks without overlap."""


def found_at(graded: GradedRankings) -> list[int | None]:
    assert graded.overlaps
    return [rank or None for rank in graded.overlaps.found_judgments.tolist()]


def check(graded: GradedRankings, **expected: float) -> None:
    """Metrics at cutoffs, written like ``recall_2=0.5``."""
    for name, wanted in expected.items():
        metric, _, k = name.rpartition("_")
        assert value(f"{metric}@{k}", graded) == pytest.approx(wanted, rel=1e-14), name


def test_halves_of_a_passage_find_it_and_cut_rankings_keep_their_first_hits() -> None:
    """Characters 20 to 40 are a quarter in the first chunk and three quarters in the second."""
    label = Label(((0, 20, 40),))
    small_part_first = one_query(QUARTERS, [0, 2, 1], label).graded()
    assert found_at(small_part_first) == [3]
    check(small_part_first, recall_2=0, recall_3=1, rr_3=1 / 3, ap_3=1 / 3, hit_rate_2=0, hit_rate_3=1)
    check(small_part_first, precision_1=1, precision_2=1 / 2, precision_3=2 / 3, dcg_3=1 / log2(4), ndcg_3=1 / 2)
    check(small_part_first, span_recall_1=5 / 20, span_recall_2=5 / 20, span_recall_3=1)
    check(small_part_first, span_precision_1=5 / 25, span_precision_2=5 / 50, span_precision_3=20 / 75)
    check(small_part_first, span_iou_1=5 / (25 + 15), span_iou_3=20 / 75)
    assert value("span_precision_ceiling", small_part_first) == 20 / 50
    large_part_first = one_query(QUARTERS, [1, 0], label).graded()
    assert found_at(large_part_first) == [1]
    assert found_at(one_query(QUARTERS, [1, 0], label).graded(coverage=1.0)) == [2]
    assert found_at(one_query(QUARTERS, [1, 0], label).graded(coverage=0.75)) == [1]
    assert found_at(one_query(QUARTERS, [0, 1], label).graded(coverage=0.25)) == [1]
    case = SpanScenario(tuple(QUARTERS), ((0, 1, 2), (2, 1, 0)), ((Label(((0, 30, 60),)),),) * 2)
    graded = case.graded().cut(np.array([3, 1]))
    assert values("recall@10", graded) == [1, 0]
    assert values("span_recall@10", graded) == [1, 1 / 3]
    assert values("precision@10", graded) == [2 / 10, 1 / 10]
    assert values("span_precision@10", graded) == [30 / 75, 10 / 25]
    assert graded.lengths.tolist() == [3, 1]


def test_a_passage_is_found_at_any_of_its_places_and_the_best_covered_counts() -> None:
    """Three found with the first chunk count at 1, 2 and 3, so the one found second counts at 4, and 6th at 6."""
    labels = [Label(((0, start, start + 5),)) for start in (0, 8, 16, 30, 80)]
    graded = one_query(QUARTERS, [0, 1, 2], *labels[:4]).graded()
    check(graded, dcg_10=1 + 1 / log2(3) + 1 / 2 + 1 / log2(5), ap_10=1, ndcg_10=1, recall_2=1)
    later = one_query([*QUARTERS, (1, 0, 10), (1, 10, 20)], [0, 4, 5, 2, 1, 3], *labels).graded()
    check(later, dcg_10=1 + 1 / log2(3) + 1 / 2 + 1 / log2(6) + 1 / log2(7), recall_5=4 / 5, recall_6=1)
    check(later, ap_10=(1 + 1 + 1 + 4 / 5 + 5 / 6) / 5)
    label = Label(((0, 5, 15), (0, 80, 90)))
    graded = one_query(QUARTERS, [3, 0], label).graded()
    assert found_at(graded) == [1]
    check(graded, recall_1=1, ap_2=1, ndcg_2=1, precision_2=1)
    check(graded, span_recall_1=1, span_precision_1=10 / 25, span_precision_2=10 / 50, span_iou_2=10 / 50)
    neither = one_query(QUARTERS, [1], label).graded()
    check(neither, span_recall_1=0, span_iou_1=0)
    # That is the first place as long as the first chunk is all there is, and the second from rank 2 on.
    label = Label(((0, 20, 40), (0, 70, 90)))
    chunks = [(0, 0, 22), (0, 22, 70), (0, 70, 74), (0, 74, 100)]
    graded = one_query(chunks, [0, 2], label).graded()
    assert found_at(graded) == [None]
    check(graded, span_recall_1=2 / 20, span_recall_2=4 / 20, precision_2=1)
    check(graded, span_precision_1=2 / 22, span_precision_2=4 / 26, span_iou_1=2 / 40, span_iou_2=4 / 42)


@pytest.mark.parametrize("share", range(1, 101))
def test_a_passage_covered_to_just_the_share_that_is_asked_for_is_found(share: int) -> None:
    """0.07 x 100 and 0.28 x 25 are above 7, and 0.55 x 100 is above 55, in binary numbers."""
    for length in range(100 // gcd(share, 100), 401, 100 // gcd(share, 100)):
        chunks = [(0, 0, share * length // 100)]
        assert found_at(one_query(chunks, [0], Label(((0, 0, length),))).graded(coverage=share / 100)) == [1]


@given(case=span_scenarios(labels_with_alternatives), which=st.booleans())
def test_meetings_are_those_of_sets_of_characters(case: SpanScenario, *, which: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if which:
            patch.setenv("RAGTRIAL_COMPILED", "0")
        overlaps = case.graded().overlaps
        assert overlaps
        met = cover(overlaps.codes, overlaps.chunks, overlaps.passages)
    expected = []
    passages = overlaps.passages
    places = [*zip(passages.documents.tolist(), passages.begins.tolist(), passages.ends.tolist(), strict=True)]
    for query, ranking in enumerate(case.rankings):
        seen: dict[int, set[tuple[int, int]]] = {}
        for rank, chunk in enumerate(ranking, 1):
            for passage in range(*passages.starts[query : query + 2].tolist()):
                shared = case.characters(chunk) & in_place(places[passage])
                if shared:
                    before = seen.get(passage, set())
                    seen[passage] = before | shared
                    expected.append((query, passage, rank, len(seen[passage]) - len(before), len(seen[passage])))
    columns = (met.rows, met.passages, met.ranks, met.gained, met.covered)
    assert [*zip(*(column.tolist() for column in columns), strict=True)] == expected


@given(case=span_scenarios(), k=st.integers(1, 9), threshold=st.integers(1, 3))
def test_character_metrics_are_those_of_sets_of_characters(case: SpanScenario, k: int, threshold: int) -> None:
    """Smith & Troynikov's definitions, with characters for tokens."""
    graded = case.graded(threshold)
    recall, precision, iou = (values(f"{name}@{k}", graded) for name in ("span_recall", "span_precision", "span_iou"))
    ceilings = values("span_precision_ceiling", graded)
    for query, (ranking, labels) in enumerate(zip(case.rankings, case.labels, strict=True)):
        relevant = {one for label in labels if label.grade >= threshold for one in in_place(label.places[0])}
        retrieved = [one for chunk in ranking[:k] for one in case.characters(chunk)]
        both = len(relevant & set(retrieved))
        touched = {
            one for chunk in range(len(case.chunks)) if case.characters(chunk) & relevant
            for one in case.characters(chunk)
        }  # fmt: skip
        union = len(relevant) + len(retrieved) - both
        assert recall[query] == (both / len(relevant) if relevant else 0)
        assert precision[query] == (both / len(retrieved) if retrieved else 0)
        assert iou[query] == (both / union if union else 0)
        assert ceilings[query] == pytest.approx(len(relevant & touched) / len(touched) if touched else 0, rel=1e-14)


@given(case=span_scenarios(), threshold=st.integers(1, 3))
def test_the_published_ceiling_has_chunks_that_touch_and_gaps(case: SpanScenario, threshold: int) -> None:
    """The union of the chunks that begin no later than a passage ends, and end no earlier than it begins."""
    ceilings = values("span_precision_ceiling(touching=true)", case.graded(threshold))
    for query, labels in enumerate(case.labels):
        relevant = {one for label in labels if label.grade >= threshold for one in in_place(label.places[0])}
        places = [label.places[0] for label in labels if label.grade >= threshold]
        # Passages that meet count as one, so what touches is what touches any of them.
        touched = {
            one for document, start, end in case.chunks for one in in_place((document, start, end))
            if any(document == other and start <= last and first <= end for other, first, last in places)
        }  # fmt: skip
        divided_by = len(touched | relevant)
        assert ceilings[query] == pytest.approx(len(relevant & touched) / divided_by if divided_by else 0, rel=1e-14)


def spans_metric(name: str, k: int) -> Metric:
    return Metric(name, None if METRICS[name].cut == "none" else k)


@given(case=span_scenarios(labels_with_alternatives), k=st.integers(1, 9), coverage=st.sampled_from([0.1, 0.5, 1.0]))
def test_no_metric_of_spans_leaves_zero_to_its_stated_maximum(case: SpanScenario, k: int, coverage: float) -> None:
    graded = case.graded(coverage=coverage)
    for name in OF_SPANS:
        scored = np.array(values(spans_metric(name, k), graded))
        assert np.isfinite(scored).all()
        assert (scored >= 0).all(), name
        highest = METRICS[name].highest
        assert highest is None or (scored <= highest).all(), name


@given(case=span_scenarios(labels_with_alternatives), k=st.integers(1, 9))
def test_a_query_scores_the_same_whatever_is_scored_beside_it(case: SpanScenario, k: int) -> None:
    graded = case.graded()
    for name in OF_SPANS:
        metric = spans_metric(name, k)
        together = values(metric, graded)
        alone = [
            value(metric, SpanScenario(case.chunks, (ranking,), (labels,)).graded())
            for ranking, labels in zip(case.rankings, case.labels, strict=True)
        ]
        assert together == alone, name


@given(
    ranking=st.permutations(range(6)), judged=st.permutations(range(6)), grades=st.lists(st.integers(0, 3), max_size=5),
    k=st.integers(1, 9),
)  # fmt: skip
def test_whole_chunks_score_as_documents(ranking: list[int], judged: list[int], grades: list[int], k: int) -> None:
    """Every chunk is a document of its own here: finding the passage is finding the document."""
    chunks = [(number, 0, 10) for number in range(6)]
    labels = [Label(((number, 0, 10),), grade) for number, grade in zip(judged, grades, strict=False)]
    graded = one_query(chunks, ranking, *labels).graded()
    documents = GradedRankings(
        graded.judgments, graded.starts, graded.ranks, graded.indices, graded.lengths, graded.depth, graded.threshold
    )
    for name in OF_SPANS:
        if METRICS[name].documents:
            assert value(Metric(name, k), graded) == value(Metric(name, k), documents), name


@pytest.mark.parametrize("name", [name for name in OF_SPANS if METRICS[name].cut != "none"])
def test_a_cutoff_beyond_the_depth_is_refused(name: str) -> None:
    graded = one_query(QUARTERS, [0], Label(((0, 0, 10),))).graded(depth=3)
    with pytest.raises(CutoffError, match=r"^k is 4, but only the first 3 hits were kept"):
        value(Metric(name, 4), graded)


@pytest.mark.parametrize("name", sorted(set(METRICS.names()) - set(OF_SPANS)))
def test_a_metric_of_documents_alone_is_refused_where_passages_are_found(name: str) -> None:
    graded = one_query(QUARTERS, [0], Label(((0, 0, 10),))).graded()
    with pytest.raises(
        MetricError, match=r"is not defined where passages in chunks \(unit: span\) are found. Those that"
    ):
        parse_metric(name).prepared(graded)
