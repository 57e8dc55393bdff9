"""Checks of vectors, and of the space in which they are searched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from ragtrial.components.embedders.base import Embedder
from ragtrial.engines import Store
from ragtrial.engines.base import lengths_of
from ragtrial.rankings import Floats
from ragtrial.records import ReportWarning
from ragtrial.report.schema import HealthPart

_EQUAL_LENGTHS = 1.001
"""The longest vector over the shortest, up to which all are of one length: rounding makes far less."""


@dataclass
class NormStatistics:
    """Measures the lengths of vectors while they pass in blocks."""

    zeros: int = 0
    shortest: float = np.inf
    longest: float = 0.0

    def watch(self, blocks: Iterable[Floats]) -> Iterator[Floats]:
        """``blocks``, as they are."""
        for block in blocks:
            lengths = lengths_of(block)
            self.zeros += int((lengths == 0).sum())
            self.shortest = min(self.shortest, float(lengths.min(where=lengths > 0, initial=np.inf)))
            self.longest = max(self.longest, float(lengths.max(initial=0)))
            yield block

    def health(self, vectors: int, distinct_texts: int, dimension: int) -> HealthPart:
        """The measurements of all blocks, together with the given counts."""
        shortest = self.shortest if np.isfinite(self.shortest) else 0.0
        return HealthPart(
            vectors=vectors, distinct_texts=distinct_texts, dimension=dimension, zeros=self.zeros, shortest=shortest,
            longest=self.longest,
        )  # fmt: skip


def health_warnings(name: str, health: HealthPart, embedder: Embedder, store: Store) -> Iterator[ReportWarning]:
    """The warnings about the vectors of the setting ``name``."""
    if health.zeros:
        yield ReportWarning(
            "zero-vectors",
            f"{name}: chunks with a vector of zeros, which is near to nothing: {health.zeros:,} of {health.vectors:,}; "
            "look at what the embedder does with their texts.",
        )
    repeated = health.vectors - health.distinct_texts
    if repeated:
        yield ReportWarning(
            "duplicate-texts",
            f"{name}: chunks with the same text as an earlier one: {repeated:,} of {health.vectors:,}; identical "
            "chunks compete for the same ranks.",
        )
    yield from _space_warnings(name, health, embedder, store)


def _space_warnings(name: str, health: HealthPart, embedder: Embedder, store: Store) -> Iterator[ReportWarning]:
    """A warning if the store's space differs from the space that the model was trained for. Vectors of one length agree
    on it in all.
    """
    trained_for = embedder.similarity()
    if embedder.normalize and trained_for in ("ip", "l2"):
        yield ReportWarning.of_verdict(
            "wrong-space",
            f"{name}: the model says that it was trained for {_SPOKEN[trained_for]}, and `normalize: true` takes from "
            f"its vectors the lengths that this needs. Set embedder.normalize: false and store.space: {trained_for}.",
        )
    elif health.longest > _EQUAL_LENGTHS * health.shortest and store.space != trained_for:
        if trained_for is not None:
            advice = f"The model says that it was trained for {_SPOKEN[trained_for]}: set store.space: {trained_for}."
        else:
            advice = _ADVICE.get(store.space, "")
        if advice:
            yield ReportWarning(
                "unnormalised",
                f"{name}: the vectors are not of one length ({health.shortest:.3g} to {health.longest:.3g}) and the "
                f"space is {store.space}: {_CONSEQUENCES[store.space]}. {advice}",
            )


_SPOKEN = {"cosine": "the cosine", "ip": "the inner product", "l2": "distance (l2)"}
_ADVICE = {
    "ip": "Set embedder.normalize: true, unless the model was trained for the inner product.",
    "cosine": "If the model was trained for the inner product, set store.space: ip.",
}
_CONSEQUENCES = {
    "ip": "long vectors are preferred",
    "cosine": "their lengths are ignored",
    "l2": "distance depends on them",
}
