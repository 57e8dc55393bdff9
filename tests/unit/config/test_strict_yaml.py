"""YAML is read as it is written, whoever wrote it: no value is guessed, every fault has its place."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from ragtrial.config import load_config
from ragtrial.config.strict_yaml import YamlText, parse_yaml
from ragtrial.errors import ConfigError, Fault
from ragtrial.options import LocatedText

FOLDER = Path("/where/the/config/is")


def read(text: str, **environment: str) -> YamlText:
    return parse_yaml(text, "config.yaml", FOLDER, environment)


def value_of(scalar: str, **environment: str) -> Any:
    return read(f"key: {scalar}\n", **environment).value["key"]


def faults_of(text: str, **environment: str) -> list[str]:
    """What is wrong, each with its line and column, without the name of the file."""
    lines = message_of(ConfigError, read, text, **environment).splitlines()
    assert all(line.startswith("config.yaml:") for line in lines)
    return [line.removeprefix("config.yaml:") for line in lines]


@pytest.mark.parametrize(
    "text",
    ["no", "No", "NO", "yes", "Yes", "on", "On", "off", "OFF", "y", "n", "tRUE", "nULL",
     "010", "00", "0o10", "0x10", "0b1", "1_000", "12:30", "190:20:30", "2024-01-31", "2024-01-31T10:00:00Z",
     "1.2.3", ".", "e3", "1e", "+", "--1", "1-1", "inf", ".inf", "-.inf", "nan", ".nan", "=", "１", "٣"],
)  # fmt: skip
def test_what_only_yaml_1_1_or_a_slip_takes_for_something_else_is_a_text(text: str) -> None:
    assert value_of(text) == text
    assert isinstance(value_of(text), str)


@pytest.mark.parametrize(("text", "expected"), [
    ("0", 0), ("7", 7), ("-1", -1), ("+1", 1), ("-0", 0),
    ("1.5", 1.5), (".5", 0.5), ("-.5", -0.5), ("5.", 5.0), ("1e-3", 0.001), ("1e3", 1000.0), ("1E+3", 1000.0),
    ("2.5e3", 2500.0), ("1.0", 1.0),
    ("true", True), ("True", True), ("TRUE", True), ("false", False), ("False", False), ("FALSE", False),
    ("null", None), ("Null", None), ("NULL", None), ("~", None), ("", None),
])  # fmt: skip
def test_numbers_booleans_and_nothing_are_what_they_look_like(text: str, expected: object) -> None:
    assert value_of(text) == expected
    assert type(value_of(text)) is type(expected)


@pytest.mark.parametrize("text", ["1", "1e-3", "true", "null", "~", "", "no", "010"])
@pytest.mark.parametrize("quote", ["'", '"'])
def test_what_is_quoted_is_a_text(text: str, quote: str) -> None:
    assert value_of(f"{quote}{text}{quote}") == text


@pytest.mark.parametrize("key", ["no", "on", "true", "null", "~", "010", "1.5", "12:30", "2024-01-31"])
def test_a_key_is_always_a_text(key: str) -> None:
    assert read(f"{key}: 1\n").value == {key: 1}


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400, "9" * 5000])
def test_a_number_beyond_all_numbers_is_refused(number: str) -> None:
    assert faults_of(f"key: {number}\n") == ["1:6: is too large for a number; put it in quotes if it is a text."]
    assert value_of(f"'{number}'") == number


@given(st.text())
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    faults: tuple[Fault, ...] = ()
    try:
        read(text)
    except ConfigError as error:
        faults = error.faults
    assert all(fault.file == "config.yaml" and fault.message for fault in faults)


def test_all_faults_of_a_text_are_told_and_texts_know_their_folder() -> None:
    assert faults_of("a: 1\na: 2\nb: !x 3\nc: '${NOT_SET} ${TOO}'\n") == [
        "2:1: duplicate key 'a' (first used in line 1).",
        "3:4: the tag '!x' is not allowed; write plain values.",
        "4:4: the environment variable NOT_SET is not set; set it, or write ${NOT_SET:-a default}.",
        "4:4: the environment variable TOO is not set; set it, or write ${TOO:-a default}.",
    ]
    text = read("a: ${KEY}\nb: ['${KEY:-x}', 1]\nc: plain\n", KEY="secret")
    assert text.written == {"a": "${KEY}", "b": ["${KEY:-x}", 1], "c": "plain"}
    assert "secret" not in str(text.written)
    text = read("a: docs\nb: [x, {c: '${V}'}]\n", V="y").value
    for found in (text["a"], text["b"][0], text["b"][1]["c"]):
        assert isinstance(found, LocatedText)
        assert found.folder == FOLDER


@pytest.mark.parametrize(
    "tag",
    ["!!python/object:os.system", "!!python/object/apply:os.system", "!!python/name:os.system", "!!python/tuple",
     "!!str", "!!int", "!!float", "!!bool", "!!null", "!!timestamp", "!!binary", "!own"],
)  # fmt: skip
def test_a_tag_is_refused(tag: str) -> None:
    assert faults_of(f"key: {tag} 'x'\n") == [f"1:6: the tag '{tag}' is not allowed; write plain values."]


TABS = "indent with spaces, YAML allows no tabs."
RING = "is an alias of what it is in, or more than 50 levels deep; no config needs it."
FITS = (
    "this line does not continue the lines above. Are the keys indented alike? Is a text with quotes in it quoted as a "
    "whole?"
)


@pytest.mark.parametrize(("text", "fault"), [
    ("a: b: c\n", "1:5: a second ':' cannot be here: put a text that holds ': ' in quotes, or indent the line less."),
    ("a:\n  b: 1\n c: 2\n", f"3:2: {FITS}"),
    ("a: {b: 1}\n    c: 2\n", f"2:5: {FITS}"),
    ("a: 'b' c\n", f"1:8: {FITS}"),
    ("a: *nowhere\n", "1:4: found undefined alias 'nowhere'."),
    ("a:\n  - [1, 2\nb: 3\n", "3:2: expected ',' or ']', but got ':'; the mistake may be in line 2."),
    ("a: [1, 2\n", "2:1: expected ',' or ']', but got 'end of file'; the mistake may be in line 1."),
    ("a: 'x\n\n", "3:1: found unexpected end of stream; the mistake may be in line 1."),
    ("? [1, 2]\n: 3\n", "1:3: a key must be a plain name."),
    ("{a: 1}: 3\n", "1:1: a key must be a plain name."),
    ("a: 1\nb: 2\na: 3\n", "3:1: duplicate key 'a' (first used in line 1)."),
    ("a:\n  b: 1\n  c: 2\n  b: 3\n", "4:3: duplicate key 'b' (first used in line 2)."),
    ("1: a\n'1': b\n", "2:1: duplicate key '1' (first used in line 1)."),
    ("a:\n\tb: 1\n", f"2:1: {TABS}"), ("\ta: 1\n", f"1:1: {TABS}"), ("a: {\tb: 1}\n", f"1:5: {TABS}"),
    ("a: 1\n---\nb: 2\n", "2:1: a second document begins here ('---'); one file is one config."),
    ("a: 1\nb: \x00\n", "2:4: has the character U+0000, which YAML forbids; remove it."),
    ("a: {<<: 3}\n", "1:9: << must name a mapping (an alias like *base)."),
    ("a: {<<: [3]}\n", "1:10: << must name a mapping (an alias like *base)."),
    (f"a: {'[' * 51}{']' * 51}\n", f"1:54: {RING}"), ("a: &x [*x]\n", f"1:4: {RING}"),
    ("a: &x {<<: [*x, *x]}\n", f"1:4: {RING}"),
])  # fmt: skip
def test_broken_yaml_is_refused_with_the_place_where_it_breaks(text: str, fault: str) -> None:
    assert faults_of(text) == [fault]


def test_fifty_levels_are_read() -> None:
    read(f"a: {'[' * 50}{']' * 50}\n")


@pytest.mark.parametrize(("merge", "expected"), [
    ("{<<: *b, x: 3}", {"x": 3, "y": 2}),
    ("{x: 3, <<: *b}", {"x": 3, "y": 2}),
    ("{<<: [*c, *b]}", {"x": 9, "y": 2, "z": 8}),
    ("{<<: [*b, *c]}", {"x": 1, "y": 2, "z": 8}),
    ("{<<: *d}", {"x": 1, "y": 7}),
])  # fmt: skip
def test_a_merge_key_adds_what_is_not_there_the_first_source_first(merge: str, expected: dict[str, int]) -> None:
    text = f"b: &b {{x: 1, y: 2}}\nc: &c {{x: 9, z: 8}}\nd: &d {{<<: *b, y: 7}}\na: {merge}\n"
    assert read(text).value["a"] == expected


@pytest.mark.parametrize(("scalar", "expected"), [
    ("${N}", 5), ("'${N}'", "5"), ('"${N}"', "5"), ("${T}", True), ("${S}", "hello world"), ("${N}${N}", 55),
    ("model-${N}", "model-5"), ("${ABSENT:-7}", 7), ("'${ABSENT:-7}'", "7"), ("${ABSENT:-a b}", "a b"),
    ("${ABSENT:-http://host:80/x}", "http://host:80/x"), ("${N:-7}", 5), ("${EMPTY:-7}", 7), ("${ABSENT:-}", None),
    ("'${ABSENT:-}'", ""), ("${EMPTY}", None), ("'${EMPTY}'", ""), ("x${EMPTY}y", "xy"),
])  # fmt: skip
def test_a_variable_is_read_as_if_its_value_were_written(scalar: str, expected: object) -> None:
    """A plain one may be a number; a quoted one is a text; an empty one has no better value than its default."""
    found = value_of(scalar, N="5", T="true", S="hello world", EMPTY="")
    assert found == expected
    assert isinstance(found, type(expected))


@pytest.mark.parametrize(("text", "place"), [("a: {b: ${N}}\n", "1:9"), ("a: [${N}]\n", "1:6")])
def test_a_plain_variable_in_brackets_which_yaml_cannot_read_is_refused_with_the_way_out(text: str, place: str) -> None:
    assert faults_of(text, N="5") == [
        f'{place}: a variable inside {{...}} or [...] must be in quotes, like "${{NAME}}".'
    ]
    assert read('a: {b: "${N}"}\n', N="5").value == {"a": {"b": "5"}}


PLACED = """\
name: x
list:
  - one
  - {two: 2,
     three: 3}
base: &base
  deep: {inner: 1}
other:
  <<: *base
"""


@pytest.mark.parametrize(("path", "line", "column"), [
    ((), 1, 1), (("name",), 1, 1), (("list",), 2, 1), (("list", 0), 3, 5), (("list", 1), 4, 5),
    (("list", 1, "two"), 4, 6), (("list", 1, "three"), 5, 6), (("base", "deep", "inner"), 7, 10),
    (("other",), 8, 1), (("other", "deep"), 7, 3),
])  # fmt: skip
def test_values_are_placed_at_their_keys_or_beginnings(path: tuple[str | int, ...], line: int, column: int) -> None:
    fault = read(PLACED).fault_at(path, "wrong")
    assert (fault.file, fault.line, fault.column, fault.message) == ("config.yaml", line, column, "wrong")


MERGES = "".join(f"m{number}: &m{number}\n  <<: [{', '.join([f'*m{number - 1}'] * 9)}]\n" for number in range(1, 9))

BOMBS: Mapping[str, tuple[str, str]] = {
    "variables in defaults, 20,000 deep": (f"experiment: '{'${A:-' * 20_000}'\n", "dataset"),
    "a variable in the default of another": ("experiment: ${A:-${B:-x}}\n", "a variable in the default of another"),
    "defaults that do not end": (f"experiment: '{'${A:-b' * 20_000}x{'}' * 20_000}'\n", "a variable in the default"),
    "merges of merges": (f"m0: &m0 {{a: 1, b: 2}}\n{MERGES}", "aliases expand to more than"),
    "merges of a large mapping": (f"m0: &m0 {{{', '.join(f'k{number}: 1' for number in range(5_000))}}}\n"
                                  f"m1:\n  <<: [{', '.join(['*m0'] * 5_000)}]\n", "aliases expand to more than"),
    "aliases of aliases": ("".join(
        f"m{number}: &m{number} [{', '.join([f'*m{number - 1}'] * 9) if number else 1}]\n" for number in range(9)
    ), "aliases expand to more than"),
    "brackets without an end": (f"experiment: {'[' * 50_000}\n", "is nested too deeply"),
    "keys in keys": (f"{'{a: ' * 5_000}1{'}' * 5_000}\n", "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_error_in_a_moment(name: str, tmp_path: Path) -> None:
    text, reason = BOMBS[name]
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    start = time.process_time()
    with pytest.raises(ConfigError, match=reason):
        load_config(tmp_path / "a.yaml")
    assert time.process_time() - start < 3
