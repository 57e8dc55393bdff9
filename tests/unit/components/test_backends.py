"""Other engines and number formats run the same model: near to torch in float32, and refused where there is none."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.errors import InputError
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
@pytest.mark.parametrize("backend", ["torch", "openvino"])
def test_a_smaller_number_format_makes_vectors_that_are_near(backend: str, tiny_model: Path, tmp_path: Path) -> None:
    flags = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace")
    if backend == "openvino" and not re.search("avx512_bf16|amx_bf16", flags):
        pytest.skip("this processor has no bfloat16")
    made = vectors(tiny_model, tmp_path, backend=backend, precision="bfloat16")
    exact = vectors(tiny_model, tmp_path)
    assert (made != exact).any()
    assert (made * exact).sum(axis=1).min() > 0.995


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


def test_openvino_on_a_gpu_is_refused() -> None:
    with pytest.raises(ValueError, match="backend: openvino with device: cuda is not supported; set device: cpu"):
        SentenceTransformerEmbedder(backend="openvino", device="cuda")


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "openvino" else name)
    with pytest.raises(InputError, match=r"needs openvino; install it with `pip install 'ragtrial\[openvino\]'`"):
        SentenceTransformerEmbedder(backend="openvino").check()
