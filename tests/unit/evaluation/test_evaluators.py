"""The evaluators: their metrics, the n of each mean, and the sizes of what was found."""

from math import log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from corpora import library_of
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.dataset.chunks import Chunks
from ragtrial.evaluation.context_sizes import TokenCounts
from ragtrial.evaluation.evaluators import Evaluation, NoRelevant, evaluate
from ragtrial.evaluation.grading import GradedRankings
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.rankings import PADDING
from ragtrial.records import Mean
from scenarios import OF_DOCUMENTS, Scenario, example, scenario, scores
from strategies import scenarios

ALL = [example(name, 5) for name in OF_DOCUMENTS]


def evaluated(spellings: str, graded: GradedRankings, no_relevant: NoRelevant = "skip") -> dict[str, Evaluation]:
    return evaluate([parse_metric(spelling) for spelling in spellings.split()], graded, no_relevant)


@pytest.mark.parametrize(
    ("policy", "mean", "values"), [("skip", Mean(0.5, 1), [0.5, None, None]), ("zero", Mean(1 / 6, 3), [0.5, 0.0, 0.0])]
)
def test_a_query_without_relevant_documents_is_out_or_zero(policy: Any, mean: Mean, values: list[float | None]) -> None:
    graded = scenario(("a x", "a"), ("a x", {}), ("a x", {"a": 0, "x": -1})).graded()
    evaluation = evaluated("precision@2", graded, policy)["precision@2"]
    assert (evaluation.mean.mean, evaluation.mean.n) == pytest.approx((mean.mean, mean.n), rel=1e-15)
    assert [evaluation.of(index) for index in range(3)] == values


def test_evaluations_stand_in_order_with_the_n_of_their_needs() -> None:
    graded = scenario(("x a", "a")).graded()
    found = evaluated("MRR@2 rbp@5 map_cut_1", graded)
    assert list(found) == ["rr@2", "rbp(p=0.8)@5", "ap@1"]
    assert [str(evaluation.metric) for evaluation in found.values()] == list(found)
    assert [evaluation.values.tolist() for evaluation in found.values()] == [[0.5], [pytest.approx(0.16)], [0.0]]
    graded = scenario(("a b", {"a": 1, "b": 2}), ("b a", {"a": 1})).graded()
    found = evaluated("ndcg(1=0)@2 ndcg@2 ndcg(0=1)@2", graded)
    assert found["ndcg(1=0)@2"].values.tolist() == [pytest.approx(1 / log2(3)), 0]
    assert [one.mean.n for one in found.values()] == [1, 2, 2]
    # At threshold 2 a query with grade 1 alone has a gain and no relevant document.
    case = Scenario((("a", "b"),) * 3, ({"a": 1}, {"a": 2, "b": 3}, {"b": 2}), (True, True, False))
    evaluations = evaluate(ALL, case.graded(threshold=2), "skip")
    n = {evaluation.metric.name: evaluation.mean.n for evaluation in evaluations.values()}
    binary = dict.fromkeys(("precision", "recall", "f1", "hit_rate", "rr", "ap", "rbp"), 2)
    expected = {**binary, "dcg": 3, "ndcg": 3, "judged": 3, "rbo": 1}
    assert {name: n[name] for name in expected} == expected
    for evaluation in evaluate(ALL, scenario().graded(), "zero").values():
        assert evaluation.mean == Mean(None, 0)
    graded = scenario(("a x", {"a": 0}), ("a x", "a x")).graded()
    assert evaluated("judged@2", graded, "skip")["judged@2"].mean == Mean(1.0, 1)
    assert evaluated("judged@2", graded, "zero")["judged@2"].mean == Mean(0.75, 2)


@pytest.mark.parametrize("no_relevant", ["skip", "zero"])
def test_nothing_retrieved_is_zero_and_orders_count_only_ordered_labels(no_relevant: NoRelevant) -> None:
    graded = scenario(("a", "a"), ("", "a")).graded()
    for evaluation in evaluate(ALL, graded, no_relevant).values():
        assert evaluation.mean.n == (0 if evaluation.metric.name == "forbidden" else 2)
        assert evaluation.of(1) == {"rbp_residual": 1, "forbidden": None}.get(evaluation.metric.name, 0)
    case = Scenario((("a", "b"),) * 3, ({"a": 1, "b": 1}, {"a": 1, "b": 1}, {}), (False, True, True))
    evaluation = evaluated("rbo@2", case.graded(), no_relevant)["rbo(p=0.9)@2"]
    assert evaluation.mean.n == 1
    assert evaluation.mean.mean == pytest.approx(1)
    assert [evaluation.of(index) is None for index in range(3)] == [True, False, True]


@pytest.mark.parametrize("no_relevant", ["skip", "zero"])
@given(case=scenarios())
def test_a_mean_is_of_the_values_that_are_shown_and_n_their_number(no_relevant: NoRelevant, case: Scenario) -> None:
    graded = case.graded()
    for evaluation in evaluate(ALL, graded, no_relevant).values():
        shown = [value for index in range(len(case)) if (value := evaluation.of(index)) is not None]
        assert evaluation.mean.n == len(shown)
        assert evaluation.mean.mean == (pytest.approx(sum(shown) / len(shown), abs=1e-12) if shown else None)
        np.testing.assert_array_equal(evaluation.values, scores(evaluation.metric, graded))


TEXT = "Bread is baked in a hot oven. Soup keeps for three days. Tea is drunk with milk. "


@pytest.fixture
def chunks(tmp_path: Path) -> Chunks:
    """Two thousand and some chunks: more than are tokenized together."""
    library = library_of(tmp_path, {"a.txt": TEXT * 30})
    return Chunks.of(library, [(0, start, start + 7 + start % 13) for start in range(2_300)])


def test_each_chunk_is_counted_once_as_the_tokenizer_counts_it(chunks: Chunks, minilm_folder: Path) -> None:
    tokenizer = Tokenizer(minilm_folder / "tokenizer.json")
    expected = tokenizer.counts([chunks.text(unit) for unit in range(len(chunks))]) - tokenizer.special_tokens
    drawn = np.random.default_rng(3)
    counts, seen = TokenCounts(chunks, tokenizer), set[int]()
    for rows in (1, 40, 300, 40):
        units = drawn.integers(PADDING, len(chunks), (rows, 10)).astype(np.int32)
        advanced: list[int] = []
        found = counts.of(units, advanced.append)
        assert found.tolist() == np.where(units == PADDING, 0, expected[units]).tolist()
        new = set(units.ravel().tolist()) - seen - {PADDING}
        assert sum(advanced) == len(new)
        seen |= new
    assert len(seen) > 1_000
    counts = TokenCounts(chunks, Tokenizer(minilm_folder / "tokenizer.json"))
    units = np.array([[4, 9, PADDING], [2, PADDING, PADDING]], dtype=np.int32)
    counts.keep(units, np.array([[40, 90, 0], [20, 0, 0]]))
    assert counts.missing(units).tolist() == []
    assert counts.of(units).tolist() == [[40, 90, 0], [20, 0, 0]]
    assert counts.missing(np.array([[9, 5]], dtype=np.int32)).tolist() == [5]
