"""What the engine of an existing collection loses: its rankings against exact search over the vectors it has."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ragtrial.cache.arrays import read_array, write_array
from ragtrial.cache.atomic import write_text
from ragtrial.config.settings import Setting
from ragtrial.engines import IndexUse, opened
from ragtrial.pipeline.audit_stage import Audited
from ragtrial.pipeline.open_setting import OpenSetting, open_setting
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked
from ragtrial.pipeline.stage import Amount, Artefacts, Inputs, Known, Stage
from ragtrial.rankings import PADDING
from ragtrial.records import Unit

_RATE = "audit collection"

Key = int | tuple[int, int, int]
"""A document, or characters of one."""


@dataclass(frozen=True, eq=False)
class AuditedCollection(Audited):
    """``known_shares`` of each query's exact hits were found, shape (queries,); NaN where there are none."""

    known_shares: npt.NDArray[np.float64]

    def shares(self, found: Ranked) -> npt.NDArray[np.float64]:
        return self.known_shares


@dataclass(eq=False)
class CollectionAuditStage(Stage[Audited]):
    """The rankings of a collection's engine compared with exact search; kept is the share of the hits that it found.

    Hits are compared by what is scored, documents or passages: an item has no other place in a ranking.
    """

    kind = "shares"
    shown_as = "audit"

    resources: Resources
    setting: Setting
    ranking: RankingStage
    exact: RankingStage

    def __post_init__(self) -> None:
        self._depth = Depth(units=self.setting.retriever.top_k)
        self.needs, self.reads = (self.ranking, self.exact), (self.exact,)
        self.title, self.label = f"audit of {self.setting.name}", self.setting.name

    @cached_property
    def count(self) -> int:
        """How many vectors the collection has."""
        collection = self.setting.retriever.searched_collection
        return opened(collection).count if collection is not None else 0

    def inputs(self) -> Inputs:
        return {"top_k": self._depth.units, "format": 2}

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[OpenSetting]]:
        with open_setting(self.resources, self.exact.stages, artefacts, self.exact.unit) as exact:
            yield (exact,)

    def build(self, folder: Path, search: OpenSetting, ranked: Ranked, exact: Ranked) -> None:
        unit, top_k = self.exact.unit, self._depth.units
        exact, found = exact.cut(self._depth), [set(row) for row in _keys(ranked.cut(self._depth), unit)]
        wanted = [set(row) for row in _keys(exact, unit)]
        lengths = exact.rankings.lengths
        last = [float(exact.rankings.scores[row, length - 1]) if length else 0 for row, length in enumerate(lengths)]
        pending, depth = [row for row in range(len(wanted)) if found[row] - wanted[row]], top_k
        with self.resources.working(f"audit ({self.setting.name})", self.count, "vectors", _RATE) as progress:
            while pending:
                # A hit that is not among the exact ones is as good if it is as near as the last: look for all of these.
                depth *= 2
                asked = [self.ranking.questions[row] for row in pending]
                deeper = search.ranked(asked, Depth(units=depth))
                left = []
                for row, keys, scores in zip(pending, _keys(deeper, unit), deeper.rankings.scores, strict=True):
                    wanted[row] |= {key for key, score in zip(keys, scores, strict=False) if score >= last[row]}
                    if len(keys) == depth and scores[depth - 1] >= last[row]:
                        left.append(row)
                pending = left
            progress.advance(self.count)
        shares = [
            min(len(one & other), length) / length if length else np.nan
            for one, other, length in zip(found, wanted, lengths.tolist(), strict=True)
        ]
        write_array(folder / "shares.npy", np.array(shares, dtype=np.float64))
        collection = self.setting.retriever.searched_collection
        use = opened(collection).use() if collection is not None else IndexUse(is_used=None, evidence="")
        write_text(folder / "use.json", json.dumps(asdict(use)))

    def load(self, folder: Path, exact: Ranked) -> Audited:
        cut, shares = exact.cut(self._depth), read_array(folder / "shares.npy")
        use = IndexUse(**json.loads((folder / "use.json").read_text(encoding="utf-8")))
        return AuditedCollection(cut, cut.rankings.scores, None, shares, use=use)

    def amount(self, known: Known) -> Amount:
        return Amount(self.count, "vectors", self.count, seconds=self.resources.rates.seconds(_RATE, self.count))


def _keys(ranked: Ranked, unit: Unit) -> list[list[Key]]:
    """What each query's hits are, whatever codes they have."""
    units, rows = ranked.candidates.units, list[list[Key]]()
    for row in ranked.rankings.codes:
        codes = row[row != PADDING].tolist()
        if unit == "document":
            rows.append(codes)
        else:
            rows.append([(int(units.document[one]), int(units.start[one]), int(units.end[one])) for one in codes])
    return rows
