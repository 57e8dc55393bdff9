"""What is unhealthy about vectors is counted, and said in words that tell what to do; healthy ones get no remark."""

import shutil
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from corpora import write_files
from experiments import write_experiment
from ragtrial.components.embedders.custom import CustomEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.components.user_functions import FunctionReference
from ragtrial.components.vector_checks import NormStatistics, health_warnings
from ragtrial.engines.base import normalized
from ragtrial.engines.exact import ExactStore
from ragtrial.experiment import run_experiment
from ragtrial.report.schema import HealthPart
from tiny_models import edit_json

HEALTHY = HealthPart(vectors=3, distinct_texts=3, dimension=2, zeros=0, shortest=1.0, longest=1.0)
LONG = HealthPart(vectors=3, distinct_texts=3, dimension=2, zeros=0, shortest=0.5, longest=123.4)
Space = Literal["cosine", "ip", "l2"]


def test_lengths_zeros_and_repeated_texts_are_counted() -> None:
    watch = NormStatistics()
    blocks = [np.array(rows, dtype=np.float32) for rows in ([[3, 4], [0, 0]], [[0, 0]], [[0, 2], [6, 8]])]
    for seen, block in zip(watch.watch(blocks), blocks, strict=True):
        assert seen is block
    assert watch.health(5, 4, 2) == HealthPart(
        vectors=5, distinct_texts=4, dimension=2, zeros=2, shortest=2.0, longest=10.0
    )
    health = HealthPart(vectors=4_000, distinct_texts=2_500, dimension=2, zeros=1_200, shortest=1.0, longest=1.0)
    assert warnings(health, normalize=True, space="cosine") == {
        "zero-vectors": "dense: chunks with a vector of zeros, which is near to nothing: 1,200 of 4,000; look at what "
        "the embedder does with their texts.",
        "duplicate-texts": "dense: chunks with the same text as an earlier one: 1,500 of 4,000; identical "
        "chunks compete for the same ranks.",
    }
    row = np.array([[0.1, 0.7, 0.3]], dtype=np.float32)
    beside = np.concatenate([row, np.zeros((1, 3), dtype=np.float32), row * np.float32(1e30)])
    np.testing.assert_array_equal(normalized(beside)[:1], normalized(row))


@pytest.mark.parametrize("blocks", [[], [np.zeros((2, 3), np.float32)]])
def test_without_any_vector_that_has_a_length_lengths_are_zero(blocks: list[Any]) -> None:
    watch = NormStatistics()
    assert list(watch.watch(blocks)) == blocks
    health = watch.health(2, 1, 3)
    assert (health.shortest, health.longest, health.zeros) == (0.0, 0.0, 2 * len(blocks))


def warnings(health: HealthPart, *, normalize: bool, space: Space) -> dict[str, str]:
    embedder = CustomEmbedder(function=FunctionReference("embedding:embed", Path()), normalize=normalize)
    return {one.code: one.message for one in health_warnings("dense", health, embedder, ExactStore(space=space))}


@pytest.mark.parametrize("space", ["cosine", "ip", "l2"])
def test_healthy_vectors_are_not_remarked_on(space: Space) -> None:
    assert warnings(HEALTHY, normalize=True, space=space) == {}
    rounded = HealthPart(vectors=3, distinct_texts=3, dimension=2, zeros=0, shortest=0.9999, longest=1.0005)
    assert warnings(rounded, normalize=False, space=space) == {}


LENGTHS = "dense: the vectors are not of one length (0.5 to 123) and the space is"
TRAINED_FOR_IP = "If the model was trained for the inner product, set store.space: ip."
NORMALIZE = "Set embedder.normalize: true, unless the model was trained for the inner product"


@pytest.mark.parametrize(("space", "told"), [
    ("ip", f"{LENGTHS} ip: long vectors are preferred. {NORMALIZE}."),
    ("cosine", f"{LENGTHS} cosine: their lengths are ignored. {TRAINED_FOR_IP}"),
    ("l2", None),
])  # fmt: skip
def test_vectors_of_many_lengths_are_remarked_on_where_it_matters(space: Space, told: str | None) -> None:
    assert warnings(LONG, normalize=False, space=space) == ({"unnormalised": told} if told else {})


@pytest.fixture
def trained(tiny_model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(tiny_model, tmp_path / "model")


def of_model(folder: Path, declared: str, *, normalize: bool, space: Space, health: HealthPart) -> dict[str, str]:
    edit_json(folder / "config_sentence_transformers.json", similarity_fn_name=declared)
    embedder = SentenceTransformerEmbedder(model=str(folder), normalize=normalize)
    return {one.code: one.message for one in health_warnings("dense", health, embedder, ExactStore(space=space))}


@pytest.mark.parametrize(
    ("declared", "space", "spoken"), [("dot", "ip", "the inner product"), ("euclidean", "l2", "distance (l2)")]
)
def test_lengths_that_a_model_needs_stay_with_it(trained: Path, declared: str, space: Space, spoken: str) -> None:
    for chosen in ("cosine", "ip", "l2"):
        assert of_model(trained, declared, normalize=True, space=chosen, health=HEALTHY) == {
            "wrong-space": f"dense: the model says that it was trained for {spoken}, and `normalize: true` takes from "
            "its vectors the lengths that this needs. Set embedder.normalize: false and store.space: "
            f"{space}."
        }
    assert of_model(trained, declared, normalize=False, space=space, health=LONG) == {}


def test_a_space_that_the_model_was_not_trained_for_is_remarked_on_with_the_right_one(trained: Path) -> None:
    said = "The model says that it was trained for the inner product: set store.space: ip."
    assert of_model(trained, "dot", normalize=False, space="cosine", health=LONG) == {
        "unnormalised": f"{LENGTHS} cosine: their lengths are ignored. {said}"
    }
    assert of_model(trained, "dot", normalize=False, space="l2", health=LONG) == {
        "unnormalised": f"{LENGTHS} l2: distance depends on them. {said}"
    }
    assert of_model(trained, "cosine", normalize=False, space="cosine", health=LONG) == {}
    assert of_model(trained, "cosine", normalize=True, space="ip", health=HEALTHY) == {}


VECTORS = (
    "def embed(texts):\n    return [[0.0, 0.0] if 'nothing' in text else [float(len(text)), 1.0] for text in texts]\n"
)
DOCUMENTS = {"a.txt": "the same", "b.txt": "the same", "c.txt": "nothing", "d.txt": "something longer"}
LABELS = [{"id": "q", "text": "the same", "relevant_docs": [{"doc": "a.txt"}]}]


def test_a_run_says_what_its_vectors_are_like(tmp_path: Path) -> None:
    experiment = write_experiment(
        tmp_path,
        DOCUMENTS,
        LABELS,
        embedder={"kind": "custom", "function": "plain:embed", "normalize": False},
        store={"kind": "exact", "space": "ip"},
    )
    write_files(tmp_path, {"plain.py": VECTORS})
    report = run_experiment(experiment.config())
    health = report.settings[0].health
    assert health
    assert (health.vectors, health.distinct_texts, health.dimension, health.zeros) == (4, 3, 2, 1)
    assert [health.shortest, health.longest] == pytest.approx([65**0.5, 257**0.5])
    codes = {warning.code for warning in report.warnings}
    assert codes == {"zero-vectors", "duplicate-texts", "ties", "unnormalised"}


@pytest.mark.parametrize("factor", [1e25, 1e-30])
def test_vectors_too_long_or_too_short_for_the_squares_of_a_float32_are_measured_and_normalised(factor: float) -> None:
    vectors = np.array([[3, 4], [0, 0], [6, 8]], dtype=np.float32) * np.float32(factor)
    watch = NormStatistics()
    assert [block is vectors for block in watch.watch([vectors])] == [True]
    health = watch.health(3, 3, 2)
    assert health.zeros == 1
    assert [health.shortest, health.longest] == pytest.approx([5 * factor, 10 * factor], rel=1e-6)
    expected = np.array([[0.6, 0.8], [0, 0], [0.6, 0.8]], dtype=np.float32)
    np.testing.assert_allclose(normalized(vectors), expected, rtol=1e-6)
