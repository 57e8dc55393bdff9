"""`preset: langchain` and `fixed` give the chunks of LangChain's own splitters, with the places where they stand."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import tokenizers
from hypothesis import HealthCheck, example, given, settings, strategies as st
from langchain_text_splitters import RecursiveCharacterTextSplitter
from langchain_text_splitters.base import Tokenizer as LangChainTokenizer, split_text_on_tokens

from ragtrial.components.chunkers.base import Ruler
from ragtrial.components.chunkers.plain import FixedChunker, RecursiveChunker
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.dataset.texts import normalised
from text_strategies import document_texts, sentences, sizes

logging.getLogger("langchain_text_splitters.base").setLevel(logging.ERROR)  # it tells of pieces longer than the size

LANGCHAIN = ("\n\n", "\n", " ", "")
CHUNKING_EVALUATION = ("\n\n", "\n", ".", "?", "!", " ", "")
ALL = ["\n\n", "\n", ".", ". ", "?", "!", " ", "a", "ab", "\n \n", "--"]

Length = Callable[[str], int]


@pytest.fixture(scope="session")
def minilm(minilm_folder: Path) -> Tokenizer:
    return Tokenizer(minilm_folder / "tokenizer.json")


@pytest.fixture(scope="session")
def support(root: Path) -> list[str]:
    paths = sorted((root / "data" / "support").rglob("*.md"))
    return [normalised(path.read_text(encoding="utf-8")) for path in paths]


@pytest.fixture(scope="session")
def byte_pairs(tmp_path_factory: pytest.TempPathFactory, support: list[str]) -> Path:
    """A tokenizer as those of OpenAI's models are: pairs of bytes, a word's token with the space before it."""
    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    made.post_processor = tokenizers.processors.ByteLevel(trim_offsets=False)
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=900, initial_alphabet=alphabet, show_progress=False)
    made.train_from_iterator(support, trainer)
    path = tmp_path_factory.mktemp("byte-pairs") / "tokenizer.json"
    made.save(str(path))
    return path


def ours(made: RecursiveChunker | FixedChunker, text: str, ruler: Ruler) -> list[str]:
    return [text[span.start : span.end] for span in made.split(text, ruler)]


def theirs(
    text: str, size: int, overlap: int, separators: Sequence[str], length: Length, *, at_end: bool = False
) -> list[str]:
    splitter = RecursiveCharacterTextSplitter(
        separators=list(separators), keep_separator="end" if at_end else True, chunk_size=size, chunk_overlap=overlap,
        length_function=length,
    )  # fmt: skip
    return splitter.split_text(text)


def preset(size: int, overlap: int, separators: Sequence[str] = LANGCHAIN, keep: str = "start") -> RecursiveChunker:
    return RecursiveChunker.model_validate(
        {"preset": "langchain", "size": size, "overlap": overlap, "separators": list(separators), "keep": keep}
    )


def ruler_of(text: str, tokenizer: Tokenizer | None, overhead: int = 50) -> Ruler:
    if tokenizer is None:
        return Ruler(range(len(text)), overhead)
    return Ruler(tokenizer.starts([text])[0], overhead, tokenizer.alone)


def without_repeats(found: list[str], kept: list[str]) -> list[str]:
    """``found`` but for the chunks that are white space, or the end of the chunk before, where ``kept`` has neither."""
    left: list[str] = []
    for chunk in found:
        is_next = len(left) < len(kept) and kept[len(left)] == chunk
        adds_nothing = not chunk.strip() or (left and left[-1].endswith(chunk.strip()))
        if is_next or not adds_nothing:
            left.append(chunk)
    return left


prose = st.lists(sentences, min_size=1, max_size=8).flatmap(
    lambda lines: st.lists(
        st.sampled_from([". ", "\n", "\n\n", "? ", "! ", " -- "]), min_size=len(lines), max_size=len(lines)
    ).map(lambda ends: "".join(a + b for a, b in zip(lines, ends, strict=True)).strip())
)
"""Text as people write it: no two spaces, no white space at its ends."""
marks = st.lists(st.sampled_from(ALL), unique=True, max_size=6).map(lambda found: (*found, ""))
texts = st.one_of(document_texts, st.text("ab .\n?-", max_size=120), prose)


@pytest.mark.parametrize("counted", ["characters", "tokens", "encoded"])
@given(text=texts, sizing=sizes(), separators=marks, at_end=st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow])
@example(text="ab cd  ", sizing=(5, 3), separators=LANGCHAIN, at_end=False)
@example(text="a b", sizing=(1, 0), separators=LANGCHAIN, at_end=False)
@example(text="abcd efgh", sizing=(4, 2), separators=LANGCHAIN, at_end=True)
@example(text="한국어텍스트 이다값" * 5, sizing=(4, 1), separators=LANGCHAIN, at_end=False)
def test_the_chunks_are_those_of_langchain_but_for_such_as_add_white_space_alone(
    counted: str, text: str, sizing: tuple[int, int], separators: tuple[str, ...], at_end: bool, minilm: Tokenizer
) -> None:
    """Lengths as of `len`, of tokens, and of `lambda text: len(tokenizer.encode(text))`, with special tokens."""
    made, ruler = preset(*sizing, separators, "end" if at_end else "start"), ruler_of(text, None)
    length: Length = len
    if counted != "characters":
        ruler = replace(ruler_of(text, minilm), special=minilm.special_tokens)
        length = lambda piece: minilm.alone([piece])[0]  # noqa: E731
    if counted == "encoded":
        made = made.model_copy(update={"measure": "encoded"})
        length = lambda piece: int(minilm.counts([piece])[0])  # noqa: E731
    found = ours(made, text, ruler)
    assert found == without_repeats(theirs(text, *sizing, separators, length, at_end=at_end), found)


@pytest.mark.parametrize("separators", [LANGCHAIN, CHUNKING_EVALUATION])
@pytest.mark.parametrize("sizing", [(200, 0), (64, 16), (400, 200)])
@pytest.mark.parametrize("counted", ["characters", "minilm", "byte pairs"])
def test_the_chunks_of_real_documents_are_those_of_langchain_without_any_difference(
    separators: tuple[str, ...],
    sizing: tuple[int, int],
    counted: str,
    minilm: Tokenizer,
    byte_pairs: Path,
    support: list[str],
) -> None:
    tokenizer = {"characters": None, "minilm": minilm, "byte pairs": Tokenizer(byte_pairs)}[counted]
    length: Length = len if tokenizer is None else lambda piece: tokenizer.alone([piece])[0]
    for text in support[:12]:
        found = ours(preset(*sizing, separators), text, ruler_of(text, tokenizer))
        assert found == theirs(text, *sizing, separators, length)


def token_windows(path: Path, text: str, size: int, overlap: int) -> list[str]:
    theirs = tokenizers.Tokenizer.from_file(str(path))
    return split_text_on_tokens(
        text=text,
        tokenizer=LangChainTokenizer(
            chunk_overlap=overlap, tokens_per_chunk=size, decode=lambda ids: theirs.decode(ids),
            encode=lambda one: list(theirs.encode(one).ids),
        ),
    )  # fmt: skip


def window(size: int, overlap: int) -> FixedChunker:
    return FixedChunker(size=size, overlap=overlap, measure="text")


@given(text=st.text("abcdefgh The.,\n\n'0123", max_size=150).map(normalised), sizing=sizes())
def test_fixed_windows_are_those_of_langchain_stripped(text: str, sizing: tuple[int, int], byte_pairs: Path) -> None:
    found = ours(window(*sizing), text, ruler_of(text, Tokenizer(byte_pairs)))
    expected = [chunk.strip() for chunk in token_windows(byte_pairs, text, *sizing)]
    assert found == without_repeats(expected, found)
