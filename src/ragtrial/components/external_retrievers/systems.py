"""What a config names as a retriever (a function, a library's object, or what makes one), and how it is asked."""

from __future__ import annotations

import inspect
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
    read_hit,
    shown,
)
from ragtrial.components.user_functions import FunctionReference, import_object, version_parts
from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import short
from ragtrial.errors import ModelNotFoundError, RetrieverError, RunError

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
        """The hits of each question, whatever they are. Raises RetrieverError; RunError if the program was ended."""
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


def check_system(reference: FunctionReference, options: Options) -> None:
    """Raises ModelNotFoundError if what is named cannot be found, or can be no retriever, or does not take ``options``.

    Nothing is called.
    """
    _role(reference, import_object(reference, _is_there), options)


def system_version(reference: FunctionReference, version: str | None, digest: Digest) -> dict[str, Any]:
    """What tells its versions apart; see ``version_parts``."""
    return version_parts(reference, version, digest, _is_there)


def open_system(reference: FunctionReference, options: Options) -> System:
    """What is named, ready to be asked; made first where it has to be.

    Raises ModelNotFoundError as ``check_system`` does, RunError where it cannot be made.
    """
    named = import_object(reference, _is_there)
    name = str(reference)
    role = _role(reference, named, options)
    if role == "function":
        return System(name, lambda queries, depth: named(queries, depth, **options), at_once=True)
    made = named
    if role == "factory":
        try:
            with guarded(name, ()):
                made = named(**options)
        except RetrieverError as error:
            raise RunError(*error.faults) from error
    if _is_object(made):
        return _of_object(name, made)
    if callable(made) and not isinstance(made, type) and _takes(made, "queries", 1):
        return System(name, made, at_once=True)
    raise RunError(
        f"{name} was called with the options alone and returned {_described(made)}; a retriever is {_MEANT}."
    )


def _is_there(found: object) -> bool:
    return found is not None


def _role(reference: FunctionReference, named: Any, options: Options) -> str:
    """``object``, ``function`` (which needs the questions) or ``factory`` (which can be called with options alone)."""
    if _is_object(named):
        if options:
            raise ModelNotFoundError(f"{reference} is an object and takes no `options`; name what makes it.")
        return "object"
    if callable(named) and _takes(named, **options):
        return "factory"
    if callable(named) and _takes(named, "queries", 1, **options):
        return "function"
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
    """Whether it is a library's object, which is asked by one of the known methods."""
    if isinstance(found, type) or inspect.ismodule(found) or inspect.isfunction(found):
        return False
    return any(callable(getattr(found, method, None)) for method in _METHODS)


def _of_object(name: str, found: Any) -> System:
    """A library's object as a system. The number of hits is given where a call can take it."""
    if callable(getattr(found, "retrieve", None)):
        return System(name, lambda query, _: found.retrieve(query), takes_number=False)
    if callable(getattr(found, "invoke", None)):
        # A vector store's retriever takes `k`; of other objects it is not known whether they do.
        is_store = isinstance(getattr(found, "search_kwargs", None), Mapping)
        return System(
            name, lambda query, k: found.invoke(query, **({"k": k} if is_store else {})), takes_number=is_store
        )
    parameters = inspect.signature(found.run).parameters
    if "query" in parameters:
        takes = "top_k" in parameters
        return System(
            name,
            lambda query, k: _documents(found.run(query=query, **({"top_k": k} if takes else {}))),
            takes_number=takes,
        )
    if "data" in parameters and callable(getattr(found, "inputs", None)):
        return System(
            name, lambda query, _: _documents(found.run(_pipeline_input(name, found, query))), takes_number=False
        )
    names = ", ".join(parameters) or "nothing"
    raise RunError(f"{name}: its run() takes {names}, not `query`; put it into a Pipeline that is asked a text.")


def _documents(returned: Any) -> Any:
    """The one list under `documents` in what Haystack returned; all of that where there is not one."""
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


def _described(value: object) -> str:
    """A value as messages show it. A coroutine that nobody waits for is closed, or Python warns of it."""
    if inspect.iscoroutine(value):
        value.close()
    return shown(value)


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
        found: list[ReturnedHit] = []
        try:
            with guarded(system.name, [query]):
                found += (read_hit(raw, self.document) for raw in hits)
            return place(found, self.library, depth if system.takes_number else None)
        except RetrieverError as error:
            hit = f"hit {len(found) + 1} " if len(found) < len(hits) else ""
            return RetrieverError(f"{system.name}, query {short(query)!r}: {hit}{error}{'.' if hit else ''}")
