"""Maximal marginal relevance: against a table worked by hand, the definition, and what must hold of any order."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from ragtrial.components.refiners import mmr
from ragtrial.components.refiners.mmr import selected
from ragtrial.dataset.chunks import Chunks
from ragtrial.engines.base import normalized
from refining import Bench, candidates, places_of, rows_of, write_bench

QUESTIONS = ["How long do I bake rye bread?", "Which soup is blended until it is smooth?", "bread"]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return write_bench(tmp_path_factory.mktemp("bench"), {"kind": "mmr"})


def diversity(value: float) -> str:
    return f"retrievers.refined.diversity={value}"


def test_the_order_is_that_worked_by_hand_and_absent_hits_come_last() -> None:
    # Cosines with the question 0.9, 0.8, 0.6; the first two are nearly the same text (0.95), the third is unlike both.
    nearness = np.array([[0.9, 0.8, 0.6]])
    likeness = np.array([[[1, 0.95, 0.1], [0.95, 1, 0.2], [0.1, 0.2, 1]]])
    # diversity 0.5: 0.45 + 0.5 (unlike nothing: the least cosine, -1); then 0.3 - 0.05 > 0.4 - 0.475; then the latter.
    # diversity 0.2: 0.72 + 0.2; then 0.48 - 0.02 > 0.64 - 0.19 by a hair; then the latter.
    # diversity 0: by cosine.
    for value, order, values in (
        (0.5, [0, 2, 1], [0.95, 0.25, -0.075]),
        (0.2, [0, 2, 1], [0.92, 0.46, 0.45]),
        (0.0, [0, 1, 2], [0.9, 0.8, 0.6]),
        (1.0, [0, 2, 1], [1, -0.1, -0.95]),
    ):
        found, scores = selected(nearness, likeness, np.ones((1, 3), dtype=np.bool_), value)
        assert found.tolist() == [order]
        np.testing.assert_allclose(scores, [values], atol=1e-6)
    nearness, likeness = np.array([[-0.9, 0.0, 0.0]]), np.zeros((1, 3, 3))
    found, scores = selected(nearness, likeness, np.array([[True, False, False]]), 0.5)
    assert found.tolist() == [[0, 1, 2]]
    np.testing.assert_array_equal(np.isnan(scores), [[False, True, True]])


def by_hand(bench: Bench, units: Chunks, question: str, codes: list[int], weight: float) -> list[int]:
    """The definition, one candidate at a time."""
    materials = bench.materials()
    texts = list(materials.texts(units).indexed_texts(codes))
    embedded, asked = normalized(materials.embed_texts(texts)), normalized(materials.embed_queries([question]))[0]
    open_codes = sorted(
        range(len(codes)), key=lambda one: (units.document_id(codes[one]), int(units.start[codes[one]]))
    )
    chosen: list[int] = []
    while open_codes:
        values = [
            round((1 - weight) * float(embedded[one] @ asked)
                  - weight * max((float(embedded[one] @ embedded[other]) for other in chosen), default=-1), 6)
            for one in open_codes
        ]  # fmt: skip
        chosen.append(open_codes.pop(int(np.argmax(values))))
    return [codes[one] for one in chosen]


@pytest.mark.slow
@given(data=st.data(), tenths=st.integers(0, 10))
@settings(max_examples=25)
def test_candidates_are_ordered_by_the_settings_own_embedder(bench: Bench, data: st.DataObject, tenths: int) -> None:
    units = bench.chunks()
    rows = [data.draw(st.lists(st.integers(0, len(units) - 1), unique=True)) for _ in QUESTIONS]
    found = bench.refined(QUESTIONS, candidates(units, rows), diversity(tenths / 10))
    for row, question in enumerate(QUESTIONS):
        assert rows_of(found)[row] == by_hand(bench, units, question, rows[row], tenths / 10)
        scores = found.rankings.scores[row, : len(rows[row])]
        assert np.isfinite(scores).all()
        assert (np.diff(scores) <= 1e-6).all()
    assert found.units is units


def test_questions_a_few_at_a_time_are_answered_as_all_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    units = bench.chunks()
    part = candidates(units, [list(range(len(units))), [3, 1], [2, 0, 5]])
    at_once = bench.refined(QUESTIONS, part)
    monkeypatch.setattr(mmr, "_MOST_CELLS", 1)
    one_by_one = bench.refined(QUESTIONS, part)
    np.testing.assert_array_equal(at_once.rankings.codes, one_by_one.rankings.codes)
    np.testing.assert_array_equal(at_once.rankings.scores, one_by_one.rankings.scores)


def test_of_equal_texts_the_second_goes_behind_others_and_ties_go_by_document_id(tmp_path: Path) -> None:
    rye = "Bake the rye bread for an hour"
    texts = {"b.txt": rye, "a.txt": rye, "c.txt": "rye bread", "d.txt": "Never put rye into the fridge"}
    bench = write_bench(tmp_path, {"kind": "mmr", "diversity": 0.5}, documents=texts)
    units = bench.units([(name, 0, len(text)) for name, text in texts.items()])
    (found,) = places_of(bench.refined(["bake rye bread hour"], candidates(units, [[0, 1, 2, 3]])))
    names = [name for name, _, _ in found]
    assert names[0] == "a.txt"
    assert names[-1] == "b.txt"
    (near,) = places_of(bench.refined(["bake rye bread hour"], candidates(units, [[0, 1, 2, 3]]), diversity(0)))
    assert [name for name, _, _ in near][:2] == ["a.txt", "b.txt"]


def test_texts_are_embedded_as_they_are_indexed(tmp_path: Path) -> None:
    bench = write_bench(tmp_path, {"kind": "mmr"}, context={"headings": True})
    units = bench.chunks()
    bench.refined(QUESTIONS[:1], candidates(units, [[0, 1]]))
    texts = list(bench.materials().texts(units).indexed_texts([0, 1]))
    assert texts[0] != units.text(0)
    assert set(texts) <= set(bench.experiment.embedded())
