"""Sparse and late-interaction retrieval: scores are the library's own, the search is that of whole matrices."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from expectations import message_of
from experiments import Experiment, write_experiment
from ragtrial.cache.vectors import VectorCache
from ragtrial.components import token_vectors as module
from ragtrial.components.batching import TextList
from ragtrial.components.token_vectors import Postings, TokenEncoder, TokenIndex, TokenVectors, maxsim
from ragtrial.errors import ConfigError, RunError
from ragtrial.rankings import PADDING, Rankings
from refining import candidates, rows_of, write_bench
from tiny_models import edit_json, write_tiny_late_encoder, write_tiny_sparse_encoder
from token_models import asked, library_scores, terms, tokens

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
def test_scores_are_the_librarys_and_cuts_counted(kind: str, experiment: Experiment, models: dict[str, Path]) -> None:
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
        assert message_of(ConfigError, asked, experiment, kind, QUESTIONS, 1, f"retrievers.{kind}.model={model}") == (
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


def sparse_index(folder: Path, texts: Sequence[TokenVectors], order: Sequence[int] | None = None) -> Postings:
    folder.mkdir(parents=True, exist_ok=True)
    Postings.write(folder, [texts[:1], texts[1:]])
    return Postings(folder, np.array(range(len(texts)) if order is None else order, dtype=np.int64))


def late_index(
    folder: Path, texts: Sequence[TokenVectors], order: Sequence[int] | None = None, *, is_mean: bool = False
) -> TokenIndex:
    folder.mkdir(parents=True, exist_ok=True)
    TokenIndex.write(folder, [texts], np.array([len(one) for one in texts]), texts[0].vectors.shape[1])
    places = np.array(range(len(texts)) if order is None else order, dtype=np.int64)
    return TokenIndex(folder, places, is_mean=is_mean)


def rows(found: Rankings) -> list[list[tuple[int, float]]]:
    pairs = zip(found.codes.tolist(), found.scores.tolist(), strict=True)
    return [[(code, score) for code, score in zip(*pair, strict=True) if code != PADDING] for pair in pairs]


def test_sparse_scores_and_maxsim_worked_by_hand(tmp_path: Path) -> None:
    """Three texts over terms 0 to 5; term 9 is in none of them."""
    index = sparse_index(tmp_path, [terms(t0=1, t2=0.5), terms(t2=2, t5=0.25), terms(t1=3)])
    found = index.search([terms(t0=2, t2=1), terms(t5=4, t9=7), terms(t9=1), terms()], 5)
    assert rows(found) == [[(0, 2.5), (1, 2.0)], [(1, 1.0)], [], []]
    assert found.codes.shape == (4, 3)
    same = terms(t1=1.5)
    index = sparse_index(tmp_path, [same, same, same, terms(t1=1)], order=[2, 0, 1, 3])
    assert rows(index.search([terms(t1=2)], 2)) == [[(1, 3.0), (2, 3.0)]]
    assert rows(index.search([terms(t1=2)], 4)) == [[(1, 3.0), (2, 3.0), (0, 3.0), (3, 2.0)]]
    # Each token of the question takes the nearest token of the text; texts without a token are not found.
    nothing = TokenVectors(np.empty(0, np.int32), np.empty((0, 2), np.float32))
    texts = [tokens([1, 0], [0, 1]), nothing, tokens([0.5, 0.5]), tokens([-1, 0], [0, -1])]
    late, mean = late_index(tmp_path, texts), late_index(tmp_path, texts, is_mean=True)
    found = late.search([tokens([1, 0], [0, 2]), nothing, tokens([0, -1])], 9)
    assert rows(found) == [[(0, 3.0), (2, 1.5), (3, 0.0)], [], [(3, 1.0), (0, 0.0), (2, -0.5)]]
    assert rows(mean.search([tokens([1, 0], [0, 2])], 2)) == [[(0, 1.5), (2, 0.75)]]


_WEIGHTS = st.floats(0, 4, width=32).map(lambda value: value if value > 0.1 else 0)


@given(
    texts=arrays.arrays(np.float32, st.tuples(st.integers(1, 9), st.just(6)), elements=_WEIGHTS),
    queries=arrays.arrays(np.float32, st.tuples(st.integers(1, 4), st.just(6)), elements=_WEIGHTS),
    depth=st.integers(1, 10),
)
def test_sparse_search_is_the_product_of_the_whole_matrices(
    tmp_path_factory: pytest.TempPathFactory,
    texts: npt.NDArray[np.float32],
    queries: npt.NDArray[np.float32],
    depth: int,
) -> None:
    index = sparse_index(tmp_path_factory.mktemp("index"), [sparse_of(row) for row in texts])
    found = index.search([sparse_of(row) for row in queries], depth)
    whole = (queries.astype(np.float64) @ texts.astype(np.float64).T).astype(np.float32)
    for row, own in zip(rows(found), whole, strict=True):
        expected = [int(code) for code in np.argsort(-own, kind="stable") if own[code] > 0][:depth]
        assert [score for _, score in row] == pytest.approx(own[expected].tolist(), rel=1e-6)
        assert len({code for code, _ in row}) == len(row)


def sparse_of(row: npt.NDArray[np.float32]) -> TokenVectors:
    ids = np.flatnonzero(row).astype(np.int32)
    return TokenVectors(ids, row[ids][:, np.newaxis])


@pytest.mark.parametrize("is_mean", [False, True])
def test_maxsim_without_a_token_on_either_side_is_0(is_mean: bool) -> None:
    one, none = tokens([1, 0]), TokenVectors(np.empty(0, np.int32), np.empty((0, 2), np.float32))
    for query, text in ((none, one), (one, none), (none, none)):
        assert maxsim(query, text.vectors, is_mean=is_mean) == 0.0


@given(
    lengths=st.lists(st.integers(0, 4), min_size=1, max_size=9).filter(any),
    asked=st.lists(st.integers(1, 3), min_size=1, max_size=4),
    depth=st.integers(1, 10),
    tile=st.sampled_from([1, 7, 40, 4_000_000]),
    data=st.data(),
)
def test_maxsim_search_is_that_of_every_pair_whatever_the_blocks(
    tmp_path_factory: pytest.TempPathFactory, lengths: list[int], asked: list[int], depth: int, tile: int,
    data: st.DataObject,
) -> None:  # fmt: skip
    def drawn(count: int) -> TokenVectors:
        vectors = data.draw(arrays.arrays(np.float32, (count, 3), elements=st.floats(-2, 2, width=32)))
        return TokenVectors(np.zeros(count, np.int32), vectors)

    texts, queries = [drawn(count) for count in lengths], [drawn(count) for count in asked]
    index = late_index(tmp_path_factory.mktemp("index"), texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_TILE", tile)
        patch.setattr(module, "_MAXSIM_CELLS", tile)
        found = rows(index.search(queries, depth))
    for query, row in zip(queries, found, strict=True):
        own = {code: maxsim(query, one.vectors, is_mean=False) for code, one in enumerate(texts) if len(one)}
        scores = {code: float(np.float32(score)) for code, score in own.items()}
        assert row == sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))[:depth]


def test_packed_vectors_are_what_they_were() -> None:
    for one in (
        tokens([1, 2, 3], [4, 5, 6]),
        terms(t7=0.5),
        TokenVectors(np.empty(0, np.int32), np.empty((0, 4), np.float32)),
    ):
        back = TokenVectors.unpacked(one.packed().tobytes())
        np.testing.assert_array_equal(back.ids, one.ids)
        np.testing.assert_array_equal(back.vectors, one.vectors)
        assert back.vectors.shape == one.vectors.shape


def test_every_batch_before_a_stop_is_kept_and_equal_texts_are_encoded_once(tmp_path: Path) -> None:
    encoded: list[str] = []

    def encode(texts: Sequence[str], _task: str) -> list[TokenVectors]:
        if len(encoded) == 4:
            raise KeyboardInterrupt
        encoded.extend(texts)
        return [terms(t1=1)] * len(texts)

    file = tmp_path / "tokens.sqlite"
    with pytest.raises(KeyboardInterrupt):
        TokenEncoder(lambda: encode, 2, file, "tokens").fill(TextList([*"abcaaadef"]), "document")
    with VectorCache(file) as cache:
        assert len(cache) == len(set(encoded)) == 4
