"""One reader of chat replies: thoughts are no text, content may be parts, marks may be of any language."""

import time
from typing import Any

import pytest

from endpoint_double import EndpointDouble
from ragtrial.components.endpoints.chat import (
    ChatMessage,
    ChatOptions,
    ChatReply,
    KeptReplies,
    WordingWriter,
    folded,
    message_text,
    replies,
    spoken,
    unquoted,
)
from ragtrial.records import Question

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


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ('"a b"', "a b"), ("\u201ca b\u201d", "a b"), ("\u00bba b\u00ab", "a b"), ("\u300c電池\u300d", "電池"),
        ("`a b`", "a b"), ("\u201c\u2018a\u2019\u201d", "a"), ("(a b)", "(a b)"), ('He said "yes"', 'He said "yes"'),
        ('"', '"'),
    ],
)  # fmt: skip
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
