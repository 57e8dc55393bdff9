"""Interfaces of retrievers and refiners: their context, and the rankings that they return."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

import numpy as np
from pydantic import Field

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.chunkers.base import AnyChunker
from ragtrial.components.contextual_text import ContextOptions, IndexedTexts
from ragtrial.components.embedders.base import AnyEmbedder
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.engines import AnyStore, CollectionOptions, Index, Store
from ragtrial.options import Options
from ragtrial.progress import Progress
from ragtrial.rankings import Bools, Codes, Counts, Floats, Rankings
from ragtrial.records import Question, ReportWarning
from ragtrial.registry import Registry

T = TypeVar("T")
Fact = int | float | str | bool | None
Facts = Mapping[str, Fact]
_NONE: Facts = MappingProxyType({})


@dataclass(frozen=True, eq=False)
class Candidates:
    """Ranked units of many questions, best first: chunks, stretches of documents, or whole documents.

    The codes of ``rankings`` are positions in ``units``. ``skipped``, shape (questions,), marks the questions that
    could not be answered and are left out of every mean; their rows are empty. ``facts`` are counts and words that the
    report shows for the setting.
    """

    units: Chunks
    rankings: Rankings
    skipped: Bools
    facts: Facts = field(default_factory=lambda: _NONE)

    @classmethod
    def of(cls, units: Chunks, rankings: Rankings, facts: Facts = _NONE) -> Candidates:
        """The candidates of a search that answered every question."""
        return cls(units, rankings, np.zeros(len(rankings), dtype=np.bool_), facts)


class RetrieverContext(Protocol):
    """The resources of a retriever or a refiner; nothing is built before it is asked for.

    ``setting`` is the name to use in messages, ``entry`` that under `retrievers` in the config. ``is_fresh`` is true
    while latency is measured: then nothing that depends on the question may be read from the disk.
    """

    setting: str
    entry: str
    library: Library
    progress: Progress
    is_fresh: bool

    def digest(self, path: Path) -> str:
        """The hash of a file's bytes, which are not read again as long as the file has not changed."""
        ...

    def chunks(self) -> Chunks:
        """The chunks of the setting's chunker."""
        ...

    def texts(self, units: Chunks | None = None) -> IndexedTexts:
        """The indexed text of each chunk of the setting; for other ``units`` their titles and texts."""
        ...

    def index(self) -> Index:
        """The index of the setting's vectors."""
        ...

    def embed_queries(self, texts: Sequence[str]) -> Floats:
        """The vectors of questions, float32 (texts, dimension), by the setting's embedder."""
        ...

    def embed_texts(self, texts: Sequence[str]) -> Floats:
        """The vectors of texts, embedded as chunks are, float32 (texts, dimension); each is kept."""
        ...

    def keep(self, kind: str, parts: Any, what: str, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
        """A finished stage: ``build`` fills its folder once for equal ``parts`` (JSON values), ``read`` reads it.

        ``kind`` is the folder of the workspace, ``what`` describes it in words.
        """
        ...

    def growing(self, kind: str, name: str) -> Path:
        """A file of the workspace that grows, such as a cache of answers, without its suffix; it counts as used."""
        ...


_MOST_KEPT = 100_000
"""Rankings are kept with a place for each of top_k: beyond this they fill the memory."""


@dataclass(frozen=True)
class Texts:
    """How many texts are ranked, and how many tokens one of them has, about."""

    count: int
    tokens: float


def place_order(units: Chunks) -> Counts:
    """The tie order of each unit: by document id ascending, then by start."""
    order = np.empty(len(units), dtype=np.int64)
    order[np.lexsort(place_keys(units, np.arange(len(units))))] = np.arange(len(units))
    return order


def place_keys(units: Chunks, codes: Codes | Counts) -> tuple[Counts, Counts, Counts]:
    """The keys by which ``np.lexsort`` orders ``codes`` of ``units``: document id, then start, then end."""
    return units.end[codes], units.start[codes], units.library.id_order[units.document[codes]]


class OpenRetriever(Protocol):
    """A retriever at work."""

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        """For each question at most ``depth`` units, best first; fewer when no more are found. Raises RunError."""
        ...


class Ranker(Options):
    """A source of rankings: a retriever makes them, a refiner improves the rankings of others."""

    ranking_version: ClassVar[int] = 1
    """Part of the rankings' fingerprint: raise it whenever the same options would rank otherwise."""

    content_is: ClassVar[str] = "files"
    """The source of ``hashed_content``, in a word or two: a plan reports a change under this name."""

    kind: str

    top_k: Annotated[int, Field(ge=1, le=_MOST_KEPT)] = 10
    """How many hits of each ranking are kept and scored: documents, or chunks under `unit: span`."""

    score: bool = True
    """True if it is scored as a setting, false if it is only an input of others."""

    @property
    def has_latency(self) -> bool:
        """True if it answers a question alone, so that its latency can be measured."""
        return True

    @property
    def depends_on(self) -> frozenset[str]:
        """The sections among chunker, context, embedder and store that its hits depend on."""
        return frozenset()

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of those whose rankings it takes."""
        return ()

    def hashed_options(self) -> dict[str, Any]:
        """The options that change its rankings: not their depth, and not the sections that it depends on."""
        return {**self.model_dump(mode="json", exclude={*REACHING, *NOT_RANKING}), "version": self.ranking_version}

    def has_comparable_scores(self, of_parts: Sequence[bool]) -> bool:
        """True if scores of hits can be compared between questions; ``of_parts`` has the same for its parts."""
        return True

    @property
    def searched_collection(self) -> CollectionOptions | None:
        """The existing collection that it searches, if it does."""
        return None

    def by_exact_search(self) -> Ranker | None:
        """The same by exact search over the vectors of the collection that it searches; None without one."""
        return None

    def width(self, store: Store, depth: int) -> int | None:
        """The search width for ``depth`` hits, if its hits depend on it; see ``Store.width``."""
        return None

    def hashed_content(self, digest: Digest) -> Any:
        """The other parts of the key of its rankings, as JSON values: hashes of files, versions of libraries.

        ``digest`` hashes a file. Raises InputError for missing files and models.
        """
        return None

    def asked(self, question: Question) -> Any:
        """The parts of a question that change its ranking, as JSON values: the text alone by default."""
        return question.text

    def expected_cost(self, questions: Sequence[Question], texts: Texts) -> float | None:
        """The approximate cost of answering ``questions``, without embedding them; None if nothing is paid."""
        return None

    def cost(self, facts: Facts) -> float | None:
        """The cost of the rankings with these ``facts``; None if no payment is known."""
        return None

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        """Look for everything that it needs, before any work is done. Raises InputError."""

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        """The warnings about the hits of ``setting``, according to its facts."""
        yield from ()


class Retriever(Ranker):
    """A way from questions to rankings."""

    @abstractmethod
    def open(self, context: RetrieverContext) -> OpenRetriever:
        """The retriever, ready to search. Raises RunError."""


class ChunkRetriever(Retriever):
    """A retriever of chunks."""

    chunker: AnyChunker | None = None
    """This retriever's own chunker (default: the config's)."""

    context: ContextOptions | None = None
    """This retriever's own context (default: the config's)."""

    embedder: AnyEmbedder | None = None
    """This retriever's own embedder (default: the config's)."""

    @property
    def depends_on(self) -> frozenset[str]:
        return frozenset({"chunker", "context"})


class VectorRetriever(ChunkRetriever):
    """A retriever of chunks by their vectors."""

    store: AnyStore | None = None
    """This retriever's own store (default: the config's)."""

    def width(self, store: Store, depth: int) -> int | None:
        return store.width(depth)

    @property
    def depends_on(self) -> frozenset[str]:
        return frozenset({"chunker", "context", "embedder", "store"})


REACHING = ("chunker", "context", "embedder", "store")
"""The options that say what reaches a retriever; all others are its own."""

NOT_RANKING = ("top_k", "score", "input_name", "input_names")
"""The options that change no ranking: it is cut later, and parts count by their content, not by their names."""

RETRIEVERS: Registry[type[Retriever]] = Registry("retriever", "ragtrial.components.retrievers")
