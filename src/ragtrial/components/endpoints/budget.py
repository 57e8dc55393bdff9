"""Requests to a chat model within a budget: planned first, each reply paid for once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from ragtrial.components.endpoints.chat import ChatOptions, ChatReply, ChatRequest, KeptReplies, replies
from ragtrial.components.tokenizers import estimated_tokens, most_tokens

_REPLY_TOKENS = 150
"""The usual length of a reply."""

_LONGEST_REPLY = 2000
"""The length of a reply that is reserved where nothing limits it."""

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
                return
            answered = dict(replies(self.options, chain.from_iterable(affordable), self._kept, advance))
            left.pay([answered[request] for request in new], self.options)
            for group in affordable:
                yield [answered[request] for request in group]
            waiting = waiting[len(affordable) :]

    def _affordable(self, groups: Sequence[RequestGroup], left: _Left) -> tuple[list[RequestGroup], set[ChatRequest]]:
        """The first ``groups`` that can be paid, as many as are sent side by side, and their requests without reply."""
        affordable: list[RequestGroup] = []
        new: set[ChatRequest] = set()
        for group in groups:
            missing = [request for request in dict.fromkeys(self._missing(group)) if request not in new]
            if len(new) >= _TOGETHER or not left.can_pay(len(missing), list(map(self._most_cost, missing))):
                break
            affordable.append(group)
            new.update(missing)
        return affordable, new

    def kept(self, group: RequestGroup) -> list[ChatReply] | None:
        """The replies to ``group`` if all are kept; nothing is asked."""
        found = [self._kept.get(self.options, request) for request in group]
        known = [reply for reply in found if reply is not None]
        return known if len(known) == len(found) else None

    def _missing(self, requests: Iterable[ChatRequest]) -> list[ChatRequest]:
        return [request for request in requests if self._kept.get(self.options, request) is None]

    def _tokens(self, request: ChatRequest) -> tuple[int, int]:
        read = sum(estimated_tokens(message.content) for message in request)
        return round(read), min(self.options.reply_limit or _REPLY_TOKENS, _REPLY_TOKENS)

    def _most_cost(self, request: ChatRequest) -> float:
        """The most that a request can cost, in whatever script."""
        read = sum(most_tokens(message.content) + _MESSAGE_TOKENS for message in request)
        return self.options.cost_of(read, self.options.reply_limit or _LONGEST_REPLY) or 0.0


class _Left:
    """What is left of a budget: what requests cost, and the most that they can cost until they are answered."""

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
        """Replace what was reserved by what it cost; where an endpoint does not say that, it stays."""
        cost = options.cost(answered)
        self._spent += self._reserved if cost is None else cost
        self._reserved = 0.0
