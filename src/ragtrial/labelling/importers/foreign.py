"""The labels of another tool, as its file has them: what every reader gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]
"""Where a value is in a file: keys and positions."""


@dataclass(frozen=True, slots=True)
class ImportedAnswer:
    """One known good answer, not looked up yet.

    ``passage`` is its text; without one the label is the whole document ``doc``, or its characters ``start`` to
    ``end``, of the text that has the hash ``text_hash``. ``doc`` is what the file calls the document, empty where it
    does not say; only if ``doc_is_known`` is it a claim that the document has that name, else it narrows the search
    if there is such a document. If ``may_be_passage``, ``doc`` is a name or a passage. ``start`` is the first character
    of the passage in the document or, where ``context`` is given, in that context: the paragraph around the passage,
    which is looked for in its place. ``note`` says what the reader decided.
    """

    where: Path
    passage: str = ""
    doc: str = ""
    relevance: int = 1
    start: int | None = None
    end: int | None = None
    text_hash: str = ""
    context: str = ""
    doc_is_known: bool = True
    may_be_passage: bool = False
    note: str = ""


@dataclass(frozen=True, slots=True)
class ImportedQuestion:
    """A question and its answers: none where the documents do not answer it.

    ``phrasings`` are other wordings; ``where_metadata`` and ``where_document`` say what is searched (None: everything).
    """

    where: Path
    id: str
    text: str
    answers: tuple[ImportedAnswer, ...] = ()
    tags: tuple[str, ...] = ()
    ordered: bool = False
    phrasings: tuple[str, ...] = ()
    where_metadata: Mapping[str, Any] | None = None
    where_document: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ForeignLabels:
    """All questions of a file."""

    questions: tuple[ImportedQuestion, ...]
    prompt: str | None = None
