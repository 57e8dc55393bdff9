"""Chunks are as long as the tokenizer that the config names says, and are cut again when its content changes."""

import json
import shutil
from pathlib import Path
from typing import Literal

import pytest

from commands import Outcome
from experiments import Experiment, write_experiment
from ragtrial.components.chunkers.base import Ruler
from ragtrial.components.chunkers.plain import FixedChunker
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.config.settings import settings_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import ModelNotFoundError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Silent
from small_experiment import ragtrial


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
        with pytest.raises(ModelNotFoundError) as caught:
            run_experiment(experiment.config(later))
        assert f": setting 'later': {path} is not a tokenizer file that can be read: " in str(caught.value)
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
