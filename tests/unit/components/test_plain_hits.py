"""Hits that are ids or pairs are placed quickly, and as all others are."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import library_of
from ragtrial.components.external_retrievers.answer_journal import Journal
from ragtrial.components.external_retrievers.hits import RetrieverAnswer, place, place_plain, read_hit
from ragtrial.dataset.library import Library
from ragtrial.errors import RetrieverError

names = st.sampled_from(["a", "b", "7", "nowhere", ""])
scores = st.one_of(
    st.none(), st.floats(), st.integers(), st.booleans(), st.floats(width=32).map(np.float32), st.text(max_size=1),
    st.floats(allow_nan=False, allow_infinity=False).map(np.float64),
)  # fmt: skip
hits = st.one_of(
    names, st.tuples(names, scores), st.tuples(names), st.tuples(names, scores, scores), st.integers(0, 9),
    st.tuples(st.integers(0, 9), scores), st.lists(names, max_size=2), st.none(),
    st.fixed_dictionaries({"doc": names, "score": scores}),
)  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return library_of(tmp_path_factory.mktemp("library"), {"a": "one", "b": "two", "7": "three"})


def closely(given_hits: list[Any], library: Library) -> RetrieverAnswer | None:
    """What a closer look makes of them; None where something is wrong."""
    try:
        return place([read_hit(hit) for hit in given_hits], library, 5)
    except RetrieverError:
        return None


def shown(answer: RetrieverAnswer) -> Any:
    """With NaN as None, which equals itself."""
    kept = [(*hit[:3], None if math.isnan(hit.score) else hit.score, type(hit.score)) for hit in answer.hits]
    return kept, answer.asked, answer.unlocated


@given(st.lists(hits, max_size=4))
def test_plain_hits_are_placed_as_a_closer_look_places_them(library: Library, given_hits: list[Any]) -> None:
    plain, close = place_plain(given_hits, library, 5), closely(given_hits, library)
    if plain is not None:
        assert close is not None
        assert shown(plain) == shown(close)


def test_what_most_functions_return_is_plain(library: Library) -> None:
    assert place_plain([("a", 0.5), ("7", None), "b", ("b", np.float64(0.25))], library, 3) is not None
    for other in (("a", math.nan), ("a", math.inf), ("a", 1e39), ("a", True), ("nowhere", 1.0), ("a",), {"doc": "a"}):
        assert place_plain([("b", 0.5), other], library, 3) is None


def test_an_answer_is_on_the_disk_before_the_next_is_added(library: Library, tmp_path: Path) -> None:
    path, answer = tmp_path / "answers.jsonl", place([read_hit(("a", 0.5))], library, 1)
    journal = Journal(path, library)
    with journal.growing() as add:
        add("first", answer)
        assert Journal(path, library).get("first", 1) == answer
        Journal(path, library).add("of another process", answer)
        add("second", answer)
    assert len(Journal(path, library)) == 3
