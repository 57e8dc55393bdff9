"""Requests within a budget: groups are answered whole or not at all, and what is kept costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from endpoint_double import EndpointDouble, saying
from ragtrial.components.endpoints.budget import Budget, BudgetedChat
from ragtrial.components.endpoints.chat import ChatMessage, ChatOptions, ChatRequest, KeptReplies

Groups = Sequence[Sequence[ChatRequest]]
NO_LIMIT = Budget()


def asked(*groups: str) -> Groups:
    """A request for each letter of each group."""
    return [[(ChatMessage("user", letter * 350),) for letter in group] for group in groups]


def chat(double: EndpointDouble, folder: Path, **options: object) -> BudgetedChat:
    given = {"model": "m", "base_url": double.url, "max_tokens": 100, "concurrency": 1, **options}
    return BudgetedChat(ChatOptions.model_validate(given), KeptReplies(folder / "kept.replies"))


def answered(chat: BudgetedChat, groups: Groups, budget: Budget) -> list[int]:
    """How many replies each group that is answered has."""
    return [len(replies) for replies in chat.ask(groups, budget, lambda _: None)]


@pytest.mark.parametrize(("calls", "whole"), [(1, []), (2, [2]), (4, [2]), (5, [2, 3]), (6, [2, 3, 1]), (9, [2, 3, 1])])
def test_calls_are_used_up_to_the_last_and_groups_stay_whole(tmp_path: Path, calls: int, whole: list[int]) -> None:
    with EndpointDouble(default=saying(lambda text: text)) as double:
        assert answered(chat(double, tmp_path), asked("ab", "cde", "f"), Budget(calls=calls)) == whole
        assert len(double.asked) == sum(whole)


def test_what_is_kept_needs_no_budget_and_a_plan_counts_equal_requests_once(tmp_path: Path) -> None:
    with EndpointDouble(default=saying(lambda text: text)) as double:
        model, groups = chat(double, tmp_path, price=1.0), asked("ab", "bc")
        plan = model.plan(request for group in groups for request in group)
        assert (plan.requests, plan.kept, plan.calls, plan.tokens) == (3, 0, 3, (300, 300))
        assert plan.cost == pytest.approx(600e-6)
        assert model.kept(groups[0]) is None
        assert answered(model, groups[:1], NO_LIMIT) == [2]
        again = chat(double, tmp_path, price=1.0)
        assert again.kept(groups[1]) is None  # half of it is
        assert len(again.kept(groups[0]) or []) == 2
        assert answered(again, groups, Budget(money=0.0)) == [2]
        assert answered(again, groups, Budget(calls=1)) == [2, 2]
        assert len(double.asked) == 3
        assert again.plan(request for group in groups for request in group).calls == 0


def test_money_is_what_replies_cost_once_they_are_in_and_the_estimate_until_then(tmp_path: Path) -> None:
    groups = asked(*(chr(0x4E00 + number) for number in range(200)))  # in four rounds of 64, the last of 8
    with EndpointDouble(default=saying(lambda text: text)) as double:  # a reply bills 3 tokens, and is estimated at 200
        model = chat(double, tmp_path, price=1.0, concurrency=8)
        assert len(answered(model, groups, Budget(money=64.5 * 200e-6))) == 64 + 63


def test_where_an_endpoint_does_not_say_its_tokens_the_estimate_stays(tmp_path: Path) -> None:
    def silent(handler: object, answer: dict[str, object]) -> object:
        return {**answer, "usage": {}}

    groups = asked(*(chr(0x4E00 + number) for number in range(200)))
    with EndpointDouble(default=silent) as double:
        made = answered(chat(double, tmp_path, price=1.0, concurrency=8), groups, Budget(money=100.5 * 200e-6))
    assert len(made) == 100


def test_what_is_kept_is_there_even_when_replies_cost_more_than_the_budget(tmp_path: Path) -> None:
    kept = asked("z")
    wordy = [[(ChatMessage("user", f"{number} " + "x " * 175),)] for number in range(64)]  # 353 tokens, not 200
    with EndpointDouble(default=saying(lambda text: text)) as double:
        model = chat(double, tmp_path, price=1.0, concurrency=8)
        assert answered(model, kept, NO_LIMIT) == [1]
        assert len(answered(model, [*wordy, *kept, *asked("y")], Budget(money=66 * 200e-6))) == 65
