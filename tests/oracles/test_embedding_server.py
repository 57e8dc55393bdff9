"""Vectors from a real server of the OpenAI form are those of the model itself, and so is what they find."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from local_servers import local_server
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.endpoint import OpenAIEmbedder

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

pytestmark = pytest.mark.slow

TEXTS = ["rye bread", "Bake the rolls until they are golden.", "soup " * 300, "brød 🍞\n\ttwo  lines", "x"]
DOCUMENTS, QUESTIONS = 16, 40


@pytest.fixture(scope="module")
def server(minilm_folder: Path, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of LitServe with the model."""
    program = [sys.executable, str(root / "tests" / "support" / "litserve_embeddings.py"), str(minilm_folder)]
    with local_server(lambda port: [*program, str(port)], tmp_path_factory.mktemp("server") / "log.txt") as address:
        yield f"{address}/v1"


def served(server: str, folder: Path, encoding: str = "base64") -> CachedEmbedder:
    options = {"model": "minilm", "base_url": server, "batch_size": 16, "concurrency": 2, "encoding": encoding}
    return CachedEmbedder(OpenAIEmbedder.model_validate(options), folder)


@pytest.mark.parametrize("encoding", ["base64", "float"])
def test_vectors_are_the_model_s(encoding: str, server: str, minilm: SentenceTransformer, tmp_path: Path) -> None:
    expected = minilm.encode(TEXTS, normalize_embeddings=True)
    np.testing.assert_allclose(served(server, tmp_path, encoding).embed_documents(TEXTS), expected, atol=1e-5)


def test_questions_find_the_same(server: str, minilm: SentenceTransformer, shared_data: Path, tmp_path: Path) -> None:
    """On a part of XQuAD; `make endpoints` does it with all of it, and another server."""

    def texts(name: str, most: int) -> list[str]:
        lines = (shared_data / "xquad_en" / name).read_text(encoding="utf-8").splitlines()[:most]
        return [json.loads(line)["text"] for line in lines]

    documents, questions = texts("corpus.jsonl", DOCUMENTS), texts("queries.jsonl", QUESTIONS)
    embedder = served(server, tmp_path)
    found = embedder.embed_queries(questions) @ embedder.embed_documents(documents).T
    local = (minilm.encode(one, normalize_embeddings=True, batch_size=8) for one in (questions, documents))
    expected = np.matmul(next(local), next(local).T)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_array_equal(np.argsort(-found, axis=1)[:, :10], np.argsort(-expected, axis=1)[:, :10])
