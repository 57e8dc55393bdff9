"""Requests to a chat model within a budget: planned first, each reply paid for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragtrial.components.endpoints.chat import ChatOptions, ChatReply, ChatRequest, KeptReplies, replies

_CHARACTERS_PER_TOKEN = 3.5
_REPLY_TOKENS = 150
"""The length of a reply that is assumed where nothing limits it."""

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

    ``tokens`` are those that will be read and written, estimated from characters; ``cost`` is None without prices.
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
        left = _Left(budget)
        for some in _together(groups):
            affordable = []
            for group in some:
                missing = self._missing(group)
                if not left.can_pay(len(missing), [self._cost(one) for one in missing]):
                    break
                affordable.append(group)
            requests = [request for group in affordable for request in group]
            new = {*self._missing(requests)}
            answered = dict(replies(self.options, requests, self._kept, advance))
            left.pay([reply for request, reply in answered.items() if request in new], self.options)
            for group in affordable:
                yield [answered[request] for request in group]
            if len(affordable) < len(some):
                return

    def kept(self, group: RequestGroup) -> list[ChatReply] | None:
        """The replies to ``group`` if all are kept; nothing is asked."""
        found = [self._kept.get(self.options, request) for request in group]
        known = [reply for reply in found if reply is not None]
        return known if len(known) == len(found) else None

    def _missing(self, requests: Iterable[ChatRequest]) -> list[ChatRequest]:
        return [request for request in requests if self._kept.get(self.options, request) is None]

    def _tokens(self, request: ChatRequest) -> tuple[int, int]:
        read = sum(len(message.content) for message in request) / _CHARACTERS_PER_TOKEN
        return round(read), min(self.options.max_tokens or _REPLY_TOKENS, _REPLY_TOKENS)

    def _cost(self, request: ChatRequest) -> float:
        return self.options.cost_of(*self._tokens(request)) or 0.0


class _Left:
    """What is left of a budget. What a request costs is known only when it is answered; until then it is estimated."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._calls = 0
        self._spent = 0.0
        self._reserved = 0.0

    def can_pay(self, calls: int, costs: Sequence[float]) -> bool:
        """Whether this many more calls fit; if so, they are reserved."""
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


def _together(groups: Sequence[RequestGroup]) -> Iterator[list[RequestGroup]]:
    """Some groups at a time, with requests enough to be sent side by side."""
    some: list[RequestGroup] = []
    for group in groups:
        some.append(group)
        if sum(map(len, some)) >= _TOGETHER:
            yield some
            some = []
    if some:
        yield some
