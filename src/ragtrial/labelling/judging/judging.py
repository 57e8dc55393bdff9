"""Asks a judge about texts within a budget, and writes down what it said."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import JsonValue

from ragtrial.cache.atomic import write_text
from ragtrial.comparison.judge.judgments import ModelJudgment, sealed
from ragtrial.components.endpoints.chat import ChatOptions, ChatReply, ChatRequest, KeptReplies, replies
from ragtrial.errors import Fault, RunError
from ragtrial.labelling.judging.prompt import JudgePrompt, grade_in
from ragtrial.labelling.judging.texts_to_judge import TextToJudge

OFFLINE = "shared-words"
"""What the judge that needs no model is called."""

_CHARACTERS_PER_TOKEN = 3.5
_REPLY_TOKENS = 150
"""About as long is a reply where nothing limits it."""

_AT_LEAST = (0.0, 0.4, 0.7, 0.95)
"""The share of a question's words from which the judge without a model gives each grade."""

_TOGETHER = 64


@dataclass(frozen=True)
class Budget:
    """The most that may be spent: requests, and money at the prices of the options; None for no limit."""

    calls: int | None = None
    money: float | None = None


@dataclass(frozen=True)
class JudgingPlan:
    """What judging takes: of so many ``texts`` of ``queries`` some are answered already (``kept``).

    ``tokens`` are those that will be read and written, estimated from characters; ``cost`` None without prices.
    """

    queries: int
    texts: int
    kept: int
    tokens: tuple[int, int]
    cost: float | None

    @property
    def calls(self) -> int:
        return self.texts - self.kept


class Judging:
    """A judge behind an endpoint. ``kept`` are its replies, on the disk the moment they arrive."""

    def __init__(self, options: ChatOptions, prompt: JudgePrompt, kept: KeptReplies) -> None:
        self.options = options
        self.prompt = prompt
        self._kept = kept

    def request(self, text: TextToJudge) -> ChatRequest:
        return self.prompt.request(text.question, text.text)

    def plan(self, queries: Sequence[Sequence[TextToJudge]]) -> JudgingPlan:
        requests = {self.request(text): None for texts in queries for text in texts}
        missing = [one for one in requests if self._kept.get(self.options, one) is None]
        read, written = (sum(counts) for counts in zip((0, 0), *map(self._tokens, missing), strict=True))
        cost = self.options.cost([ChatReply("", input_tokens=read, output_tokens=written)])
        return JudgingPlan(len(queries), len(requests), len(requests) - len(missing), (read, written), cost)

    def judge(
        self, queries: Sequence[Sequence[TextToJudge]], budget: Budget, advance: Callable[[int], None]
    ) -> Iterator[ModelJudgment]:
        """The judgments of the queries that are judged whole within ``budget``, in their order.

        Raises EndpointError, after what was answered until then was yielded; ModelNotFoundError without a key.
        """
        left = _Left(budget)
        for some in _together(queries):
            affordable = []
            for texts in some:
                missing = [one for one in map(self.request, texts) if self._kept.get(self.options, one) is None]
                if not left.can_pay(len(missing), [self._cost(one) for one in missing]):
                    break
                affordable.append(texts)
            requests = [self.request(text) for texts in affordable for text in texts]
            known = [one for one in requests if self._kept.get(self.options, one) is not None]
            answered = dict(replies(self.options, requests, self._kept, advance))
            left.pay([reply for request, reply in answered.items() if request not in known], self.options)
            for texts in affordable:
                yield from (self._judgment(text, answered[self.request(text)]) for text in texts)
            if len(affordable) < len(some):
                return

    def kept(self, queries: Sequence[Sequence[TextToJudge]]) -> list[ModelJudgment]:
        """The judgments of the queries whose texts are all answered, without asking anything."""
        found = []
        for texts in queries:
            known = [(text, self._kept.get(self.options, self.request(text))) for text in texts]
            if all(reply is not None for _, reply in known):
                found += [self._judgment(text, reply) for text, reply in known if reply is not None]
        return found

    def _judgment(self, text: TextToJudge, reply: ChatReply) -> ModelJudgment:
        doc, start, end = (text.found, None, None) if isinstance(text.found, str) else text.found
        asked: dict[str, JsonValue] = {"temperature": self.options.temperature, "seed": self.options.seed,
                                       "max_tokens": self.options.max_tokens, **self.options.fields}  # fmt: skip
        return ModelJudgment(
            query=text.query, doc=doc, start=start, end=end, grade=grade_in(reply.text), model=self.options.model,
            prompt=self.prompt.hash, parameters={name: value for name, value in asked.items() if value is not None},
            reply=reply.text, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens,
            cost=self.options.cost([reply]),
        )  # fmt: skip

    def _tokens(self, request: ChatRequest) -> tuple[int, int]:
        read = sum(len(message.content) for message in request) / _CHARACTERS_PER_TOKEN
        return round(read), min(self.options.max_tokens or _REPLY_TOKENS, _REPLY_TOKENS)

    def _cost(self, request: ChatRequest) -> float:
        read, written = self._tokens(request)
        return self.options.cost([ChatReply("", input_tokens=read, output_tokens=written)]) or 0.0


class _Left:
    """What is left of a budget. What a request costs is known only when it is answered; until then it is estimated."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._calls = 0
        self._spent = 0.0
        self._reserved = 0.0

    def can_pay(self, calls: int, costs: Sequence[float]) -> bool:
        """Whether so many calls more fit; they are reserved then."""
        reserved = self._reserved + sum(costs)
        if self._budget.calls is not None and self._calls + calls > self._budget.calls:
            return False
        if self._budget.money is not None and self._spent + reserved > self._budget.money and calls:
            return False
        self._calls += calls
        self._reserved = reserved
        return True

    def pay(self, answered: Sequence[ChatReply], options: ChatOptions) -> None:
        """Replace what was reserved by what it cost; where an endpoint does not say that, the estimate stays."""
        cost = options.cost(answered)
        self._spent += self._reserved if cost is None else cost
        self._reserved = 0.0


def _together(queries: Sequence[Sequence[TextToJudge]]) -> Iterator[list[Sequence[TextToJudge]]]:
    """Some queries at a time, with texts enough to be asked side by side."""
    some: list[Sequence[TextToJudge]] = []
    for texts in queries:
        some.append(texts)
        if sum(map(len, some)) >= _TOGETHER:
            yield some
            some = []
    if some:
        yield some


def judge_offline(queries: Sequence[Sequence[TextToJudge]]) -> list[ModelJudgment]:
    """Grades by the share of the question's words that a text has: a poor judge that needs no model."""
    return [
        ModelJudgment(query=text.query, doc=doc, start=start, end=end, grade=_shared_words(text), model=OFFLINE,
                      prompt="0" * 16)
        for texts in queries for text in texts
        for doc, start, end in [(text.found, None, None) if isinstance(text.found, str) else text.found]
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
