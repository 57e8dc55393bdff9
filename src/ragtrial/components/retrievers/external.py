"""Retrievers of other libraries and the user's functions: calls, and their results."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ragtrial.components.user_functions import FunctionReference, import_object
from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import normalised, short
from ragtrial.errors import ModelNotFoundError, RetrieverError, RunError, counted, did_you_mean

_NOTHING: Mapping[str, Any] = MappingProxyType({})
_SHAPE = "an id, an (id, score) pair, a mapping with `doc` or `id`, or a document of LangChain, LlamaIndex or Haystack"
_LARGEST_SCORE = float(np.finfo(np.float32).max)
_MOST_FAULTS = 3


class ReturnedHit(NamedTuple):
    """A hit as it was returned.

    ``document`` is the id that it names; ``score`` is NaN where it has none. ``start`` and ``end`` are characters of
    the document, used as given; ``text`` is to be found in it, perhaps at ``hint``. ``metadata`` is all that came with
    a library's document.
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

    Raises RetrieverError for an invalid hit.
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
    if not (start is end is None or (_is_integer(start) and _is_integer(end))):
        raise RetrieverError(f"has the start {shown(start)} and the end {shown(end)}; both must be whole numbers")
    if not (text is None or isinstance(text, str)):
        raise RetrieverError(f"has the text {shown(text)}; it must be a string")
    return ReturnedHit(_id_of(name), _score_of(raw.get("score")), start, end, text, metadata=raw)


def _of_document(raw: Any, key: str | None) -> ReturnedHit:
    """The attributes of a library's hit: a NodeWithScore wraps a node; other classes differ in the place of their
    text.
    """
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
        raise RetrieverError(
            f"is a {type(raw).__name__} with {wanted}; it has {shown(sorted(map(str, metadata)))}: name the key that "
            "holds the document's id with `document:`"
        )
    hint = hint if _is_integer(hint) else None
    return ReturnedHit(_id_of(name), _score_of(getattr(raw, "score", None)), text=text, hint=hint, metadata=metadata)


def _id_of(value: Any) -> str:
    """An id as the documents have it: numbers become strings, as they do in labels."""
    if not (isinstance(value, str) or _is_integer(value)):
        raise RetrieverError(f"names {shown(value)} as the id; it must be a string")
    return str(value)


def _score_of(value: Any) -> float:
    if value is None:
        return math.nan
    if type(value) is float and abs(value) <= _LARGEST_SCORE:
        return value
    if isinstance(value, bool) or not isinstance(value, Real) or not abs(float(value)) <= _LARGEST_SCORE:
        message = f"has the score {shown(value)}; it must be a finite number (float32), or None where there is none"
        raise RetrieverError(message)
    return float(value)


def _is_integer(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def shown(value: object) -> str:
    """A value as messages show it, on one line of at most 80 characters."""
    return short(repr(value), 80)


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
    text is not verbatim in their document; they became the whole document.
    """

    hits: tuple[PlacedHit, ...]
    asked: int | None
    unlocated: int = 0

    def serves(self, depth: int) -> bool:
        """True if it has the result of a question for ``depth`` hits."""
        return self.asked is None or self.asked >= depth

    def cut(self, depth: int) -> RetrieverAnswer:
        """The result of a question for ``depth`` hits; the answer to a deeper question is cut."""
        if self.asked is None or self.asked <= depth:
            return self
        return RetrieverAnswer(self.hits[:depth], depth, self.unlocated)


def place(hits: Sequence[ReturnedHit], library: Library, asked: int | None) -> RetrieverAnswer:
    """The hits of one question in ``library``, by ids or by paths of files in the corpus.

    Raises RetrieverError for hits without a place in it.
    """
    placed, unlocated, faults = [], 0, []
    for number, hit in enumerate(hits, 1):
        document = library.position_of_file(hit.document)
        if document is None:
            faults.append(_unknown(hit, library))
        elif not faults:
            span = _span(hit, library.text(document), number) if hit.text or hit.start is not None else None
            unlocated += span is None and bool(hit.text)
            start, end = span or (None, None)
            placed.append(PlacedHit(document, start, end, hit.score))
    if faults:
        more = f" And {len(faults) - _MOST_FAULTS:,} more." if len(faults) > _MOST_FAULTS else ""
        raise RetrieverError(" ".join(dict.fromkeys(faults[:_MOST_FAULTS])) + more)
    return RetrieverAnswer(tuple(placed), asked, unlocated)


def _unknown(hit: ReturnedHit, library: Library) -> str:
    fault = f"{shown(hit.document)} is not the id of a document ({counted(len(library), 'document')})."
    for key, value in hit.metadata.items():
        if isinstance(value, str) and value in library.positions:
            return f"{fault} Its {key!r} is one: {value!r}; set `document: {key}`."
    if (position := library.position_of_path(hit.document)) is not None:
        return f"{fault} It is a path outside the corpus. Did you mean {library.ids[position]!r}?"
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


_METHODS = ("retrieve", "invoke", "run")
_MEANT = (
    "a search function (queries, top_k), or an object with `invoke` (LangChain), `retrieve` (LlamaIndex) or `run` "
    "(Haystack), or a function or class that takes the options alone and makes one of these"
)

Options = Mapping[str, Any]


@dataclass(frozen=True)
class System:
    """Something that answers questions: several in one call (``at_once``), or one.

    ``call`` takes the questions, or the one, and how many hits are wanted; ``takes_number`` says whether that is used.
    """

    name: str
    call: Callable[[Any, int], Any]
    at_once: bool = False
    takes_number: bool = True

    def ask(self, queries: Sequence[str], depth: int) -> list[list[Any]]:
        """The hits of each question, in any form. Raises RetrieverError; RunError if the program was ended."""
        with guarded(self.name, queries):
            returned = self.call(list(queries) if self.at_once else queries[0], depth)
            answers = returned if self.at_once else [returned]
            if _is_listed(answers):
                answers = list(answers)
                if len(answers) == len(queries) and all(map(_is_listed, answers)):
                    return [list(answer) for answer in answers]
        found = _described(returned) + _for(queries)
        wanted = "one list of hits for each query, in a list" if self.at_once else "a list of documents"
        raise RetrieverError(f"{self.name} returned {found}; it must return {wanted}.")


def open_system(reference: FunctionReference, options: Options) -> System:
    """The named object, ready to be asked; made first if it is a maker.

    Raises ModelNotFoundError as ``named_system`` does, RunError where it cannot be made.
    """
    named, role = named_system(reference, options)
    name = str(reference)
    if role == "function":
        return System(name, lambda queries, depth: named(queries, depth, **options), at_once=True)
    system = named
    if role == "factory":
        try:
            with guarded(name, ()):
                system = named(**options)
        except RetrieverError as error:
            raise RunError(*error.faults) from error
    if _is_object(system):
        return _of_object(name, system)
    if callable(system) and not isinstance(system, type) and _takes(system, "queries", 1):
        return System(name, system, at_once=True)
    message = f"{name} was called with the options alone and returned {_described(system)}; a retriever is {_MEANT}."
    raise RunError(message)


def is_there(found: object) -> bool:
    """True for anything but None: a retriever may be an object of any kind."""
    return found is not None


def named_system(reference: FunctionReference, options: Options) -> tuple[Any, str]:
    """The named object, which is not called, and its role.

    It is an ``object``, a ``function`` (which needs the questions) or a ``factory`` (which can be called with options
    alone). Raises ModelNotFoundError if there is none, or if it cannot be a retriever, or does not take ``options``.
    """
    named = import_object(reference, is_there)
    if _is_object(named):
        if options:
            raise ModelNotFoundError(f"{reference} is an object and takes no `options`; name what makes it.")
        return named, "object"
    if callable(named) and _takes(named, **options):
        return named, "factory"
    if callable(named) and _takes(named, "queries", 1, **options):
        return named, "function"
    is_function = inspect.isroutine(named) or isinstance(named, type)
    found = f"{named.__name__}{inspect.signature(named)}" if is_function else _described(named)
    given = f" called with the options {shown(dict(options))}" if options else ""
    raise ModelNotFoundError(f"{reference} cannot be a retriever{given}: it is {found}; a retriever is {_MEANT}.")


def _takes(function: Callable[..., Any], *values: object, **options: object) -> bool:
    try:
        inspect.signature(function).bind(*values, **options)
    except TypeError:
        return False
    except ValueError:  # one without a signature, written in C: it is taken for a search function
        return bool(values)
    return True


def _is_object(found: object) -> bool:
    """True if it is a library's object with one of the known methods."""
    if isinstance(found, type) or inspect.ismodule(found) or inspect.isfunction(found):
        return False
    return any(callable(getattr(found, method, None)) for method in _METHODS)


def _of_object(name: str, found: Any) -> System:
    """A library's object as a system. The number of hits is given where a call can take it."""
    if callable(getattr(found, "retrieve", None)):
        return System(name, lambda query, _: found.retrieve(query), takes_number=False)
    if callable(getattr(found, "invoke", None)):
        # A vector store's retriever takes `k`; of other objects it is not known whether they do.
        if isinstance(getattr(found, "search_kwargs", None), Mapping):
            return System(name, lambda query, k: found.invoke(query, k=k))
        return System(name, lambda query, _: found.invoke(query), takes_number=False)
    parameters = inspect.signature(found.run).parameters
    if "query" in parameters and "top_k" in parameters:
        return System(name, lambda query, k: _documents(found.run(query=query, top_k=k)))
    if "query" in parameters:
        return System(name, lambda query, _: _documents(found.run(query=query)), takes_number=False)
    if "data" in parameters and callable(getattr(found, "inputs", None)):
        asked = partial(_pipeline_input, name, found)
        return System(name, lambda query, _: _documents(found.run(asked(query))), takes_number=False)
    names = ", ".join(parameters) or "nothing"
    raise RunError(f"{name}: its run() takes {names}, not `query`; put it into a Pipeline that is asked a text.")


def _documents(returned: Any) -> Any:
    """The only list under `documents` in Haystack's result; the whole result if there is not exactly one."""
    outputs = returned if isinstance(returned, Mapping) else {}
    places = [one for one in (outputs, *outputs.values()) if isinstance(one, Mapping) and "documents" in one]
    return places[0]["documents"] if len(places) == 1 else returned


def _pipeline_input(name: str, pipeline: Any, query: str) -> dict[str, dict[str, str]]:
    """The question for every component of a pipeline that waits for one."""
    asked: dict[str, dict[str, str]] = {}
    for component, sockets in pipeline.inputs().items():
        for socket, described in sockets.items():
            if described["is_mandatory"]:
                if socket not in ("query", "text"):
                    raise RunError(f"{name}: {component} needs {socket!r}, and only `query` or `text` can be given.")
                asked.setdefault(component, {})[socket] = query
    if not asked:
        raise RunError(f"{name}: no component of the pipeline waits for a `query` or a `text`.")
    return asked


@contextmanager
def guarded(name: str, queries: Sequence[str]) -> Iterator[None]:
    """An error of the user's code becomes a RetrieverError that names the questions; its exit, a RunError."""
    try:
        yield
    except RunError:
        raise
    except SystemExit as error:
        raise RunError(f"{name} tried to end the program (SystemExit: {error}){_for(queries)}.") from error
    except Exception as error:
        said = short(str(error), 500) or "it said nothing"
        raise RetrieverError(f"{name} raised {type(error).__name__}{_for(queries)}: {said}") from error


def _for(queries: Sequence[str]) -> str:
    if not queries:
        return ""
    if len(queries) == 1:
        return f" for query {short(queries[0])!r}"
    return f" for {len(queries)} queries at once, from {short(queries[0], 60)!r} to {short(queries[-1], 60)!r}"


def _is_listed(value: object) -> bool:
    """True if it is a list or another iterable of items."""
    return isinstance(value, Sequence | Iterator | np.ndarray) and not isinstance(value, str | bytes)


def _described(value: object) -> str:
    """A value as messages show it. A coroutine that is not awaited must be closed, or Python warns of it."""
    if inspect.iscoroutine(value):
        value.close()
    return shown(value)
