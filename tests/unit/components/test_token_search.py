"""Search in sparse vectors and in token vectors: worked by hand, and against products of whole matrices."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from ragtrial.cache.vectors import VectorCache
from ragtrial.components.batching import TextList
from ragtrial.components.token_vectors import indexes as module
from ragtrial.components.token_vectors.indexes import Postings, TokenIndex, maxsim
from ragtrial.components.token_vectors.vectors import TokenEncoder, TokenVectors
from ragtrial.rankings import PADDING, Rankings
from token_models import terms, tokens


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


_NUMBERS = st.floats(-2, 2, width=32)


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
        vectors = data.draw(arrays.arrays(np.float32, (count, 3), elements=_NUMBERS))
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
