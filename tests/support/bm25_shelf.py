"""A few documents behind what a retriever may ask for, made from real parts, without a plan."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from asked import Bare
from corpora import write_rows
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import Workspace
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.interfaces import Candidates, OpenRetriever
from ragtrial.components.retrievers.bm25 import Bm25Retriever
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.records import Question
from refining import rows_of

T = TypeVar("T")


@dataclass
class Shelf(Bare):
    """What BM25 may ask for: chunks, their texts, and a cache; ``built`` notes what was asked to be made."""

    held: Chunks = field(kw_only=True)
    workspace: Workspace = field(kw_only=True)
    setting: str = "words"
    entry: str = "words"
    built: list[str] = field(default_factory=list)
    index: Any = None
    embed_queries: Any = None
    embed_texts: Any = None

    def chunks(self) -> Chunks:
        return self.held

    def texts(self, units: Chunks | None = None) -> IndexedTexts:
        return IndexedTexts(units or self.held)

    def keep(self, kind: str, parts: Any, what: str, build: Callable[[Path], None], read: Callable[[Path], T]) -> T:
        def noted(folder: Path) -> None:
            self.built.append(kind)
            build(folder)

        return self.workspace.load(kind, fingerprint([kind, parts]), what, noted, read)


def shelf(folder: Path, texts: Mapping[str, str], titles: Mapping[str, str] | None = None) -> Shelf:
    """Documents by id, each one chunk."""
    rows = [{"_id": name, "text": text, "title": (titles or {}).get(name, "")} for name, text in texts.items()]
    corpus = write_rows(folder / "corpus.jsonl", rows)
    (folder / "library").mkdir()
    Library.write(corpus, folder / "library")
    library = Library(folder / "library")
    chunks = Chunks.of(library, [(place, 0, len(library.text(place))) for place in range(len(library))])
    return Shelf(library, folder, held=chunks, workspace=Workspace(folder / "workspace"))


def opened(materials: Shelf, **options: Any) -> OpenRetriever:
    return Bm25Retriever(**options).open(materials)


def asked(retriever: OpenRetriever, *questions: str, depth: int = 10) -> Candidates:
    return retriever.search([Question(text) for text in questions], depth)


def ids(found: Candidates) -> list[list[str]]:
    """The document of each hit of each question."""
    return [[found.units.document_id(code) for code in row] for row in rows_of(found)]


def scores(found: Candidates) -> list[list[float]]:
    rows = found.rankings
    return [row[:length].tolist() for row, length in zip(rows.scores, rows.lengths.tolist(), strict=True)]
