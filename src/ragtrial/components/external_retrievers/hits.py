"""Hits of any shape (ids, pairs, mappings, documents of LangChain, LlamaIndex, Haystack), and their documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import normalised
from ragtrial.errors import RetrieverError, did_you_mean

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_SHAPE = "an id, an (id, score) pair, a mapping with `doc` or `id`, or a document of LangChain, LlamaIndex or Haystack"
_LARGEST_SCORE = float(np.finfo(np.float32).max)
_MOST_FAULTS = 3


class ReturnedHit(NamedTuple):
    """A hit as it was returned.

    ``document`` is the id that it names; ``score`` is NaN where it has none. ``start`` and ``end`` are characters of
    the document, taken at their word; ``text`` is what is to be found in it, perhaps at ``hint``. ``metadata`` is all
    that came with a library's document.
    """

    document: str
    score: float = math.nan
    start: int | None = None
    end: int | None = None
    text: str | None = None
    hint: int | None = None
    metadata: Mapping[str, Any] = _NOTHING


def read_hit(raw: Any, key: str | None = None) -> ReturnedHit:
    """The hit that ``raw`` is. ``key`` is where metadata has the document's id; None for the usual places.

    Raises RetrieverError with what is wrong with it.
    """
    if isinstance(raw, tuple | list | np.ndarray) and len(raw) == 2 and not isinstance(raw[0], tuple | list):
        name, score = raw
        if type(name) is str:  # most are
            return ReturnedHit(name, _score_of(score))
        return read_hit(name, key)._replace(score=_score_of(score))
    if isinstance(raw, str | Integral):
        return ReturnedHit(_id_of(raw))
    return _of_mapping(raw, key) if isinstance(raw, Mapping) else _of_document(raw, key)


def _of_mapping(raw: Mapping[Any, Any], key: str | None) -> ReturnedHit:
    keys = ("doc", "id") if key is None else (key,)
    name = next((raw[one] for one in keys if raw.get(one) is not None), None)
    if name is None:
        raise RetrieverError(f"has no {' or '.join(map(repr, keys))}; it has the keys {shown(list(raw))}")
    start, end, text = raw.get("start"), raw.get("end"), raw.get("text")
    if not (start is end is None or (_is_whole(start) and _is_whole(end))):
        raise RetrieverError(f"has the start {shown(start)} and the end {shown(end)}; both must be whole numbers")
    if not (text is None or isinstance(text, str)):
        raise RetrieverError(f"has the text {shown(text)}; it must be a string")
    return ReturnedHit(_id_of(name), _score_of(raw.get("score")), start, end, text, metadata=raw)


def _of_document(raw: Any, key: str | None) -> ReturnedHit:
    """Of a library's class: a NodeWithScore wraps a node; the others are distinguished by where their text is."""
    if hasattr(raw, "node") and hasattr(raw.node, "get_content"):
        node, metadata, text = raw.node, raw.node.metadata, raw.node.get_content()
        own, hint = node.ref_doc_id or node.node_id, getattr(node, "start_char_idx", None)
    elif hasattr(raw, "page_content"):
        metadata, text = raw.metadata, raw.page_content
        own, hint = getattr(raw, "id", None), metadata.get("start_index")
    elif hasattr(raw, "content") and hasattr(raw, "meta"):
        metadata, text = raw.meta, raw.content
        own, hint = metadata.get("source_id") or raw.id, metadata.get("split_idx_start")
    else:
        raise RetrieverError(f"is {shown(raw)}; a hit is {_SHAPE}")
    name = metadata.get(key or "doc")
    if name is None and key in (None, "id"):
        name = own if key is None else getattr(raw, "id", None)
    if name is None:
        wanted = "no id" if key is None else f"no {key!r} in its metadata"
        known = (
            f"it has {shown(sorted(map(str, metadata)))}: name the key that holds the document's id with `document:`"
        )
        raise RetrieverError(f"is a {type(raw).__name__} with {wanted}; {known}")
    hint = hint if _is_whole(hint) else None
    return ReturnedHit(_id_of(name), _score_of(getattr(raw, "score", None)), text=text, hint=hint, metadata=metadata)


def _id_of(value: Any) -> str:
    """An id as the documents have it: numbers become strings, as they do in labels."""
    if isinstance(value, str):
        return str(value)
    if not _is_whole(value):
        raise RetrieverError(f"names {shown(value)} as the id; it must be a string")
    return str(int(value))


def _score_of(value: Any) -> float:
    if value is None:
        return math.nan
    if type(value) is float and abs(value) <= _LARGEST_SCORE:
        return value
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) <= _LARGEST_SCORE:
        raise RetrieverError(
            f"has the score {shown(value)}; it must be a finite number (float32), or None where there is none"
        )
    return float(value)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value as messages show it, on one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


class PlacedHit(NamedTuple):
    """A hit in the documents: the position of one, and characters of its text; None for all of it."""

    document: int
    start: int | None
    end: int | None
    score: float


@dataclass(frozen=True, slots=True)
class RetrieverAnswer:
    """The hits of one question, as they were returned, best first.

    ``asked`` is how many were asked for; None where the retriever takes no number. ``unlocated`` counts the hits whose
    text is not in their document as it stands, which became the whole document.
    """

    hits: tuple[PlacedHit, ...]
    asked: int | None
    unlocated: int = 0

    def serves(self, depth: int) -> bool:
        """Whether it has what a question for ``depth`` hits would bring."""
        return self.asked is None or self.asked >= depth

    def cut(self, depth: int) -> RetrieverAnswer:
        """What a question for ``depth`` hits would have brought: an answer to a deeper one is cut there."""
        if self.asked is None or self.asked <= depth:
            return self
        return RetrieverAnswer(self.hits[:depth], depth, self.unlocated)


def place(hits: Sequence[ReturnedHit], library: Library, asked: int | None) -> RetrieverAnswer:
    """The hits of one question in ``library``, by ids or paths that end in one.

    Raises RetrieverError with those that have no place in it.
    """
    documents = [library.position_of_path(hit.document) for hit in hits]
    faults = [_unknown(hit, library) for hit, document in zip(hits, documents, strict=True) if document is None]
    if faults:
        more = f" And {len(faults) - _MOST_FAULTS:,} more." if len(faults) > _MOST_FAULTS else ""
        raise RetrieverError(" ".join(dict.fromkeys(faults[:_MOST_FAULTS])) + more)
    placed, unlocated = [], 0
    for number, (hit, document) in enumerate(zip(hits, documents, strict=True), 1):
        if document is None:
            continue
        span = _span(hit, library.text(document), number) if hit.text or hit.start is not None else None
        unlocated += span is None and bool(hit.text)
        start, end = span or (None, None)
        placed.append(PlacedHit(document, start, end, hit.score))
    return RetrieverAnswer(tuple(placed), asked, unlocated)


def _unknown(hit: ReturnedHit, library: Library) -> str:
    fault = f"{shown(hit.document)} is not the id of a document ({len(library):,} documents)."
    for key, value in hit.metadata.items():
        if isinstance(value, str) and value in library.positions:
            return f"{fault} Its {key!r} is one: {value!r}; set `document: {key}`."
    return fault + did_you_mean(hit.document, library.ids)


def _span(hit: ReturnedHit, text: str, number: int) -> tuple[int, int] | None:
    """Where a hit is in its document; None where that is all of it, or is not known."""
    whole = normalised(hit.text or "")
    words = whole.strip()
    if hit.start is not None and hit.end is not None:
        start, end = int(hit.start), int(hit.end)
        place = f"the characters {start} to {end} of {hit.document!r}"
        if not 0 <= start < end <= len(text):
            raise RetrieverError(f"hit {number} is of {place}, which has 0 to {len(text)}.")
        if words and text[start:end].strip() != words:
            there = shown(text[start:end])
            raise RetrieverError(f"hit {number} has the text {shown(hit.text)}, and {place} are {there}.")
        return start, end
    start = -1 if hit.hint is None else hit.hint + len(whole) - len(whole.lstrip())
    if start < 0 or not text.startswith(words, start):
        start = text.find(words)
    if not words or start < 0:
        return None
    return start, start + len(words)
