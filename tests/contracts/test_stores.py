"""What every kind of store owes, in a folder and on a server."""

import importlib.util
import json
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import SecretStr, ValidationError

from milvus_servers import PACKAGED
from ragtrial.cache.atomic import TEMPORARY_PREFIX, new_folder, remove_folder, remove_partial
from ragtrial.cache.remote import REMOTE, open_remote, release
from ragtrial.engines import STORES, Store, Vectors, servers
from ragtrial.engines.servers import ServerStore, StoreServers, connected, read_remote
from ragtrial.errors import InputError, StoreError, StoreServerError
from ragtrial.rankings import Floats
from store_kinds import KINDS, SPACES, StoreKind, assert_same, found_by, nothing, opened, recall
from vector_oracles import exactly, like_embeddings, nearest, vectors_of

SERVED = [name for name, kind in KINDS.items() if kind.server is not None]
WITH_GRAPH = [name for name, kind in KINDS.items() if kind.starved is not None]
Reached = Callable[[StoreKind], dict[str, Any]]


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reached]:
    """Starts the server of a kind, once for all tests here, and gives the options that reach it."""
    with ExitStack() as stack:
        known: dict[str, dict[str, Any]] = {}

        def start(kind: StoreKind) -> dict[str, Any]:
            if kind.server is None:
                return {}
            if kind.kind not in known:
                known[kind.kind] = stack.enter_context(kind.server(tmp_path_factory.mktemp(kind.kind)))
            return known[kind.kind]

        yield start


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, reached: Reached) -> Store:
    kind = KINDS[request.param]
    return kind.store(reached(kind), space="cosine")


@pytest.fixture(params=SERVED)
def served(request: pytest.FixtureRequest, reached: Reached) -> ServerStore:
    store = KINDS[request.param].store(reached(KINDS[request.param]))
    assert isinstance(store, ServerStore)
    return store


def test_every_kind_is_tried_here() -> None:
    assert {kind.kind for kind in KINDS.values()} == set(STORES.names())


def test_a_store_without_its_package_names_the_command_for_it(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.check()  # its own package is here, and its server answers
    monkeypatch.setattr(servers, "installed_version", lambda _package: None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    if (isinstance(store, ServerStore) and any(store.packages.values())) or store.kind == "faiss":
        with pytest.raises(InputError, match=rf"store\.kind: {store.kind} needs a package: pip install 'ragtrial\["):
            store.check()


def test_options_of_a_server_are_refused_without_one(served: ServerStore) -> None:
    names = {*served.connected_by, "concurrency", *(() if served.waits_here else ("timeout",))} - {"url"}
    for name in names:
        given = {name: {"headers": {"X": "y"}, "timeout": 5, "concurrency": 2}.get(name, "text")}
        with pytest.raises(ValidationError, match=f"only a server has {name}; remove it, or set url|url\n"):
            type(served).model_validate({"kind": served.kind, **given})


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("space", SPACES)
def test_an_exact_store_ranks_as_float64_does(name: str, space: Any, reached: Reached, tmp_path: Path) -> None:
    kind = KINDS[name]
    lengths = np.random.default_rng(30).uniform(0.2, 5, size=(400, 1))
    vectors, queries = vectors_of(like_embeddings(400, 24, seed=31) * lengths), like_embeddings(20, 24, seed=32)
    store = kind.store(reached(kind), space=space, **kind.exact)
    found, true = found_by(store, vectors, queries, 10, tmp_path), exactly(vectors, queries, 10, space)
    assert found.codes.tolist() == nearest(vectors, queries, 10, space)
    np.testing.assert_allclose(found.scores, true.scores, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_GRAPH)
def test_a_poor_graph_finds_half_only_with_a_wide_search(name: str, reached: Reached, tmp_path: Path) -> None:
    kind = KINDS[name]
    random = np.random.default_rng(33)
    vectors, queries = vectors_of(random.standard_normal((3_000, 96))), random.standard_normal((30, 96))
    true = exactly(vectors, queries.astype(np.float32), 10, "l2").codes
    narrow = kind.store(reached(kind), space="l2", **dict(kind.starved or {}))
    wide = kind.store(reached(kind), space="l2", **{**dict(kind.starved or {}), **kind.wide})
    for folder in ("narrow", "wide"):
        (tmp_path / folder).mkdir()
    with opened(narrow, vectors, tmp_path / "narrow") as index:
        poor, use = recall(index.search(queries.astype(np.float32), 10).codes, true), index.use()
    same_build = tmp_path / ("narrow" if set(kind.wide) <= narrow.search_options else "wide")
    good = recall(found_by(wide, vectors, queries, 10, same_build).codes, true)
    assert poor < 0.5 < good
    assert use.is_used is not False, use.evidence


def test_more_units_than_there_are_is_all_of_them(store: Store, tmp_path: Path) -> None:
    vectors, steps = vectors_of(like_embeddings(7, 8, seed=4)), list[int]()
    store.build(vectors, tmp_path, steps.append)
    with opened(store, vectors, tmp_path) as index:
        found = index.search(like_embeddings(3, 8, seed=5), 50)
    assert (found.depth, sum(steps)) == (7, 7)
    assert all(sorted(row) == list(range(7)) for row in found.codes.tolist())


def test_queries_in_one_batch_or_one_by_one_find_the_same(store: Store, tmp_path: Path) -> None:
    vectors, queries = vectors_of(like_embeddings(400, 16, seed=8)), like_embeddings(300, 16, seed=9)
    with opened(store, vectors, tmp_path) as index:
        together = index.search(queries, 10)
        alone = [index.search(query[np.newaxis], 10) for query in queries[::25]]
    np.testing.assert_array_equal(np.concatenate([one.codes for one in alone]), together.codes[::25])
    scores = np.concatenate([one.scores for one in alone])
    np.testing.assert_allclose(scores, together.scores[::25], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("units", "asked"), [(0, [(2, 5), (0, 5)]), (1, [(2, 5)]), (3, [(0, 5), (2, 0)])])
def test_nothing_to_find_is_no_error(store: Store, tmp_path: Path, units: int, asked: list[tuple[int, int]]) -> None:
    for queries, depth in asked:
        found = found_by(store, vectors_of(np.ones((units, 4))), np.ones((queries, 4)), depth, tmp_path)
        assert found.codes.shape == (queries, min(units, depth))
        assert (found.codes == 0).all() or units > 1


def test_an_index_opened_again_finds_the_same(store: Store, tmp_path: Path) -> None:
    vectors, queries = vectors_of(like_embeddings(1_200, 16, seed=6)), like_embeddings(30, 16, seed=7)
    first = found_by(store, vectors, queries, 10, tmp_path)
    assert_same(found_by(store, vectors, queries, 10, tmp_path), first)


def test_an_index_of_other_vectors_is_refused(store: Store, tmp_path: Path) -> None:
    store.build(vectors_of(like_embeddings(20, 4, seed=11)), tmp_path, nothing)
    if store.is_exact:
        return  # the vectors are all there is to it
    with pytest.raises(StoreError, match=r"20 of 19|19 of 20"):
        store.open(vectors_of(like_embeddings(19, 4, seed=11)), tmp_path)


def test_a_build_is_a_collection_whose_name_is_in_its_folder(served: ServerStore, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a" * 32, "b" * 32)]
    names = []
    for folder in folders:
        folder.mkdir()
        served.build(vectors_of(like_embeddings(20, 4, seed=12)), folder, nothing)
        names.append(read_remote(folder)["collection"])
    assert names[0].startswith(f"ragtrial_{'a' * 16}_")
    assert names[1].startswith(f"ragtrial_{'b' * 16}_")
    assert served.facts(folders[0])["collection"] == names[0]
    with connected(served) as engine:
        assert [engine.count(name) for name in names] == [20, 20]
    remove_folder(folders[0], releasing(served))
    with connected(served) as engine:
        assert [engine.count(name) for name in names] == [None, 20]


def releasing(store: ServerStore) -> Callable[[Path], bool]:
    """What removes the collections of a folder, for a config that has built all of them on the server of ``store``."""

    def may_go(folder: Path) -> bool:
        release(folder, [StoreServers(lambda: [store], lambda _: True)])
        return True

    return may_go


class ReadVectors:
    """Vectors that count the batches that are read, and the most of these that were in memory at once."""

    def __init__(self, matrix: Floats, fails_at: int = 0) -> None:
        self.matrix = matrix
        self.shape = matrix.shape
        self.reads = self.most = 0
        self._fails_at = fails_at
        self._in_memory = 0
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return len(self.matrix)

    def __getitem__(self, rows: slice) -> Floats:
        with self._lock:
            self.reads += 1
            if self.reads == self._fails_at:
                raise StoreError("the vectors cannot be read.")
            batch = self.matrix[rows].copy()
            self._in_memory += 1
            self.most = max(self.most, self._in_memory)
        weakref.finalize(batch, self._release)
        return batch

    def _release(self) -> None:
        with self._lock:
            self._in_memory -= 1


def test_a_server_gets_every_vector_with_no_more_batches_in_memory_than_requests_at_once(
    served: ServerStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "_BYTES_AT_ONCE", 200 * 16)
    store = served.model_copy(update={"concurrency": 3})
    read: Any = ReadVectors(like_embeddings(5_000, 4, seed=18))
    store.build(Vectors(read, np.arange(len(read))), tmp_path, nothing)
    assert read.reads >= 5
    is_lite = served.kind == "milvus" and not PACKAGED  # which is not safe for inserts at once
    assert read.most <= (1 if is_lite else 3)
    with connected(store) as engine:
        rows = engine.rows(read_remote(tmp_path)["collection"], list(range(len(read))))
    np.testing.assert_allclose(rows, read.matrix, atol=1e-6)


def test_a_failing_batch_ends_the_build(served: ServerStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_BYTES_AT_ONCE", 200 * 16)
    read: Any = ReadVectors(like_embeddings(20_000, 4, seed=19), fails_at=3)
    with pytest.raises(StoreError, match="the vectors cannot be read"):
        served.build(Vectors(read, np.arange(len(read))), tmp_path, nothing)
    assert read.reads < 20
    assert not [thread for thread in threading.enumerate() if thread.name.endswith("(_work)")]
    with connected(served) as engine:
        assert (engine.count(read_remote(tmp_path)["collection"]) or 0) < len(read)


def test_a_build_that_fails_leaves_nothing_on_the_server(served: ServerStore, tmp_path: Path) -> None:
    target, names = tmp_path / ("c" * 32), []

    def fail(_count: int) -> None:
        raise KeyboardInterrupt

    def build() -> None:
        with new_folder(target, releasing(served)) as folder:
            try:
                served.build(vectors_of(like_embeddings(20, 4, seed=13)), folder, fail)
            finally:
                names.append(read_remote(folder)["collection"])

    with pytest.raises(KeyboardInterrupt):
        build()
    with connected(served) as engine:
        assert engine.count(names[0]) is None
    assert not list(tmp_path.iterdir())


def test_what_a_killed_build_left_is_named_and_removed_by_the_next(served: ServerStore, tmp_path: Path) -> None:
    left = tmp_path / f"{TEMPORARY_PREFIX}{'d' * 32}-killed"
    left.mkdir()
    served.build(vectors_of(like_embeddings(20, 4, seed=14)), left, nothing)
    name = read_remote(left)["collection"]
    remove_partial(tmp_path, "d" * 32, releasing(served))
    assert not left.exists()
    with connected(served) as engine:
        assert engine.count(name) is None


def test_damage_on_the_server_is_seen(served: ServerStore, tmp_path: Path) -> None:
    vectors = vectors_of(like_embeddings(150, 4, seed=15))
    for name in ("sound", "other"):
        (tmp_path / name).mkdir()
    served.build(vectors, tmp_path / "sound", nothing)
    served.build(vectors_of(like_embeddings(150, 4, seed=16)), tmp_path / "other", nothing)
    own = [StoreServers(lambda: [served], lambda _: True)]

    def damage(name: str) -> str | None:
        return open_remote(tmp_path / name / REMOTE, own).damage()

    assert damage("sound") is None
    kept = np.load(tmp_path / "sound" / "sample.npy")
    np.save(tmp_path / "sound" / "sample.npy", kept[::-1])
    assert damage("sound") == "it has other vectors"
    swapped = {**read_remote(tmp_path / "sound"), "collection": read_remote(tmp_path / "other")["collection"]}
    (tmp_path / "sound" / REMOTE).write_text(json.dumps(swapped))
    assert damage("sound") == "it is the collection of another stage"
    with pytest.raises(StoreError, match="was not built by this config"):
        open_remote(tmp_path / "sound" / REMOTE, own).drop()
    open_remote(tmp_path / "other" / REMOTE, own).drop()
    assert damage("other") == "it is gone"
    with pytest.raises(StoreError, match="is gone"):
        served.open(vectors, tmp_path / "other")


def test_a_server_that_is_away_is_named_with_the_next_step(served: ServerStore, tmp_path: Path) -> None:
    away = served.model_copy(update={"url": _away(str(served.url)), "timeout": 5.0})
    with pytest.raises(InputError) as refused:
        away.check()
    assert str(away.url) in str(refused.value)
    with pytest.raises(StoreServerError):
        away.build(vectors_of(like_embeddings(3, 4, seed=17)), tmp_path, nothing)


def _away(url: str) -> str:
    """The address of a port on which nobody listens."""
    scheme, _, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}://{place.rpartition(':')[0] or place}:9{slash}{path}"


def test_a_secret_is_in_no_file_no_fingerprint_and_no_summary(served: ServerStore, tmp_path: Path) -> None:
    secret = SecretStr("hunter2-hunter2")
    given = {"headers": {"X-Secret": secret}, "api_key": secret, "token": secret, "password": secret}
    store = served.model_copy(
        update={name: value for name, value in given.items() if name in type(served).model_fields}
    )
    assert store != served
    store.build(vectors_of(like_embeddings(10, 4, seed=5)), tmp_path, nothing)
    assert all(b"hunter2" not in path.read_bytes() for path in tmp_path.iterdir())
    assert store.hashed_options() == served.hashed_options()
    assert "hunter2" not in f"{store!r} {store.summary()} {store.facts(tmp_path)}"
