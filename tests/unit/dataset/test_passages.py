"""A passage is found wherever it stands: exactly, else with other white space, else in other case."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corpora import library_of
from ragtrial.dataset.locating import PassageMatch, PassageQuery, Place, locate_all
from ragtrial.dataset.texts import normalised, short
from ragtrial.records import Span
from text_strategies import document_texts


def all_of(texts: list[str], sought: list[PassageQuery], fuzzy: float | None = None) -> list[PassageMatch]:
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(Path(folder), {str(number): text for number, text in enumerate(texts)})
        return locate_all(sought, library, fuzzy=fuzzy)


def pieces(text: str) -> Iterator[tuple[Span, str]]:
    """Every piece of a text that neither begins nor ends with white space."""
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            if not text[start].isspace() and not text[end - 1].isspace():
                yield Span(start, end), text[start:end]


def ascii_marks(text: str) -> str:
    for mark, written in {"\u2019": "'", "\u201c": '"', "\u2013": "-"}.items():
        text = text.replace(mark, written)
    return text


def tried(one: PassageQuery, texts: list[str]) -> PassageMatch:
    """The definition: compare with every piece of every document."""
    passage = one.text.strip()
    among = range(len(texts)) if one.among is None else [one.among]
    kinds: dict[Literal["exact", "spacing", "case", "typography"], Callable[[str], bool]] = {
        "exact": lambda piece: piece == passage,
        "spacing": lambda piece: piece.split() == passage.split(),
        "case": lambda piece: piece.casefold().split() == passage.casefold().split(),
        "typography": lambda piece: ascii_marks(piece).casefold().split() == ascii_marks(passage).casefold().split(),
    }
    for how, is_passage in kinds.items():
        places = tuple(
            Place(number, span) for number in among for span, piece in pieces(texts[number]) if is_passage(piece)
        )
        if places:
            return PassageMatch(how, places, 1.0)
    return PassageMatch("lost", (), 0.0)


LETTERS = [
    "a", "'", "\u2019", "-", "\u2013", "A", "b", "ab", "ß", "ss", "S", "İ", "i", "i\u0307", "ı", "ﬁ", "fi", "Σ", "ς",
    "東", "京", "é", "e\u0301", ".",
]  # fmt: skip
SPACES = [" ", "  ", "\n", "\u3000", "\x1c"]
small_texts = st.lists(st.sampled_from(LETTERS + SPACES), max_size=24).map("".join).map(normalised)


@pytest.mark.parametrize(
    ("passage", "text", "how", "spans"),
    [
        ("  two words \n", "say two words now", "exact", [(4, 13)]),
        ("two words", "two\nwords and two  \t words", "spacing", [(0, 9), (14, 26)]),
        ("straße", "STRASSE STRAẞE", "case", [(0, 7), (8, 14)]),
        ("s", "Straße S", "case", [(0, 1), (7, 8)]),  # not half of the sharp s
        ("i\u0307stanbul", "in İstanbul", "case", [(3, 11)]),
        ("", "abc", "lost", []),
        (" \n", "a \n b", "lost", []),
        ("abc", "", "lost", []),
        ("does not support", "it **does not** support", "markup", [(5, 23)]),
        ("see the Docs now", "see [the docs](http://a.b/c_d) now", "markup", [(0, 34)]),
        ("set `a_b` first", "set a_b first", "markup", [(0, 13)]),
        ("one two three", "- one two\n- three", "markup", [(2, 17)]),
        ("The end It begins", "# The end\n\n> It begins", "markup", [(2, 22)]),
        ("a * b", "a * b, a b", "exact", [(0, 5)]),
        ("does not", "**does not**, does\nnot", "exact", [(2, 10)]),
    ],
)
@pytest.mark.parametrize("among", [None, 0])
def test_a_passage_is_found_exactly_else_with_other_white_space_else_in_other_case(
    passage: str, text: str, how: str, spans: list[tuple[int, int]], among: int | None
) -> None:
    (found,) = all_of([text], [PassageQuery(passage, among)])
    assert (found.how, [(place.span.start, place.span.end) for place in found.places]) == (how, spans)
    assert found.score == (0.0 if how == "lost" else 1.0)


@pytest.mark.slow
@given(st.lists(small_texts, min_size=1, max_size=4), st.data())
def test_what_is_found_is_what_trying_each_piece_of_each_document_finds(texts: list[str], data: st.DataObject) -> None:
    changes: list[Callable[[str], str]] = [
        str, str.upper, str.casefold, lambda text: "\n".join(text.split()), lambda text: f" {text}\t"
    ]  # fmt: skip

    def cut(text: str) -> st.SearchStrategy[str]:
        return st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(
            lambda two: text[min(two) : max(two)]
        )

    pieces_of_texts = st.tuples(st.sampled_from(texts).flatmap(cut), st.sampled_from(changes))
    wanted = st.one_of(small_texts, pieces_of_texts.map(lambda two: normalised(two[1](two[0]))))
    among = st.none() | st.integers(0, len(texts) - 1)
    sought = data.draw(st.lists(st.builds(PassageQuery, wanted, among), max_size=8))
    assert all_of(texts, sought) == [tried(one, texts) for one in sought]


@given(document_texts, st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=6))
def test_every_piece_of_a_text_in_many_scripts_is_found_where_cut(text: str, cuts: list[tuple[int, int]]) -> None:
    ends = [sorted(place % (len(text) + 1) for place in two) for two in cuts]
    found = all_of(
        ["other words", text, text[: len(text) // 2]], [PassageQuery(text[start:end]) for start, end in ends]
    )
    for (start, end), one in zip(ends, found, strict=True):
        passage = text[start:end].strip()
        if not passage:
            assert one == PassageMatch("lost", (), 0.0)
            continue
        cut_at = start + text[start:end].index(passage)
        assert one.how == "exact"
        assert Place(1, Span(cut_at, cut_at + len(passage))) in one.places
        assert list(one.places) == sorted(set(one.places))


@given(document_texts, st.integers(4, 80))
def test_a_shortened_text_stands_on_one_line_and_says_that_it_was_cut(text: str, most: int) -> None:
    line = short(text, most)
    assert len(line) <= most
    assert len(line.splitlines()) <= 1
    whole = " ".join(text.split())
    assert line == whole if len(whole) <= most else line.endswith("...") and whole.startswith(line[:-3])
