"""What a config names as a retriever (a function, a library's object, or what makes one), and how it is asked."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ragtrial.cache.fingerprints import Digest
from ragtrial.components.external_retrievers.hits import (
    RetrieverAnswer,
    ReturnedHit,
    place,
    place_plain,
    read_hit,
    shown,
)
from ragtrial.components.user_functions import FunctionReference, function_sources, import_object
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import short
from ragtrial.errors import ModelNotFoundError, RetrieverError, RunError

_METHODS = {"retrieve": "LlamaIndex", "invoke": "LangChain", "run": "Haystack"}
_MEANT = (
    "a search function (queries, top_k), or an object with `invoke` (LangChain), `retrieve` (LlamaIndex) or `run` "
    "(Haystack), or a function or class that takes the options alone and makes one of these"
)

Options = Mapping[str, Any]


class System(ABC):
    """Something that answers questions. ``takes_number``: whether it is told how many hits are wanted."""

    takes_number = True
    at_once = False
    """Whether it takes several questions in one call."""

    def __init__(self, name: str) -> None:
        self.name = name

    def ask(self, queries: Sequence[str], depth: int) -> list[list[Any]]:
        """The hits of each question, whatever they are. Raises RetrieverError; RunError if the program was ended."""
        with guarded(self.name, queries):
            return self._lists(self._asked(queries, depth), queries)

    @abstractmethod
    def _asked(self, queries: Sequence[str], depth: int) -> Any:
        """What is returned for the questions: a list with one list for each."""

    def _lists(self, returned: Any, queries: Sequence[str]) -> list[list[Any]]:
        asked = f"{len(queries)} questions" if len(queries) > 1 else "1 question"
        of_all = f"each of the {asked}" if len(queries) > 1 else "the one question"
        wanted = f"it must return a list with one list of hits for {of_all}"
        if not _is_listed(returned):
            raise RetrieverError(f"{self.name} returned {_kind(returned)}; {wanted}.")
        answers = list(returned)
        for position, answer in enumerate(answers):
            if not _is_listed(answer):
                found = f"{self.name} returned a list of {_kind(answer)}, {shown(answer)}"
                of = _for(queries[position : position + 1])
                raise RetrieverError(f"{found}{of and f',{of}'}; {wanted}.")
        if len(answers) != len(queries):
            raise RetrieverError(f"{self.name} returned {len(answers)} lists for {asked}; {wanted}.")
        return [list(answer) for answer in answers]


class _Function(System):
    at_once = True

    def __init__(self, name: str, function: Callable[..., Any], options: Options) -> None:
        super().__init__(name)
        self._function, self._options = function, options

    def _asked(self, queries: Sequence[str], depth: int) -> Any:
        return self._function(list(queries), depth, **self._options)


class _Object(System):
    """An object of a library, asked one question at a time."""

    def __init__(self, name: str, method: Callable[..., Any], arguments: Callable[[int], Options]) -> None:
        super().__init__(name)
        self._method, self._arguments = method, arguments
        self.takes_number = bool(arguments(1))

    def _asked(self, queries: Sequence[str], depth: int) -> Any:
        return [self._hits(self._method(query, **self._arguments(depth)), query) for query in queries]

    def _hits(self, returned: Any, query: str) -> Any:
        if not _is_listed(returned):
            what = f"{self.name} returned {_kind(returned)}{_for([query])}"
            raise RetrieverError(f"{what}; it must return a list of documents.")
        return returned


class _Component(_Object):
    """A retriever of Haystack, or a pipeline with one at its end."""

    def _hits(self, returned: Any, query: str) -> Any:
        outputs = returned if isinstance(returned, Mapping) else {}
        found = [outputs["documents"]] if "documents" in outputs else []
        found += [one["documents"] for one in outputs.values() if isinstance(one, Mapping) and "documents" in one]
        if len(found) != 1 or not _is_listed(found[0]):
            seen = shown(list(outputs)) if outputs else _kind(returned)
            what = f"{self.name} returned {seen}{_for([query])}"
            raise RetrieverError(f"{what}; it must return one list under 'documents'.")
        return found[0]


def check_system(reference: FunctionReference, options: Options) -> None:
    """Raises ModelNotFoundError if what is named cannot be found, or can be no retriever, or does not take ``options``.

    Nothing is called.
    """
    _role(reference, import_object(reference, _is_there), options)


def system_sources(reference: FunctionReference, digest: Digest) -> list[str]:
    """The hashes of the files that it is written in. Raises ModelNotFoundError where there are none."""
    sources = function_sources(reference, _is_there)
    if not sources:
        raise ModelNotFoundError(f"{reference} has no source file to tell its versions apart; give `version:`.")
    return [digest(source) for source in sources]


def open_system(reference: FunctionReference, options: Options) -> System:
    """What is named, ready to be asked; made first where it has to be.

    Raises ModelNotFoundError as ``check_system`` does, RunError where it cannot be made.
    """
    named = import_object(reference, _is_there)
    name = str(reference)
    role = _role(reference, named, options)
    if role == "object":
        return _wrapped(name, named)
    if role == "function":
        return _Function(name, named, options)
    try:
        with guarded(name, ()):
            made = named(**options)
    except RetrieverError as error:
        raise RunError(*error.faults) from error
    if _method_of(made):
        return _wrapped(name, made)
    if callable(made) and not isinstance(made, type) and _takes(made, "queries", 1):
        return _Function(name, made, {})
    _close(made)
    what = f"{name} was called with the options alone, since it needs nothing else, and returned {_kind(made)}"
    raise RunError(f"{what}; a retriever is {_MEANT}.")


def _is_there(found: object) -> bool:
    return found is not None


def _role(reference: FunctionReference, named: Any, options: Options) -> str:
    """``object``, ``function`` (which needs the questions) or ``factory`` (which can be called with options alone)."""
    if inspect.iscoroutinefunction(named):
        raise ModelNotFoundError(f"{reference} is an async function; name a plain one, which may use asyncio.run.")
    if _method_of(named):
        if options:
            raise ModelNotFoundError(f"{reference} is an object and takes no `options`; name what makes it.")
        return "object"
    if not callable(named):
        raise ModelNotFoundError(f"{reference} is {shown(named)} ({_kind(named)}); a retriever is {_MEANT}.")
    if _takes(named, **options):
        return "factory"
    if _takes(named, "queries", 1, **options):
        return "function"
    signature = f"{reference}{inspect.signature(named)}"
    given = f" with the options {', '.join(map(repr, options))}" if options else ""
    raise ModelNotFoundError(f"{signature} cannot be called{given}; a retriever is {_MEANT}.")


def _takes(function: Callable[..., Any], *values: object, **options: object) -> bool:
    try:
        inspect.signature(function).bind(*values, **options)
    except TypeError:
        return False
    except ValueError:  # one without a signature, written in C: it is taken for a search function
        return bool(values)
    return True


def _method_of(found: object) -> str:
    """By which method a library's object is asked; empty for what is none."""
    if isinstance(found, type) or inspect.ismodule(found) or inspect.isfunction(found):
        return ""
    return next((method for method in _METHODS if callable(getattr(found, method, None))), "")


def _wrapped(name: str, found: Any) -> System:
    """A library's object as a system. The number of hits is told where a call can take it."""
    match _method_of(found):
        case "retrieve":
            return _Object(name, found.retrieve, lambda _: {})
        case "invoke":
            # Of a vector store's retriever: what else takes an unknown argument cannot be known.
            is_store = isinstance(getattr(found, "search_kwargs", None), Mapping)
            return _Object(name, found.invoke, lambda depth: {"k": depth} if is_store else {})
    parameters = inspect.signature(found.run).parameters
    if "query" in parameters:
        has_top_k = "top_k" in parameters
        return _Component(
            name,
            lambda query, **more: found.run(query=query, **more),
            lambda depth: {"top_k": depth} if has_top_k else {},
        )
    if "data" in parameters and callable(getattr(found, "inputs", None)):
        return _Component(name, lambda query: found.run(_pipeline_input(name, found, query)), lambda _: {})
    takes = ", ".join(parameters) or "nothing"
    raise RunError(f"{name}: its run() takes {takes}, not `query`; put it into a Pipeline that is asked a text.")


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
    """What the user's code raises inside becomes a RetrieverError that names the questions; its exit, a RunError."""
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
    """Whether it is a list of things, or gives them one after another."""
    return isinstance(value, Sequence | Iterator | np.ndarray) and not isinstance(value, str | bytes)


def _kind(value: object) -> str:
    _close(value)
    return type(value).__name__


def _close(value: object) -> None:
    """A coroutine that nobody waits for is closed, or Python warns of it."""
    if inspect.iscoroutine(value):
        value.close()


@dataclass(frozen=True)
class Asking:
    """How questions are put: ``batch_size`` in a call (None: all), and whether each of a failed batch is asked alone.

    ``document`` is the key of metadata that has a document's id; None for the usual places.
    """

    library: Library
    document: str | None = None
    batch_size: int | None = None
    retries: bool = False

    def answers(
        self, system: System, queries: Sequence[str], depth: int
    ) -> Iterator[tuple[str, RetrieverAnswer | RetrieverError]]:
        """Each question with its answer, or with what went wrong, as they come. Raises RunError.

        Without ``retries`` nothing is asked after a call in which something went wrong.
        """
        size = (self.batch_size or max(len(queries), 1)) if system.at_once else 1
        for start in range(0, len(queries), size):
            is_whole = True
            for query, answer in self._batch(system, queries[start : start + size], depth):
                is_whole = is_whole and isinstance(answer, RetrieverAnswer)
                yield query, answer
            if not (is_whole or self.retries):
                return

    def _batch(
        self, system: System, queries: Sequence[str], depth: int
    ) -> Iterator[tuple[str, RetrieverAnswer | RetrieverError]]:
        try:
            answers = system.ask(queries, depth)
        except RetrieverError as error:
            if len(queries) == 1 or not self.retries:
                yield from ((query, error) for query in queries)
                return
            for query in queries:
                yield from self._batch(system, [query], depth)
            return
        for query, hits in zip(queries, answers, strict=True):
            yield query, self._read(system, query, hits, depth)

    def _read(self, system: System, query: str, hits: Sequence[object], depth: int) -> RetrieverAnswer | RetrieverError:
        asked = depth if system.takes_number else None
        answer = place_plain(hits, self.library, asked)
        if answer is not None:
            return answer
        found: list[ReturnedHit] = []
        try:
            with guarded(system.name, [query]):
                found += (read_hit(raw, self.document) for raw in hits)
        except RetrieverError as error:
            return RetrieverError(f"{_of(system, query)}: hit {len(found) + 1} {error}.")
        try:
            return place(found, self.library, asked)
        except RetrieverError as error:
            return RetrieverError(f"{_of(system, query)}: {error}")


def _of(system: System, query: str) -> str:
    return f"{system.name}, query {short(query)!r}"
