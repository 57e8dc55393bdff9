"""A passage is found wherever it stands, else what is like it; it is cut where no single chunk holds a place whole."""

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given, strategies as st

from corpora import library_of
from ragtrial.dataset.chunks import Chunks, ChunksWriter, cut_passages
from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageMatch, PassageQuery, Place, likeness, locate_all, nearest
from ragtrial.dataset.texts import normalised, short
from ragtrial.records import Judgment, PromptQueries, Query, Span
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


@pytest.mark.parametrize(("passage", "text", "how", "spans"), [
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
])  # fmt: skip
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


DOCS = ("a", "b", "c")
Spans = list[tuple[int, int]]


def cut_of(chunks: list[tuple[int, tuple[int, int]]], labels: list[tuple[int, Spans]]) -> tuple[int, int]:
    """Documents "a", "b", "c" of 30 characters; each row is a document's position and spans of it."""
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(Path(folder), dict.fromkeys(DOCS, "0123456789" * 3))
        writer = ChunksWriter()
        for position, span in chunks:
            writer.add(position, DOCS[position], library.text(position), Span(*span))
        writer.write(Path(folder))
        judgments = [Judgment(DOCS[doc], 1, None, tuple(Span(*span) for span in spans)) for doc, spans in labels]
        half = len(judgments) // 2
        queries = (Query("q1", "x", tuple(judgments[:half])), Query("q2", "x", tuple(judgments[half:])))
        return cut_passages(Chunks(library, Path(folder)), PromptQueries(queries))


spans = st.tuples(st.integers(0, 29), st.integers(1, 12)).map(lambda two: (two[0], min(two[0] + two[1], 30)))
documents = st.integers(0, 2)


@given(
    st.lists(st.tuples(documents, spans), max_size=12).map(lambda rows: sorted(rows, key=lambda row: row[0])),
    st.lists(st.tuples(documents, st.lists(spans, max_size=3)), max_size=8),
)
def test_cuts_are_counted_exactly(chunks: list[tuple[int, tuple[int, int]]], labels: list[tuple[int, Spans]]) -> None:
    passages = [(doc, places) for doc, places in labels if places]
    whole = sum(
        any(there == doc and start <= a and b <= end for a, b in places for there, (start, end) in chunks)
        for doc, places in passages
    )
    assert cut_of(chunks, labels) == (len(passages) - whole, len(passages))
