"""Custom retrievers in a folder of their own, over a few documents, put to work by themselves."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from corpora import library_of
from ragtrial.cache.fingerprints import file_digest
from ragtrial.components.interfaces import Candidates
from ragtrial.components.retrievers.custom import CustomRetriever
from ragtrial.components.user_functions import FunctionReference
from ragtrial.dataset.library import Library
from ragtrial.progress import Progress, Silent
from ragtrial.rankings import PADDING
from ragtrial.records import Question

TEXTS = {
    "a": "Rye bread keeps for four days. Soup keeps for three days.",
    "b": "Bake rolls until they are golden.",
    "c": "Slice the leeks. Bake rolls. Slice the leeks.",
    "d/e.md": "",
}


@dataclass
class Bare:
    """The part of RetrieverContext that a retriever needs which asks for nothing but documents and a folder."""

    library: Library
    place: Path
    is_fresh: bool = False
    setting: str = "mine"
    entry: str = "mine"
    progress: Progress = field(default_factory=Silent)

    def digest(self, path: Path) -> str:
        return file_digest(path)

    def growing(self, kind: str, name: str) -> Path:
        made = self.place / kind
        made.mkdir(parents=True, exist_ok=True)
        return made / name


@dataclass(frozen=True)
class Workplace:
    """A folder with documents, a workspace, and modules of the user's."""

    folder: Path
    library: Library

    def materials(self, *, is_fresh: bool = False) -> Any:
        return Bare(self.library, self.folder / "workspace", is_fresh)

    def write(self, code: str, module: str = "my_search") -> None:
        (self.folder / f"{module}.py").write_text(code, encoding="utf-8")

    def retriever(self, name: str = "my_search:search", **options: Any) -> CustomRetriever:
        return CustomRetriever(function=FunctionReference(name, self.folder), **options)

    def search(
        self, *texts: str, depth: int = 10, name: str = "my_search:search", is_fresh: bool = False, **options: Any
    ) -> Candidates:
        """What a retriever of these options finds, newly opened."""
        opened = self.retriever(name, **options).open(self.materials(is_fresh=is_fresh))
        return opened.search([Question(text) for text in texts], depth)

    def found(self, code: str, *texts: str, **options: Any) -> list[list[str]]:
        """The places of what a function with this body returns, as ``show`` has them."""
        self.write(f"def search(queries, top_k):\n    {code}\n")
        return show(self.search(*(texts or ("?",)), **options))

    def journals(self) -> list[Path]:
        return sorted((self.folder / "workspace" / "answers").glob("*"))


def workplace(folder: Path, texts: Mapping[str, str] = TEXTS) -> Workplace:
    return Workplace(folder, library_of(folder, texts))


def show(found: Candidates) -> list[list[str]]:
    """By question the document of each hit, with its characters where it is not all of it."""

    def place(code: int) -> str:
        span, name = found.units.span(code), found.units.document_id(code)
        whole = span.end - span.start == len(found.units.library.text(int(found.units.document[code])))
        return name if whole else f"{name}[{span.start}:{span.end}]"

    return [[place(code) for code in row if code != PADDING] for row in found.rankings.codes.tolist()]


def scores(found: Candidates) -> list[list[float | None]]:
    return [
        [None if np.isnan(score) else score for code, score in zip(codes, row, strict=True) if code != PADDING]
        for codes, row in zip(found.rankings.codes.tolist(), found.rankings.scores.tolist(), strict=True)
    ]
