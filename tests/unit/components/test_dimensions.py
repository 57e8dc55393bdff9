"""Fewer dimensions are requested where a service has them, else cut from cached vectors: one pass serves all."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

from endpoint_double import EndpointDouble, vector_of
from expectations import present
from experiments import Experiment, write_experiment
from ragtrial.components.embedders.base import EMBEDDERS, truncated
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.config.settings import settings_of
from ragtrial.engines.base import normalized
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


REQUESTED = {"openai": "dimensions", "cohere": "output_dimension", "voyage": "output_dimension"}
"""The field of each kind of endpoint."""


def embedder(double: EndpointDouble, kind: str, **options: Any) -> EndpointEmbedder:
    made = EMBEDDERS[kind].model_validate({"model": "m", "base_url": double.url, **options})
    assert isinstance(made, EndpointEmbedder)
    return made


@pytest.mark.parametrize("kind", REQUESTED)
def test_dimensions_are_requested_and_cut_to_is_not(tmp_path: Path, kind: str) -> None:
    with EndpointDouble() as double:
        requested = CachedEmbedder(embedder(double, kind, dimensions=8), tmp_path)
        (vector,) = requested.embed_documents(["a"])
        assert double.asked[-1].body[REQUESTED[kind]] == 8
        np.testing.assert_allclose(vector, normalized(vector_of("a", 8)[np.newaxis])[0], atol=1e-6)
        assert requested.dimension() == embedder(double, kind, dimensions=8).dimension() == 8
        (vector,) = CachedEmbedder(embedder(double, kind, cut_to=8), tmp_path).embed_documents(["a"])
        assert REQUESTED[kind] not in double.asked[-1].body
        np.testing.assert_allclose(vector, normalized(vector_of("a")[np.newaxis, :8])[0], atol=1e-6)
        both = CachedEmbedder(embedder(double, kind, dimensions=8, cut_to=4), tmp_path)
        np.testing.assert_allclose(
            both.embed_documents(["a"])[0], normalized(vector_of("a", 8)[np.newaxis, :4])[0], atol=1e-6
        )
        assert len(double.asked) == 2, "the vectors of 8 were cached"


@pytest.mark.parametrize("kind", REQUESTED)
def test_each_requested_size_has_vectors_of_its_own_and_all_cuts_share_them(tmp_path: Path, kind: str) -> None:
    with EndpointDouble() as double:
        requested = {embedder(double, kind, dimensions=size).untruncated for size in (4, 8, 16)}
        assert len({str(one.hashed_parts()) for one in requested}) == 3
        cut = {embedder(double, kind, cut_to=size).untruncated for size in (4, 8, 16)}
        assert cut == {embedder(double, kind)}


@pytest.mark.parametrize(("option", "passes"), [("dimensions", 3), ("cut_to", 1)])
def test_a_sweep_of_three_sizes_plans_and_pays_its_passes(tmp_path: Path, option: str, passes: int) -> None:
    with EndpointDouble() as double:
        options = {"kind": "openai", "model": "m", "base_url": double.url, "price": 1000.0}
        sweep = {"matrix": {f"embedder.{option}": [4, 8, 16]}}
        experiment = write_experiment(tmp_path, embedder=options, sweep=sweep)
        planned = present(Run.of(experiment.config()).dry_run().cost)
        report = run_experiment(experiment.config())
        texts = [text for asked in double.asked for text in asked.texts]
        assert len(texts) == passes * len(set(texts))
        one = present(Run.of(write_experiment(tmp_path / "one", embedder=options).config()).dry_run().cost)
    assert len(report.settings) == 3
    assert passes * one <= planned * 1.0001 < (passes + 0.5) * one, "questions are planned for each setting"
