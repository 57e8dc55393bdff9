"""Where the items of a collection stand in the documents."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragtrial.components.chroma_collection.collection import CollectionItems, CollectionOptions
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import PassageQuery, how_alike, locate_all, short
from ragtrial.dataset.texts import normalised
from ragtrial.errors import RunError, did_you_mean, listed

_COMPARED = 100
"""Items whose characters are compared with their texts before the run."""


class ItemPlaces:
    """The places of items by their ids: position of the document, and the characters of its text.

    ``located`` counts the items whose text was found in their document, ``whole`` those that stand for all of it,
    because they have no text or because it is not there.
    """

    def __init__(self, library: Library, options: CollectionOptions) -> None:
        self._library = library
        self._options = options
        self._places: dict[str, tuple[int, int, int]] = {}
        self.documents = ItemDocuments(library)
        self.located = 0
        self.whole = 0

    def of(self, items: CollectionItems) -> list[tuple[int, int, int]]:
        """The place of each item. Raises RunError for one whose document or characters are not there."""
        new: dict[str, tuple[int, PassageQuery | None]] = {}
        for name, metadata, text in zip(items.ids, items.metadatas, items.texts, strict=True):
            if name in self._places or name in new:
                continue
            called = document_of(name, metadata, self._options)
            position = self.documents.position(called)
            if position is None:
                raise RunError(f"the item {name!r} is of the document {called!r}, which is not in the corpus.")
            span = span_of(metadata, text, self._options)
            if isinstance(span, tuple):
                self._places[name] = position, *self._checked(name, position, span)
            else:
                new[name] = position, PassageQuery(normalised(text), position) if text and text.strip() else None
        self._locate(new)
        return [self._places[name] for name in items.ids]

    def _locate(self, new: Mapping[str, tuple[int, PassageQuery | None]]) -> None:
        sought = [one for _, one in new.values() if one is not None]
        found = dict(zip(sought, locate_all(sought, self._library), strict=True)) if sought else {}
        for name, (position, one) in new.items():
            located = found[one] if one is not None else None
            if located is not None and located.places:
                span = located.places[0].span
                self._places[name] = position, span.start, span.end
                self.located += 1
            else:
                self._places[name] = position, 0, len(self._library.text(position))
                self.whole += 1

    def _checked(self, name: str, position: int, span: tuple[int, int]) -> tuple[int, int]:
        if not 0 <= span[0] < span[1] <= len(self._library.text(position)):
            raise RunError(f"the item {name!r} {_beyond(span, self._library, position)}.")
        return span


class ItemDocuments:
    """Documents by what metadata call them: their id, or a path that ends in it."""

    def __init__(self, library: Library) -> None:
        self._positions = library.positions
        self._known: dict[str, int | None] = {}
        self.by_path = 0

    def position(self, name: str) -> int | None:
        """The document's position; None if there is none. Of several ids that a path ends in, the longest counts."""
        if name not in self._known:
            self._known[name] = self._looked_up(name)
        return self._known[name]

    def _looked_up(self, name: str) -> int | None:
        # File names come in either Unicode form, depending on the system they were written on.
        forms = (name, *(unicodedata.normalize(form, name) for form in ("NFC", "NFD")))
        for form in forms:
            if form in self._positions:
                return self._positions[form]
        for form in forms:
            rest = form.replace("\\", "/")
            while "/" in rest:
                rest = rest.partition("/")[2]
                if rest in self._positions:
                    self.by_path += 1
                    return self._positions[rest]
        return None


def document_of(name: str, metadata: Mapping[str, Any], options: CollectionOptions) -> str:
    """What an item's document is called; empty where its metadata do not say."""
    if options.document is None:
        return name
    value = metadata.get(options.document)
    return "" if value is None else str(value)


def span_of(metadata: Mapping[str, Any], text: str | None, options: CollectionOptions) -> tuple[int, int] | str | None:
    """The characters that metadata give an item; None where they give none, a text where they are no whole numbers."""
    if options.start is None or metadata.get(options.start) is None:
        return None
    start = _whole(metadata[options.start])
    if start is None:
        return f"has {options.start!r} {metadata[options.start]!r}, which is no whole number"
    if options.end is None:
        return (start, start + len(normalised(text))) if text else None
    if metadata.get(options.end) is None:
        return None
    end = _whole(metadata[options.end])
    if end is None:
        return f"has {options.end!r} {metadata[options.end]!r}, which is no whole number"
    return start, end


def _whole(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
        return None
    return int(value)


def _beyond(span: tuple[int, int], library: Library, position: int) -> str:
    return (
        f"is said to be characters {span[0]:,} to {span[1]:,} of {library.ids[position]!r}, "
        f"which has {len(library.text(position)):,}"
    )


@dataclass
class Survey:
    """Looks at items, page by page, for what does not fit the documents; ``faults`` tells it."""

    library: Library
    options: CollectionOptions
    count: int = 0
    texts: int = 0

    def __post_init__(self) -> None:
        self._documents = ItemDocuments(self.library)
        self._unknown: dict[str, int] = {}
        self._keys: dict[str, int] = {}
        self._spans: list[str] = []
        self._misplaced: list[str] = []
        self._compared = 0

    def add(self, items: CollectionItems) -> None:
        for name, metadata, text in zip(items.ids, items.metadatas, items.texts, strict=True):
            self.count += 1
            self.texts += bool(text and text.strip())
            called = document_of(name, metadata, self.options)
            position = self._documents.position(called)
            if position is None:
                self._unknown[called] = self._unknown.get(called, 0) + 1
                for key, value in metadata.items():
                    if isinstance(value, str | int) and self._documents.position(str(value)) is not None:
                        self._keys[key] = self._keys.get(key, 0) + 1
            else:
                self._look_at_span(name, metadata, text, position)

    def _look_at_span(self, name: str, metadata: Mapping[str, Any], text: str | None, position: int) -> None:
        span = span_of(metadata, text, self.options)
        if isinstance(span, str):
            self._spans.append(f"{name!r} {span}")
        elif span is not None and not 0 <= span[0] < span[1] <= len(self.library.text(position)):
            self._spans.append(f"{name!r} {_beyond(span, self.library, position)}")
        elif span is not None and text and text.strip() and self._compared < _COMPARED:
            self._compared += 1
            piece = self.library.text(position)[span[0] : span[1]]
            if how_alike(normalised(text), piece) is None:
                where = f"{span[0]:,} to {span[1]:,} of {self.library.ids[position]!r}"
                self._misplaced.append(
                    f"{name!r} is said to be characters {where}, which are {short(piece, 60)!r}, "
                    f"and has the text {short(text, 60)!r}"
                )

    def faults(self) -> Iterator[str]:
        """What does not fit, a sentence or two each."""
        if self._unknown:
            yield self._unknown_documents()
        for those, what in ((self._spans, "are not in their documents"), (self._misplaced, "are not where they say")):
            if those:
                of = self.count if those is self._spans else self._compared
                yield (
                    f"{len(those):,} of {of:,} items {what}: {those[0]}. Characters are those of the normalised text "
                    "(line feeds, Unicode NFC), from 0, `end` excluded; without start and end the texts of items are "
                    "looked for in their documents."
                )

    def _unknown_documents(self) -> str:
        items = sum(self._unknown.values())
        first = next(iter(self._unknown))
        key = self.options.document
        named = "their id" if key is None else f"their metadata {key!r}"
        near = did_you_mean(first, self.library.ids) if first else ""
        shown = listed((f"{name!r}" if name else "none" for name in self._unknown), 3)
        keys = [name for name, found in sorted(self._keys.items(), key=lambda one: -one[1]) if name != key]
        hint = f" The metadata {keys[0]!r} of such items name documents: set document: {keys[0]}." if keys else ""
        return (
            f"{items:,} of {self.count:,} items are of documents that are not in the corpus ({len(self.library):,} "
            f"documents, like {self.library.ids[0]!r}): {named} says {shown}.{near}{hint}"
        )


def joined_conditions(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The condition that both conditions are met; None stands for no condition."""
    if one is None or other is None:
        return one if other is None else other
    return {"$and": [one, other]}


Conditions = tuple[Mapping[str, Any] | None, Mapping[str, Any] | None]
"""On metadata, and on texts."""


def described(conditions: Conditions) -> str:
    """Conditions as a config has them."""
    named: Sequence[str] = [
        f"{key}: {dict(one)}"
        for key, one in zip(("where", "where_document"), conditions, strict=True)
        if one is not None
    ]
    return ", ".join(named)
