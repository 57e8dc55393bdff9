"""Sparse and late-interaction retrieval: scores are the library's own, compared exactly, each vector made once."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import Experiment, write_experiment
from ragtrial.errors import ConfigError, RunError
from refining import candidates, rows_of, write_bench
from tiny_models import edit_json, write_tiny_late_encoder, write_tiny_sparse_encoder
from token_models import asked, library_scores

QUESTIONS = ["How long do I bake rye bread?", "Which soup is blended until it is smooth?", "Zebras."]
DOCUMENTS = {
    "a.txt": "Bake the rye bread for an hour.",
    "b.txt": "Blend the soup until it is smooth. Serve it hot!",
    "c.txt": "Never put bread into the fridge: it dries out, and it tastes stale after a day.",
    "d.txt": "Bake the rye bread for an hour.",
    "e.txt": "flour " * 70,
    "f.txt": "Cook it slowly.",
}
NOWHERE = "device=nowhere"  # where no model can be loaded
KINDS = pytest.mark.parametrize("kind", ["sparse", "late"])


def kitchen(folder: Path, models: dict[str, Path], **options: Any) -> Experiment:
    entries = {
        kind: {"kind": kind, "model": str(model), "device": "cpu", "batch_size": 2, "top_k": 3, **options}
        for kind, model in models.items()
    }
    return write_experiment(folder, documents=DOCUMENTS, retrievers=entries, chunker={"kind": "document"})


@pytest.fixture(scope="module")
def models(sparse_model: Path, late_model: Path) -> dict[str, Path]:
    return {"sparse": sparse_model, "late": late_model}


@pytest.fixture(scope="module")
def experiment(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    return kitchen(tmp_path_factory.mktemp("tokens"), models)


@KINDS
def test_scores_are_the_librarys_and_texts_not_read_to_the_end_counted(
    kind: str, experiment: Experiment, models: dict[str, Path]
) -> None:
    found = asked(experiment, kind, QUESTIONS)
    expected = library_scores(kind, models[kind], QUESTIONS, found.texts)
    for row, own in enumerate(expected):
        codes = found.rows()[row]
        np.testing.assert_allclose(found.scores(row), own[codes], rtol=1e-5, atol=1e-5)
        assert codes == [code for code in np.argsort(-np.round(own, 4), kind="stable").tolist() if own[code] > 0]
    assert any(len(set(row)) > 2 for row in found.rows()), "or the test says nothing"
    limit = {"sparse": 64, "late": 48}[kind]
    facts = found.candidates.facts
    assert (facts["texts"], facts["texts_too_long"], facts["max_length"]) == (6, 1, limit)
    (warning,) = experiment.config().retrievers[kind].warnings("mine", facts)
    assert warning.message.startswith(f"mine: texts longer than the {limit} tokens that the model reads: 1 of 6;")


@pytest.mark.parametrize(("kind", "similarity"), [("sparse", "cosine"), ("late", "meanmaxsim")])
def test_the_declared_similarity_is_used(kind: str, similarity: str, minilm_folder: Path, tmp_path: Path) -> None:
    write = write_tiny_sparse_encoder if kind == "sparse" else write_tiny_late_encoder
    model = write(tmp_path / "model", minilm_folder, seed=3, similarity_fn_name=similarity)
    found = asked(kitchen(tmp_path, {kind: model}), kind, QUESTIONS)
    expected = library_scores(kind, model, QUESTIONS, found.texts)
    for row, own in enumerate(expected):
        np.testing.assert_allclose(found.scores(row), own[found.rows()[row]], rtol=1e-5, atol=1e-5)
    assert found.candidates.rankings.scores[0, 0] <= 1.0001


@KINDS
def test_an_index_with_other_bytes_is_made_of_what_is_kept(kind: str, models: dict[str, Path], tmp_path: Path) -> None:
    experiment = kitchen(tmp_path, models)
    first = asked(experiment, kind, QUESTIONS)
    (folder,) = (experiment.workspace / kind).glob("[!.]*")
    file = folder / {"sparse": "weights.npy", "late": "vectors.npy"}[kind]
    damaged = bytearray(file.read_bytes())
    damaged[-3] ^= 0x40
    file.write_bytes(damaged)
    again = asked(experiment, kind, QUESTIONS, 100, f"retrievers.{kind}.{NOWHERE}")
    np.testing.assert_array_equal(again.candidates.rankings.scores, first.candidates.rankings.scores)
    assert "other bytes" in str(again.context.resources.workspace.repaired)


@KINDS
def test_models_of_another_kind_are_refused_by_their_files(
    kind: str, experiment: Experiment, models: dict[str, Path], tiny_model: Path, minilm_folder: Path, tmp_path: Path
) -> None:
    other = {"sparse": "late", "late": "sparse"}[kind]
    wanted = {"sparse": "a sparse encoder, such as SPLADE", "late": "a late-interaction model, such as ColBERT"}[kind]
    called = {"sparse": "a late-interaction model", "late": "a sparse encoder"}[kind]
    old = shutil.copytree(tiny_model, tmp_path / "old")
    edit_json(old / "config_sentence_transformers.json", model_type=None)
    for model, what in ((tiny_model, "an embedding model"), (models[other], called), (old, "an embedding model")):
        with pytest.raises(ConfigError) as failure:
            asked(experiment, kind, QUESTIONS, 1, f"retrievers.{kind}.model={model}")
        assert str(failure.value) == (
            f"{kind}: the model {str(model)!r} cannot be used here: it is {what}. `model:` takes {wanted}."
        )


def test_a_refiner_orders_by_maxsim_and_shares_vectors_with_the_retriever(late_model: Path, tmp_path: Path) -> None:
    options = {"kind": "late_rerank", "model": str(late_model), "device": "cpu", "batch_size": 2}
    bench = write_bench(tmp_path, options, documents=DOCUMENTS)
    units = bench.units([(name, 0, len(DOCUMENTS[name])) for name in ("c.txt", "f.txt", "d.txt", "b.txt", "a.txt")])
    given = candidates(units, [[0, 1, 2, 3, 4], [3, 0], []])
    found = bench.refined(QUESTIONS, given)
    own = library_scores("late", late_model, QUESTIONS, [units.text(code) for code in range(5)])
    assert rows_of(found) == [
        sorted(row, key=lambda code: (-round(float(own[index, code]), 4), units.document_id(code)))
        for index, row in enumerate(rows_of(given))
    ]
    for index, row in enumerate(rows_of(found)):
        np.testing.assert_allclose(found.rankings.scores[index, : len(row)], own[index, row], rtol=1e-5)
    again = bench.refined(QUESTIONS[:1], candidates(units, [[0, 1, 2, 3, 4]]), f"retrievers.refined.{NOWHERE}")
    np.testing.assert_array_equal(again.rankings.scores[0], found.rankings.scores[0])
    with pytest.raises(RunError, match="cannot be loaded"):
        bench.refined(QUESTIONS[:1], candidates(units, [[0]]), f"retrievers.refined.{NOWHERE}", is_fresh=True)
