"""A retriever of the user's: a function, or an object of LangChain, LlamaIndex or Haystack."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, JsonValue

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.components.external_retrievers.answer_journal import Journal
from ragtrial.components.external_retrievers.hits import RetrieverAnswer
from ragtrial.components.external_retrievers.systems import Asking, System, check_system, open_system, system_sources
from ragtrial.components.retrievers.base import (
    RETRIEVERS,
    Candidates,
    Fact,
    Facts,
    OpenRetriever,
    Retriever,
    RetrieverContext,
)
from ragtrial.components.user_functions import FunctionName
from ragtrial.dataset.passages import short
from ragtrial.dataset.places import ForeignPlaces
from ragtrial.errors import RetrieverError
from ragtrial.rankings import Rankings, from_rows
from ragtrial.records import Question, ReportWarning, WarningCode
from ragtrial.report.environment import without_secrets

_MOST_FAULTS = 5
_ENOUGH = 5
"""So many queries with equally many hits are no chance."""


@RETRIEVERS.register("custom")
class CustomRetriever(Retriever):
    """Your own code: a Python function, or a retriever of LangChain, LlamaIndex or Haystack."""

    inputs_are: ClassVar[str] = "function"

    kind: Literal["custom"] = "custom"
    """Your own code: a Python function, or a retriever of LangChain, LlamaIndex or Haystack."""

    function: FunctionName
    """`package.module:name`, installed or beside the config: a function `(queries, top_k)` that returns a list of hits
    for each query; or an object with `invoke`, `retrieve` or `run`; or what makes one of these from `options`."""

    options: Annotated[dict[str, JsonValue], Field(default_factory=dict)]
    """Further arguments, by name: of the function, or of what makes the retriever."""

    document: str | None = None
    """The key of a hit, or of its metadata, that holds the document's id (default: `doc`, else the hit's own id)."""

    batch_size: Annotated[int, Field(ge=1)] | None = None
    """How many queries a function gets in one call (default: all; objects of libraries get one at a time)."""

    on_error: Literal["stop", "skip"] = "stop"
    """What a query without a valid answer does: it fails the setting, or is left out of every mean and counted."""

    version: str | None = None
    """Name what stands behind the function: as long as it stays, answers are kept (default: the hash of its file)."""

    def identity(self) -> dict[str, Any]:
        return {name: value for name, value in super().identity().items() if name not in ("batch_size", "version")}

    def inputs(self, digest: Digest) -> Any:
        return {"files": system_sources(self.function, digest)} if self.version is None else {"version": self.version}

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        check_system(self.function, self.options)
        self.inputs(file_digest)

    def open(self, context: RetrieverContext) -> OpenRetriever:
        return _OpenCustom(self, context)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if facts.get("skipped"):
            message = f"{setting}: the first query that could not be answered: {facts['first_error']}"
            yield ReportWarning(WarningCode.FIRST_SKIPPED, message)
        if facts.get("duplicates"):
            message = f"{setting}: {facts['duplicates']:,} hits stand in a ranking twice, at the same place"
            yield ReportWarning(WarningCode.DUPLICATE_HITS, f"{message}; the first counts.")
        if facts.get("rising"):
            message = f"{setting}: scores of {facts['rising']:,} queries rise, first of {facts['first_rising']!r}"
            yield ReportWarning(
                WarningCode.RISING_SCORES, f"{message}. Hits count in the order they were returned: is it best first?"
            )
        if facts.get("limit"):
            hits = f"{facts['limit']} hit{'' if facts['limit'] == 1 else 's'}"
            message = f"{setting}: every query got exactly {hits} where more were asked for"
            own = "`search_kwargs` in LangChain, `similarity_top_k` in LlamaIndex, `top_k` in Haystack"
            yield ReportWarning(WarningCode.OWN_LIMIT, f"{message}: has the retriever a limit of its own ({own})?")


class _OpenCustom:
    def __init__(self, options: CustomRetriever, context: RetrieverContext) -> None:
        self._options = options
        self._materials = context
        self._has_answered = False
        self._places = ForeignPlaces(context.library)
        self._asking = Asking(context.library, options.document, options.batch_size, retries=options.on_error == "skip")

    @cached_property
    def _system(self) -> System:
        return open_system(self._options.function, self._options.options)

    @cached_property
    def _journal(self) -> Journal:
        library = self._materials.library
        asked = {key: value for key, value in self._options.identity().items() if key != "on_error"}
        name = fingerprint([asked, self._options.inputs(file_digest), library.digest])
        return Journal(self._materials.growing("answers", name).with_suffix(".jsonl"), library)

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        texts = list(dict.fromkeys(question.text for question in questions))
        answers, errors = self._answered(texts, depth)
        self._has_answered = self._has_answered or bool(answers) or self._materials.is_fresh
        if errors and (self._options.on_error == "stop" or not self._has_answered):
            messages = list(dict.fromkeys(str(error) for error in errors.values()))
            more = len(messages) - _MOST_FAULTS
            raise RetrieverError(*messages[:_MOST_FAULTS], *([f"and {more:,} more errors."] if more > 0 else []))
        found = [answers.get(question.text) for question in questions]
        counts: Counter[str] = Counter()
        rankings = self._rankings(found, depth, counts)
        skipped = np.array([answer is None for answer in found], dtype=np.bool_)
        facts = {**counts, **_said(questions, found, errors, min(depth, len(self._materials.library)))}
        return Candidates(self._places.chunks(), rankings, skipped, facts)

    def _answered(
        self, texts: Sequence[str], depth: int
    ) -> tuple[dict[str, RetrieverAnswer], dict[str, RetrieverError]]:
        """The answers that there are, kept or new, and what went wrong with the other questions."""
        answers: dict[str, RetrieverAnswer] = {}
        if not self._materials.is_fresh:
            answers = {text: kept for text in texts if (kept := self._journal.get(text, depth)) is not None}
        missing = [text for text in texts if text not in answers]
        errors: dict[str, RetrieverError] = {}
        if not missing:
            return answers, errors
        with nullcontext() if self._materials.is_fresh else self._journal.growing() as keep:
            for text, answer in self._asking.answers(self._system, missing, depth):
                if isinstance(answer, RetrieverError):
                    errors[text] = answer
                else:
                    answers[text] = answer
                    if keep is not None:
                        keep(text, answer)
        return answers, errors

    def _rankings(self, found: Sequence[RetrieverAnswer | None], depth: int, counts: Counter[str]) -> Rankings:
        """The answers by place, each place once, cut at ``depth``."""
        rows: list[list[int]] = []
        scores: list[list[float]] = []
        code = self._places.code
        for answer in found:
            row: dict[int, float] = {}
            hits = answer.hits if answer else ()
            for document, start, end, score in hits:
                row.setdefault(code(document, start, end), score)
            counts["duplicates"] += len(hits) - len(row)
            counts["beyond_top_k"] += max(len(row) - depth, 0)
            rows.append(list(row)[:depth])
            scores.append(list(row.values())[:depth])
        return from_rows(rows, scores)


def _said(
    questions: Sequence[Question],
    found: Sequence[RetrieverAnswer | None],
    errors: Mapping[str, RetrieverError],
    most: int,
) -> dict[str, Fact]:
    """What the report tells of the answers, besides the counts of hits. ``most`` hits could have come for each."""
    answers = [answer for answer in found if answer is not None]
    rising = [question.text for question, answer in zip(questions, found, strict=True) if answer and _rises(answer)]
    lengths = {len(answer.hits) for answer in answers}
    limit = lengths.pop() if len(lengths) == 1 and len(answers) >= _ENOUGH else 0
    said: dict[str, Fact] = {
        "skipped": len(found) - len(answers),
        "unlocated": sum(answer.unlocated for answer in answers),
        "rising": len(rising),
        "limit": limit if 0 < limit < most else None,
    }
    if errors:
        said["first_error"] = without_secrets(str(next(iter(errors.values()))))
    if rising:
        said["first_rising"] = short(rising[0])
    return said


def _rises(answer: RetrieverAnswer) -> bool:
    """Whether a score is above the one before it; those that are not known say nothing."""
    scores = [hit.score for hit in answer.hits]
    if scores == sorted(scores, reverse=True):  # as most are: quicker than to look at each pair
        return False
    scores = [score for score in scores if not math.isnan(score)]
    return any(later > earlier for earlier, later in pairwise(scores))
