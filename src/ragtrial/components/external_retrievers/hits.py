"""Hits of any shape (ids, pairs, mappings, documents of LangChain, LlamaIndex, Haystack), and their documents."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import normalised
from ragtrial.errors import RetrieverError, did_you_mean

NO_SCORE = math.nan

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_DOC_KEYS = ("doc", "id")
_SHAPE = "an id, an (id, score) pair, a mapping with `doc` or `id`, or a document of LangChain, LlamaIndex or Haystack"
LARGEST_SCORE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class ReturnedHit:
    """A hit as it was returned.

    ``document`` is the id that it names; ``score`` is NaN where it has none. ``start`` and ``end`` are characters of
    the document, taken at their word; ``text`` is what is to be found in it, perhaps at ``hint``. ``metadata`` is all
    that came with a library's document.
    """

    document: str
    score: float = NO_SCORE
    start: int | None = None
    end: int | None = None
    text: str | None = None
    hint: int | None = None
    metadata: Mapping[str, Any] = field(default_factory=lambda: _NOTHING)


def read_hit(raw: object, key: str | None = None) -> ReturnedHit:
    """The hit that ``raw`` is. ``key`` is where metadata has the document's id; None for the usual places.

    Raises RetrieverError with what is wrong with it.
    """
    if isinstance(raw, str):
        return ReturnedHit(str(raw))
    if isinstance(raw, tuple):  # of what is usual, not of what it may be, Python knows the answer at once
        return _of_pair(raw, key)
    if isinstance(raw, dict | Mapping):
        return _of_mapping(raw, key)
    if isinstance(raw, Integral):
        return ReturnedHit(_id_of(raw, "the id"))
    if isinstance(raw, list | Sequence | np.ndarray) and not isinstance(raw, bytes):
        return _of_pair(raw, key)
    return _of_document(raw, key)


def _of_pair(raw: Any, key: str | None) -> ReturnedHit:
    if len(raw) != 2 or isinstance(raw[0], tuple | list):
        raise RetrieverError(f"is {shown(raw)}; a hit is {_SHAPE}")
    if isinstance(raw[0], str):
        return ReturnedHit(str(raw[0]), _score_of(raw[1]))
    hit = read_hit(raw[0], key)
    return ReturnedHit(hit.document, _score_of(raw[1]), hit.start, hit.end, hit.text, hit.hint, hit.metadata)


def _of_mapping(raw: Mapping[Any, Any], key: str | None) -> ReturnedHit:
    keys = _DOC_KEYS if key is None else (key,)
    name = next((one for one in keys if raw.get(one) is not None), None)
    if name is None:
        raise RetrieverError(f"has no {' or '.join(map(repr, keys))}; it has the keys {shown(list(raw))}")
    start, end, text = raw.get("start"), raw.get("end"), raw.get("text")
    if (start is None) != (end is None):
        raise RetrieverError("has only one of `start` and `end`; give both, or neither")
    if not (start is None or (_is_whole(start) and _is_whole(end))):
        raise RetrieverError(f"has the start {shown(start)} and the end {shown(end)}; both must be whole numbers")
    if not (text is None or isinstance(text, str)):
        raise RetrieverError(f"has the text {shown(text)}; it must be a string")
    start, end = (None, None) if start is None or end is None else (int(start), int(end))
    return ReturnedHit(_id_of(raw[name], f"{name!r}"), _score_of(raw.get("score")), start, end, text, metadata=raw)


def _of_document(raw: Any, key: str | None) -> ReturnedHit:
    """Of a library's class: a NodeWithScore wraps a node; the others are told apart by where their text is."""
    if hasattr(raw, "node") and hasattr(raw.node, "get_content"):
        node = raw.node
        own = node.ref_doc_id or node.node_id
        metadata, text, hint = node.metadata, node.get_content(), getattr(node, "start_char_idx", None)
    elif hasattr(raw, "page_content"):
        metadata, text = raw.metadata, raw.page_content
        own, hint = getattr(raw, "id", None), metadata.get("start_index")
    elif hasattr(raw, "content") and hasattr(raw, "meta"):
        metadata, text = raw.meta, raw.content
        own, hint = metadata.get("source_id") or raw.id, metadata.get("split_idx_start")
    else:
        raise RetrieverError(f"is {shown(raw)}; a hit is {_SHAPE}")
    name = own if key is None else metadata.get(key)
    if key is None and metadata.get("doc") is not None:
        name = metadata["doc"]
    if key == "id" and name is None:
        name = getattr(raw, "id", None)
    if name is None:
        known = f"it has {shown(sorted(map(str, metadata)))}"
        if key is None:
            known += ": name the key that holds the document's id with `document:`"
        wanted = "no id" if key is None else f"no {key!r} in its metadata"
        raise RetrieverError(f"is a {type(raw).__name__} with {wanted}; {known}")
    score = _score_of(getattr(raw, "score", None))
    hint = hint if _is_whole(hint) else None
    return ReturnedHit(_id_of(name, "the id"), score, text=text, hint=hint, metadata=metadata)


def _id_of(value: object, what: str) -> str:
    """An id as the documents have it: numbers become strings, as they do in labels."""
    if isinstance(value, str):
        return str(value)
    if _is_whole(value):
        return str(int(value))  # type: ignore[call-overload]  # it is a number
    raise RetrieverError(f"names {shown(value)} as {what}; it must be a string")


def _score_of(value: object) -> float:
    if value is None:
        return NO_SCORE
    if isinstance(value, float) or (isinstance(value, Real | np.number) and not isinstance(value, bool | np.bool_)):
        score = float(value)
        if math.isfinite(score) and abs(score) <= LARGEST_SCORE:
            return score
        if math.isfinite(score):
            raise RetrieverError(f"has the score {shown(value)}; scores are kept as float32, up to {LARGEST_SCORE:.1e}")
    raise RetrieverError(f"has the score {shown(value)}; it must be a finite number, or None where there is none")


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value as messages show it, on one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else text[:77] + "..."


_MOST = 3


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


def place_plain(hits: Sequence[object], library: Library, asked: int | None) -> RetrieverAnswer | None:
    """The answer where all ``hits`` are ids of documents, or (id, score) pairs: most are, and this is quick.

    None where any is something else, or is wrong; then they need a closer look.
    """
    positions, placed = library.positions, list[PlacedHit]()
    new = tuple.__new__  # a named tuple's own takes twice as long, and there is one for each hit
    for hit in hits:
        name, score = hit if isinstance(hit, tuple) and len(hit) == 2 else (hit, None)
        position = positions.get(name) if isinstance(name, str) else None
        if position is None:
            return None
        if score is None:
            placed.append(new(PlacedHit, (position, None, None, NO_SCORE)))
        elif isinstance(score, float) and -LARGEST_SCORE <= score <= LARGEST_SCORE:
            placed.append(new(PlacedHit, (position, None, None, float(score))))
        else:
            return None
    return RetrieverAnswer(tuple(placed), asked)


def place(hits: Sequence[ReturnedHit], library: Library, asked: int | None) -> RetrieverAnswer:
    """The hits of one question in ``library``. Raises RetrieverError with those that have no place in it."""
    faults = [_unknown(hit, library) for hit in hits if hit.document not in library.positions]
    if faults:
        more = f" And {len(faults) - _MOST:,} more." if len(faults) > _MOST else ""
        raise RetrieverError(" ".join(dict.fromkeys(faults[:_MOST])) + more)
    placed, unlocated = [], 0
    for number, hit in enumerate(hits, 1):
        document = library.positions[hit.document]
        start = end = None
        if hit.text or hit.start is not None:
            start, end = _stretch(hit, library.text(document), number)
        unlocated += start is None and bool(hit.text)
        placed.append(PlacedHit(document, start, end, hit.score))
    return RetrieverAnswer(tuple(placed), asked, unlocated)


def _unknown(hit: ReturnedHit, library: Library) -> str:
    fault = f"{shown(hit.document)} is not the id of a document ({len(library):,} documents)."
    for key, value in hit.metadata.items():
        if isinstance(value, str) and value in library.positions:
            return f"{fault} Its {key!r} is one: {value!r}; say `document: {key}`."
    return fault + did_you_mean(hit.document, library.ids)


def _stretch(hit: ReturnedHit, text: str, number: int) -> tuple[int, int] | tuple[None, None]:
    """Where a hit is in its document; None where that is all of it, or cannot be told."""
    whole = normalised(hit.text) if hit.text else ""
    words = whole.strip()
    if hit.start is not None and hit.end is not None:
        if not 0 <= hit.start < hit.end <= len(text):
            what = f"hit {number} is of the characters {hit.start} to {hit.end} of {hit.document!r}"
            raise RetrieverError(f"{what}, which has 0 to {len(text)}.")
        if words and text[hit.start : hit.end].strip() != words:
            what = f"hit {number} has a text that is not what {hit.document!r} has from {hit.start} to {hit.end}"
            raise RetrieverError(f"{what}: {shown(hit.text)} there, {shown(text[hit.start : hit.end])} here.")
        return hit.start, hit.end
    if not words:
        return None, None
    start = -1 if hit.hint is None or hit.hint < 0 else hit.hint + len(whole) - len(whole.lstrip())
    if start < 0 or not text.startswith(words, start):
        start = text.find(words)
    if start < 0 or len(words) == len(text):
        return (0, len(text)) if start == 0 else (None, None)
    return start, start + len(words)
