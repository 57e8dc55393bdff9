"""What the stages of a plan come to, as values."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragtrial.cache.arrays import read_array
from ragtrial.components.retrievers import Candidates, Facts
from ragtrial.components.vector_checks import VectorHealth
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import listed
from ragtrial.evaluation.context_sizes import ContextSizes
from ragtrial.pipeline.searching import Retrieved
from ragtrial.rankings import Bools, Floats
from ragtrial.records import Caution


@dataclass(frozen=True, eq=False)
class Audited:
    """What exact search says of an index: over the same vectors, with the same top_k.

    ``exact`` is what it finds; ``scores`` are the exact scores of what the index found, shape (queries, depth), NaN at
    the padding; ``unreachable`` counts the vectors that the index cannot return at all.
    """

    exact: Retrieved
    scores: Floats
    unreachable: int


@dataclass(frozen=True, eq=False)
class Costs:
    """What a setting and its parts take beside its quality, as it was measured when its stages were made.

    Seconds to embed its texts (at the rate of this model on this machine) and to build its indexes, and the bytes of
    these; None where there are none, or where it is not known.
    """

    embedding_seconds: float | None = None
    indexing_seconds: float | None = None
    index_bytes: int | None = None


@dataclass(frozen=True, eq=False)
class ToldOfPart:
    """What is told of a part that is no setting of its own."""

    facts: Facts
    health: VectorHealth | None
    too_long: Mapping[str, int | None]


@dataclass(frozen=True, eq=False)
class FoundByPart:
    """A part of ``whole``, and what that looked at of it: its hits for the questions themselves.

    ``found`` is None where the whole, or what is made of that, asks for other wordings; ``told`` where the part is a
    setting, too, and told of there.
    """

    setting: Setting
    whole: Setting
    found: Candidates | None
    told: ToldOfPart | None = None


@dataclass(frozen=True, eq=False)
class SettingRankings:
    """What a setting found: ranked documents or chunks, the chunks that brought them, and what there is to say of it.

    ``chunks`` are what it ranks: all that a chunker made, if ``are_all``, else such as were found. ``skipped``, shape
    (queries,), marks those that could not be answered. ``index`` describes its own index and ``health`` its vectors,
    empty and None without one; ``too_long`` counts chunks and queries beyond what its model reads (None: unknown).
    ``timings`` are seconds per stage, of this run; ``latency`` is of the run that retrieved; ``audited`` is there where
    the index is not exact. ``parts`` are its parts, and theirs, of which the report has something to keep or to tell.
    """

    setting: Setting
    fingerprint: str
    chunks: Chunks
    are_all: bool
    retrieved: Retrieved
    skipped: Bools
    facts: Facts
    sizes: ContextSizes
    index: Mapping[str, Any]
    health: VectorHealth | None
    too_long: Mapping[str, int | None]
    timings: Mapping[str, float]
    latency: dict[str, Any] | None
    audited: Audited | None
    costs: Costs
    parts: tuple[FoundByPart, ...] = ()


@dataclass(frozen=True, eq=False)
class Embeddings:
    """The vectors of all chunks, mapped from their file, and how healthy they are."""

    name: str
    matrix: Floats
    health: VectorHealth

    @classmethod
    def read(cls, folder: Path) -> Embeddings:
        health = VectorHealth(**json.loads((folder / "health.json").read_text()))
        return cls(folder.name, read_array(folder / "vectors.npy"), health)


@dataclass(frozen=True)
class BuiltIndex:
    """A built index. ``id`` is that of this build; empty where every build finds the same."""

    folder: Path
    id: str
    description: dict[str, Any]


def same_rankings(made: Sequence[SettingRankings]) -> Iterator[Caution]:
    """That settings differ in nothing that changes a ranking: a sweep over ``batch_size``, say."""
    alike: dict[str, list[str]] = {}
    for one in made:
        alike.setdefault(one.fingerprint, []).append(one.setting.name)
    for names in alike.values():
        if len(names) > 1:
            which = " and ".join(names) if len(names) == 2 else listed(names, 5)
            message = f"{which} find the same: what they differ in changes the time that it takes at most."
            yield Caution("same-rankings", message)
