"""Chat through an endpoint: replies are read, kept when they arrive, paid for once, within a budget."""

import base64
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import endpoint_double
from endpoint_double import EndpointDouble, saying
from ragtrial.cache.journal import append_row, read_rows
from ragtrial.components.endpoints.chat import (
    Budget,
    BudgetedChat,
    ChatMessage,
    ChatOptions,
    ChatReply,
    ChatRequest,
    KeptReplies,
    WordingWriter,
    folded,
    message_text,
    replies,
    spoken,
    unquoted,
)
from ragtrial.errors import EndpointError
from ragtrial.records import Question


def options_of(double: EndpointDouble, **more: object) -> ChatOptions:
    return ChatOptions.model_validate({"model": "m", "base_url": double.url, **more})


def asking(*texts: str) -> list[ChatRequest]:
    return [(ChatMessage("system", "be brief"), ChatMessage("user", text)) for text in texts]


def test_a_request_is_in_the_form_of_chat_completions_and_a_reply_says_what_was_used() -> None:
    with EndpointDouble() as double:
        options = options_of(double, seed=3, max_tokens=9, fields={"top_p": 0.5}, price=1.0, output_price=10.0)
        ((_, reply),) = replies(options, asking("whales"), KeptReplies(None))
        assert double.asked[0].path == "/v1/chat/completions"
        assert double.asked[0].body == {
            "model": "m",
            "messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "whales"}],
            "temperature": 0.0,
            "seed": 3,
            "max_tokens": 9,
            "top_p": 0.5,
        }
    assert reply == ChatReply("about be brief | whales", "stop", "m-2026", 4, 5)
    assert options.cost([reply, reply]) == pytest.approx(2 * (4 + 50) / 1e6)
    same_price = ChatOptions(model="m", price=1.0)
    assert same_price.cost([reply]) == pytest.approx((4 + 5) / 1e6)


def test_a_reply_without_text_is_no_failure_and_costs_what_was_read() -> None:
    empty = {"choices": [{"message": {"content": ""}}], "usage": {"prompt_tokens": 7, "completion_tokens": 0}}
    with EndpointDouble(default=lambda *_: empty) as double:
        options = options_of(double, price=2.0)
        ((_, reply),) = replies(options, asking("a"), KeptReplies(None))
    assert options.cost([reply]) == pytest.approx(14 / 1e6)
    refusal = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    with EndpointDouble(default=lambda *_: refusal) as double:
        ((_, reply),) = replies(options_of(double, price=1.0), asking("a"), KeptReplies(None))
        assert reply == ChatReply("", "content_filter")
        assert options_of(double, price=1.0).cost([reply]) is None


def test_replies_are_kept_and_equal_requests_asked_once(tmp_path: Path) -> None:
    file = tmp_path / "replies.jsonl"
    with EndpointDouble() as double:
        options = options_of(double)
        first = dict(replies(options, asking("a", "b", "a"), KeptReplies(file)))
        assert len(double.asked) == 2
        again = dict(replies(options, asking("b", "a", "c"), KeptReplies(file)))
        assert len(double.asked) == 3
        assert {request: again[request] for request in first} == first
        list(replies(options_of(double, temperature=1.0), asking("a"), KeptReplies(file)))
        assert len(double.asked) == 4, "another temperature is another request"


@pytest.mark.parametrize(("sent", "kept"), [
    ("ferry \ud83d", "ferry \ufffd"), ("\udc00\ud800", "\ufffd\ufffd"), ("\ud83d\ude00 whole", "\U0001f600 whole"),
])  # fmt: skip
def test_half_an_emoji_is_replaced_before_a_reply_is_kept(tmp_path: Path, sent: str, kept: str) -> None:
    file = tmp_path / "replies.jsonl"
    with EndpointDouble(default=saying(lambda _: sent)) as double:
        ((_, reply),) = replies(options_of(double), asking("a"), KeptReplies(file))
    (row,) = read_rows(file)
    assert row["reply"]["text"] == reply.text == kept


@pytest.mark.parametrize(
    "row", [5, [], "key", {}, {"key": "k"}, {"key": "k", "reply": 5}, {"key": "k", "reply": {"text": 5}},
            {"key": [], "reply": {"text": "a"}}, {"key": "k", "reply": {"text": "a", "input_tokens": "many"}}],
)  # fmt: skip
def test_a_row_that_is_no_reply_is_passed_over(tmp_path: Path, row: Any) -> None:
    append_row(tmp_path / "replies.jsonl", row)
    with EndpointDouble() as double:
        ((_, reply),) = replies(options_of(double), asking("a"), KeptReplies(tmp_path / "replies.jsonl"))
    assert reply.text == "about be brief | a"


OWN_KEY = "sk-own/+key=0123456789"
REPEATED = {
    "as it is": OWN_KEY,
    "in base64": base64.b64encode(OWN_KEY.encode()).decode(),
    "within base64": base64.b64encode(f"x {OWN_KEY} and more".encode()).decode(),
    "in a URL": f"https://host/?key={quote(OWN_KEY, safe='')}",
}


@pytest.mark.parametrize("form", REPEATED)
def test_a_key_that_a_server_repeats_is_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    """Its variable is called as no secret is."""
    monkeypatch.setenv("MY_OWN", OWN_KEY)
    encoded = base64.b64encode(OWN_KEY.encode()).decode()[4:-4]
    file = tmp_path / "replies.jsonl"

    def repeat(_: Any, answer: Any) -> Any:
        answer["choices"][0] |= {"message": {"content": f"it is {REPEATED[form]}."}, "finish_reason": REPEATED[form]}
        return {**answer, "model": REPEATED[form]}

    with EndpointDouble(faults=[repeat, endpoint_double.status(418, f"no {REPEATED[form]}")]) as double:
        options = options_of(double, api_key="${MY_OWN}", concurrency=1)
        with pytest.raises(EndpointError) as error:
            list(replies(options, asking("a", "b"), KeptReplies(file)))
    written = file.read_text()
    for text in (written, str(error.value)):
        assert "${MY_OWN}" in text
        assert not any(secret in text for secret in (OWN_KEY, encoded, quote(OWN_KEY, safe="")))


MESSAGES: dict[str, tuple[Any, str | None]] = {
    "OpenAI": ({"role": "assistant", "content": "Grade: 2", "refusal": None}, "Grade: 2"),
    "OpenAI, refused": ({"role": "assistant", "content": None, "refusal": "I cannot."}, ""),
    "DeepSeek": ({"content": "Grade: 2", "reasoning_content": "Grade: 3"}, "Grade: 2"),
    "Magistral": ({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]},
                               {"type": "text", "text": "Grade: 2"}]}, "Grade: 2"),
    "Claude by a gateway": ({"content": [{"type": "thinking", "thinking": "Hm."}, {"type": "redacted_thinking"},
                                         {"type": "text", "text": "Grade: "}, {"type": "text", "text": "2"}]},
                            "Grade: 2"),
    "Responses": ({"content": [{"type": "reasoning", "text": "Hm."}, {"type": "output_text", "text": "Grade: 2"}]},
                  "Grade: 2"),
    "parts that are texts": ({"content": ["Grade: ", "2"]}, "Grade: 2"),
    "no parts": ({"content": []}, ""),
    "parts of thoughts alone": ({"content": [{"type": "thinking", "thinking": "Hm."}]}, ""),
    "Qwen without a parser": ({"content": "<think>\nGrade: 3\n</think>\n\nGrade: 2"}, "Grade: 2"),
    "R1, begun by the template": ({"content": "Hm. Grade: 3\n</think>\n\nGrade: 2"}, "Grade: 2"),
    "thoughts in a part": ({"content": [{"type": "text", "text": "<think>Hm.</think>Grade: 2"}]}, "Grade: 2"),
    "Seed": ({"content": "<seed:think>a</seed:think>Grade: 2"}, "Grade: 2"),
    "Magistral without a parser": ({"content": "[THINK]a[/THINK]Grade: 2"}, "Grade: 2"),
    "Kimi": ({"content": "\u25c1think\u25b7a\u25c1/think\u25b7Grade: 2"}, "Grade: 2"),
    "gpt-oss without a parser": ({"content": "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
                                  "final<|message|>Grade: 2<|return|>"}, "Grade: 2"),
    "Hunyuan": ({"content": "<think>\nGrade: 3\n</think>\n<answer>\nGrade: 2\n</answer>"}, "Grade: 2"),
    "Command A": ({"content": "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Grade: 2<|END_RESPONSE|>"},
                  "Grade: 2"),
    "Granite": ({"content": "Here is my thought process:\nHm.\nHere is my response:\n\nGrade: 2"}, "Grade: 2"),
    "MedGemma": ({"content": "<unused94>thought\nHm.<unused95>Grade: 2<end_of_turn>"}, "Grade: 2"),
    "DeepSeek, its end of sentence": ({"content": "Grade: 2<\uff5cend\u2581of\u2581sentence\uff5c>"}, "Grade: 2"),
    "Open WebUI": ({"content": '<details type="reasoning" done="true">\n> Hm.\n</details>\nGrade: 2'}, "Grade: 2"),
    "Llama, its end of turn": ({"content": "Grade:\u200b 2<|eot_id|></s>"}, "Grade: 2"),
    "an answer about tags": ({"content": "Not <output>, but <s>x</s>."}, "Not <output>, but <s>x</s>."),
    "thoughts in Chinese": ({"content": "<think>让我想想</think>\n等级很高。\nGrade：2"}, "等级很高。\nGrade：2"),
    "a tag that is meant": ({"content": "Close the <think> tag."}, "Close the <think> tag."),
    "no message": (None, None),
    "a number": ({"content": 5}, None),
    "an object": ({"content": {"text": "Grade: 2"}}, None),
    "parts that are numbers": ({"content": [5]}, None),
}  # fmt: skip
"""Messages as services and servers form them, and their text."""


@pytest.mark.parametrize("source", MESSAGES)
def test_the_text_of_a_message_is_what_the_model_says_and_not_what_it_thinks(source: str) -> None:
    message, text = MESSAGES[source]
    assert message_text(message) == text


@pytest.mark.parametrize(
    "mark", ["<think>", "</think>", "<think></think>", "[THINK]", "<|channel|>analysis<|message|>"]
)
def test_thoughts_of_any_number_are_read_in_linear_time(mark: str) -> None:
    def seconds(count: int) -> float:
        begin = time.process_time()
        spoken(mark * count)
        return time.process_time() - begin

    assert seconds(100_000) < 20 * max(seconds(20_000), 0.01)


@pytest.mark.parametrize(("text", "bare"), [
    ('"a b"', "a b"), ("\u201ca b\u201d", "a b"), ("\u00bba b\u00ab", "a b"), ("\u300c電池\u300d", "電池"),
    ("`a b`", "a b"), ("\u201c\u2018a\u2019\u201d", "a"), ("(a b)", "(a b)"), ('He said "yes"', 'He said "yes"'),
    ('"', '"'),
])  # fmt: skip
def test_quotation_marks_of_any_language_are_removed_around_a_text(text: str, bare: str) -> None:
    assert unquoted(f" {text}\n") == bare


def test_punctuation_of_any_width_folds_character_by_character() -> None:
    assert folded("Ｇｒａｄｅ：２。、！？（）∶﹕") == "Grade:2.,!?()::"
    text = "ﬁve ½ 電池 \U0001f600 é"
    assert len(folded(text)) == len(text)


WORDINGS: dict[str, tuple[str, list[str]]] = {
    "numbers": ("1. kettle time\n2) boil a litre\n(3) how long", ["kettle time", "boil a litre", "how long"]),
    "numbers of full width": ("１．電池時間\n２、充電\n（３）保証", ["電池時間", "充電", "保証"]),
    "circled numbers": ("①电池\n② 充电", ["电池", "充电"]),
    "bullets": ("- a b\n* c\n\u2022 d\n\u2013 e", ["a b", "c", "d", "e"]),
    "Japanese bullets": ("・電池\n・充電", ["電池", "充電"]),
    "quotation marks": ("\u201ea b\u201c\n\u300cc\u300d\n\u00abd\u00bb", ["a b", "c", "d"]),
    "numbers that are meant": ("3.5 mm jack\n2001: a film\n-5 degrees", ["3.5 mm jack", "2001: a film", "-5 degrees"]),
    "an introduction": ("Here are three queries:\n\n1. a b\n2. c d\n\nAnything else?", ["a b", "c d"]),
    "an introduction in Chinese": ("以下是改写：\n电池时间\n充电", ["电池时间", "充电"]),
    "a fence": ("```text\na b\nc d\n```", ["a b", "c d"]),
    "JSON in a fence": ('```json\n["a b", "c d"]\n```', ["a b", "c d"]),
    "JSON under a key": ('{"queries": ["a b", " "]}', ["a b"]),
    "a heading and a rule": ("## Wordings\n- **a b**\n---\n- *c d*", ["a b", "c d"]),
    "a colon that is meant": ("what is this:", ["what is this:"]),
    "thoughts": ("<think>\n1. ferry\n</think>\n\nkettle", ["kettle"]),
}


@pytest.mark.parametrize("form", WORDINGS)
def test_wordings_are_the_lines_without_what_marks_them(form: str) -> None:
    reply, wordings = WORDINGS[form]
    writer = WordingWriter(ChatOptions(model="m"), "rewrites", by_line=True)
    question = Question("q", written=(writer.written(ChatReply(spoken(reply))),))
    assert list(writer.texts(question)) == wordings


@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length", "MAX_TOKENS"])
def test_the_last_wording_of_a_cut_reply_is_not_whole(finish: str) -> None:
    writer = WordingWriter(ChatOptions(model="m"), "rewrites", by_line=True)
    assert writer.written(ChatReply("kettle time\nboil a li", finish)).text == "kettle time"
    answer = WordingWriter(ChatOptions(model="m"), "answer", by_line=False)
    assert answer.written(ChatReply("It takes three mi", finish)).text == "It takes three mi"


def test_filtered_choices_and_thoughts_are_in_no_kept_reply() -> None:
    answer = {"choices": [{"finish_reason": "content_filter", "index": 0}], "usage": {"prompt_tokens": 9}}
    with EndpointDouble(default=lambda *_: answer) as double:
        options = ChatOptions.model_validate({"model": "m", "base_url": double.url})
        ((_, reply),) = replies(options, [(ChatMessage("user", "a"),)], KeptReplies(None))
    assert reply == ChatReply("", "content_filter", input_tokens=9)
    message = {"choices": [{"message": {"content": "<think>Hm.</think>\nyes"}, "finish_reason": "stop"}]}
    with EndpointDouble(default=lambda *_: message) as double:
        options = ChatOptions.model_validate({"model": "m", "base_url": double.url})
        ((_, reply),) = replies(options, [(ChatMessage("user", "a"),)], KeptReplies(None))
    assert reply == ChatReply("yes", "stop")


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
def test_a_cost_needs_tokens_of_all_replies(counts: list[tuple[int | None, int | None]], cost: float | None) -> None:
    options = ChatOptions(model="m", base_url="http://127.0.0.1:9", price=1.0, output_price=2.0)
    replies = [ChatReply("a", "stop", "m", read, written) for read, written in counts]
    assert options.cost([*replies, ChatReply("", "stop", "m", None, None, refusal="no")]) == cost
