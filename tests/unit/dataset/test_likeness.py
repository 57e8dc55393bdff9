"""What is like a passage is found by likeness, with the score that the definition gives, and shown in errors."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import library_of
from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageMatch, PassageQuery, Place, likeness, locate_all, nearest
from ragtrial.records import Span
from text_strategies import document_texts

RESET = "Before you start.\nHold the reset button for twelve seconds until the ring blinks. Then let go."


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return library_of(tmp_path, {"lights.md": "The ring is red when the hub has no power.", "reset.md": RESET})


def by_definition(one: str, other: str) -> float:
    """2 * s / (m + n) with the table of longest common subsequences, written out."""
    first, second = ("".join(text.casefold().split()) for text in (one, other))
    row = [0] * (len(second) + 1)
    for character in first:
        above = row
        row = [0]
        for place, rival in enumerate(second):
            row.append(above[place] + 1 if character == rival else max(above[place + 1], row[place]))
    return 2 * row[-1] / (len(first) + len(second)) if first or second else 1.0


@given(st.text("abc éßS", max_size=12), st.text("abc éEsß", max_size=12))
def test_likeness_is_twice_the_common_subsequence_over_both_lengths_whichever_comes_first(one: str, other: str) -> None:
    assert likeness(one, other) == pytest.approx(by_definition(one, other), abs=1e-12)
    assert likeness(one, other) == likeness(other, one)


def test_passages_with_slips_or_run_together_are_alike_when_asked(library: Library) -> None:
    sought = [PassageQuery("Hold the reset buton for ten seconds until the rings blink.")]
    assert locate_all(sought, library) == [PassageMatch("lost", (), 0.0)]
    (found,) = locate_all(sought, library, fuzzy=0.8)
    (place,) = found.places
    piece = "Hold the reset button for twelve seconds until the ring blinks."
    assert (found.how, place.document) == ("fuzzy", 1)
    assert RESET[place.span.start : place.span.end] == piece
    assert found.score == pytest.approx(by_definition(sought[0].text, piece), abs=1e-12)
    assert locate_all(sought, library, fuzzy=found.score) == [found]
    assert locate_all(sought, library, fuzzy=found.score + 0.001)[0].how == "lost"
    queries = [PassageQuery("the RING"), PassageQuery("the ring"), PassageQuery("  ")]
    assert [match.how for match in locate_all(queries, library, fuzzy=0.1)] == ["case", "exact", "lost"]
    (found,) = locate_all([PassageQuery("Hold the resetbutton")], library, fuzzy=1.0)
    assert found == PassageMatch("fuzzy", (Place(1, Span(18, 39)),), 1.0)
    text = "The ring is red when the hub has no power."
    passage = f"Lights. {text} Plug it in, and wait for the ring to turn green, which takes a minute."
    (found,) = locate_all([PassageQuery(passage, 0)], library, fuzzy=0.3)
    assert found == PassageMatch("fuzzy", (Place(0, Span(0, len(text))),), likeness(passage, text))
    passage = "the ring is blue when the hub has power"
    assert locate_all([PassageQuery(passage)], library, fuzzy=0.5)[0].places[0].document == 0
    assert all(place.document == 1 for place in locate_all([PassageQuery(passage, 1)], library, fuzzy=0.1)[0].places)
    assert nearest([PassageQuery("Hold the reset button for ten seconds until the ring blinks")], library) == [
        " The nearest is in 'reset.md': 'Hold the reset button for twelve seconds until the ring blinks'."
    ]
    assert nearest([PassageQuery("until the rings blinks")], library) == [
        " The nearest is in 'reset.md': 'until the ring blinks'."
    ]


def test_all_most_alike_places_are_found_or_nothing_is_shown(tmp_path: Path) -> None:
    library = library_of(
        tmp_path, {"a": "nothing here", "b": "turn the wheel. turn the wheel.", "c": "turn the wheel."}
    )
    (found,) = locate_all([PassageQuery("turn the heel.")], library, fuzzy=0.5)
    assert found.places == (Place(1, Span(0, 15)), Place(1, Span(16, 31)), Place(2, Span(0, 15)))
    library = library_of(tmp_path, {str(number): f"to be or not to be {number}" for number in range(50)})
    (found,) = locate_all([PassageQuery("to be or knot to be 37")], library, fuzzy=0.9)
    assert found.places == (Place(37, Span(0, 21)),)
    library = library_of(tmp_path, {"a": "alpha beta", "b": ""})
    assert nearest(
        [PassageQuery("one two three four five"), PassageQuery("!?"), PassageQuery("alpha beta", 1)], library
    ) == ["", "", ""]
    assert nearest([], library) == []
    text = "これは東京都の検索エンジンに関する説明書です。電源を入れてください。"
    library = library_of(tmp_path, {"ja": text})
    (found,) = locate_all([PassageQuery("検索エンジンについての説明書です")], library, fuzzy=0.6)
    (place,) = found.places
    assert "検索エンジンに関する説明書" in text[place.span.start : place.span.end]


@given(document_texts, document_texts)
def test_whatever_is_found_by_likeness_has_the_score_of_its_place(text: str, passage: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        (found,) = locate_all([PassageQuery(passage)], library_of(Path(folder), {"a": text}), fuzzy=0.3)
    if found.how == "fuzzy":
        (place,) = found.places
        piece = text[place.span.start : place.span.end]
        assert piece == piece.strip() != ""
        assert found.score == likeness(passage, piece) >= 0.3


@pytest.mark.parametrize(("length", "is_compared"), [(3_999, True), (4_000, True), (4_001, False)])
def test_passages_of_up_to_4000_characters_are_compared(tmp_path: Path, length: int, is_compared: bool) -> None:
    text = ("word " * 1_000)[:length]
    library = library_of(tmp_path, {"a.md": f"{text[:-1]}x"})
    (match,) = locate_all([PassageQuery(f"{text[: length - 1]}y")], library, fuzzy=0.9)
    assert (match.how == "fuzzy") == is_compared
