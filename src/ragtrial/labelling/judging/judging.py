"""Asks a judge about texts within a budget, and writes down what it said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from ragtrial.cache.atomic import write_text
from ragtrial.comparison.judgments import ModelJudgment, sealed
from ragtrial.components.endpoints.chat import Budget, BudgetedChat, CallPlan, ChatReply, ChatRequest
from ragtrial.errors import Fault, RunError
from ragtrial.labelling.judging.prompt import grade_in
from ragtrial.labelling.judging.texts_to_judge import TextToJudge
from ragtrial.labelling.model_prompt import ModelPrompt

OFFLINE = "shared-words"
"""What the judge that needs no model is called."""

_AT_LEAST = (0.0, 0.4, 0.7, 0.95)
"""The share of a question's words from which the judge without a model gives each grade."""


class Judging:
    """A judge behind an endpoint, and what it is asked."""

    def __init__(self, chat: BudgetedChat, prompt: ModelPrompt) -> None:
        self._chat = chat
        self._prompt = prompt

    def request(self, text: TextToJudge) -> ChatRequest:
        return self._prompt.filled(text.text, query=text.question)

    def plan(self, queries: Sequence[Sequence[TextToJudge]]) -> CallPlan:
        return self._chat.plan(self.request(text) for texts in queries for text in texts)

    def judge(
        self, queries: Sequence[Sequence[TextToJudge]], budget: Budget, advance: Callable[[int], None]
    ) -> Iterator[ModelJudgment]:
        """The judgments of the queries that are judged whole within ``budget``, in their order.

        Raises EndpointError, after what was answered until then was yielded; ModelNotFoundError without a key.
        """
        groups = [[self.request(text) for text in texts] for texts in queries]
        paid = set[ChatRequest]()
        for texts, replies in zip(queries, self._chat.ask(groups, budget, advance), strict=False):  # a budget ends it
            yield from (self._judgment(text, reply, paid) for text, reply in zip(texts, replies, strict=True))

    def kept(self, queries: Sequence[Sequence[TextToJudge]]) -> list[ModelJudgment]:
        """The judgments of the queries whose texts are all answered, without asking anything."""
        judgments, paid = list[ModelJudgment](), set[ChatRequest]()
        for texts in queries:
            replies = self._chat.kept([self.request(text) for text in texts])
            judgments += [self._judgment(text, reply, paid) for text, reply in zip(texts, replies or (), strict=False)]
        return judgments

    def _judgment(self, text: TextToJudge, reply: ChatReply, paid: set[ChatRequest]) -> ModelJudgment:
        """The judgment of a reply. Equal requests are ``paid`` once."""
        options, request = self._chat.options, self.request(text)
        cost = options.cost([] if request in paid else [reply])
        paid.add(request)
        asked: dict[str, JsonValue] = {"temperature": options.temperature, "seed": options.seed,
                                       "max_tokens": options.max_tokens, **options.fields}  # fmt: skip
        return ModelJudgment(
            query=text.query, doc=text.doc, start=text.start, end=text.end, grade=_grade(reply),
            model=options.model, prompt=self._prompt.hash,
            parameters={name: value for name, value in asked.items() if value is not None},
            reply=None if reply.refusal else reply.text, refusal=reply.refusal,
            input_tokens=reply.input_tokens, output_tokens=reply.output_tokens, cost=cost,
        )  # fmt: skip


def _grade(reply: ChatReply) -> int | None:
    return None if reply.is_cut else grade_in(reply.text)


def judge_offline(queries: Sequence[Sequence[TextToJudge]]) -> list[ModelJudgment]:
    """Grades by the share of the question's words that a text has: a poor judge that needs no model."""
    return [
        ModelJudgment(query=text.query, doc=text.doc, start=text.start, end=text.end, grade=_shared_words(text),
                      model=OFFLINE, prompt="0" * 16)
        for texts in queries for text in texts
    ]  # fmt: skip


def _shared_words(text: TextToJudge) -> int:
    wanted = {word[:5] for word in re.findall(r"\w{3,}", text.question.casefold())}
    there = {word[:5] for word in re.findall(r"\w{3,}", text.text.casefold())}
    share = len(wanted & there) / max(len(wanted), 1)
    return max(grade for grade, least in enumerate(_AT_LEAST) if share >= least)


def write_judgments(rows: Sequence[ModelJudgment], file: Path) -> None:
    """Write ``rows`` to ``file``, whole or not at all. Raises RunError if it cannot be written."""
    when = datetime.now(UTC).isoformat(timespec="seconds")
    lines = (row.model_copy(update={"when": when}).model_dump(mode="json", exclude_none=True) for row in rows)
    try:
        text = "".join(json.dumps(sealed({"grade": None, **line}), ensure_ascii=False) + "\n" for line in lines)
        write_text(file, text)
    except OSError as error:
        raise RunError(Fault(str(file), message=f"cannot be written: {error.strerror or error}.")) from error
