"""Every value of a JSON text has a line and a column."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.dataset.json_places import id_of, json_row, json_value, places
from ragtrial.errors import LabelsError

_scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=5)
)
_values = st.recursive(
    _scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
)
_layouts = st.sampled_from([None, 0, 2, "\t", "\n\n  "])


def paths(value: object, here: tuple[str | int, ...] = ()) -> dict[tuple[str | int, ...], object]:
    found: dict[tuple[str | int, ...], object] = {here: value}
    if isinstance(value, dict):
        for key, inner in value.items():
            found |= paths(inner, (*here, key))
    if isinstance(value, list):
        for position, inner in enumerate(value):
            found |= paths(inner, (*here, position))
    return found


@given(_values, _layouts, st.booleans())
def test_the_value_of_every_path_starts_at_its_place(value: object, layout: str | int | None, ascii_only: bool) -> None:
    text = "\n " + json.dumps(value, indent=layout, ensure_ascii=ascii_only)
    lines = text.split("\n")
    expected = paths(json.loads(text))
    found = places(text)
    assert found.keys() == expected.keys()
    for path, (line, column) in found.items():
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        assert json.JSONDecoder().raw_decode(rest)[0] == expected[path]


def faults_of(text: str) -> list[tuple[int, int, str]]:
    with pytest.raises(LabelsError) as caught:
        json_value(text, "x.json", LabelsError, "labels")
    return [(fault.line, fault.column, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('{"a": 1,\n "b": {"a": 2, "c": 3,\n  "c": 4},\n "a": 5, "a": 6}', [(3, 3, "c"), (4, 2, "a"), (4, 10, "a")]),
        ('{"queries": [{"id": 1, "text": "x"}],\n "queries": [{"id": 2, "text": "y"}]}', [(2, 2, "queries")]),
    ],
)
def test_a_key_twice_in_one_object_is_named_where_it_is_again(text: str, faults: list[tuple[int, int, str]]) -> None:
    expected = [(line, column, f"duplicate key {key!r} in one object.") for line, column, key in faults]
    assert faults_of(text) == expected


@pytest.mark.parametrize(
    ("text", "constant", "place"),
    [
        ('{"a": "NaN",\n "b": NaN}', "NaN", (2, 7)),
        ('["Infinity",\n\n-Infinity, NaN]', "-Infinity", (3, 1)),
        ("Infinity", "Infinity", (1, 1)),
    ],
)
def test_numbers_that_json_lacks_are_refused_where_they_are(text: str, constant: str, place: tuple[int, int]) -> None:
    assert faults_of(text) == [(*place, f"is not JSON: {constant} is not JSON.")]


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', "[1,]", "{'a': 1}", "1 2", '"a\nb"', "// c\n1", '[{"a": 1, "a": 2},]']
)
def test_what_is_not_json_is_refused(text: str) -> None:
    assert len(faults_of(text)) == 1


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"_id": "a", "text": "x"}', ""),
        ('{"_id": "a", "_id": "b", "text": "x"}', "duplicate key '_id' in one object."),
        ('{"текст": 1, "b": 2, "текст": 1}', "duplicate key 'текст' in one object."),
        ('{"meta": {"k": 1, "k": 2}}', "duplicate key 'k' in one object."),
        ('{"rows": [{"k": 1}, {"k": 2}]}', ""),
        ("[1]", "must be a JSON object, in {}."),
        ("null", "must be a JSON object, in {}."),
        ('{"a": 1', "is not JSON: Expecting ',' delimiter."),
        ("9" * 5000, "has a number too long, or is nested too deeply, to be read."),
    ],
)
def test_a_row_of_json_lines_is_an_object_with_each_key_once(line: str, message: str) -> None:
    row, wrong, _ = json_row(line)
    assert (wrong, bool(row)) == (message, not message)


@pytest.mark.parametrize(
    ("value", "name"),
    [("a", "a"), (7, "7"), (7.0, "7"), (-1, "-1"), (7.5, None), (True, None), (None, None), (["a"], None), ("", "")],
)
def test_an_id_is_a_text_or_a_whole_number_however_it_is_written(value: object, name: str | None) -> None:
    assert id_of(value) == name
