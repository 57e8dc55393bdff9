"""Bytes of others are a value or a ValueError that says why, whatever they are."""

import json
import time

import pytest

from ragtrial.cache.untrusted import (
    DEEPEST_JSON,
    for_csv,
    for_json,
    for_markdown,
    for_terminal,
    for_xml,
    from_csv,
    load_json,
)

REFUSED = {
    "arrays without an end": (b"[" * 100_000, "nested more than 100 deep"),
    "objects one in another": (b'{"a":' * 101 + b"1" + b"}" * 101, "nested more than 100 deep"),
    "depth behind a string of brackets": (b'["]]]]", ' + b"[" * 100 + b"]" * 101, "nested more than 100 deep"),
    "an integer of 400 digits": (b"[" + b"9" * 400 + b"]", "an integer of 400 digits"),
    "a negative one": (b"[-" + b"9" * 101 + b"]", "an integer of 101 digits"),
    "an integer of 5,000 digits": (b"9" * 5000, "an integer of 5,000 digits"),
    "a float that overflows": (b'{"total_tokens": 1e999}', "1e999, which is not finite"),
    "a negative one that overflows": (b"[-1.5e400]", "-1.5e400, which is not finite"),
    "not a number": (b"[NaN]", "NaN, which is not finite"),
    "infinity": (b"[-Infinity]", "-Infinity, which is not finite"),
    "bytes that are not UTF-8": (b'["\xff"]', "can't decode byte 0xff"),
    "no JSON at all": (b"<html>", "Expecting value"),
    "nothing": (b"", "Expecting value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_json_beyond_its_budget_is_an_error_that_says_why(name: str) -> None:
    content, reason = REFUSED[name]
    start = time.process_time()
    with pytest.raises(ValueError, match=reason):
        load_json(content)
    assert time.process_time() - start < 1


@pytest.mark.parametrize("value", [
    {"a": [1, -2.5, None, True, "[[[[" * 100, 'quote " and \\ and [']}, 2**63 - 1, -(2**63), 1e308, "\ud800", "",
    [[[]]] * 300,
])  # fmt: skip
def test_json_within_its_budget_is_what_was_written(value: object) -> None:
    assert load_json(json.dumps(value)) == value
    assert load_json(json.dumps(value).encode()) == value


FORMS = {
    "a control character": ("a\x1b[2Jb\x07\x9b\x7f", "a\ufffd[2Jb\ufffd\ufffd\ufffd"),
    "a mark of direction": ("\u202edlo\u2066", "\ufffddlo\ufffd"),
    "half of a surrogate pair": ("\ud83d!", "\ufffd!"),
    "line ends": ("a\r\nb\rc\nd\te", "a\nb\ufffdc\nd\te"),
    "a command of GitHub": ("::error::x\n \t::warning::y", ": :error::x\n \t: :warning::y"),
    "an older one": ("a ##[group]b", "a # #[group]b"),
    "one of Azure": ("##vso[task.setvariable]", "# #vso[task.setvariable]"),
    "one of TeamCity": ("##teamcity[x]", "# #teamcity[x]"),
    "what only looks like one": ("std::sort a ::b\n## Heading [1]", "std::sort a ::b\n## Heading [1]"),
}


@pytest.mark.parametrize("name", FORMS)
def test_text_for_a_terminal_steers_nothing(name: str) -> None:
    text, shown = FORMS[name]
    assert for_terminal(text) == shown
    document = json.dumps([text], ensure_ascii=False)
    assert json.loads(for_json(document)) == [text]
    assert for_terminal(for_json(document)) == for_json(document)


@pytest.mark.parametrize(("text", "cell"), [
    ("=1+1", "'=1+1"), ("+1", "'+1"), ("-1", "'-1"), ("@x", "'@x"), ("\tx", "'\tx"), ("\rx", "'\rx"),
    ("::add-mask::x", "'::add-mask::x"),
    ("a=1", "a=1"), ("", ""),
])  # fmt: skip
def test_a_cell_of_csv_is_no_formula(text: str, cell: str) -> None:
    assert for_csv(text) == cell
    assert from_csv(cell) == text


def test_markdown_xml_and_the_deepest_json_hold_what_they_can() -> None:
    assert for_markdown("a|b\n<i>") == "a&#124;b&#65533;&#60;i&#62;"
    shown = {
        "@c": "&#64;&#8203;c",
        "ndcg@10": "ndcg&#64;10",
        "#1 #x": "&#35;&#8203;1 &#35;x",
        "!2 &3!": "&#33;&#8203;2 &#38;&#8203;3&#33;",
        "Www.e.x": "Www&#8203;.e.x",
    }
    assert {text: for_markdown(text) for text in shown} == shown
    assert for_xml("<a>\x07\x9b\u202e\ufffe\U0001f600</a>") == "<a>\\x07\\x9b\\u202e\\ufffe\U0001f600</a>"
    text = "[" * DEEPEST_JSON + "]" * DEEPEST_JSON
    assert json.dumps(load_json(text)) == text
