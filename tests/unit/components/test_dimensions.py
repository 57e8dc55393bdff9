"""Fewer dimensions are cut from cached vectors: one embedding pass serves all of them, in every store."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from experiments import Experiment, write_experiment
from ragtrial.components.embedders.base import truncated
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.config.settings import settings_of
from ragtrial.errors import EmbedderError, InputError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.run import Run

TEXTS = ["Rye bread", "How long does soup keep in the fridge?", "Leave the oven overnight, then wipe it."]
CUTS = [4, 8, 16, 32]
"""Of the 32 numbers that the function of the experiments makes."""

RETRIEVERS = {
    "dense": {"kind": "dense", "top_k": 10},
    "chroma": {"kind": "dense", "top_k": 10, "store": {"kind": "chroma"}},
}
SWEEP = {
    "matrix": {
        "embedder.dimensions": CUTS,
        "store.quantize, store.rescore": [[None, None], ["int8", None], ["binary", 4]],
    }
}


@pytest.mark.parametrize("normalize", [True, False])
def test_vectors_are_those_of_truncate_dim(tiny_model: Path, tmp_path: Path, *, normalize: bool) -> None:
    library = SentenceTransformer(str(tiny_model), device="cpu")
    embedder = SentenceTransformerEmbedder(model=str(tiny_model), device="cpu", normalize=normalize, dimensions=5)
    cached = CachedEmbedder(embedder, tmp_path)
    expected = library.encode(TEXTS, truncate_dim=5, normalize_embeddings=normalize)
    np.testing.assert_allclose(cached.embed_documents(TEXTS), expected, atol=1e-6)
    np.testing.assert_allclose(cached.embed_queries(TEXTS), expected, atol=1e-6)  # from the cache
    np.testing.assert_allclose(cached.embed_now(TEXTS), expected, atol=1e-6)
    assert cached.dimension() == 5


def test_all_dimensions_have_one_cache_and_no_model_has_more(tiny_model: Path, tmp_path: Path) -> None:
    whole = SentenceTransformerEmbedder(model=str(tiny_model), device="cpu")
    cut = whole.model_copy(update={"dimensions": 5})
    CachedEmbedder(cut, tmp_path).embed_documents(TEXTS)
    assert CachedEmbedder(cut, tmp_path).fingerprint == CachedEmbedder(whole, tmp_path).fingerprint
    assert CachedEmbedder(whole, tmp_path).embed_documents(TEXTS).shape == (3, 16)
    assert cut.untruncated == whole
    assert cut.untruncated.summary() == whole.summary()
    embedder = {"kind": "sentence-transformer", "model": str(tiny_model), "dimensions": 17}
    experiment = write_experiment(tmp_path, embedder=embedder)
    with pytest.raises(InputError, match=r"embedder\.dimensions is 17; the model's vectors have 16"):
        run_experiment(experiment.config())
    assert not (experiment.workspace / "vectors").exists()
    vectors = np.eye(3, 32, dtype=np.float32)
    assert truncated(vectors, 32, normalize=True) is vectors
    with pytest.raises(EmbedderError, match=r"embedder\.dimensions is 33; the model's vectors have 32"):
        truncated(vectors, 33, normalize=True)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    experiment = write_experiment(tmp_path_factory.mktemp("sizes"), retrievers=RETRIEVERS, sweep=SWEEP)
    run_experiment(experiment.config())
    return experiment


@pytest.mark.slow
def test_a_sweep_embeds_each_text_once_and_reports_bytes_per_vector(swept: Experiment) -> None:
    settings, _ = settings_of(swept.config())
    assert len(settings) == 16  # Chroma keeps floats: four of these are its
    assert max(Counter(swept.embedded()).values()) == 1
    assert not Run.of(swept.config()).dry_run().to_do
    before = swept.embedded()
    run_experiment(swept.config("sweep.matrix.embedder.dimensions=[12]"))
    assert swept.embedded() == before
    report = run_experiment(swept.config())
    sizes = {one.name: one.costs.vector_bytes for one in report.settings if one.costs}
    assert sizes["dense-dimensions32-quantize-none-rescore-none"] == sizes["chroma-dimensions32"] == 128
    assert sizes["dense-dimensions16-quantize-int8-rescore-none"] == 16
    assert [sizes[f"dense-dimensions{size}-quantize-binary-rescore4"] for size in (16, 4)] == [2, 1]
    audited = {one.name for one in report.settings if one.audit is not None}
    assert audited == {name for name in sizes if "int8" in name or "binary" in name or "chroma" in name}


@pytest.mark.slow
def test_a_plan_has_one_embedding_pass_for_all_dimensions(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, retrievers=RETRIEVERS, sweep=SWEEP)
    embeddings = [one for one in Run.of(experiment.config()).dry_run().stages if one.kind == "embeddings"]
    assert [one.amount.unit for one in embeddings] == ["texts", *["vectors"] * 4]
    assert [one.amount.seconds for one in embeddings[1:]] == [0.0] * 4


@pytest.mark.slow
def test_dimensions_do_not_reach_what_has_the_tokenizer_alone(tiny_model: Path, tmp_path: Path) -> None:
    experiment = write_experiment(
        tmp_path,
        embedder={"kind": "sentence-transformer", "model": str(tiny_model)},
        chunker={"kind": "recursive", "size": 20, "overlap": 0},
        retrievers={"dense": {"kind": "dense"}, "bm25": {"kind": "bm25"}},
        sweep={"matrix": {"embedder.dimensions": [4, 8]}},
    )
    assert [one.name for one in settings_of(experiment.config())[0]] == [
        "dense-dimensions4",
        "bm25",
        "dense-dimensions8",
    ]
