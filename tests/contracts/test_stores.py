"""Stores: what every kind owes; exact search is exact to the last tie; Chroma agrees with it and survives damage."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from experiments import python
from ragtrial.components.stores import STORES, Index, Store, Vectors, exact
from ragtrial.components.stores.base import Space
from ragtrial.components.stores.chroma import ChromaStore, HnswOptions
from ragtrial.errors import StoreError
from ragtrial.rankings import PADDING, Floats, Rankings
from vector_oracles import all_scores, exactly, like_embeddings, nearest, vectors_of

SPACES: tuple[Space, ...] = get_args(Space)


def nothing(count: int) -> None:
    """No one is reported."""


@contextmanager
def opened(store: Store, vectors: Vectors, folder: Path) -> Iterator[Index]:
    """The index, built if ``folder`` is empty."""
    if not any(folder.iterdir()):
        store.build(vectors, folder, nothing)
    index = store.open(vectors, folder)
    try:
        yield index
    finally:
        index.close()


def found_by(store: Store, vectors: Vectors, queries: npt.ArrayLike, depth: int, folder: Path) -> Rankings:
    with opened(store, vectors, folder) as index:
        return index.search(np.asarray(queries, dtype=np.float32), depth)


def assert_same(one: Rankings, other: Rankings) -> None:
    np.testing.assert_array_equal(one.codes, other.codes)
    np.testing.assert_array_equal(one.scores, other.scores)


# What every store owes.


@pytest.fixture(params=[(kind, space) for kind in STORES.names() for space in SPACES], ids="-".join)
def store(request: pytest.FixtureRequest) -> Store:
    kind, space = request.param
    return STORES[kind](kind=kind, space=space)


def test_every_store_is_registered_under_the_name_it_has_in_a_config(store: Store) -> None:
    assert STORES[store.kind] is type(store)


@pytest.mark.slow
def test_rows_are_distinct_units_with_scores_that_fall(store: Store, tmp_path: Path) -> None:
    vectors = vectors_of(like_embeddings(300, 24, seed=1))
    found = found_by(store, vectors, like_embeddings(20, 24, seed=2), 15, tmp_path)
    assert found.codes.shape == found.scores.shape == (20, 15)
    assert found.codes.dtype == np.int32
    assert found.scores.dtype == np.float32
    assert all(len(set(row)) == 15 for row in found.codes.tolist())
    assert (np.diff(found.scores, axis=1) <= 0).all()


@pytest.mark.slow
def test_a_vector_is_nearest_to_itself(store: Store, tmp_path: Path) -> None:
    vectors = vectors_of(like_embeddings(200, 24, seed=3))
    found = found_by(store, vectors, vectors.matrix, 1, tmp_path)
    np.testing.assert_array_equal(found.codes[:, 0], np.arange(200))
    np.testing.assert_allclose(found.scores, 0 if store.space == "l2" else 1, atol=1e-5)


def test_more_units_than_there_are_is_all_of_them(store: Store, tmp_path: Path) -> None:
    vectors = vectors_of(like_embeddings(7, 8, seed=4))
    found = found_by(store, vectors, like_embeddings(3, 8, seed=5), 50, tmp_path)
    assert found.depth == 7
    assert all(sorted(row) == list(range(7)) for row in found.codes.tolist())


@pytest.mark.parametrize(("units", "queries", "depth"), [(0, 2, 5), (0, 0, 5), (1, 2, 5), (3, 0, 5), (3, 2, 0)])
def test_nothing_to_find_is_no_error(store: Store, tmp_path: Path, units: int, queries: int, depth: int) -> None:
    vectors = vectors_of(np.ones((units, 4)))
    found = found_by(store, vectors, np.ones((queries, 4)), depth, tmp_path)
    assert found.codes.shape == (queries, min(units, depth))
    assert (found.codes == 0).all() or units > 1


def test_an_index_opened_again_finds_the_same(store: Store, tmp_path: Path) -> None:
    vectors, queries = vectors_of(like_embeddings(1_200, 16, seed=6)), like_embeddings(30, 16, seed=7)
    first = found_by(store, vectors, queries, 10, tmp_path)
    assert_same(found_by(store, vectors, queries, 10, tmp_path), first)


def test_queries_in_one_batch_or_one_by_one_find_the_same(store: Store, tmp_path: Path) -> None:
    vectors, queries = vectors_of(like_embeddings(400, 16, seed=8)), like_embeddings(300, 16, seed=9)
    with opened(store, vectors, tmp_path) as index:
        together = index.search(queries, 10)
        alone = [index.search(query[np.newaxis], 10) for query in queries[::25]]
    np.testing.assert_array_equal(np.concatenate([one.codes for one in alone]), together.codes[::25])
    np.testing.assert_array_equal(np.concatenate([one.scores for one in alone]), together.scores[::25])


def test_a_few_vectors_can_all_be_reached(store: Store, tmp_path: Path) -> None:
    with opened(store, vectors_of(like_embeddings(50, 4, seed=21)), tmp_path) as index:
        assert index.unreachable() == 0


def test_the_progress_of_a_build_adds_up_to_all_vectors(store: Store, tmp_path: Path) -> None:
    steps: list[int] = []
    store.build(vectors_of(like_embeddings(11, 4, seed=10)), tmp_path, steps.append)
    assert sum(steps) == 11


# Exact search.


@dataclass(frozen=True)
class World:
    vectors: Vectors
    queries: Floats
    space: Space
    depth: int


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Small whole numbers, scaled: duplicates, vectors of zeros, vectors of one direction, ties of every kind."""
    dimension = draw(st.integers(1, 4))
    whole = st.lists(st.integers(-3, 3), min_size=dimension, max_size=dimension)
    scale = st.sampled_from([1.0, 1.0, 0.1, 3.0, 1e-3, 1e3])
    row = st.builds(lambda numbers, factor: [number * factor for number in numbers], whole, scale)
    rows = draw(st.lists(row, min_size=1, max_size=25))
    queries = draw(st.lists(row, min_size=1, max_size=4))
    order = draw(st.permutations(range(len(rows))))
    return World(
        vectors_of(rows, order),
        np.array(queries, dtype=np.float32),
        draw(st.sampled_from(SPACES)),
        draw(st.integers(0, len(rows) + 2)),
    )


@given(worlds())
def test_exact_search_ranks_as_comparing_everything_in_float64_does(world: World) -> None:
    found = exactly(world.vectors, world.queries, world.depth, world.space)
    assert found.codes.tolist() == nearest(world.vectors, world.queries, world.depth, world.space)
    scores = all_scores(world.vectors.matrix, world.queries, world.space)
    expected = np.take_along_axis(scores, found.codes.astype(np.int64), axis=1)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6, atol=1e-7)


@given(worlds(), st.integers(1, 30), st.integers(1, 5))
def test_exact_search_does_not_depend_on_its_block_sizes(world: World, units: int, queries: int) -> None:
    usual = exactly(world.vectors, world.queries, world.depth, world.space)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(exact, "_TILE", units)
        patch.setattr(exact, "_QUERY_BLOCK", queries)
        assert_same(exactly(world.vectors, world.queries, world.depth, world.space), usual)


@given(worlds(), st.randoms(use_true_random=False))
def test_exact_search_does_not_depend_on_where_a_vector_stands(world: World, random: Any) -> None:
    usual = exactly(world.vectors, world.queries, world.depth, world.space)
    moved = list(range(len(world.vectors)))
    random.shuffle(moved)
    shuffled = Vectors(world.vectors.matrix[moved], world.vectors.order[moved])
    found = exactly(shuffled, world.queries, world.depth, world.space)
    assert [[moved[unit] for unit in row] for row in found.codes] == usual.codes.tolist()
    np.testing.assert_array_equal(found.scores, usual.scores)


@pytest.mark.parametrize("space", SPACES)
def test_exact_search_is_exact_where_its_first_float32_estimate_is_not(space: Space) -> None:
    random = np.random.default_rng(11)
    near = like_embeddings(40, 32, seed=12)
    # Twenty copies of each, moved by about the rounding of a float32: an estimate cannot order these.
    matrix = np.repeat(near, 20, axis=0) * (1 + random.integers(-2, 3, size=(800, 32)) * 6e-8)
    vectors = vectors_of(matrix, random.permutation(800).tolist())
    queries = near[:10] * np.float32(1.7)
    found = exactly(vectors, queries, 30, space)
    assert found.codes.tolist() == nearest(vectors, queries, 30, space)


def test_long_vectors_in_one_block_do_not_hide_a_nearer_short_one_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_TILE", 20)
    for seed in range(60):
        random = np.random.default_rng(seed)
        query = like_embeddings(1, 4, seed).astype(np.float64)
        across = random.normal(size=(40, 4))
        across -= (across @ query.T) * query
        across *= np.where(np.arange(40) < 20, 1e4, 0)[:, np.newaxis]
        # All have products of about 1; those of the long ones float32 knows to three digits only.
        vectors = vectors_of(across + query * (1 + 1e-4 * random.normal(size=(40, 1))))
        depth = 1 + seed % 10
        found = exactly(vectors, query, depth, "ip")
        assert found.codes.tolist() == nearest(vectors, query.astype(np.float32), depth, "ip")


def test_vectors_of_one_direction_tie_in_cosine_whatever_their_length() -> None:
    for seed in range(200):
        random = np.random.default_rng(seed)
        direction = random.normal(size=(1, 1 + seed % 3))
        lengths = 10.0 ** random.uniform(-2, 2, size=(200, 1))
        vectors = vectors_of(direction * lengths, random.permutation(200).tolist())
        queries, depth = vectors.matrix[:2] * np.float32(1.7), 1 + seed % 10
        found = exactly(vectors, queries, depth, "cosine")
        assert found.codes.tolist() == nearest(vectors, queries, depth, "cosine")


@given(worlds())
@example(World(vectors_of([[0, 0], [1, 0], [0, 0]], [2, 1, 0]), np.zeros((1, 2), dtype=np.float32), "cosine", 3))
def test_a_cosine_with_a_vector_of_zeros_is_zero(world: World) -> None:
    found = exactly(world.vectors, world.queries, world.depth, "cosine")
    zero_units = (world.vectors.matrix[found.codes] == 0).all(axis=2)
    zero_queries = (world.queries == 0).all(axis=1, keepdims=True)
    assert (found.scores[zero_units | zero_queries] == 0).all()


# Chroma.


@pytest.fixture(scope="module")
def many() -> Vectors:
    """More vectors than Chroma takes at once (5,461)."""
    return vectors_of(like_embeddings(6_000, 32, seed=15))


@pytest.fixture(scope="module", params=SPACES)
def built(
    request: pytest.FixtureRequest, many: Vectors, tmp_path_factory: pytest.TempPathFactory
) -> tuple[ChromaStore, Path]:
    store, folder = ChromaStore(space=request.param), tmp_path_factory.mktemp("chroma")
    store.build(many, folder, nothing)
    return store, folder


def test_chroma_finds_what_exact_search_finds_with_the_same_scores(
    many: Vectors, built: tuple[ChromaStore, Path]
) -> None:
    store, folder = built
    queries = like_embeddings(100, 32, seed=16)
    found, true = found_by(store, many, queries, 10, folder), exactly(many, queries, 10, store.space)
    overlap = [len(set(row) & set(other)) for row, other in zip(found.codes.tolist(), true.codes.tolist(), strict=True)]
    assert np.mean(overlap) >= 9.5
    scores = np.take_along_axis(all_scores(many.matrix, queries, store.space), found.codes.astype(np.int64), axis=1)
    np.testing.assert_allclose(found.scores, scores, atol=1e-4)


@pytest.mark.slow
def test_the_options_of_the_graph_are_those_of_the_collection(tmp_path: Path) -> None:
    options = {"ef_construction": 37, "max_neighbors": 11, "ef_search": 23}
    ChromaStore(space="ip", hnsw=HnswOptions(**options)).build(vectors_of(np.eye(4)), tmp_path, nothing)
    assert configuration_of(tmp_path).items() >= {"space": "ip", **options}.items()


@pytest.mark.slow
def test_options_that_are_not_given_are_the_documented_defaults(tmp_path: Path) -> None:
    ChromaStore().build(vectors_of(np.eye(4)), tmp_path, nothing)
    expected = {"space": "cosine", "ef_construction": 100, "max_neighbors": 16, "ef_search": 100}
    assert configuration_of(tmp_path).items() >= expected.items()


def configuration_of(folder: Path) -> dict[str, Any]:
    """What Chroma says of the graph of its one collection, asked in another process."""
    code = (
        "import json, sys, chromadb; from chromadb.config import Settings\n"
        "client = chromadb.PersistentClient(sys.argv[1], settings=Settings(anonymized_telemetry=False))\n"
        "(collection,) = client.list_collections()\n"
        "print(json.dumps(collection.configuration_json['hnsw']))"
    )
    return dict(json.loads(python(code, folder).stdout))


@pytest.mark.slow
def test_a_poorer_graph_finds_less(many: Vectors, tmp_path: Path) -> None:
    queries = like_embeddings(50, 32, seed=17)
    true = exactly(many, queries, 10, "cosine").codes
    poor = ChromaStore(hnsw=HnswOptions(ef_construction=2, max_neighbors=2, ef_search=10))
    found = found_by(poor, many, queries, 10, tmp_path).codes
    overlap = [len(set(row) & set(other)) for row, other in zip(found.tolist(), true.tolist(), strict=True)]
    assert np.mean(overlap) < 8


@pytest.fixture(scope="module")
def small() -> Vectors:
    """Enough vectors for Chroma to write a graph of its own, beyond its log of 1,000."""
    return vectors_of(like_embeddings(1_100, 8, seed=18))


@pytest.fixture(scope="module")
def sound(small: Vectors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    ChromaStore().build(small, folder, nothing)
    return folder


def damage(file: Path, how: str) -> None:
    if how == "deleted":
        file.unlink()
    elif how == "cut short":
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    else:
        file.write_bytes(b"\xff" * file.stat().st_size)


@pytest.mark.parametrize("how", ["deleted", "cut short", "overwritten"])
def test_a_damaged_database_is_an_error_that_names_its_folder_and_a_sound_one_in_its_place_is_opened(
    small: Vectors, sound: Path, tmp_path: Path, how: str
) -> None:
    folder = shutil.copytree(sound, tmp_path / "index")
    damage(folder / "chroma.sqlite3", how)
    with pytest.raises(StoreError) as caught:
        ChromaStore().open(small, folder)
    assert str(caught.value).startswith(f"the Chroma index in {folder} cannot be read (")
    shutil.rmtree(folder)
    shutil.copytree(sound, folder)
    queries = like_embeddings(3, 8, seed=19)
    assert_same(found_by(ChromaStore(), small, queries, 5, folder), found_by(ChromaStore(), small, queries, 5, sound))


def test_an_index_of_other_vectors_is_an_error(small: Vectors, sound: Path) -> None:
    fewer = Vectors(small.matrix[:-1], small.order[:-1])
    with pytest.raises(StoreError) as caught:
        ChromaStore().open(fewer, sound)
    why = "it has 1100 of 1099 vectors"
    assert str(caught.value).startswith(f"the Chroma index in {sound} cannot be read ({why}). ")


def test_vectors_that_chroma_refuses_are_an_error_that_names_the_folder(tmp_path: Path) -> None:
    vectors = vectors_of(np.array([[1, 2], [np.nan, 1]]))
    with pytest.raises(StoreError) as caught:
        ChromaStore().build(vectors, tmp_path, nothing)
    assert str(caught.value).startswith(f"Chroma could not build the index in {tmp_path}: ")


SERVER = {
    "CHROMA_API_IMPL": "chromadb.api.fastapi.FastAPI",
    "CHROMA_SERVER_HOST": "127.0.0.1",
    "CHROMA_SERVER_HTTP_PORT": "1",
    "ALLOW_RESET": "TRUE",
}
SEARCH = """
import sys
from pathlib import Path
import numpy as np
from ragtrial.components.stores import Vectors
from ragtrial.components.stores.chroma import ChromaStore

folder = Path(sys.argv[1])
folder.mkdir()
vectors = Vectors(np.eye(4, dtype=np.float32), np.arange(4))
ChromaStore().build(vectors, folder, lambda count: None)
index = ChromaStore().open(vectors, folder)
print(index.search(vectors.matrix, 1).codes.ravel().tolist())
index.close()
"""


@pytest.mark.slow
@pytest.mark.parametrize("where", ["the environment", "a .env file"])
def test_neither_the_environment_nor_an_env_file_sends_vectors_to_a_server(tmp_path: Path, where: str) -> None:
    if where == "a .env file":
        (tmp_path / ".env").write_text("".join(f"{name}={value}\n" for name, value in SERVER.items()))
    done = python(SEARCH, tmp_path / "index", folder=tmp_path, **(SERVER if where == "the environment" else {}))
    assert (done.stdout, done.stderr) == ("[0, 1, 2, 3]\n", "")
    assert (tmp_path / "index" / "chroma.sqlite3").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2, 3, 99, 999, 1_001, 5_399])
def test_an_index_is_the_same_graph_at_every_opening(tmp_path: Path, count: int) -> None:
    vectors = vectors_of(like_embeddings(count, 8, seed=22))
    ChromaStore().build(vectors, tmp_path, nothing)

    def graph() -> dict[Path, bytes]:
        files = (path for path in tmp_path.glob("*/*") if path.is_file())
        return {path: path.read_bytes() for path in files}

    before = graph()
    assert bool(before) == (count > 1)
    with opened(ChromaStore(), vectors, tmp_path) as index:
        index.search(like_embeddings(2, 8, seed=23), 5)
    assert before == graph() or count <= 1


@pytest.mark.slow
def test_vectors_that_no_search_returns_are_counted(tmp_path: Path) -> None:
    random = np.random.default_rng(24)
    vectors = vectors_of(random.standard_normal((3_000, 32)))
    poor = ChromaStore(hnsw=HnswOptions(max_neighbors=2, ef_construction=1, ef_search=1))
    with opened(poor, vectors, tmp_path) as index:
        lost = index.unreachable()
        listed = set(index.search(vectors.matrix[:1], 3_000).codes.ravel().tolist()) - {PADDING}
        returned = set(index.search(vectors.matrix, 1_000).codes.ravel().tolist()) - {PADDING}
    # What no query returns is counted, and nothing that a listing returns.
    assert 300 < len(vectors) - len(returned | listed) <= lost <= len(vectors) - len(listed)


def test_hits_that_chroma_does_not_find_are_padding(small: Vectors, sound: Path) -> None:
    with opened(ChromaStore(), small, sound) as index:
        found = index.search(like_embeddings(2, 8, seed=20), 1_100)
    lengths = found.lengths.tolist()
    for row, scores, length in zip(found.codes, found.scores, lengths, strict=True):
        assert len(set(row[:length].tolist())) == length > 1_000
        assert (row[length:] == PADDING).all()
        assert np.isnan(scores[length:]).all()
