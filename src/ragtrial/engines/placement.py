"""Where the items of a collection are in the documents, and whether the embedder made their vectors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageQuery, how_alike, locate_all
from ragtrial.dataset.texts import normalised, short
from ragtrial.engines.base import Space, lengths_of, normalized
from ragtrial.engines.collection import CollectionOptions, Item
from ragtrial.errors import RunError, did_you_mean, listed
from ragtrial.rankings import Floats

_SURVEYED = 200_000
"""The most items to check before the run; further items are checked when a search finds them."""

_COMPARED = 100
"""The most items whose texts are compared with the documents before the run."""


class ItemSpans:
    """Finds the document and the characters of each item, by its metadata and text.

    ``located`` counts the items whose text was found in their document, ``whole`` the items that count as the whole
    document, because they have no text or their text was not found.
    """

    def __init__(self, library: Library, options: CollectionOptions) -> None:
        self._library = library
        self._options = options
        self.position = cache(library.position_of_path)
        """The position of the document with an id, or with the longest id that a path ends in; None for others."""
        self._spans: dict[str, tuple[int, int, int]] = {}
        self.located = 0
        self.whole = 0

    def document(self, item: Item) -> str:
        """The name of its document; empty if its metadata have none."""
        key = self._options.document
        value = item.id if key is None else item.metadata.get(key)
        return "" if value is None else str(value)

    def stated_span(self, item: Item) -> tuple[int, tuple[int, int] | None]:
        """The position of the document, and the characters, that its metadata state; None without characters.

        Raises LookupError for an unknown document, and ValueError for invalid characters.
        """
        document = self.document(item)
        position = self.position(document)
        if position is None:
            raise LookupError(f"is of the document {document!r}, which is not in the corpus")
        return position, self._stated_characters(item, position)

    def _stated_characters(self, item: Item, position: int) -> tuple[int, int] | None:
        keys = [key for key in (self._options.start, self._options.end) if key is not None]
        given: list[Any] = [item.metadata.get(key) for key in keys]
        if not given or None in given or (len(given) == 1 and not item.text):
            return None
        for key, value in zip(keys, given, strict=True):
            if type(value) not in (int, float) or value != int(value):
                raise ValueError(f"has {key!r} {value!r}, which is not a whole number")
        start = int(given[0])
        end = int(given[1]) if len(given) > 1 else start + len(normalised(item.text or ""))
        size = len(self._library.text(position))
        if not 0 <= start < end <= size:
            name = self._library.ids[position]
            raise ValueError(f"is characters {start:,} to {end:,} of {name!r}, which has {size:,}")
        return start, end

    def spans(self, items: Sequence[Item]) -> list[tuple[int, int, int]]:
        """The document and the characters of each item. Raises RunError if they do not exist."""
        library = self._library
        sought: dict[str, PassageQuery] = {}
        for item in items:
            if item.id in self._spans:
                continue
            try:
                position, span = self.stated_span(item)
            except (LookupError, ValueError) as error:
                raise RunError(f"the item {item.id!r} {error}.") from error
            self._spans[item.id] = position, *(span or (0, len(library.text(position))))
            if span is None and item.text and item.text.strip():
                sought[item.id] = PassageQuery(normalised(item.text), position)
            self.whole += span is None
        for name, found in zip(sought, locate_all(list(sought.values()), library) if sought else (), strict=True):
            if found.places:
                first = found.places[0].span
                self._spans[name] = self._spans[name][0], first.start, first.end
                self.located += 1
                self.whole -= 1
        return [self._spans[item.id] for item in items]


def survey(pages: Iterable[Sequence[Item]], library: Library, options: CollectionOptions) -> tuple[int, list[str]]:
    """The number of checked items, and the faults of items that do not fit the documents."""
    reader = ItemSpans(library, options)
    count, unknown, keys, misplaced = 0, Counter[str](), Counter[str](), list[str]()
    for items in pages:
        for number, item in enumerate(items, count):
            try:
                position, span = reader.stated_span(item)
            except LookupError:
                unknown[reader.document(item)] += 1
                keys.update(key for key, value in item.metadata.items() if reader.position(str(value)) is not None)
                continue
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
            f"items of documents that are not in the corpus: {unknown.total():,} of {count:,} (documents: "
            f"{len(library):,}, like {library.ids[0]!r}): {named} says {listed(map(repr, unknown), 3)}.{near}{hint}"
        )
    if misplaced:
        faults.append(
            f"items that are not where they say: {len(misplaced):,} of {count:,}: {misplaced[0]}. Characters are those "
            "of the normalised text (line feeds, Unicode NFC), from 0, `end` excluded; without start and end the "
            "texts of items are looked for in their documents."
        )
    return count, faults


Embed = Callable[[Sequence[str]], Floats]

SAMPLED = 5
_SAME = 0.999
"""The least cosine of the same model on another machine, in another precision or another format."""
_NEAR = 0.99
"""The least cosine that is accepted, and reported: hosted and quantized models vary this much."""
_SAME_LENGTH = 0.01
_PREFIXES = (
    "passage: ",
    "query: ",
    "search_document: ",
    "search_query: ",
    "title: none | text: ",
    "Represent this sentence for searching relevant passages: ",
)
"""Prefixes that well-known models expect before a text."""


@dataclass(frozen=True)
class VectorAgreement:
    """``said`` is a few words for the report; ``fault`` is the error and the next step, empty without an error.

    ``agrees`` is whether the embedder was shown to make the stored vectors.
    """

    said: str
    fault: str = ""
    agrees: bool = False


def compare_vectors(
    texts: Sequence[str], stored: Floats, space: Space, made_with: str, as_documents: Embed, as_queries: Embed
) -> VectorAgreement:
    """Compare ``stored``, float32 (texts, dimension), with vectors of ``texts`` from the embedder.

    ``made_with`` is the model that the collection names; empty if it names none.
    """
    made = as_documents(texts)
    cosines = _cosines(stored, made)
    least = float(cosines.min())
    if least < _SAME:
        cause = _cause(texts, stored, as_documents, as_queries)
        if not cause and least >= _NEAR:
            return VectorAgreement(f"nearly (cosine {least:.4f})")
        cause = cause or f"Another model made them{_as_it_says(made_with)}, or this one from other texts"
        return VectorAgreement(
            "no",
            f"its vectors were not made with this embedder: {len(texts)} stored texts, embedded again, reach only a "
            f"cosine of {cosines.min():.3f} to {cosines.max():.3f} with them. {cause}; set embedder to what made the "
            "vectors, or collection.check: false if they were made of other texts than those stored.",
        )
    length, own = float(np.median(lengths_of(stored))), float(np.median(lengths_of(made)))
    ratio = float(np.median(lengths_of(stored) / np.maximum(lengths_of(made), 1e-30)))
    other = "" if abs(ratio - 1) <= _SAME_LENGTH else ", other length"
    if not other or space != "l2":  # the length of the query changes no order, and stored vectors are as they are
        return VectorAgreement(f"ok (cosine {least:.4f}{other})", agrees=True)
    mend = "true" if abs(length - 1) <= _SAME_LENGTH else "false"
    return VectorAgreement(
        "no",
        f"its vectors have the embedder's direction and another length: {length:.3g}, not {own:.3g}. Its space is l2, "
        f"in which the length counts; set normalize: {mend} for the embedder.",
    )


def other_dimension(stored: int, made: int, made_with: str) -> str:
    """The fault of vectors that cannot be compared."""
    return (
        f"its vectors have {stored} dimensions, those of the embedder {made}: another model made them"
        f"{_as_it_says(made_with)}. Set embedder to that model."
    )


def is_normalised(stored: Floats) -> bool:
    """True if all vectors have length 1."""
    return bool((abs(lengths_of(stored) - 1) <= _SAME_LENGTH).all())


def _cause(texts: Sequence[str], stored: Floats, as_documents: Embed, as_queries: Embed) -> str:
    if _cosines(stored, as_queries(texts)).min() >= _SAME:
        return "Embedded as queries are, the texts agree: set document_prefix to what query_prefix is"
    for prefix in _PREFIXES:
        if _cosines(stored, as_documents([prefix + text for text in texts])).min() >= _SAME:
            return f"With {prefix!r} before each text they agree: set document_prefix: {prefix!r}"
    return ""


def _as_it_says(made_with: str) -> str:
    return f" (the collection says: {made_with})" if made_with else ""


def _cosines(stored: Floats, made: Floats) -> Floats:
    cosines: Floats = np.einsum("ij,ij->i", normalized(stored), normalized(made))
    return cosines
