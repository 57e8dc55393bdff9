"""Vectors of a byte or a bit a number: codes, hits and scores are those of sentence-transformers, to the last tie."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from sentence_transformers.util.quantization import _dequantize_embeddings, quantize_embeddings

from ragtrial.cache.arrays import read_array
from ragtrial.engines import Store, Vectors, exact
from ragtrial.engines.exact import ExactStore, Quantization
from ragtrial.rankings import Floats, Rankings
from vector_oracles import like_embeddings, vectors_of

KINDS: tuple[Quantization, ...] = ("int8", "binary")
DIMENSIONS = (13, 64, 100, 384)


def search(store: Store, vectors: Vectors, queries: Floats, depth: int, folder: Path) -> Rankings:
    folder.mkdir(exist_ok=True)
    if not any(folder.iterdir()):
        store.build(vectors, folder, lambda _count: None)
    index = store.open(vectors, folder)
    return index.search(queries, depth)


def library_codes(kind: Quantization, rows: Floats, corpus: Floats) -> Any:
    """The library's codes, in the ranges of ``corpus``."""
    ranges = np.stack([corpus.min(axis=0), corpus.max(axis=0)])
    return quantize_embeddings(rows, "int8" if kind == "int8" else "ubinary", ranges=ranges)


def library_scores(kind: Quantization, queries: Floats, corpus: Floats) -> Any:
    """Every pair of codes compared: inner products, or minus the bits that differ."""
    asked, units = library_codes(kind, queries, corpus), library_codes(kind, corpus, corpus)
    if kind == "int8":
        return asked.astype(np.int64) @ units.T.astype(np.int64)
    bits = np.unpackbits(asked, axis=1)[:, None] != np.unpackbits(units, axis=1)[None]
    return -bits.sum(axis=-1, dtype=np.int64)


def best(scores: Any, order: Any, depth: int) -> list[list[int]]:
    return [np.lexsort((order, -row))[:depth].tolist() for row in scores]


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_codes_are_those_of_sentence_transformers(kind: Quantization, dimension: int, tmp_path: Path) -> None:
    vectors = vectors_of(like_embeddings(500, dimension, seed=1))
    ExactStore(quantize=kind).build(vectors, tmp_path, lambda _count: None)
    codes, expected = read_array(tmp_path / "codes.npy"), library_codes(kind, vectors.matrix, vectors.matrix)
    assert codes.dtype == expected.dtype
    np.testing.assert_array_equal(codes, expected)
    assert codes[0].nbytes == ExactStore(quantize=kind).vector_bytes(dimension)
    assert ExactStore(quantize=kind).open(vectors, tmp_path).use().is_used


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_hits_and_scores_are_those_of_comparing_all_codes(kind: Quantization, dimension: int, tmp_path: Path) -> None:
    order = np.random.default_rng(3).permutation(900)
    vectors = vectors_of(like_embeddings(900, dimension, seed=1), order.tolist())
    queries = like_embeddings(40, dimension, seed=2)
    scores = library_scores(kind, queries, vectors.matrix)
    found = search(ExactStore(quantize=kind), vectors, queries, 20, tmp_path)
    assert found.codes.tolist() == best(scores, order, 20)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(scores, found.codes, axis=1))


@pytest.mark.parametrize("rescore", [1, 4])
@pytest.mark.parametrize("kind", KINDS)
def test_hits_are_ranked_again_as_the_library_ranks_them(kind: Quantization, rescore: int, tmp_path: Path) -> None:
    corpus, queries = like_embeddings(900, 100, seed=1), like_embeddings(40, 100, seed=2)
    order = np.arange(900)
    found = search(ExactStore(quantize=kind, rescore=rescore), vectors_of(corpus), queries, 10, tmp_path)
    codes = library_codes(kind, corpus, corpus)
    ranges = np.stack([corpus.min(axis=0), corpus.max(axis=0)])
    decoded = _dequantize_embeddings(codes, "int8", ranges) if kind == "int8" else np.unpackbits(codes, axis=1)[:, :100]
    candidates = best(library_scores(kind, queries, corpus), order, 10 * rescore)
    for query, units, row, scores in zip(queries, candidates, found.codes, found.scores, strict=True):
        again = (decoded[units] @ query.astype(np.float64)).astype(np.float32)
        expected = np.argsort(-again, kind="stable")[:10]
        np.testing.assert_allclose(scores, again[expected], rtol=1e-6)
        assert set(row.tolist()) <= set(units)


@given(st.data())
def test_few_different_codes_give_many_ties_and_these_go_by_the_order(data: st.DataObject) -> None:
    rows = st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), min_size=3, max_size=3)
    corpus = np.array(data.draw(st.lists(rows, min_size=1, max_size=30)), dtype=np.float32)
    queries = np.array(data.draw(st.lists(rows, min_size=1, max_size=3)), dtype=np.float32)
    order = np.array(data.draw(st.permutations(range(len(corpus)))))
    for kind in KINDS:
        quantizer = exact.Quantizer.of(kind, "ip", corpus)
        np.testing.assert_array_equal(quantizer.codes(corpus), library_codes(kind, corpus, corpus))
        scores = library_scores(kind, queries, corpus)
        store = ExactStore(quantize=kind, space="ip")
        vectors = vectors_of(corpus, order.tolist())
        with TemporaryDirectory() as folder:
            found = search(store, vectors, queries, 5, Path(folder))
        assert found.codes.tolist() == best(scores, order, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix_is_read_in_blocks(kind: Quantization, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = like_embeddings(300, 24, seed=1)
    whole = exact.Quantizer.of(kind, "cosine", matrix).codes(matrix)
    monkeypatch.setattr(exact, "_BLOCK", 24 * 7)
    steps: list[int] = []
    exact.Quantizer.of(kind, "cosine", matrix).write(matrix, tmp_path, steps.append)
    np.testing.assert_array_equal(read_array(tmp_path / "codes.npy"), whole)
    assert sum(steps) == 300
    assert len(steps) > 40
    unit, queries = like_embeddings(300, 24, seed=1), like_embeddings(10, 24, seed=2)
    lengths = np.random.default_rng(4).uniform(0.1, 9, size=(300, 1)).astype(np.float32)
    (tmp_path / "unit").mkdir()
    (tmp_path / "long").mkdir()
    near = search(ExactStore(quantize=kind, rescore=8), vectors_of(unit), queries, 1, tmp_path / "unit")
    far = search(ExactStore(quantize=kind, rescore=8), vectors_of(unit * lengths), 3 * queries, 1, tmp_path / "long")
    assert (near.codes == far.codes).mean() > 0.8  # rounding moves a few codes by one step


def test_products_are_whole_and_wider_first_searches_count_if_ranked_again(tmp_path: Path) -> None:
    """Sums of more than 1,024 products may be larger than a float32 holds exactly."""
    vectors, queries = vectors_of(like_embeddings(200, 1_500, seed=1)), like_embeddings(10, 1_500, seed=2)
    found = search(ExactStore(quantize="int8"), vectors, queries, 10, tmp_path)
    scores = library_scores("int8", queries, vectors.matrix).astype(np.float32)
    assert found.codes.tolist() == best(scores, vectors.order, 10)
    assert ExactStore(quantize="int8").width(10) is None
    assert ExactStore(quantize="int8", rescore=4).width(10) == 40
    assert ExactStore().is_exact
    assert not ExactStore(quantize="int8").is_exact
    assert ExactStore(quantize="int8").is_repeatable


@pytest.mark.parametrize(("options", "message"), [
    ({"rescore": 2}, "rescore ranks quantized vectors again; add quantize: int8 or binary, or remove rescore."),
    ({"quantize": "binary", "space": "l2"}, "quantize: binary compares by products; set space: cosine or ip"),
])  # fmt: skip
def test_options_that_would_do_nothing_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        ExactStore(**options)
