"""Drafts questions from a sample of passages, and leaves out what is of no use."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtrial.components.endpoints.chat import Budget, BudgetedChat, CallPlan, ChatReply, ChatRequest, folded, unquoted
from ragtrial.dataset.locating import PassageQuery, locate_all
from ragtrial.dataset.texts import normalised
from ragtrial.labelling.answers import new_id
from ragtrial.labelling.drafting.passages import PassageSearch, SourcePassage
from ragtrial.labelling.drafting.prompt import STYLES, DraftReply, DraftTask, draft_in
from ragtrial.labelling.model_prompt import ModelPrompt
from ragtrial.labelling.worklist import Draft, DraftCounts, TextToGrade
from ragtrial.records import PromptQueries, Span

COPIED = 0.8
"""The share of a question's content words from which it counts as copied, if BM25 ranks its passage first."""


@dataclass(frozen=True)
class DraftOptions:
    """How many questions are drafted, in which styles, which share without an answer, and by which seed."""

    count: int = 40
    styles: tuple[str, ...] = tuple(STYLES)
    unanswerable: float = 0.1
    seed: int = 0


@dataclass(frozen=True)
class PlannedDraft:
    """A passage, and what is asked about it."""

    passage: SourcePassage
    task: DraftTask

    def request(self, prompt: ModelPrompt) -> ChatRequest:
        return prompt.filled(self.passage.titled, task=self.task.text)


Answered = tuple[PlannedDraft, ChatReply]


class Drafting:
    """A model that drafts questions, and the passages that it is asked about."""

    def __init__(
        self, chat: BudgetedChat, prompt: ModelPrompt, passages: Sequence[SourcePassage], options: DraftOptions
    ) -> None:
        self._chat = chat
        self._planned = [PlannedDraft(*pair) for pair in zip(passages, tasks_of(len(passages), options), strict=True)]
        self._requests = [one.request(prompt) for one in self._planned]

    def plan(self) -> CallPlan:
        return self._chat.plan(self._requests)

    def draft(self, budget: Budget, advance: Callable[[int], None]) -> list[Answered]:
        """The first of the planned that fit the ``budget``, with their replies. Raises as ``BudgetedChat.ask``."""
        replies = self._chat.ask([[one] for one in self._requests], budget, advance)
        return [(one, reply) for one, (reply,) in zip(self._planned, replies, strict=False)]  # a budget ends it

    def kept(self) -> list[Answered]:
        """Those that are answered, without asking anything."""
        found = ((one, self._chat.kept([request])) for one, request in zip(self._planned, self._requests, strict=True))
        return [(one, reply[0]) for one, reply in found if reply]


def tasks_of(count: int, options: DraftOptions) -> list[DraftTask]:
    """``count`` tasks: each style in turn, in a random order; fewer of the same seed are the first of more."""
    rng = random.Random(options.seed)  # noqa: S311 - not for secrets
    tasks: list[DraftTask] = []
    styles: list[str] = []
    start = rng.random()
    for number in range(count):
        styles = styles or rng.sample(options.styles, len(options.styles))
        before, after = (math.floor((number + one) * options.unanswerable + start) for one in (0, 1))
        tasks.append(DraftTask(styles.pop(), is_answerable=after == before))
    return tasks


def drafted(
    answered: Sequence[Answered], search: PassageSearch, labels: PromptQueries
) -> tuple[list[TextToGrade], DraftCounts]:
    """The drafts of the replies as items to review, and how many replies were left out, and why.

    A reply is of no use if it has no question and answer as they were asked for, if the passage does not have the
    answer, or if the labels or an earlier draft have the question. A question is too easy if at least ``COPIED`` of its
    content words are in its passage and BM25 ranks that passage first: any retriever finds it by the copied words.
    """
    read = [(one, None if reply.is_cut else draft_in(reply.text, one.task)) for one, reply in answered]
    parsed = [(one, draft) for one, draft in read if draft is not None]
    located = [(one, draft, span) for (one, draft), span in zip(parsed, _spans(parsed, search), strict=True)]
    found = [(one, draft, span) for one, draft, span in located if draft.answer is None or span is not None]
    seen = {_plain(query.text) for query in labels.queries}
    new = []
    for candidate in found:
        if (question := _plain(candidate[1].question)) not in seen:
            seen.add(question)
            new.append(candidate)
    ids = {query.id for query in labels.queries}
    items: list[TextToGrade] = []
    for (one, draft, span), first in zip(new, search.first([draft.question for _, draft, _ in new]), strict=True):
        passage = one.passage
        if draft.answer is not None:
            if first == passage.position and search.copied_share(draft.question, passage) >= COPIED:
                continue
        elif first is not None:  # where an answer would most likely be, if there were one
            passage = search[first]
        ids.add(name := new_id(draft.question, ids))
        items.append(_item(name, one.task.style, draft.question, passage, span))
    counts = DraftCounts(
        replies=len(answered),
        unparsable=len(read) - len(parsed),
        not_in_passage=len(parsed) - len(found),
        repeated=len(found) - len(new),
        copied=len(new) - len(items),
    )
    return items, counts


def _spans(parsed: Sequence[tuple[PlannedDraft, DraftReply]], search: PassageSearch) -> list[Span | None]:
    """Where in its document each answer is, inside of the passage that was shown; None where it is not.

    What follows an answer in lines of their own, as models end politely, is no part of it. Where the words are not
    found as they are, punctuation may be of another width.
    """
    library = search.corpus.library
    passages = [planned.passage for planned, _ in parsed]
    answers = [(row, text) for row, (_, draft) in enumerate(parsed) for text in _beginnings(draft.answer or "")]
    sought = [PassageQuery(text, library.positions[passages[row].doc]) for row, text in answers]
    spans: dict[int, Span] = {}
    for (row, text), match in zip(answers, locate_all(sought, library), strict=True):
        whole = passages[row].span
        inside = next((place.span for place in match.places if _is_in(place.span, whole)), None)
        if inside is None and text and (at := folded(passages[row].text).find(folded(text))) >= 0:
            inside = Span(whole.start + at, whole.start + at + len(text))
        if inside is not None:
            spans.setdefault(row, inside)
    return [spans.get(row) for row in range(len(parsed))]


def _beginnings(answer: str) -> list[str]:
    """``answer``, then all but its last line, and so on, each without quotation marks around it."""
    lines = normalised(answer).split("\n")
    return [unquoted("\n".join(lines[:count])) for count in range(len(lines), 0, -1)]


def _is_in(inner: Span, outer: Span) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _item(name: str, style: str, question: str, passage: SourcePassage, answer: Span | None) -> TextToGrade:
    start = passage.span.start
    at = None if answer is None else answer.start - start
    quote = None if answer is None else passage.text[answer.start - start : answer.end - start]
    return TextToGrade(
        query=name, question=question, doc=passage.doc, title=passage.title, start=start, end=passage.span.end,
        text=passage.text, draft=Draft(style=style, quote=quote, at=at),
    )  # fmt: skip


def _plain(question: str) -> str:
    return " ".join(normalised(question).casefold().split()).rstrip("?!. ")
