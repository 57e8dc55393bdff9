"""Finds the places of a collection's items in the documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from ragtrial.components.collections.base import CollectionOptions, Item
from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageQuery, how_alike, locate_all
from ragtrial.dataset.texts import normalised, short
from ragtrial.errors import RunError, did_you_mean, listed

_SURVEYED = 200_000
"""The most items to check before the run; further ones are checked when a search finds them."""

_COMPARED = 100
"""The most items whose texts are compared with the documents before the run."""


class ItemReader:
    """Reads from metadata which document an item is from, and which characters."""

    def __init__(self, library: Library, options: CollectionOptions) -> None:
        self.library = library
        self._options = options
        self._known: dict[str, int | None] = {}

    def document(self, item: Item) -> str:
        """The name of its document; empty if its metadata have none."""
        if self._options.document is None:
            return item.id
        value = item.metadata.get(self._options.document)
        return "" if value is None else str(value)

    def position(self, name: str) -> int | None:
        """The position of the document with the id ``name``, or with the longest id that the path ``name`` ends in."""
        if name not in self._known:
            self._known[name] = self.library.position_of_path(name)
        return self._known[name]

    def span(self, item: Item, position: int) -> tuple[int, int] | None:
        """The characters of an item, from its metadata; None without any. Raises ValueError if they are invalid."""
        keys = [key for key in (self._options.start, self._options.end) if key is not None]
        given: list[Any] = [item.metadata.get(key) for key in keys]
        if not given or None in given or (len(given) == 1 and not item.text):
            return None
        for key, value in zip(keys, given, strict=True):
            if type(value) not in (int, float) or value != int(value):
                raise ValueError(f"has {key!r} {value!r}, which is not a whole number")
        start = int(given[0])
        end = int(given[1]) if len(given) > 1 else start + len(normalised(item.text or ""))
        size = len(self.library.text(position))
        if not 0 <= start < end <= size:
            name = self.library.ids[position]
            raise ValueError(f"is characters {start:,} to {end:,} of {name!r}, which has {size:,}")
        return start, end


class ItemPlaces:
    """The places of items by their ids: position of the document, and the characters of its text.

    ``located`` counts the items whose text was found in their document, ``whole`` those that count as all of it,
    because they have no text or their text was not found.
    """

    def __init__(self, library: Library, options: CollectionOptions) -> None:
        self._reader = ItemReader(library, options)
        self._places: dict[str, tuple[int, int, int]] = {}
        self.located = 0
        self.whole = 0

    def of(self, items: Sequence[Item]) -> list[tuple[int, int, int]]:
        """The place of each item. Raises RunError if its document or its characters do not exist."""
        library = self._reader.library
        sought: dict[str, PassageQuery] = {}
        for item in items:
            if item.id in self._places:
                continue
            called = self._reader.document(item)
            position = self._reader.position(called)
            if position is None:
                raise RunError(f"the item {item.id!r} is of the document {called!r}, which is not in the corpus.")
            try:
                span = self._reader.span(item, position)
            except ValueError as error:
                raise RunError(f"the item {item.id!r} {error}.") from error
            self._places[item.id] = position, *(span or (0, len(library.text(position))))
            if span is None and item.text and item.text.strip():
                sought[item.id] = PassageQuery(normalised(item.text), position)
            self.whole += span is None
        for name, found in zip(sought, locate_all(list(sought.values()), library) if sought else (), strict=True):
            if found.places:
                first = found.places[0].span
                self._places[name] = self._places[name][0], first.start, first.end
                self.located += 1
                self.whole -= 1
        return [self._places[item.id] for item in items]


def survey(pages: Iterable[Sequence[Item]], library: Library, options: CollectionOptions) -> tuple[int, list[str]]:
    """How many items were checked, and what does not fit the documents."""
    reader = ItemReader(library, options)
    count, unknown, keys, misplaced = 0, Counter[str](), Counter[str](), list[str]()
    for items in pages:
        for number, item in enumerate(items, count):
            called = reader.document(item)
            position = reader.position(called)
            if position is None:
                unknown[called] += 1
                keys.update(key for key, value in item.metadata.items() if reader.position(str(value)) is not None)
                continue
            try:
                span = reader.span(item, position)
            except ValueError as error:
                misplaced.append(f"{item.id!r} {error}")
                continue
            if span is not None and item.text and item.text.strip() and number < _COMPARED:
                there = library.text(position)[span[0] : span[1]]
                if how_alike(normalised(item.text), there) is None:
                    misplaced.append(f"{item.id!r} has the text {short(item.text, 60)!r}, not {short(there, 60)!r}")
        count += len(items)
        if count >= _SURVEYED:
            break
    faults = []
    if unknown:
        named = "their id" if options.document is None else f"their metadata {options.document!r}"
        first = next(iter(unknown))
        near = did_you_mean(first, library.ids) if first else ""
        hint = f" The metadata {keys.most_common(1)[0][0]!r} name documents: set `document`." if keys else ""
        faults.append(
            f"{unknown.total():,} of {count:,} items are of documents that are not in the corpus ({len(library):,} "
            f"documents, like {library.ids[0]!r}): {named} says {listed(map(repr, unknown), 3)}.{near}{hint}"
        )
    if misplaced:
        faults.append(
            f"{len(misplaced):,} of {count:,} items are not where they say: {misplaced[0]}. Characters are those of "
            "the normalised text (line feeds, Unicode NFC), from 0, `end` excluded; without start and end the texts of "
            "items are looked for in their documents."
        )
    return count, faults
