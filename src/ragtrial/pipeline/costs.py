"""What settings take: the time of their vectors and indexes, and the space."""

from __future__ import annotations

from collections.abc import Iterable

from ragtrial.cache.seals import DamagedError
from ragtrial.config.settings import Setting
from ragtrial.pipeline.ground import Ground
from ragtrial.pipeline.outcomes import Costs
from ragtrial.pipeline.work import work_of_embedding


def costs_of(ground: Ground, setting: Setting, kept: Iterable[tuple[str, str]] = ()) -> Costs:
    """What ``setting`` and its parts take together, each embedding and each index counted once.

    ``kept`` are the stages, by kind and name, that its retrievers keep for themselves: they count as indexes. An exact
    index is its vectors. Everything that it stands on must be there.
    """
    embedding, indexing, sizes = dict[str, float | None](), dict[str, float | None](), dict[str, int | None]()
    for one in setting.tree():
        if one.has_index:
            vectors, index = ground.names.embeddings(one), ground.names.index(one)
            embedding[vectors] = _embedding_seconds(ground, one)
            searched = ("embeddings", vectors) if one.store.is_exact else ("indexes", index)
            sizes[searched[1]] = _known(ground, *searched)[0]
            indexing[index] = _known(ground, "indexes", index)[1]
    for kind, name in kept:
        sizes[name], indexing[name] = _known(ground, kind, name)
    size = _sum(sizes.values())
    return Costs(_sum(embedding.values()), _sum(indexing.values()), None if size is None else int(size))


def _embedding_seconds(ground: Ground, setting: Setting) -> float | None:
    """How long all texts of ``setting`` take, at the rate that was measured."""
    embedder = ground.embedder(setting.embedder)
    tokens = int(ground.lengths(setting, ground.chunks(setting)).sum())
    return ground.workspace.rates.seconds(work_of_embedding(embedder), tokens)


def _known(ground: Ground, kind: str, name: str) -> tuple[int | None, float | None]:
    """The bytes of a stage, and the seconds that it took to make."""
    try:
        sealed = ground.workspace.seal(kind, name)
    except DamagedError:
        return None, None
    return sealed.size, sealed.seconds


def _sum(values: Iterable[float | None]) -> float | None:
    """The sum; None of nothing, or if one is not known."""
    known = list(values)
    return sum(value for value in known if value is not None) if known and None not in known else None
