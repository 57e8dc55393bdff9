"""Dimensions are requested where a service has them, and cut here where the config says so; plans know both."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from endpoint_double import EndpointDouble, vector_of
from experiments import write_experiment
from ragtrial import run_experiment
from ragtrial.components.embedders import EMBEDDERS
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.engines.base import normalized
from ragtrial.pipeline.run import Run

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
        planned = Run.of(experiment.config()).dry_run().cost
        report = run_experiment(experiment.config())
        texts = [text for asked in double.asked for text in asked.texts]
        assert len(texts) == passes * len(set(texts))
        one = Run.of(write_experiment(tmp_path / "one", embedder=options).config()).dry_run().cost
    assert len(report.settings) == 3
    assert planned is not None
    assert one is not None
    assert passes * one <= planned * 1.0001 < (passes + 0.5) * one, "questions are planned for each setting"
