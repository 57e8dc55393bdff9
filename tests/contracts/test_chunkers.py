"""Every registered chunker keeps the contract; the kinds differ in where they cut."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.components.chunkers.base import CHUNKERS, Chunker, EmbeddingChunker, Ruler, SizedChunker
from ragtrial.components.embedders.base import Encode
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.components.tokenizers import Tokenizer, Words
from ragtrial.components.user_functions import FunctionReference
from ragtrial.records import Span
from text_strategies import document_texts, sizes

KINDS = CHUNKERS.names()
SIZED = [name for name, kind in CHUNKERS.members() if issubclass(kind, SizedChunker)]
UNITS = ("tokens", "characters", "words")

LIMITED = [*SIZED, "semantic"]
"""Kinds whose chunks have a largest size, where one is given."""
DECIDED_BY_SIZE = ["document", *SIZED]
"""Kinds that leave a text whole where it fits; the others have reasons of their own to cut it."""
NEEDED: dict[str, dict[str, object]] = {
    "code": {"language": "python"},
    "custom": {"function": FunctionReference("chunk_functions:paragraphs", Path(__file__).parents[1] / "support")},
}
"""What a kind cannot be made without."""

every_kind = pytest.mark.parametrize("kind", KINDS)
every_limited_kind = pytest.mark.parametrize("kind", LIMITED)
every_sized_kind = pytest.mark.parametrize("kind", SIZED)
every_unit = pytest.mark.parametrize("unit", UNITS)


@pytest.fixture(scope="session")
def tokenizer(minilm_folder: Path) -> Tokenizer:
    return Tokenizer(minilm_folder / "tokenizer.json")


@pytest.fixture(scope="session")
def encode(tiny_model: Path) -> Encode:
    return SentenceTransformerEmbedder(model=str(tiny_model), device="cpu").load()


def chunker(kind: str, **written: object) -> Chunker:
    made: Chunker = CHUNKERS[kind].model_validate({**NEEDED.get(kind, {}), **written})
    return made


def split(made: Chunker, text: str, ruler: Ruler, encode: Encode) -> list[Span]:
    """The spans, where they are decided by vectors with those of a real model."""
    if not isinstance(made, EmbeddingChunker):
        return made.split(text, ruler)
    texts = made.texts(text, ruler)
    vectors = np.asarray(encode(texts), dtype=np.float32) if texts else np.empty((0, 0), dtype=np.float32)
    return made.group(text, ruler, vectors)


def sized(kind: str, size: int, overlap: int = 0, unit: str = "characters") -> SizedChunker:
    made = limited(kind, size, overlap, unit)
    assert isinstance(made, SizedChunker)
    return made


def limited(kind: str, size: int, overlap: int = 0, unit: str = "characters") -> Chunker:
    """A chunker of ``kind`` with as much of this as it has options for."""
    options: dict[str, object] = {"tokenizer": "words"} if unit == "words" else {"unit": unit}
    if kind in SIZED:
        options |= {"size": size, "overlap": overlap}
    else:
        options = options | {"size": size} if kind in LIMITED else {}
    return chunker(kind, **options)


def ruler_of(text: str, unit: str, tokenizer: Tokenizer, overhead: int = 0) -> Ruler:
    if unit == "characters":
        return Ruler(range(len(text)), overhead)
    counter = Words() if unit == "words" else tokenizer
    return Ruler(counter.starts([text])[0], overhead, counter.alone)


def pieces(made: Chunker, text: str, ruler: Ruler | None = None) -> list[str]:
    return [text[span.start : span.end] for span in made.split(text, ruler or Ruler(range(len(text))))]


def assert_ascend_and_cover_all_but_white_space(text: str, spans: Sequence[Span]) -> None:
    inside = {position for span in spans for position in range(span.start, span.end)}
    assert "".join(letter for position, letter in enumerate(text) if position not in inside).strip() == ""
    for earlier, later in pairwise(spans):
        assert earlier.start <= later.start
        assert earlier.end < later.end


@pytest.mark.slow
@every_kind
@every_unit
@given(text=document_texts, sizing=sizes(), overhead=st.integers(0, 90))
@example(text="\x00\x07\u200b", sizing=(1, 0), overhead=0)
@example(text="한국어텍스트 이다값" * 5, sizing=(4, 1), overhead=0)
@example(text="   h e   llo", sizing=(6, 3), overhead=0)
@example(text="a" * 300, sizing=(7, 3), overhead=2)
@example(text="東京" * 40, sizing=(3, 1), overhead=2)
@example(text="e\u0301\u0323" * 9, sizing=(2, 1), overhead=2)
@example(text=" " * 999 + "end", sizing=(50, 25), overhead=2)
def test_chunks_are_ascending_spans_that_together_cover_all_but_white_space(
    kind: str, unit: str, text: str, sizing: tuple[int, int], overhead: int, tokenizer: Tokenizer, encode: Encode
) -> None:
    spans = split(limited(kind, *sizing, unit), text, ruler_of(text, unit, tokenizer, overhead), encode)
    for span in spans:
        assert 0 <= span.start < span.end <= len(text)
        assert text[span.start : span.end] == text[span.start : span.end].strip()
    assert_ascend_and_cover_all_but_white_space(text, spans)
    assert bool(spans) == bool(text.strip())


@pytest.mark.slow
@every_limited_kind
@every_unit
@given(text=document_texts, sizing=sizes(), overhead=st.integers(0, 90))
@example(text="한국어텍스트 이다값" * 5, sizing=(4, 1), overhead=0)
@example(text="x " * 50, sizing=(10, 0), overhead=80)
@example(text="abc" * 50, sizing=(10, 9), overhead=6)
def test_a_chunk_is_longer_than_its_size_only_where_one_unit_or_the_title_is(
    kind: str, unit: str, text: str, sizing: tuple[int, int], overhead: int, tokenizer: Tokenizer, encode: Encode
) -> None:
    size = sizing[0]
    ruler = ruler_of(text, unit, tokenizer, overhead)
    for span in split(limited(kind, *sizing, unit), text, ruler, encode):
        length = ruler.length(span.start, span.end)
        places = {start for start in ruler.starts if span.start <= start < span.end}
        cannot_be_split = len(places) <= 1  # a character of several tokens
        title_is_too_long = overhead > size // 2 and length <= (size + 1) // 2
        assert length + overhead <= size or cannot_be_split or title_is_too_long


@every_sized_kind
@every_unit
@given(text=document_texts, sizing=sizes(), overhead=st.integers(0, 90))
@example(text="한국어텍스트 이다값" * 5, sizing=(12, 5), overhead=0)
@example(text="a b c d e f g h " * 9, sizing=(10, 4), overhead=0)
def test_a_chunk_repeats_at_most_the_overlap_of_the_one_before(
    kind: str, unit: str, text: str, sizing: tuple[int, int], overhead: int, tokenizer: Tokenizer
) -> None:
    ruler = ruler_of(text, unit, tokenizer, overhead)
    spans = sized(kind, *sizing, unit=unit).split(text, ruler)
    for earlier, later in pairwise(spans):
        if later.start < earlier.end:
            assert ruler.length(later.start, earlier.end) <= sizing[1]


@pytest.mark.parametrize("kind", DECIDED_BY_SIZE)
@given(text=document_texts)
def test_a_text_that_fits_is_one_chunk(kind: str, text: str) -> None:
    made = limited(kind, len(text) + 1)
    assert pieces(made, text) == ([text.strip()] if text.strip() else [])


@every_kind
@given(text=document_texts)
def test_the_same_text_is_always_cut_the_same_way(kind: str, text: str, encode: Encode) -> None:
    ruler, other = Ruler(range(len(text))), Ruler(list(range(len(text))))
    assert split(chunker(kind), text, ruler, encode) == split(chunker(kind), text, other, encode)


@every_kind
def test_a_kind_says_what_it_needs_and_hashes_json_with_its_revision(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = chunker(kind)
    assert made.kind == kind
    made.check()
    assert (made.counted_by == "embedder") == (kind in SIZED)
    if kind in LIMITED:
        assert limited(kind, 90, 0, "tokens").counted_by == "embedder"
        assert limited(kind, 90, 0, "characters").counted_by == "characters"
    assert made.needs_embedder == isinstance(made, EmbeddingChunker)
    if made.needs_embedder:
        with pytest.raises(TypeError, match=f"the chunker '{kind}' needs vectors"):
            made.split("text", Ruler(range(4)))
    before = fingerprint(made.hashed_parts())
    assert before == fingerprint(chunker(kind).hashed_parts())
    monkeypatch.setattr(type(made), "revision", 99)
    assert fingerprint(made.hashed_parts()) != before


def test_presets_are_what_they_stand_for_and_rulers_count_starts() -> None:
    made = chunker("recursive", preset="langchain")
    spelled = {"separators": ["\n\n", "\n", " ", ""], "keep": "start", "measure": "text"}
    assert made == chunker("recursive", preset="langchain", **spelled)
    assert made.hashed_options() == chunker("recursive", preset="langchain", **spelled).hashed_options()
    of_text = chunker("recursive", **spelled)  # which counts pieces where they stand
    assert made.hashed_options() != of_text.hashed_options()
    assert made.summary() == "recursive size=200 overlap=40 unit=tokens preset=langchain"
    own = chunker("recursive", preset="langchain", separators=[".", ""], keep="end")
    assert (own.separators, own.keep, own.measure) == ((".", ""), "end", "text")  # type: ignore[attr-defined]
    assert hash(own) != hash(made)
    ruler = Ruler([0, 4, 4, 9])
    assert [ruler.length(*span) for span in [(0, 10), (0, 4), (4, 9), (5, 9), (9, 9), (1, 5)]] == [4, 1, 2, 0, 0, 2]
    assert pieces(chunker("document"), " \n# Hub\n\nHold. \n") == ["# Hub\n\nHold."]


@pytest.mark.parametrize(
    ("text", "size", "keep", "separators", "chunks"),
    [
        ("a. b. c", 6, "end", [". ", ""], ["a. b.", "c"]),
        ("a. b. c", 5, "start", [". ", ""], ["a. b", ". c"]),
        ("one|two|three", 7, "end", ["|", ""], ["one|", "two|", "three"]),
        ("one|two|three", 7, "start", ["|", ""], ["one|two", "|three"]),
        ("||one", 3, "start", ["|", ""], ["|", "|on", "e"]),
        ("aXbYc", 2, "end", ["Y", "X", ""], ["aX", "bY", "c"]),
        ("one two", 3, "end", [""], ["one", "tw", "o"]),
        ("第一。第二。第三", 4, "end", ["。", ""], ["第一。", "第二。", "第三"]),
    ],
)
def test_recursive_splits_at_the_separators_that_are_asked_for_and_keeps_them(
    text: str, size: int, keep: str, separators: list[str], chunks: list[str]
) -> None:
    made = chunker("recursive", size=size, overlap=0, unit="characters", keep=keep, separators=separators)
    assert pieces(made, text) == chunks


@given(
    text=document_texts, sizing=sizes(), keep=st.sampled_from(["start", "end"]),
    preset=st.sampled_from([None, "langchain"]),
)  # fmt: skip
def test_whatever_the_separators_and_the_preset_nothing_but_white_space_is_lost(
    text: str, sizing: tuple[int, int], keep: str, preset: str | None, tokenizer: Tokenizer
) -> None:
    written: dict[str, object] = {"separators": ["\n", ". ", ".", "e", ""], "keep": keep, "preset": preset}
    made = chunker("recursive", size=sizing[0], overlap=sizing[1], **written)
    assert_ascend_and_cover_all_but_white_space(text, made.split(text, ruler_of(text, "tokens", tokenizer)))


@every_sized_kind
@given(text=document_texts, sizing=sizes(), overhead=st.integers(0, 90))
def test_titles_are_nothing_if_texts_are_measured(kind: str, text: str, sizing: tuple[int, int], overhead: int) -> None:
    made = chunker(kind, size=sizing[0], overlap=sizing[1], unit="characters", measure="text")
    alone = sized(kind, *sizing)
    assert made.split(text, Ruler(range(len(text)), overhead)) == alone.split(text, Ruler(range(len(text))))


@every_sized_kind
@pytest.mark.parametrize(
    ("written", "counted_by"),
    [
        ({}, "embedder"),
        ({"unit": "characters"}, "characters"),
        ({"tokenizer": "characters"}, "characters"),
        ({"unit": "characters", "tokenizer": "characters"}, "characters"),
        ({"tokenizer": "words"}, "words"),
        ({"tokenizer": "/a/b.json"}, "/a/b.json"),
    ],
)
def test_what_counts_is_one_word_and_hashed_by_content(kind: str, written: dict[str, object], counted_by: str) -> None:
    made = chunker(kind, **written)
    assert made.counted_by == counted_by
    assert made.hashed_options() == chunker(kind).hashed_options()


@pytest.mark.parametrize(
    ("size", "overlap", "overhead", "window"),
    [
        (200, 40, 0, (200, 40)), (200, 40, 2, (198, 40)), (200, 40, 100, (100, 40)),
        (200, 40, 190, (100, 40)),  # the title does not starve the text
        (201, 0, 190, (101, 0)), (200, 180, 0, (200, 180)),
        (200, 180, 100, (100, 90)),  # an overlap that does not fit keeps its share of the size
        (1, 0, 50, (1, 0)),
    ],
)  # fmt: skip
def test_the_overhead_is_paid_from_the_size(size: int, overlap: int, overhead: int, window: tuple[int, int]) -> None:
    assert sized("fixed", size, overlap).window(Ruler((), overhead)) == window


@given(st.text("abc", min_size=1, max_size=60), sizes())
def test_fixed_windows_are_full_but_for_the_last_and_repeat_the_overlap(text: str, sizing: tuple[int, int]) -> None:
    size, overlap = sizing
    ruler = Ruler(range(len(text)))
    made = sized("fixed", size, overlap)
    spans = made.split(text, ruler)
    assert all(span.end - span.start == size for span in spans[:-1])
    assert {earlier.end - later.start for earlier, later in pairwise(spans)} <= {made.window(ruler)[1]}


def test_fixed_windows_of_tokens_are_cut_between_tokens_and_never_inside_a_character(tokenizer: Tokenizer) -> None:
    text = "unbelievably embeddings"
    assert pieces(sized("fixed", 2, 0, "tokens"), text, ruler_of(text, "tokens", tokenizer)) == [
        "unbel", "ieva", "bly em", "bedding", "s",
    ]  # fmt: skip
    korean = "한국어"
    assert tokenizer.starts([korean])[0] == [0, 0, 0, 1, 1, 1, 2, 2]
    ruler = ruler_of(korean, "tokens", tokenizer)
    assert pieces(sized("fixed", 4, 0, "tokens"), korean, ruler) == ["한", "국", "어"]
    assert pieces(sized("fixed", 5, 2, "tokens"), korean, ruler) == ["한", "국어"]
    assert pieces(sized("fixed", 6, 3, "tokens"), korean, ruler) == ["한국", "국어"]


@pytest.mark.parametrize(
    ("kind", "text", "size", "overlap", "chunks"),
    [
        ("sentence", "One. Two. Three.", 9, 0, ["One. Two.", "Three."]),
        ("sentence", "One. Two. Three.", 16, 0, ["One. Two. Three."]),
        ("sentence", "One. Two. Three. Four.", 16, 6, ["One. Two. Three.", "Three. Four."]),
        ("sentence", "One. Two. Three. Four.", 16, 5, ["One. Two. Three.", "Four."]),  # no part of one is repeated
        ("sentence", "One two three four. Five.", 9, 4, ["One two", "three", "four.", "Five."]),
        ("sentence", "One. Abcdefghijk lm. Two.", 5, 0, ["One.", "Abcde", "fghij", "k", "lm.", "Two."]),
        ("sentence", "a b c abcd.", 3, 2, ["a b", "c", "abc", "d."]),  # nor between the parts of one
        ("sentence", "One.\n\nTwo.", 20, 0, ["One.\n\nTwo."]),
        ("sentence", "Ask Dr. Hall. Now.", 13, 0, ["Ask Dr. Hall.", "Now."]),
        ("fixed", "abcdefghij", 4, 0, ["abcd", "efgh", "ij"]),
        ("fixed", "abcdefghij", 4, 1, ["abcd", "defg", "ghij"]),
        ("fixed", "abcdefghij", 4, 3, ["abcd", "bcde", "cdef", "defg", "efgh", "fghi", "ghij"]),
        ("fixed", "ab cd ef", 3, 0, ["ab", "cd", "ef"]),
        ("fixed", "a      b", 3, 0, ["a", "b"]),
        ("fixed", "abcd", 4, 2, ["abcd"]),
        ("recursive", "One two.\n\nThree four.", 12, 0, ["One two.", "Three four."]),
        ("recursive", "One.\n\nTwo.\n\nThree four five.", 12, 0, ["One.\n\nTwo.", "Three four", "five."]),
        ("recursive", "One.\nTwo.\n\nThree.\nFour.", 18, 0, ["One.\nTwo.", "Three.\nFour."]),
        ("recursive", "One.\nTwo.\nThree four.", 11, 0, ["One.\nTwo.", "Three four."]),
        ("recursive", "One two. Three. Four five six.", 16, 0, ["One two. Three.", "Four five six."]),
        ("recursive", "one two three", 8, 0, ["one two", "three"]),
        ("recursive", "one two three four", 12, 4, ["one two", "two three", "four"]),
        ("recursive", "one two three four", 14, 9, ["one two three", "three four"]),
        ("recursive", "abcdefgh", 3, 1, ["abc", "cde", "efg", "gh"]),
        ("recursive", "ab abcdefgh cd", 3, 0, ["ab", "abc", "def", "gh", "cd"]),
        ("recursive", "a\n\nb\n\nc", 100, 0, ["a\n\nb\n\nc"]),
        ("recursive", "\n\n\n a\n\n\n", 2, 0, ["a"]),
    ],
)  # fmt: skip
def test_worked_examples(kind: str, text: str, size: int, overlap: int, chunks: list[str]) -> None:
    assert pieces(sized(kind, size, overlap), text) == chunks
