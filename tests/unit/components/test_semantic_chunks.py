"""Semantic chunks: LangChain's thresholds, Smith & Troynikov's target, and a size that holds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.components.chunkers.base import LengthFunction
from ragtrial.components.chunkers.meaning import SemanticChunker
from ragtrial.components.chunkers.sentences import sentences
from ragtrial.rankings import Floats

ANGLES = [0.0, 0.1, 0.15, 1.2, 1.25, 1.3, 2.8, 2.85, 2.9]
TEXT = " ".join(f"Sentence {number} is here." for number in range(len(ANGLES)))


def at_angles(angles: Sequence[float]) -> Floats:
    """Vectors whose neighbours' distances are 1 - cos of the difference of their angles; of any length."""
    rows = [(np.cos(angle) * (1 + index), np.sin(angle) * (1 + index)) for index, angle in enumerate(angles)]
    return np.array(rows, dtype=np.float32)


def groups(angles: Sequence[float] = ANGLES, text: str = TEXT, **options: object) -> list[int]:
    """How many sentences each chunk has."""
    made = SemanticChunker.model_validate({"unit": "characters", **options})
    ruler = LengthFunction(range(len(text)))
    vectors = at_angles(angles) if made.texts(text, ruler) else np.empty((0, 0), dtype=np.float32)
    return [len(sentences(text[span.start : span.end])) for span in made.group(text, ruler, vectors)]


def langchain(threshold: str, amount: float, distances: list[float]) -> list[int]:
    """LangChain's breakpoints, from its own formulas written out by hand."""
    values = np.array(distances)
    if threshold == "gradient":
        ahead, behind = np.append(values[1:], values[-1]), np.append(values[0], values[:-1])
        spread = np.full(len(values), 2.0)
        spread[[0, -1]] = 1.0
        values = (ahead - behind) / spread
    ordered = np.sort(values)

    def percentile(share: float) -> float:
        place = share / 100 * (len(ordered) - 1)
        low = int(place)
        high = min(low + 1, len(ordered) - 1)
        return float(ordered[low] + (place - low) * (ordered[high] - ordered[low]))

    mean = float(values.mean())
    if threshold == "standard_deviation":
        limit = mean + amount * float(np.sqrt(np.mean((values - mean) ** 2)))
    elif threshold == "interquartile":
        limit = mean + amount * (percentile(75) - percentile(25))
    else:
        limit = percentile(amount)
    return [index for index, value in enumerate(values) if value > limit + 1e-9]


@given(
    st.lists(st.floats(0, 3), min_size=4, max_size=30),
    st.sampled_from(["percentile", "standard_deviation", "interquartile", "gradient"]),
    st.floats(0.1, 99.9),
)
def test_every_threshold_is_the_formula_that_langchain_documents(
    angles: list[float], threshold: str, amount: float
) -> None:
    if threshold in ("standard_deviation", "interquartile"):
        amount /= 33
    text = " ".join(f"Sentence {number} is here." for number in range(len(angles)))
    rows = at_angles(angles).astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    distances = [1 - float(one @ other) for one, other in pairwise(rows)]
    cuts = langchain(threshold, amount, distances)
    ends = np.cumsum(groups(angles, text, threshold=threshold, amount=amount))[:-1] - 1
    exact = set(cuts) ^ set(ends.tolist())
    values = np.gradient(distances) if threshold == "gradient" else np.array(distances)
    assert all(np.sum(np.abs(values - values[place]) < 1e-8) >= 1 and _is_close(values, place) for place in exact)


def _is_close(values: npt.NDArray[Any], place: int) -> bool:
    """Whether a value is equal to another up to rounding, or nothing: then which side it falls on is no matter."""
    others = np.delete(values, place)
    return bool(np.min(np.abs(others - values[place])) < 1e-8)


def bisected(distances: list[float], cuts: int) -> list[int]:
    """The reference: thresholds between 0 and 1 are halved until at most ``cuts`` distances are above."""
    low, high = 0.0, 1.0
    while high - low > 1e-9:
        middle = (low + high) / 2
        if sum(distance > middle for distance in distances) > cuts:
            low = middle
        else:
            high = middle
    return [index for index, distance in enumerate(distances) if distance > high]


@given(st.lists(st.integers(0, 31), min_size=2, max_size=25), st.integers(1, 700))
def test_a_target_cuts_where_bisection_of_the_threshold_does(steps: list[int], target: int) -> None:
    angles = [step / 20.3 for step in steps]
    text = " ".join(f"Sentence {number} is here." for number in range(len(angles)))
    distances = [1 - float(np.cos(one - other)) for one, other in pairwise(angles)]
    distances = [round(distance, 6) for distance in distances]
    ends = np.cumsum(groups(angles, text, target=target))[:-1] - 1
    expected = bisected(distances, len(text) // target)
    close = [
        index
        for index, one in enumerate(distances)
        if min((abs(one - other) for place, other in enumerate(distances) if place != index), default=1.0) < 1e-5
        or one < 1e-5
    ]
    assert set(ends.tolist()) ^ set(expected) <= set(close)


def test_each_sentence_is_embedded_with_its_neighbours_as_they_stand() -> None:
    text = "# One\n\nTwo is here.  Three is here. Four."
    ruler = LengthFunction(range(len(text)))
    assert SemanticChunker(unit="characters").texts(text, ruler) == [
        "# One\n\nTwo is here.",
        "# One\n\nTwo is here.  Three is here.",
        "Two is here.  Three is here. Four.",
        "Three is here. Four.",
    ]
    assert SemanticChunker(unit="characters", buffer=0).texts(text, ruler) == [
        "# One", "Two is here.", "Three is here.", "Four.",
    ]  # fmt: skip
    assert SemanticChunker(unit="characters", buffer=9).texts(text, ruler) == [text] * 4


@pytest.mark.parametrize("text", ["", " \n", "One sentence alone."])
def test_nothing_is_embedded_where_there_is_nothing_to_cut(text: str) -> None:
    made, ruler = SemanticChunker(), LengthFunction(range(len(text)))
    assert made.texts(text, ruler) == []
    spans = made.group(text, ruler, np.empty((0, 0), dtype=np.float32))
    assert [text[span.start : span.end] for span in spans] == ([text] if text.strip() else [])


def test_a_vector_of_zeros_is_far_from_every_other() -> None:
    text = "One is. Two is. Three is."
    vectors = np.array([[1, 0], [0, 0], [1, 0]], dtype=np.float32)
    made = SemanticChunker(unit="characters", target=1)
    assert len(made.group(text, LengthFunction(range(len(text))), vectors)) == 3


def test_groups_longer_than_the_size_are_cut_at_their_sentences() -> None:
    assert groups() == [6, 3]
    assert groups(size=50) == [2, 2, 2, 2, 1]
    assert groups(size=100) == [5, 1, 3]
    ruler = LengthFunction(range(len(TEXT)), overhead=20)
    spans = SemanticChunker(unit="characters", size=70).group(TEXT, ruler, at_angles(ANGLES))
    assert max(span.end - span.start for span in spans) == 39  # two sentences: the title takes 20


def test_tokens_are_counted_only_where_a_length_is_asked_for() -> None:
    assert SemanticChunker().counted_by == "characters"
    assert SemanticChunker(size=9).counted_by == "embedder"
    assert SemanticChunker(target=9).counted_by == "embedder"
    assert SemanticChunker(size=9, unit="characters").counted_by == "characters"


def test_sentences_of_one_vector_are_not_cut_by_what_rounding_leaves_of_their_distance() -> None:
    """1 - the square of such a vector's length in double precision is 1e-16, which is no distance."""
    text = " ".join("Same here." for _ in range(12))
    ruler = LengthFunction(range(len(text)))
    for options in ({"target": 10}, {"threshold": "percentile", "amount": 0}):
        made = SemanticChunker.model_validate({"unit": "characters", **options})
        for row in np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32):
            assert len(made.group(text, ruler, np.tile(row, (12, 1)))) == 1
