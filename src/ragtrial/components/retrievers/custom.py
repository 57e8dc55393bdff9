"""A retriever of the user, and the journal of its answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import pairwise
from math import isnan, nan
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, JsonValue

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.components.interfaces import RETRIEVERS, Candidates, Fact, Facts, Retriever, RetrieverContext
from ragtrial.components.retrievers import external
from ragtrial.components.retrievers.external import PlacedHit, RetrieverAnswer, ReturnedHit, System
from ragtrial.components.user_functions import FunctionName, version_parts
from ragtrial.dataset.chunks import SpanCodes
from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import short
from ragtrial.errors import RetrieverError
from ragtrial.rankings import from_rows
from ragtrial.records import Question, ReportWarning


class Journal:
    """The answers of one retriever over one library, by the question's text.

    Each answer is kept at once, also if other processes write. Raises WorkspaceError if the file cannot be read or
    written.
    """

    def __init__(self, path: Path, library: Library) -> None:
        self._path = path
        self._library = library
        self._answers: dict[str, RetrieverAnswer] = {}
        for row in read_rows(path):
            with suppress(LookupError, TypeError, ValueError):  # no such row: it is asked again
                hits = tuple(
                    PlacedHit(library.positions[name], start, end, nan if score is None else score)
                    for name, score, start, end in row["hits"]
                )
                self._hold(row["query"], RetrieverAnswer(hits, row["asked"], row["unlocated"]))

    def get(self, text: str, depth: int) -> RetrieverAnswer | None:
        """The kept result of asking ``text`` for ``depth`` hits, None if it is not known."""
        answer = self._answers.get(text)
        return answer.cut(depth) if answer is not None and answer.serves(depth) else None

    def add(self, text: str, answer: RetrieverAnswer) -> None:
        """Keep an answer for a text: it is written before this returns."""
        ids = self._library.ids
        hits = [[ids[at], None if isnan(score) else score, start, end] for at, start, end, score in answer.hits]
        row = {"query": text, "asked": answer.asked, "unlocated": answer.unlocated, "hits": hits}
        append_row(self._path, row)
        self._hold(text, answer)

    def _hold(self, text: str, answer: RetrieverAnswer) -> None:
        held = self._answers.get(text)
        if held is None or answer.asked is None or answer.serves(held.asked or 0):
            self._answers[text] = answer


_MOST_FAULTS = 5
_ENOUGH = 5
"""This number of queries with equally many hits is not chance."""


@RETRIEVERS.register("custom")
class CustomRetriever(Retriever):
    """Your own code: a Python function, or a retriever of LangChain, LlamaIndex or Haystack."""

    content_is: ClassVar[str] = "function"

    kind: Literal["custom"] = "custom"
    """Your own code: a Python function, or a retriever of LangChain, LlamaIndex or Haystack."""

    function: FunctionName
    """`package.module:name`, installed or in the folder of the config: a function `(queries, top_k)` that returns a
    list of hits for each query; an object with `invoke`, `retrieve` or `run`; or a function or class that makes such an
    object from `options`."""

    options: Annotated[dict[str, JsonValue], Field(default_factory=dict)]
    """Further arguments, by name, for the function or for the maker of the retriever."""

    document: str | None = None
    """The key of a hit, or of its metadata, that holds the document's id (default: `doc`, else the hit's own id)."""

    batch_size: Annotated[int, Field(ge=1)] | None = None
    """How many queries a function gets in one call (default: all; objects of libraries get one at a time)."""

    on_error: Literal["stop", "skip"] = "stop"
    """If a query has no valid answer: fail the setting, or leave the query out of every mean and count it."""

    version: str | None = None
    """Your version of the function and its index: cached answers are used while it stays the same (default: the hash of
    the function's files)."""

    def hashed_options(self) -> dict[str, Any]:
        own = super().hashed_options()
        return {name: value for name, value in own.items() if name not in ("batch_size", "version")}

    def hashed_content(self, digest: Digest) -> Any:
        return version_parts(self.function, self.version, digest, external.is_there)

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        external.named_system(self.function, self.options)
        self.hashed_content(file_digest)

    def open(self, context: RetrieverContext) -> _OpenCustom:
        return _OpenCustom(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if facts.get("skipped"):
            message = f"{setting}: the first query that could not be answered: {facts['first_error']}"
            yield ReportWarning("first-skipped", message)
        if facts.get("duplicates"):
            message = f"{setting}: hits at the place of an earlier hit: {facts['duplicates']:,}; the first counts."
            yield ReportWarning("duplicate-hits", message)
        if facts.get("rising"):
            message = f"{setting}: queries whose scores rise: {facts['rising']:,}, first {facts['first_rising']!r}"
            yield ReportWarning("rising-scores", f"{message}. Hits are ranked as returned: is it best first?")
        if facts.get("limit"):
            message = f"{setting}: hits for every query: {facts['limit']}, though more were asked for"
            own = "`search_kwargs` in LangChain, `similarity_top_k` in LlamaIndex, `top_k` in Haystack"
            yield ReportWarning("own-limit", f"{message}. Does the retriever have its own limit ({own})?")


class _OpenCustom:
    def __init__(self, options: CustomRetriever, context: RetrieverContext) -> None:
        self._options = options
        self._context = context
        self._has_answered = False
        self._places = SpanCodes(context.library)

    @cached_property
    def _system(self) -> System:
        return external.open_system(self._options.function, self._options.options)

    @cached_property
    def _journal(self) -> Journal:
        library = self._context.library
        asked = {key: value for key, value in self._options.hashed_options().items() if key != "on_error"}
        name = fingerprint([asked, self._options.hashed_content(file_digest), library.digest])
        return Journal(self._context.growing("answers", name).with_suffix(".jsonl"), library)

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        answers, errors = self._answered(list(dict.fromkeys(question.text for question in questions)), depth)
        self._has_answered = self._has_answered or bool(answers) or self._context.is_fresh
        if errors and (self._options.on_error == "stop" or not self._has_answered):
            messages = list(dict.fromkeys(map(str, errors)))
            more = [f"and {len(messages) - _MOST_FAULTS:,} more errors."] if len(messages) > _MOST_FAULTS else []
            raise RetrieverError(*messages[:_MOST_FAULTS], *more)
        found = [answers.get(question.text) for question in questions]
        skipped = np.array([answer is None for answer in found], dtype=np.bool_)
        rows: list[dict[int, float]] = [{} for _ in found]
        for row, answer in zip(rows, found, strict=True):
            for document, start, end, score in answer.hits if answer else ():
                row.setdefault(self._places.code(document, start, end), score)
        hits = [len(answer.hits) for answer in found if answer is not None]
        most = min(depth, len(self._context.library))
        is_limit = len(hits) >= _ENOUGH and len(set(hits)) == 1 and 0 < hits[0] < most
        rising = [question.text for question, answer in zip(questions, found, strict=True) if answer and _rises(answer)]
        facts: dict[str, Fact] = {
            "duplicates": sum(hits) - sum(map(len, rows)),
            "beyond_top_k": sum(max(len(row) - depth, 0) for row in rows),
            "skipped": int(skipped.sum()),
            "unlocated": sum(answer.unlocated for answer in found if answer is not None),
            "rising": len(rising),
            "limit": hits[0] if is_limit else None,
        }
        if errors:
            facts["first_error"] = str(errors[0])
        if rising:
            facts["first_rising"] = short(rising[0])
        rankings = from_rows([list(row)[:depth] for row in rows], [list(row.values())[:depth] for row in rows])
        return Candidates(self._places.chunks(), rankings, skipped, facts)

    def _answered(self, texts: Sequence[str], depth: int) -> tuple[dict[str, RetrieverAnswer], list[RetrieverError]]:
        """The kept and new answers, and the failures of the other questions.

        Unless failures are skipped, nothing is asked after a call in which something went wrong.
        """
        keeps = not self._context.is_fresh
        known = {text: self._journal.get(text, depth) for text in texts} if keeps else {}
        answers = {text: answer for text, answer in known.items() if answer is not None}
        errors: list[RetrieverError] = []
        missing = [text for text in texts if text not in answers]
        size = (self._options.batch_size or len(missing)) if missing and self._system.at_once else 1
        for start in range(0, len(missing), size):
            for text, answer in self._asked(missing[start : start + size], depth):
                if isinstance(answer, RetrieverError):
                    errors.append(answer)
                    continue
                answers[text] = answer
                if keeps:
                    self._journal.add(text, answer)
            if errors and self._options.on_error == "stop":
                break
        return answers, errors

    def _asked(self, queries: Sequence[str], depth: int) -> Iterator[tuple[str, RetrieverAnswer | RetrieverError]]:
        """Each question of one call with its answer or error; after a failed call each is asked alone."""
        try:
            answers = self._system.ask(queries, depth)
        except RetrieverError as error:
            asks_again = len(queries) > 1 and self._options.on_error == "skip"
            for query in queries:
                yield from self._asked([query], depth) if asks_again else [(query, error)]
            return
        for query, hits in zip(queries, answers, strict=True):
            yield query, self._read(query, hits, depth)

    def _read(self, query: str, hits: Sequence[object], depth: int) -> RetrieverAnswer | RetrieverError:
        name, found = self._system.name, list[ReturnedHit]()
        try:
            with external.guarded(name, [query]):
                found += (external.read_hit(hit, self._options.document) for hit in hits)
            return external.place(found, self._context.library, depth if self._system.takes_number else None)
        except RetrieverError as error:
            hit = f"hit {len(found) + 1} " if len(found) < len(hits) else ""
            return RetrieverError(f"{name}, query {short(query)!r}: {hit}{error}{'.' if hit else ''}")


def _rises(answer: RetrieverAnswer) -> bool:
    """True if a score is above the score before it; unknown scores do not count."""
    scores = [hit.score for hit in answer.hits if not isnan(hit.score)]
    return any(later > earlier for earlier, later in pairwise(scores))
