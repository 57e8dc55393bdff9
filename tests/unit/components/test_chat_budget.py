"""Requests within a budget: groups are answered whole or not at all, and what is kept costs nothing."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from endpoint_double import EndpointDouble, saying
from ragtrial.components.endpoints.chat import (
    Budget,
    BudgetedChat,
    ChatMessage,
    ChatOptions,
    ChatReply,
    ChatRequest,
    KeptReplies,
)

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
        assert (plan.requests, plan.kept, plan.calls, plan.tokens) == (3, 0, 3, (264, 300))
        assert plan.cost == pytest.approx(564e-6)
        assert model.kept(groups[0]) is None
        assert answered(model, groups[:1], NO_LIMIT) == [2]
        again = chat(double, tmp_path, price=1.0)
        assert again.kept(groups[1]) is None  # half of it is
        assert len(again.kept(groups[0]) or []) == 2
        assert answered(again, groups, Budget(money=0.0)) == [2]
        assert answered(again, groups, Budget(calls=1)) == [2, 2]
        assert len(double.asked) == 3
        assert again.plan(request for group in groups for request in group).calls == 0


MOST = (350 + 16 + 100) / 1e6
"""What a request of 350 ASCII characters costs at most, at the price 1: a token a byte, and the longest reply."""


def many(count: int) -> Groups:
    return [[(ChatMessage("user", f"{number:03}" + "x" * 347),)] for number in range(count)]


def test_money_is_what_replies_cost_or_the_most_of_them(tmp_path: Path) -> None:
    with EndpointDouble(default=saying(lambda text: text)) as double:  # a reply bills 3 tokens
        model = chat(double, tmp_path, price=1.0, concurrency=8)
        assert len(answered(model, many(20), Budget(money=9.5 * MOST))) == 20
        assert double.most_at_once <= 9
    with EndpointDouble() as double:
        model = chat(double, tmp_path, price=1.0)
        assert answered(model, asked("ab", "ba", "a"), Budget(calls=2)) == [2, 2, 1]
        assert len(double.asked) == 2

    def silent(handler: object, answer: dict[str, object]) -> object:
        return {**answer, "usage": {}}

    with EndpointDouble(default=silent) as double:
        made = answered(chat(double, tmp_path, price=1.0, concurrency=8), many(20), Budget(money=10.5 * MOST))
    assert len(made) == 10


SCRIPTS = {
    "English": ("how long does the kettle take ", 0.25),
    "Chinese": ("电池可以持续七天，充电需要两个小时。", 1.3),
    "Thai": ("แบตเตอรี่ใช้งานได้เจ็ดวัน", 1.9),
    "Arabic": ("تدوم البطارية سبعة أيام. ", 1.0),
    "emoji": ("\U0001f600\U0001f50b", 3.0),
}
"""A text, and the tokens of a character in the tokenizers of a few years (cl100k and older)."""


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_budget_of_money_holds_in_every_script(tmp_path: Path, script: str) -> None:
    text, per_character = SCRIPTS[script]
    groups = [[(ChatMessage("user", f"{number:02}" + (text * 150)[:300]),)] for number in range(30)]
    spent: list[int] = []

    def bill(_: object, answer: dict[str, object]) -> object:
        usage = {"prompt_tokens": round(300 * per_character) + 8, "completion_tokens": 100}
        spent.append(sum(usage.values()))
        return {**answer, "usage": usage}

    with EndpointDouble(default=bill) as double:
        model = chat(double, tmp_path, price=1.0, concurrency=8)
        plan = model.plan(request for group in groups for request in group)
        count = len(answered(model, groups, Budget(money=5000e-6)))
    assert 0 < count < 30
    assert sum(spent) <= 5000
    assert plan.tokens[0] == pytest.approx(30 * 300 * per_character, rel=0.6), "of the right size"


def test_kept_replies_are_given_although_others_cost_more_than_the_budget(tmp_path: Path) -> None:
    def dear(_: object, answer: dict[str, object]) -> object:
        return {**answer, "usage": {"prompt_tokens": 2_000, "completion_tokens": 100}}

    with EndpointDouble(default=dear) as double:
        model, kept = chat(double, tmp_path, price=1.0), asked("z")
        assert answered(model, kept, NO_LIMIT) == [1]
        assert answered(model, [*many(1), *kept, *asked("y")], Budget(money=1.5 * MOST)) == [1, 1]


@pytest.mark.parametrize(
    ("counts", "cost"), [([(1_000, 500)], 0.002), ([(1_000, 500), (None, 9)], None), ([(9, None)], None), ([], 0.0)]
)
def test_a_cost_is_known_if_every_reply_reports_its_tokens(
    counts: list[tuple[int | None, int | None]], cost: float | None
) -> None:
    options = ChatOptions(model="m", base_url="http://127.0.0.1:9", price=1.0, output_price=2.0)
    replies = [ChatReply("a", "stop", "m", read, written) for read, written in counts]
    assert options.cost([*replies, ChatReply("", "stop", "m", None, None, refusal="no")]) == cost
