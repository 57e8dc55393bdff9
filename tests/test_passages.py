"""A passage is found wherever it stands: exactly, else with other white space, else in other case, else by likeness."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from corpora import library_of
from ragtrial.dataset.passages import Located, Place, Sought, locate_all, nearest, short
from ragtrial.dataset.texts import normalised
from ragtrial.records import Span
from text_strategies import document_texts, sentences


def all_of(texts: list[str], passages: list[Sought], fuzzy: float | None = None) -> list[Located]:
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(Path(folder), {str(number): text for number, text in enumerate(texts)})
        return locate_all(passages, library, fuzzy=fuzzy)


def pieces(text: str) -> Iterator[tuple[Span, str]]:
    """Every piece of a text that neither begins nor ends with white space."""
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            if not text[start].isspace() and not text[end - 1].isspace():
                yield Span(start, end), text[start:end]


def tried(one: Sought, texts: list[str]) -> Located:
    """The definition: compare with every piece of every document."""
    passage = one.text.strip()
    among = range(len(texts)) if one.among is None else [one.among]
    kinds = {
        "exact": lambda piece: piece == passage,
        "spacing": lambda piece: piece.split() == passage.split(),
        "case": lambda piece: piece.casefold().split() == passage.casefold().split(),
    }
    for how, is_passage in kinds.items():
        places = tuple(
            Place(number, span) for number in among for span, piece in pieces(texts[number]) if is_passage(piece)
        )
        if places:
            return Located(how, places, 1.0)  # type: ignore[arg-type]
    return Located("lost", (), 0.0)


LETTERS = [
    "a",
    "A",
    "b",
    "ab",
    "ß",
    "ss",
    "S",
    "İ",
    "i",
    "i\u0307",
    "ı",
    "ﬁ",
    "fi",
    "Σ",
    "ς",
    "東",
    "京",
    "é",
    "e\u0301",
    ".",
]
SPACES = [" ", "  ", "\n", "\u3000", "\x1c"]
small_texts = st.lists(st.sampled_from(LETTERS + SPACES), max_size=24).map("".join).map(normalised)


@given(st.lists(small_texts, min_size=1, max_size=4), st.data())
def test_what_is_found_is_what_trying_every_piece_of_every_document_finds(
    texts: list[str], data: st.DataObject
) -> None:
    number = st.integers(0, len(texts) - 1)

    def cut(text: str) -> st.SearchStrategy[str]:
        return st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(
            lambda two: text[min(two) : max(two)]
        )

    changes = st.sampled_from(
        [str, str.upper, str.casefold, lambda text: "\n".join(text.split()), lambda text: f" {text}\t"]
    )
    passages = st.one_of(
        small_texts,
        st.tuples(st.sampled_from(texts).flatmap(cut), changes).map(lambda two: normalised(two[1](two[0]))),
    )
    sought = data.draw(st.lists(st.builds(Sought, passages, st.none() | number), max_size=8))
    assert all_of(texts, sought) == [tried(one, texts) for one in sought]
