"""Reranking through an endpoint: each pair is paid for once, and the order is that of the scores."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endpoint_double import EndpointDouble, score_of, tokens_of
from ragtrial.components.interfaces import Texts
from ragtrial.components.refiners.rerankers import RerankEndpoint
from ragtrial.errors import EndpointError
from ragtrial.records import Question
from refining import Bench, candidates, rows_of, write_bench

QUESTIONS = ["How long do I bake rye bread?", "Which soup is blended?"]
DOCUMENTS = {
    "a.txt": "Bake the rye bread for an hour.",
    "b.txt": "Which soup is it that is blended until it is smooth?",
    "c.txt": "How long to bake bread in the oven, how long in the fridge?",
    "d.txt": "Bake the rye bread for an hour.",
    "e.txt": "flour",
}


@pytest.fixture
def double() -> Iterator[EndpointDouble]:
    with EndpointDouble() as made:
        yield made


def bench_of(folder: Path, double: EndpointDouble, **endpoint: Any) -> Bench:
    endpoint = {"base_url": double.url, "model": "judge", "price": 2.0, "search_price": 5.0, **endpoint}
    return write_bench(folder, {"kind": "rerank", "endpoint": endpoint}, documents=DOCUMENTS)


def refined(bench: Bench, rows: list[list[int]], *overrides: str, is_fresh: bool = False) -> Any:
    units = bench.units([(name, 0, len(text)) for name, text in DOCUMENTS.items()])
    return bench.refined(QUESTIONS, candidates(units, rows), *overrides, is_fresh=is_fresh)


def test_candidates_come_in_the_order_of_the_scores_of_the_endpoint(double: EndpointDouble, tmp_path: Path) -> None:
    found = refined(bench_of(tmp_path, double), [[0, 1, 2, 4], [4, 0, 1]])
    texts = list(DOCUMENTS.values())
    scores = [[score_of(question, text) for text in texts] for question in QUESTIONS]
    rows = rows_of(found)
    for row, own, given in zip(rows, scores, ([0, 1, 2, 4], [4, 0, 1]), strict=True):
        assert row == sorted(given, key=own.__getitem__, reverse=True)
    for row, own, made in zip(rows, scores, found.rankings.scores.tolist(), strict=True):
        assert made[: len(row)] == pytest.approx([own[code] for code in row])
    assert [asked.path for asked in double.asked] == ["/v1/rerank"] * 2
    assert {len(asked.texts) for asked in double.asked} == {3, 4}


def test_a_pair_is_paid_for_once_and_its_bill_kept_with_its_score(double: EndpointDouble, tmp_path: Path) -> None:
    bench = bench_of(tmp_path, double)
    first = refined(bench, [[0, 1, 3], [1, 0]])
    asked = len(double.asked)
    assert sum(len(one.texts) for one in double.asked) == 4, "a and d have the same text"
    again = refined(bench, [[0, 1, 3], [1, 0]])
    assert len(double.asked) == asked
    assert rows_of(again) == rows_of(first)
    tokens = sum(tokens_of(one.texts) for one in double.asked)
    assert again.facts == first.facts
    assert (again.facts["tokens"], again.facts["searches"]) == (tokens, 2)
    assert bench.refiner().cost(again.facts) == pytest.approx(tokens * 2.0 / 1e6 + 2 * 5.0 / 1e3)
    refined(bench, [[0, 1, 3], [1, 0]], is_fresh=True)
    assert len(double.asked) == asked + 2, "a measurement of latency asks again"


@pytest.mark.parametrize(("units", "searches"), [(1, 2), (3, 6), (0, 0), (None, 2), ("two", 2)])
def test_searches_are_billed_or_estimated(units: object, searches: int, double: EndpointDouble, tmp_path: Path) -> None:
    """The form is Cohere's; a reply for each of two questions."""
    meta = {} if units is None else {"meta": {"billed_units": {"search_units": units}}}
    double.default = lambda _, answer: {"results": answer["results"], **meta}
    bench = bench_of(tmp_path, double)
    for _ in ("asked", "cached"):
        facts = refined(bench, [[0, 1, 3], [1, 0]]).facts
        assert (facts["searches"], facts["searches_are_estimated"]) == (searches, not isinstance(units, int))
        assert bench.refiner().cost(facts) == pytest.approx(searches * 5.0 / 1e3)


def test_no_more_is_paid_than_there_is_in_requests_of_so_many(double: EndpointDouble, tmp_path: Path) -> None:
    refiner = bench_of(tmp_path, double).refiner()
    questions = [Question("x" * 40), Question("x" * 80)]
    few, many, unknown = (refiner.expected_cost(questions, Texts(count, 100.0)) for count in (5, 1_000, 0))
    assert few == pytest.approx(5 * (10 + 100 + 20 + 100) * 2.0 / 1e6 + 2 * 5.0 / 1e3)
    assert many == unknown == pytest.approx(100 * (10 + 100 + 20 + 100) * 2.0 / 1e6 + 2 * 5.0 / 1e3)
    refined(bench_of(tmp_path, double, batch_size=2, texts_are="texts"), [[0, 1, 2, 4], [4]])
    assert sorted(len(asked.body["texts"]) for asked in double.asked) == [1, 2, 2]


def test_a_model_that_changed_behind_its_name_is_noticed(double: EndpointDouble, tmp_path: Path) -> None:
    refined(bench_of(tmp_path, double), [[0, 1], [1]])
    double.default = lambda _, answer: {
        "results": [{**row, "relevance_score": row["relevance_score"] + 1} for row in answer["results"]]
    }
    with pytest.raises(EndpointError, match="scores of two models cannot be compared"):
        refined(bench_of(tmp_path, double), [[0, 1, 2], [1]])
    refined(bench_of(tmp_path, double, version="2"), [[0, 1, 2], [1]])


def test_the_known_pair_is_asked_again_once_and_not_for_each_ranking(double: EndpointDouble, tmp_path: Path) -> None:
    bench = bench_of(tmp_path, double)
    refined(bench, [[0], []])
    units = bench.units([(name, 0, len(text)) for name, text in DOCUMENTS.items()])
    opened = bench.refiner().open(bench.materials())
    asked = len(double.asked)
    for row in ([0, 1], [0, 1, 2]):
        opened.refine([Question(text) for text in QUESTIONS], [candidates(units, [row, []])])
    assert [one.texts for one in double.asked[asked:]] == [[DOCUMENTS[name]] for name in ("a.txt", "b.txt", "c.txt")]


@pytest.mark.parametrize(
    ("batch_size", "texts", "searches"),
    [(100, 1, 1), (100, 100, 1), (100, 101, 2), (100, 250, 3), (500, 250, 3), (32, 32, 1), (32, 100, 4), (1, 7, 7)],
)
def test_a_search_is_billed_for_each_request_and_each_hundred_texts(batch_size: int, texts: int, searches: int) -> None:
    endpoint = RerankEndpoint(model="m", base_url="http://127.0.0.1:9", batch_size=batch_size, search_price=2.0)
    assert endpoint.searches(np.array([texts])).tolist() == [searches]
    cost = endpoint.expected_cost([Question("a")], Texts(texts, 10), texts)
    assert cost == pytest.approx(searches * 2.0 / 1000)
