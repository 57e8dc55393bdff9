"""Several rankings fused into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import AfterValidator, Field

from ragtrial.components.refiners.base import REFINERS, OpenRefiner
from ragtrial.components.refiners.fusing import Fused, Fusing, FusingRefiner, Order, order_of, overlap
from ragtrial.components.retrievers.base import Candidates, RetrieverContext
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.dataset.places import ForeignPlaces
from ragtrial.rankings import PADDING, Bools, Codes, Collapsed, Rankings, collapse
from ragtrial.records import Question


def _different(names: list[str]) -> list[str]:
    if len(set(names)) < max(2, len(names)):
        message = f"names {', '.join(names) or 'nothing'}; it must name at least two retrievers, each once."
        raise ValueError(message)
    return names


def _not_all_zero(weights: list[float]) -> list[float]:
    if not any(weights):
        raise ValueError("all weights are 0; at least one must be above 0.")
    return weights


def _within_float32(weight: float) -> float:
    if weight and not _LEAST <= weight <= _MOST:
        raise ValueError(
            f"is {weight:g}; it must be 0, or from {_LEAST:g} to {_MOST:g}, since scores are kept as float32."
        )
    return weight


_LEAST, _MOST = 1e-6, 1e6
"""Far beyond them, sums of scores are 0 or infinite as float32, and all hits equal."""

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False), AfterValidator(_within_float32)]


@REFINERS.register("fusion")
class FusionRefiner(FusingRefiner):
    """The rankings of several retrievers as one: hybrid retrieval.

    Parts that rank the same chunks are fused chunk by chunk, others document by document.
    """

    explanation: ClassVar[str] = "fuses {parts} ({method}); a hit's score is the fused one"

    kind: Literal["fusion"] = "fusion"
    """The rankings of several retrievers as one: hybrid retrieval. Parts that rank the same chunks are fused chunk by
    chunk, others document by document."""

    input_names: Annotated[list[str], AfterValidator(_different)] = Field(alias="inputs")
    """The names of the retrievers or refiners whose rankings are fused: at least two."""

    weights: Annotated[list[Weight], AfterValidator(_not_all_zero)] | None = None
    """How much each of them counts, in the order of `inputs` (methods rrf and weighted; default: all alike)."""

    def _misplaced(self) -> list[str]:
        faults = super()._misplaced()
        if self.weights is None:
            return faults
        if len(self.weights) != len(self.input_names):
            faults.append(
                f"`weights` has {len(self.weights)} and `inputs` has {len(self.input_names)}; give a weight for each "
                "part."
            )
        if self.method in ("combsum", "combmnz"):
            faults.append(
                f"`weights` play no part under method: {self.method}; leave them out, or set method: weighted."
            )
        return faults

    @property
    def parts(self) -> tuple[str, ...]:
        return tuple(self.input_names)

    def identity(self) -> dict[str, Any]:
        # Equal weights change no order, but the scores, which what is made of them may look at.
        weights = None if self.weights is None or set(self.weights) == {1} else self.weights
        return {**super().identity(), "weights": weights}

    def fusing(self) -> Fusing:
        return replace(super().fusing(), weights=None if self.weights is None else tuple(self.weights))

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenFusion(self, context.library, ForeignPlaces(context.library))


@dataclass
class _OpenFusion:
    options: FusionRefiner
    library: Library
    places: ForeignPlaces
    _ordered: tuple[Chunks, Order] | None = field(default=None, init=False)

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        skipped = np.logical_or.reduce([part.skipped for part in parts])
        answered = [replace(part, rankings=_without(part.rankings, skipped)) for part in parts]
        by_chunk = len({part.units.name for part in parts}) == 1
        made, fused = self._by_chunk(answered) if by_chunk else self._by_document(answered)
        facts = {"fused_by": "chunk" if by_chunk else "document", **overlap(fused, len(parts), ~skipped)}
        return replace(made, skipped=skipped, facts=facts)

    def _by_chunk(self, parts: Sequence[Candidates]) -> tuple[Candidates, Fused]:
        units = parts[0].units
        if self._ordered is None or self._ordered[0] is not units:
            self._ordered = units, order_of(units)
        fused = self.options.fuse(self.options.input_names, [part.rankings for part in parts], self._ordered[1])
        return Candidates.of(units, fused.rankings), fused

    def _by_document(self, parts: Sequence[Candidates]) -> tuple[Candidates, Fused]:
        """Each document is represented by the unit of the part where it stands best."""
        collapsed = [collapse(part.rankings, part.units.document) for part in parts]
        order = Order(self.library.id_order)
        fused = self.options.fuse(self.options.input_names, [part.rankings for part in collapsed], order)
        codes = np.full(fused.rankings.codes.shape, PADDING, dtype=np.int32)
        for index, (part, documents) in enumerate(zip(parts, collapsed, strict=True)):
            mine = fused.best == index
            codes[mine] = self._placed(part.units, documents, np.nonzero(mine)[0].astype(np.int32), fused.column[mine])
        return Candidates.of(self.places.chunks(), Rankings(codes, fused.rankings.scores)), fused

    def _placed(self, units: Chunks, documents: Collapsed, rows: Codes, columns: Codes) -> Codes:
        """The codes among all places of the units that brought these documents."""
        distinct, which = np.unique(documents.units[rows, columns], return_inverse=True)
        columns_of = (units.document[distinct], units.start[distinct], units.end[distinct])
        places = zip(*(column.tolist() for column in columns_of), strict=True)
        codes = np.array([self.places.code(*place) for place in places], dtype=np.int32)
        return codes[which]


def _without(rankings: Rankings, skipped: Bools) -> Rankings:
    """The rankings with nothing in the rows that are skipped."""
    if not skipped.any():
        return rankings
    codes = np.where(skipped[:, None], np.int32(PADDING), rankings.codes)
    return Rankings(codes, np.where(codes == PADDING, np.float32(np.nan), rankings.scores))
