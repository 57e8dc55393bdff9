"""A quoted passage is found where it stands: exactly, else with other white space; else the nearest is shown."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import library_of
from ragtrial.dataset.passages import locate, nearest, occurrences, short
from ragtrial.records import Span
from text_strategies import document_texts, sentences


@pytest.mark.parametrize(
    ("passage", "text", "spans"),
    [
        ("b", "abcb", [(1, 2), (3, 4)]),
        ("aa", "aaaa", [(0, 2), (1, 3), (2, 4)]),
        ("  two words \n", "say two words now", [(4, 13)]),
        ("two words", "two\nwords and two  \t words", [(0, 9), (14, 26)]),
        ("two  words", "two words", [(0, 9)]),
        ("two words", "two words, two\nwords", [(0, 9)]),  # the exact places alone, where there are any
        ("a.c d", "abc d", []),
        ("a.c d", "x a.c\u00a0d", [(2, 7)]),
        ("a.c d", "abc  d a.c", []),  # signs are signs, not patterns
        ("f(x) = [1]", "f(x)\n= [1]", [(0, 10)]),
        ("two words", "Two words", []),
        ("twowords", "two words", []),
        ("two words", "twowords", []),
        ("words two", "two words", []),
        ("", "abc", []),
        (" \n", "a \n b", []),
        ("abc", "", []),
    ],
)
def test_a_passage_is_found_exactly_else_with_other_white_space(
    passage: str, text: str, spans: list[tuple[int, int]]
) -> None:
    assert occurrences(passage, text) == tuple(Span(*span) for span in spans)


@given(document_texts, st.data())
def test_every_piece_of_a_text_is_found_where_it_was_cut(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    passage = text[start:end].strip()
    spans = occurrences(text[start:end], text)
    if not passage:
        assert spans == ()
        return
    cut_at = start + text[start:end].index(passage)
    assert Span(cut_at, cut_at + len(passage)) in spans
    assert list(spans) == sorted(set(spans))
    assert {text[span.start : span.end] for span in spans} == {passage}


@given(document_texts, st.data(), st.lists(st.sampled_from([" ", "\n", "\n\n", "\t ", "\u00a0", "\u3000"]), min_size=1))
def test_a_piece_with_other_white_space_is_found_word_for_word(
    text: str, data: st.DataObject, spaces: list[str]
) -> None:
    start = data.draw(st.integers(0, len(text)))
    words = text[start : data.draw(st.integers(start, len(text)))].split()
    joined = "".join(word + spaces[number % len(spaces)] for number, word in enumerate(words))
    spans = occurrences(joined, text)
    assert bool(spans) == bool(words)
    assert all(text[span.start : span.end].split() == words for span in spans)


def test_passages_are_located_in_every_document_that_holds_them(tmp_path: Path) -> None:
    library = library_of(
        tmp_path, {"a": "one two three", "b": "two\nthree two three", "c": "nothing", "d": "cafe\u0301"}
    )
    found = locate(["two three", "caf\u00e9", "cafe\u0301", "absent", "two three"], library)
    assert found == {
        "two three": {0: (Span(4, 13),), 1: (Span(10, 19),)},
        "caf\u00e9": {3: (Span(0, 4),)},
        "cafe\u0301": {3: (Span(0, 4),)},
        "absent": {},
    }


def test_the_nearest_piece_is_shown_with_its_document(tmp_path: Path) -> None:
    library = library_of(
        tmp_path,
        {
            "lights.md": "The ring is red when the hub has no power.",
            "reset.md": "Before you start.\nHold the reset button for twelve seconds until the ring blinks.",
        },
    )
    assert nearest("Hold the reset button for ten seconds until the ring blinks", library) == (
        " The nearest is in 'reset.md': 'd the reset button for twelve seconds until the ring blinks'."
    )
    assert nearest("until the ring blinks", library).startswith(" The nearest is in 'reset.md': ")
    assert nearest("until the ring blinks", library, [0]) == (
        " The nearest is in 'lights.md': 'The ring is red when the hub has no powe'."
    )


def test_nothing_is_shown_when_nothing_is_near(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"a": "alpha beta", "b": ""})
    assert nearest("one two three four five", library) == ""
    assert nearest("alpha beta", library, []) == ""
    assert nearest("!?", library) == ""


@given(sentences)
def test_the_nearest_to_a_text_is_the_document_that_has_it(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(Path(folder), {"other": "0 1 2", "this": f"{text} 9"})
        assert nearest(text, library).startswith(" The nearest is in 'this': ")


@given(document_texts, st.integers(4, 80))
def test_a_shortened_text_stands_on_one_line_and_says_that_it_was_cut(text: str, most: int) -> None:
    line = short(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1
    whole = " ".join(text.split())
    assert line == whole if len(whole) <= most else line.endswith("...") and whole.startswith(line[:-3])
