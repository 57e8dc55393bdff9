"""Vectors equal those of sentence-transformers' own ``encode_query`` and ``encode_document``, whatever a model does."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.model_files import ModelLayout
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from tiny_models import FORMS, MOST_TOKENS, write_model_of

TEXTS = ["How long is the guarantee?", "guarantee", "The lamp has two bulbs. " * 30, "Wo ist die Batterie?"]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory, minilm_folder: Path) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("forms")
    return {form: write_model_of(form, folder / form.replace(" ", "-"), minilm_folder) for form in FORMS}


def of_the_library(folder: Path, **prompts: str) -> Any:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu", prompts=prompts or None)
    texts: Any = {"normalize_embeddings": True, "show_progress_bar": False}
    return model.encode_query(TEXTS, **texts), model.encode_document(TEXTS, **texts)


PREFIXES = {"query_prefix": "ask: ", "document_prefix": ""}
"""Those of a config are prompts to the library."""


@pytest.mark.parametrize(
    ("form", "options"),
    [
        *((form, {}) for form in FORMS),
        *((form, PREFIXES) for form in ("prompts", "prompt not pooled", "two static routes")),
    ],
)
def test_queries_and_documents_are_encoded_as_the_library_does(
    form: str, options: dict[str, Any], models: dict[str, Path], tmp_path: Path
) -> None:
    prompts = {name.removesuffix("_prefix"): prompt for name, prompt in options.items() if options is PREFIXES}
    queries, documents = of_the_library(models[form], **prompts)
    embedder = SentenceTransformerEmbedder(model=str(models[form]), device="cpu", **options)
    cached = CachedEmbedder(embedder, tmp_path)
    np.testing.assert_allclose(cached.embed_queries(TEXTS), queries, atol=2e-6)
    np.testing.assert_allclose(cached.embed_documents(TEXTS), documents, atol=2e-6)
    assert embedder.dimension() in (None, documents.shape[1])


@pytest.mark.parametrize("form", FORMS)
def test_texts_share_a_vector_where_both_sides_read_alike_to_their_limit(form: str, models: dict[str, Path]) -> None:
    others = {"document length": 7, "static": None, "two static routes": None}
    assert SentenceTransformerEmbedder(model=str(models[form])).max_tokens() == others.get(form, MOST_TOKENS)
    apart = {"prompt not pooled", "two static routes", "two transformer routes", "a route without a model",
             "a shared route", "query length", "document length"}  # fmt: skip
    assert ModelLayout(models[form]).distinguishes_sides == (form in apart)


@pytest.mark.parametrize("form", ["limit above positions", "files in a folder"])
def test_no_more_tokens_are_read_than_there_are_positions(form: str, models: dict[str, Path], tmp_path: Path) -> None:
    embedder = SentenceTransformerEmbedder(model=str(models[form]), device="cpu")
    cached = CachedEmbedder(embedder, tmp_path)
    assert embedder.max_tokens() == MOST_TOKENS
    assert cached.count_too_long(np.array([MOST_TOKENS, MOST_TOKENS + 1])) == 1
    assert cached.tokenizer is not None


def test_a_declared_prompt_that_is_put_before_no_text_is_reported(models: dict[str, Path]) -> None:
    found = {form: list(SentenceTransformerEmbedder(model=str(models[form])).unused_prompts()) for form in FORMS}
    assert [form for form, messages in found.items() if messages] == ["passage prompt"]
    (message,) = found["passage prompt"]
    assert "passage" in message
    assert "document_prefix" in message
    chosen = SentenceTransformerEmbedder(model=str(models["passage prompt"]), document_prefix="passage: ")
    assert list(chosen.unused_prompts()) == []
