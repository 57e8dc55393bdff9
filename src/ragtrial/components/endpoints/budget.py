"""Requests to a chat model within a budget: planned first, each reply paid for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ragtrial.components.endpoints.chat import ChatOptions, ChatReply, ChatRequest, KeptReplies, replies
from ragtrial.components.tokenizers import estimated_tokens, most_tokens

_REPLY_TOKENS = 150
"""The usual length of a reply."""

_LONGEST_REPLY = 2000
"""The length of a reply that is reserved where nothing limits it."""

_MARGIN = 1.15
"""On the tokens that are expected of a request after others were billed."""

_MESSAGE_TOKENS = 16
"""Tokens that services count beside the text of a message, at most."""

_TOGETHER = 64

RequestGroup = Sequence[ChatRequest]
"""Requests that are of use only together."""


@dataclass(frozen=True)
class Budget:
    """The most that may be spent: requests, and money at the prices of the options; None for no limit."""

    calls: int | None = None
    money: float | None = None


@dataclass(frozen=True)
class CallPlan:
    """What different ``requests`` take, of which ``kept`` are answered already.

    ``tokens`` are those that will be read and written, estimated for the script of each text; ``cost`` is None without
    prices.
    """

    requests: int
    kept: int
    tokens: tuple[int, int]
    cost: float | None

    @property
    def calls(self) -> int:
        return self.requests - self.kept


class BudgetedChat:
    """A chat model behind an endpoint. ``kept`` are its replies, on the disk the moment they arrive."""

    def __init__(self, options: ChatOptions, kept: KeptReplies) -> None:
        self.options = options
        self._kept = kept

    def plan(self, requests: Iterable[ChatRequest]) -> CallPlan:
        """What it takes to have all ``requests`` answered."""
        different = dict.fromkeys(requests)
        missing = self._missing(different)
        read, written = (sum(counts) for counts in zip((0, 0), *map(self._tokens, missing), strict=True))
        return CallPlan(
            len(different), len(different) - len(missing), (read, written), self.options.cost_of(read, written)
        )

    def ask(
        self, groups: Sequence[RequestGroup], budget: Budget, advance: Callable[[int], None]
    ) -> Iterator[list[ChatReply]]:
        """The replies of the first groups that are answered whole within ``budget``, in their order.

        Raises EndpointError, after what was answered until then was yielded; ModelNotFoundError without a key.
        """
        left, waiting = _Left(budget), list(groups)
        while waiting:
            affordable, new = self._affordable(waiting, left)
            if not affordable:
                affordable, new = self._probe(waiting[0], left)
            if not new and not affordable:
                return
            answered = dict(replies(self.options, [*chain.from_iterable(affordable), *new], self._kept, advance))
            left.pay({request: answered[request] for request in new}, self.options)
            for group in affordable:
                yield [answered[request] for request in group]
            waiting = waiting[len(affordable) :]

    def _affordable(self, groups: Sequence[RequestGroup], left: _Left) -> tuple[list[RequestGroup], list[ChatRequest]]:
        """The first ``groups`` that can be paid, as many as are sent side by side, and their requests without reply."""
        affordable: list[RequestGroup] = []
        new: dict[ChatRequest, None] = {}
        for group in groups:
            missing = [request for request in dict.fromkeys(self._missing(group)) if request not in new]
            costs = [left.most_cost(request, self.options) for request in missing]
            if len(new) >= _TOGETHER or not left.can_pay(len(missing), costs):
                break
            affordable.append(group)
            new.update(dict.fromkeys(missing))
        return affordable, list(new)

    def _probe(self, group: RequestGroup, left: _Left) -> tuple[list[RequestGroup], list[ChatRequest]]:
        """One request of a group that is too dear by the bound, to see what the model's tokenizer makes of it."""
        missing = self._missing(group)
        if left.share is None and left.has_calls(len(missing)):
            cost = left.most_cost(missing[0], self.options)
            return [], missing[:1] if left.can_pay(1, [cost]) else []
        return [], []

    def kept(self, group: RequestGroup) -> list[ChatReply] | None:
        """The replies to ``group`` if all are kept; nothing is asked."""
        found = [self._kept.get(self.options, request) for request in group]
        known = [reply for reply in found if reply is not None]
        return known if len(known) == len(found) else None

    def _missing(self, requests: Iterable[ChatRequest]) -> list[ChatRequest]:
        return [request for request in requests if self._kept.get(self.options, request) is None]

    def _tokens(self, request: ChatRequest) -> tuple[int, int]:
        return round(_estimated(request)), min(self.options.reply_limit or _REPLY_TOKENS, _REPLY_TOKENS)


class _Left:
    """What is left of a budget: what requests cost, and the most that they can cost until they are answered.

    ``share`` is the largest of what was billed for a request, as a share of its estimate; None before any was.
    """

    def __init__(self, budget: Budget) -> None:
        self.share: float | None = None
        self._budget = budget
        self._calls = 0
        self._spent = 0.0
        self._reserved = 0.0

    def most_cost(self, request: ChatRequest, options: ChatOptions) -> float:
        """The most that a request can cost: at first a token for each byte, in whatever script."""
        if self.share is None:
            read = float(sum(most_tokens(message.content) + _MESSAGE_TOKENS for message in request))
        else:
            read = _estimated(request) * self.share * _MARGIN
        return options.cost_of(read, options.reply_limit or _LONGEST_REPLY) or 0.0

    def has_calls(self, calls: int) -> bool:
        return self._budget.calls is None or self._calls + calls <= self._budget.calls

    def can_pay(self, calls: int, costs: Sequence[float]) -> bool:
        """Whether this many more calls fit; if so, they are reserved.

        What is sent side by side takes half of the money at most, so that it is known in time what requests cost.
        """
        reserved = self._reserved + sum(costs)
        if not self.has_calls(calls):
            return False
        if self._budget.money is not None and calls:
            left = self._budget.money - self._spent
            if reserved > (left / 2 if self._reserved else left):
                return False
        self._calls += calls
        self._reserved = reserved
        return True

    def pay(self, answered: Mapping[ChatRequest, ChatReply], options: ChatOptions) -> None:
        """Replace what was reserved by what it cost; where an endpoint does not say that, it stays."""
        cost = options.cost(answered.values())
        self._spent += self._reserved if cost is None else cost
        self._reserved = 0.0
        for request, reply in answered.items():
            if reply.input_tokens is not None:
                self.share = max(self.share or 0.0, reply.input_tokens / max(_estimated(request), 1.0))


def _estimated(request: ChatRequest) -> float:
    return sum(estimated_tokens(message.content) for message in request)
