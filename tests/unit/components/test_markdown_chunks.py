"""Markdown is cut at its headings, then at its blocks; code and rows stay whole where they can."""

from itertools import pairwise

from hypothesis import given, strategies as st

from ragtrial.components.chunkers.base import Ruler
from ragtrial.components.chunkers.structured import MarkdownChunker
from ragtrial.dataset.markdown import block_tokens, line_starts
from text_strategies import sentences

MANUAL = """\
---
a: b
---
# Hub

Intro of it.

## Power

On.

## Reset

```py
# no heading

x = 1
```

| a   | b |
|-----|---|
| one | 1 |
| two | 2 |

- first
- second
  more

# Other

## Deep

### Deeper

Last paragraph here. It goes on and on.
"""


def chunks(text: str, size: int, overlap: int = 0, **options: bool) -> list[str]:
    made = MarkdownChunker(size=size, overlap=overlap, unit="characters", **options)  # type: ignore[arg-type]  # bool
    return [text[span.start : span.end] for span in made.split(text, Ruler(range(len(text))))]


def test_sections_are_joined_where_they_fit_and_rows_cut_where_too_large() -> None:
    assert chunks(MANUAL, 60) == [
        "---\na: b\n---",
        "# Hub\n\nIntro of it.\n\n## Power\n\nOn.",
        "## Reset\n\n```py\n# no heading\n\nx = 1\n```",
        "| a   | b |\n|-----|---|\n| one | 1 |\n| two | 2 |",
        "- first\n- second\n  more",
        "# Other",
        "## Deep\n\n### Deeper\n\nLast paragraph here. It goes on and on.",
    ]
    text = "# A\n\n## A1\n\none one\n\n## A2\n\ntwo\n\n# B\n\n## B1\n\nthree\n\n## B2\n\nfour four"
    assert chunks(text, 26) == [
        "# A\n\n## A1\n\none one",
        "## A2\n\ntwo",
        "# B\n\n## B1\n\nthree",
        "## B2\n\nfour four",
    ]
    rows = "".join(f"| row {number} | some words |\n" for number in range(6))
    made = chunks(f"| a | b |\n|---|---|\n{rows}", 60)
    assert [piece.split("\n") for piece in made] == [
        ["| a | b |", "|---|---|", "| row 0 | some words |"],
        ["| row 1 | some words |", "| row 2 | some words |"],
        ["| row 3 | some words |", "| row 4 | some words |"],
        ["| row 5 | some words |"],
    ]


def test_headings_items_and_bare_sections_are_whole_blocks() -> None:
    text = "# A\n\n## B\n\nLast paragraph here. It goes on and on.\n\nMore."
    assert chunks(text, 35) == ["# A\n\n## B\n\nLast paragraph here.", "It goes on and on.", "More."]
    text = "- one is long enough\n- two\n  - two a\n  - two b\n- three\n"
    assert chunks(text, 30) == ["- one is long enough", "- two\n  - two a\n  - two b", "- three"]
    text = "one one\n\ntwo two\n\nthree three\n\nfour"
    assert chunks(text, 24, overlap=9) == ["one one\n\ntwo two", "two two\n\nthree three", "four"]
    assert chunks(MANUAL, 400, merge=False) == [
        "---\na: b\n---",
        "# Hub\n\nIntro of it.",
        "## Power\n\nOn.",
        MANUAL[MANUAL.index("## Reset") : MANUAL.index("\n\n# Other")],
        MANUAL[MANUAL.index("# Other") :].rstrip(),
    ]
    own = "a bare heading does not go with a section that is not its own"
    assert chunks("## A\n\n## B\n\nb\n\n# C\n\nc", 100, merge=False) == ["## A", "## B\n\nb", "# C\n\nc"], own


BLOCKS = st.one_of(
    sentences,
    st.integers(1, 4).flatmap(lambda level: sentences.map(lambda words: f"{'#' * level} {words}")),
    st.lists(sentences, min_size=1, max_size=4).map(lambda lines: "```\n" + "\n\n".join(lines) + "\n```"),
    st.lists(sentences, min_size=1, max_size=4).map(lambda lines: "\n".join(f"- {line}" for line in lines)),
    st.lists(sentences, min_size=1, max_size=4).map(
        lambda lines: "\n".join(["| a |", "|---|", *(f"| {line} |" for line in lines)])
    ),
)


@given(st.lists(BLOCKS, min_size=1, max_size=12).map("\n\n".join), st.integers(1, 120), st.booleans())
def test_no_code_and_no_row_that_fits_is_ever_cut(text: str, size: int, merge: bool) -> None:
    spans = MarkdownChunker(size=size, overlap=0, unit="characters", merge=merge).split(text, Ruler(range(len(text))))
    starts = line_starts(text)
    for token in block_tokens(text):
        if token.map and token.type in ("fence", "tr_open"):
            start, after = starts[token.map[0]], starts[token.map[1]]
            if after - start <= size:
                end = start + len(text[start:after].rstrip())
                assert sum(span.start <= start and end <= span.end for span in spans) == 1


@given(st.lists(BLOCKS, min_size=1, max_size=12).map("\n\n".join), st.integers(40, 200))
def test_a_heading_stands_alone_only_where_no_block_it_heads_has_room_beside_it(text: str, size: int) -> None:
    made = MarkdownChunker(size=size, overlap=0, unit="characters").split(text, Ruler(range(len(text))))
    for first, second in pairwise(made):
        piece, following, rest = text[first.start : first.end], text[second.start : second.end], text[second.end :]
        if rest and not (rest.startswith("\n\n") and following.count("```") % 2 == 0):
            continue  # a piece of a block that is too large itself
        level = len(piece) - len(piece.lstrip("#"))
        if level and "\n" not in piece and not following.startswith("#" * level + " "):
            next_level = len(following) - len(following.lstrip("#"))
            heads = next_level == 0 or next_level > level
            # Room is counted with the blank lines before and behind what follows.
            assert not heads or len(piece) + 2 + len(following) + 2 > size
