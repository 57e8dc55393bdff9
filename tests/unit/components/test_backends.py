"""Other engines and number formats run the same model: near to torch in float32, and refused where there is none."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import write_experiment
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.components.vector_checks import VectorHealth, health_warnings, nearness
from ragtrial.engines.exact import ExactStore
from ragtrial.errors import InputError
from ragtrial.experiment import run_experiment
from ragtrial.rankings import Floats

TEXTS = ["Rye bread", "How long does soup keep in the fridge, and how long does bread keep in a paper bag?", "Oven"]
"""Of different lengths: the shorter ones are padded."""


def embedder(model: Path, **options: Any) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(model=str(model), device="cpu", **options)


def vectors(model: Path, folder: Path, **options: Any) -> Floats:
    return CachedEmbedder(embedder(model, **options), folder).embed_documents(TEXTS)


@pytest.mark.slow
def test_another_backend_in_float32_makes_the_vectors_of_torch(tiny_model: Path, tmp_path: Path) -> None:
    made = vectors(tiny_model, tmp_path, backend="openvino")
    np.testing.assert_allclose(made, vectors(tiny_model, tmp_path), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "precision"), [("torch", "bfloat16"), ("openvino", "bfloat16"), ("openvino", "int8")]
)
def test_a_smaller_number_format_makes_vectors_that_are_near(
    backend: str, precision: str, tiny_model: Path, tmp_path: Path
) -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    if backend == "openvino" and precision == "bfloat16" and not re.search("avx512_bf16|amx_bf16", flags):
        pytest.skip("this processor has no bfloat16")
    made = vectors(tiny_model, tmp_path, backend=backend, precision=precision)
    exact = vectors(tiny_model, tmp_path)
    assert (made != exact).any()
    near = nearness(made, exact)
    assert near is not None
    assert near[1] > 0.995


@pytest.mark.slow
def test_openvino_does_not_report_its_use(tiny_model: Path) -> None:
    """It would at its import, over the network."""
    embedder(tiny_model, backend="openvino").load()
    assert {name: held for name, held in sys.modules.items() if "openvino_telemetry" in name} == {
        "openvino_telemetry": None
    }


def test_vectors_of_different_backends_and_precisions_never_mix(tiny_model: Path, tmp_path: Path) -> None:
    made = [
        CachedEmbedder(embedder(tiny_model, **options), tmp_path).fingerprint
        for options in ({}, {"precision": "bfloat16"}, {"backend": "openvino"})
    ]
    assert len(set(made)) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int8"}, "precision: int8 with backend: torch is not supported: torch's int8 is no faster"),
        (
            {"backend": "openvino", "device": "cuda"},
            "backend: openvino with device: cuda is not supported; set device: cpu",
        ),
    ],
)
def test_what_is_not_to_be_had_is_refused_with_its_reason(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        SentenceTransformerEmbedder(**options)


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nncf" else name)
    with pytest.raises(InputError, match=r"needs nncf; install it with `pip install 'ragtrial\[openvino\]'`"):
        SentenceTransformerEmbedder(backend="openvino", precision="int8").check()


@pytest.mark.slow
def test_a_report_says_how_near_vectors_are_to_float32(tiny_model: Path, tmp_path: Path) -> None:
    options = {"kind": "sentence-transformer", "model": str(tiny_model), "device": "cpu", "precision": "bfloat16"}
    (setting,) = run_experiment(write_experiment(tmp_path, embedder=options).config()).settings
    assert setting.health is not None
    assert setting.health.nearness is not None
    mean, lowest = setting.health.nearness
    assert 0.99 < lowest <= mean <= 1 + 1e-9


def test_vectors_far_from_float32_are_warned_about() -> None:
    def codes(near: tuple[float, float] | None) -> list[str]:
        health = VectorHealth(3, 3, 2, zeros=0, shortest=1.0, longest=1.0, nearness=near)
        return [one.code for one in health_warnings("dense", health, SentenceTransformerEmbedder(), ExactStore())]

    assert codes((0.9, 0.7)) == ["reduced-precision"]
    assert codes((0.999, 0.98)) == codes(None) == []


def test_the_cosine_of_each_pair_counts() -> None:
    one = np.array([[1, 0], [0, 2]], dtype=np.float32)
    other = np.array([[3, 0], [1, 1]], dtype=np.float32)
    assert nearness(one, other) == pytest.approx(((1 + 0.5**0.5) / 2, 0.5**0.5))
    assert nearness(one[:0], other[:0]) is None
