"""Static models (model2vec) load like any other: a vector of a text is the mean of its tokens' vectors."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file
from tokenizers import Tokenizer

from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder

pytestmark = pytest.mark.slow

MODULES = [
    {"idx": 0, "name": "0", "path": ".", "type": "sentence_transformers.models.StaticEmbedding"},
    {"idx": 1, "name": "1", "path": "1_Normalize", "type": "sentence_transformers.models.Normalize"},
]
TEXTS = ["rye bread", "Bake the rolls until they are golden.", "soup " * 900, "x"]


def test_a_model_in_the_files_of_model2vec_gives_the_mean_of_its_tokens(minilm_folder: Path, tmp_path: Path) -> None:
    folder = tmp_path / "static"
    (folder / "1_Normalize").mkdir(parents=True)
    shutil.copyfile(minilm_folder / "tokenizer.json", folder / "tokenizer.json")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    matrix = np.random.default_rng(0).standard_normal((tokenizer.get_vocab_size(), 32)).astype(np.float32)
    save_file({"embeddings": matrix}, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps({"model_type": "model2vec", "hidden_dim": 32, "normalize": True}))
    (folder / "modules.json").write_text(json.dumps(MODULES))
    embedder = SentenceTransformerEmbedder(model=str(folder), device="cpu")
    assert embedder.max_tokens() is None, "it reads all of a text"
    assert embedder.tokenizer() is not None
    expected = []
    for text in TEXTS:
        mean = matrix[tokenizer.encode(text, add_special_tokens=False).ids].mean(axis=0)
        expected.append(mean / np.linalg.norm(mean))
    made = CachedEmbedder(embedder, tmp_path / "vectors").embed_documents(TEXTS)
    np.testing.assert_allclose(made, expected, atol=1e-5)
