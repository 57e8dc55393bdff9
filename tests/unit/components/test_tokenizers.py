"""Tokens are counted as the model itself counts them, and every token has a place in the text."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from ragtrial.components.tokenizers import Tokenizer, Words
from ragtrial.errors import ModelNotFoundError
from text_strategies import document_texts


@pytest.fixture(scope="module")
def tokenizer(minilm_folder: Path) -> Tokenizer:
    return Tokenizer(minilm_folder / "tokenizer.json")


def test_no_special_tokens_truncation_or_padding(minilm_folder: Path, tokenizer: Tokenizer) -> None:
    carried = json.loads((minilm_folder / "tokenizer.json").read_text(encoding="utf-8"))
    assert carried["truncation"]["max_length"] == 128
    assert carried["padding"]["strategy"] == {"Fixed": 128}
    assert tokenizer.counts(["hub " * 700, "hub", ""]).tolist() == [702, 3, 2]
    assert [len(starts) for starts in tokenizer.starts(["hub " * 700, "hub", ""])] == [700, 1, 0]
    assert tokenizer.special_tokens == 2
    assert tokenizer.counts([]).shape == (0,)
    assert tokenizer.starts([]) == []
    assert tokenizer.alone(["hub", "unbelievably", ""]) == [1, 5, 0]


@pytest.mark.slow
def test_counts_of_real_text_equal_those_of_transformers(minilm_folder: Path, tokenizer: Tokenizer, root: Path) -> None:
    from transformers import AutoTokenizer

    oracle = AutoTokenizer.from_pretrained(str(minilm_folder), local_files_only=True)
    texts = [path.read_text(encoding="utf-8") for path in sorted((root / "data" / "support").rglob("*.md"))]
    texts += ["한국어 텍스트", "東京都 🙂 naïve\x00\u200b", "a" * 150, " \n ", ""]
    expected = oracle(texts, truncation=False, padding=False, return_offsets_mapping=True)
    assert max(map(len, expected["input_ids"])) > 512  # beyond what the model reads
    counts = tokenizer.counts(texts)
    assert counts.dtype == np.int64
    assert counts.tolist() == [len(row) for row in expected["input_ids"]]
    assert tokenizer.starts(texts) == [[start for start, _ in row[1:-1]] for row in expected["offset_mapping"]]


@given(document_texts)
def test_starts_ascend_one_for_each_token_and_words_stand_between_spaces(tokenizer: Tokenizer, text: str) -> None:
    (starts,) = tokenizer.starts([text])
    assert all(earlier <= later for earlier, later in pairwise(starts))
    assert all(0 <= start < len(text) and text[start] not in " \t\n\u00a0\u3000" for start in starts)
    assert len(starts) + tokenizer.special_tokens == tokenizer.counts([text])[0]
    (starts,) = Words().starts([text])
    assert [text[start:].split()[0] for start in starts] == text.split()
    assert Words().alone([text]) == Words().counts([text]).tolist() == [len(text.split())]
    assert Words.special_tokens == 0


def test_the_fingerprint_follows_the_file_s_bytes(tmp_path: Path, minilm_folder: Path, tokenizer: Tokenizer) -> None:
    copy = tmp_path / "copy.json"
    shutil.copy(minilm_folder / "tokenizer.json", copy)
    assert Tokenizer(copy).fingerprint == tokenizer.fingerprint
    copy.write_bytes(copy.read_bytes() + b"\n")
    assert Tokenizer(copy).fingerprint != tokenizer.fingerprint


@pytest.mark.parametrize("content", [None, "", "{}", '{"version": "1.0"}', "\x00"])
def test_a_file_that_is_no_tokenizer_is_an_input_error_that_names_it(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "tokenizer.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(ModelNotFoundError) as caught:
        Tokenizer(path).check()
    assert str(caught.value).startswith(f"{path} is not a tokenizer file that can be read: ")


def test_a_token_that_begins_with_a_space_starts_at_its_first_letter(tmp_path: Path) -> None:
    """Byte pairs and SentencePiece put the space before a word into its token, with the word or as a mark."""
    import tokenizers

    spaced = tokenizers.Tokenizer(tokenizers.models.WordLevel({" b": 0, "a": 1, "  ": 2, "[UNK]": 3}, "[UNK]"))
    spaced.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\s?\S|\s+(?!\S)"), "isolated")
    spaced.save(str(tmp_path / "tokenizer.json"))
    made = Tokenizer(tmp_path / "tokenizer.json")
    assert made.starts(["a b", "a b  ", " a", "  "]) == [[0, 2], [0, 2, 3], [1], [0]]
    assert made.alone(["a b", "b", ""]) == [2, 1, 0]
