"""Headings are found where CommonMark has them, with exact characters, and are in force where a reader thinks so."""

import pytest
from hypothesis import given, strategies as st

from ragtrial.dataset.markdown import Headings, block_tokens, line_starts
from ragtrial.records import Span
from text_strategies import document_texts

MANUAL = """---
title: Hub
---
Before any.

# Hub *S*

Intro.

Set-up
------

### Power

On.

## Reset

Hold.
"""


@pytest.mark.parametrize(("start", "end", "around"), [
    ("Before", "# Hub", []),
    ("Before", "Intro", ["Hub S"]),
    ("Intro", "### Power", ["Hub S", "Set-up"]),
    ("### Power", "On.", ["Power"]),
    ("Hold", "Hold", ["Reset"]),
])  # fmt: skip
def test_around_a_stretch_are_its_headings_and_the_nearest_above(start: str, end: str, around: list[str]) -> None:
    span = Span(MANUAL.index(start), MANUAL.index(end))
    headings = Headings(MANUAL).around(span)
    assert [words for _, words in headings] == around
    assert all(MANUAL[place:].lstrip("# ").startswith(words.removesuffix(" S")) for place, words in headings)


def words(text: str) -> list[tuple[int, str]]:
    return [(heading.level, heading.text) for heading in Headings(text).all]


@pytest.mark.parametrize(("text", "found"), [
    ("# One\n## Two ##\n###### Six", [(1, "One"), (2, "Two"), (6, "Six")]),
    ("One\n===\n\nTwo\nlines\n---", [(1, "One"), (2, "Two lines")]),
    ("#One\n####### Seven\n    # indented", []),
    ("```\n# fenced\n```\n~~~\n# too\n~~~\n", []),
    ("```\n# a fence without an end", []),
    ("<div>\n# in HTML\n</div>\n\n<!--\n# in a comment\n-->\n", []),
    ("> # quoted\n\n- # in a list\n\n1. # in a list\n", []),
    ("| # a |\n|---|\n| # b |\n", []),
    ("a\n| - |\n", []),
    ("---\n# not YAML\n---\n", [(1, "not YAML")]),
    ("---\ntitle: x\nmore: y\n---\n# One", [(1, "One")]),
    ("---\ntitle: x\n...\nTwo\n---\n", [(2, "Two")]),
    ("---\nno end: here\n\n# One", [(1, "One")]),
    ("# The `size` of *a* [link](url) &amp; <b>b</b> ![alt](x.png)", [(1, "The size of a link & b alt")]),
    ("#\n## \n", [(1, ""), (2, "")]),
    ("", []),
])  # fmt: skip
def test_headings_are_those_of_commonmark_outside_of_other_blocks(text: str, found: list[tuple[int, str]]) -> None:
    assert words(text) == found


def test_headings_in_force_stand_above_and_have_the_characters_of_their_lines() -> None:
    headings = Headings(MANUAL)
    paths = {word: headings.path(MANUAL.index(word)) for word in ("Before", "Intro", "Set-up", "On.", "Hold.")}
    assert paths == {
        "Before": (),
        "Intro": ("Hub S",),
        "Set-up": ("Hub S", "Set-up"),
        "On.": ("Hub S", "Set-up", "Power"),
        "Hold.": ("Hub S", "Reset"),
    }
    assert headings.path(0) == ()
    assert headings.path(len(MANUAL)) == ("Hub S", "Reset")
    assert [MANUAL[heading.start : heading.end] for heading in Headings(MANUAL).all] == [
        "# Hub *S*\n",
        "Set-up\n------\n",
        "### Power\n",
        "## Reset\n",
    ]
    headings = Headings("# One\n\n##\n\ntext")
    assert headings.path(12) == ("One",)
    assert [heading.level for heading in headings.at(12)] == [1, 2]


@given(st.one_of(document_texts, st.text("#=-> \n`a:|*[]()<!", max_size=120)))
def test_headings_ascend_and_the_lines_of_a_block_are_lines_of_the_text(text: str) -> None:
    headings = Headings(text)
    edges = [edge for heading in headings.all for edge in (heading.start, heading.end)]
    assert edges == sorted(edges)
    for position in range(len(text) + 1):
        levels = [heading.level for heading in headings.at(position)]
        assert levels == sorted(set(levels))
        last = [heading for heading in headings.all if heading.start <= position][-1:]
        assert list(headings.at(position)[-1:]) == last
    assert "".join(text[a:b] for a, b in zip(line_starts(text), line_starts(text)[1:], strict=False)) == text
    for token in block_tokens(text):
        if token.map:
            assert 0 <= token.map[0] <= token.map[1] <= len(line_starts(text))


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", [">" * 20_000, "- " * 20_000, "# " + "*a " * 5_000, "`" * 50_000, "---\na:" + "b:\n" * 20_000]
)
def test_texts_written_to_be_slow_are_read_to_their_end(text: str) -> None:
    """No clock is needed: what backtracks over these never comes back."""
    assert [one.level for one in Headings(text).all] == ([1] if text.startswith("# ") else [])
