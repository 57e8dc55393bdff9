"""Tokens are counted as the named model counts them, and chunks are as long as its tokenizer says."""

import json
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from hypothesis import given

from commands import Outcome
from expectations import message_of
from experiments import Experiment, write_experiment
from ragtrial.components.chunkers.base import Ruler
from ragtrial.components.chunkers.plain import FixedChunker
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.tokenizers import Tokenizer, Words
from ragtrial.config.settings import settings_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import ModelNotFoundError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Silent
from small_experiment import ragtrial
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
    message = message_of(ModelNotFoundError, Tokenizer(path).check)
    assert message.startswith(f"{path} is not a tokenizer file that can be read: ")


def test_a_token_that_begins_with_a_space_starts_at_its_first_letter(tmp_path: Path) -> None:
    """Byte pairs and SentencePiece put the space before a word into its token, with the word or as a mark."""
    import tokenizers

    spaced = tokenizers.Tokenizer(tokenizers.models.WordLevel({" b": 0, "a": 1, "  ": 2, "[UNK]": 3}, "[UNK]"))
    spaced.pre_tokenizer = tokenizers.pre_tokenizers.Split(tokenizers.Regex(r"\s?\S|\s+(?!\S)"), "isolated")
    spaced.save(str(tmp_path / "tokenizer.json"))
    made = Tokenizer(tmp_path / "tokenizer.json")
    assert made.starts(["a b", "a b  ", " a", "  "]) == [[0, 2], [0, 2, 3], [1], [0]]
    assert made.alone(["a b", "b", ""]) == [2, 1, 0]


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path / "kitchen")


def chunks(experiment: Experiment, chunker: str) -> Chunks:
    config = experiment.config(f"chunker={chunker}")
    chunks = Corpus(config, Silent()).chunks(settings_of(config)[0][0])
    assert chunks is not None
    return chunks


def texts(found: Chunks) -> list[str]:
    return [found.text(position) for position in range(len(found))]


def test_titles_count_as_chosen_and_a_tokenizer_that_is_not_there_is_told(experiment: Experiment) -> None:
    indexed = chunks(experiment, "{kind: fixed, size: 9, overlap: 0, tokenizer: words}")
    alone = chunks(experiment, "{kind: fixed, size: 9, overlap: 0, tokenizer: words, measure: text}")
    assert {len(text.split()) for text in IndexedTexts(indexed).indexed_texts()} >= {9}
    assert max(len(text.split()) for text in IndexedTexts(indexed).indexed_texts()) == 9
    assert max(len(text.split()) for text in texts(indexed)) == 9  # documents without a title
    assert len(alone) < len(indexed)
    for written in ("nowhere.json", "word", str(experiment.folder)):
        path = written if written.startswith("/") else experiment.folder / written
        later = f"retrievers.later={{kind: dense, chunker: {{kind: sentence, tokenizer: {path}}}}}"
        message = message_of(ModelNotFoundError, run_experiment, experiment.config(later))
        assert f": setting 'later': {path} is not a tokenizer file that can be read: " in message
    assert experiment.embedded() == []


@pytest.mark.parametrize("kind", ["recursive", "fixed", "sentence", "markdown"])
def test_encoded_texts_have_the_size_with_special_ones(experiment: Experiment, minilm_folder: Path, kind: str) -> None:
    file = minilm_folder / "tokenizer.json"
    written = f"{{kind: {kind}, size: 12, overlap: 0, unit: tokens, tokenizer: {file}, measure: encoded}}"
    sizes = Tokenizer(file).counts(texts(chunks(experiment, written)))
    assert 10 <= sizes.max() <= 13  # a window that begins inside a word may have a token more


@pytest.mark.slow
def test_a_tokenizer_file_counts_and_is_hashed_by_its_content(experiment: Experiment, minilm_folder: Path) -> None:
    own = experiment.folder / "counting" / "tokenizer.json"
    own.parent.mkdir()
    shutil.copy(minilm_folder / "tokenizer.json", own)
    written = "{kind: recursive, size: 20, overlap: 0, unit: tokens, tokenizer: %s}"
    chunker = {"kind": "recursive", "size": 20, "overlap": 0, "tokenizer": "counting/tokenizer.json"}
    config = json.loads(experiment.file.read_text(encoding="utf-8"))
    experiment.file.write_text(json.dumps({**config, "chunker": chunker}), encoding="utf-8")
    assert experiment.config().chunker.counted_by == str(own), "from the folder of the config"
    found = chunks(experiment, written % own)
    counts = Tokenizer(own).counts(list(IndexedTexts(found).indexed_texts()))
    assert 15 < counts.max() <= 20
    elsewhere = shutil.copy(own, experiment.folder / "same.json")
    assert chunks(experiment, written % elsewhere).name == found.name
    content = json.loads(own.read_text(encoding="utf-8"))
    content["normalizer"]["lowercase"] = False
    own.write_text(json.dumps(content), encoding="utf-8")
    assert chunks(experiment, written % own).name != found.name


def validated(experiment: Experiment, capsys: pytest.CaptureFixture[str], *overrides: str) -> Outcome:
    return ragtrial(
        capsys, "validate", experiment.file, *(part for override in overrides for part in ("--set", override))
    )


@pytest.mark.parametrize("model", ["no/such", "sentence-transformers/all-MiniLM-L6-v2"])
def test_validate_tells_a_wrong_tokenizer_as_run_does_whatever_the_embedder(
    experiment: Experiment, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    """A model that is not there may be fetched by then; a file that is wrong stays wrong."""
    damaged = experiment.folder / "damaged.json"
    damaged.write_text('{"version": "1.0", "model"', encoding="utf-8")
    embedder = f"embedder={{kind: sentence-transformer, model: {model}}}"
    for path in (damaged, experiment.folder, experiment.folder / "nowhere.json"):
        told = validated(experiment, capsys, embedder, f"chunker={{kind: sentence, tokenizer: {path}}}")
        assert told.code == 2
        assert f"{path} is not a tokenizer file that can be read" in told.err


@pytest.mark.parametrize(
    ("measure", "overlap", "window"), [("text", 8, (10, 8)), ("indexed", 8, (8, 6)), ("indexed", 3, (8, 3)),
                                       ("encoded", 9, (9, 8))],
)  # fmt: skip
def test_an_overlap_keeps_its_share_of_what_a_title_leaves_of_the_size(
    measure: Literal["indexed", "text", "encoded"], overlap: int, window: tuple[int, int]
) -> None:
    chunker = FixedChunker(size=10, overlap=overlap, measure=measure, unit="characters")
    assert chunker.window(Ruler(range(100), overhead=2, special=1)) == window
