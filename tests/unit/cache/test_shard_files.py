"""Vectors that were moved from the database to files: the same vectors, whoever looks, whatever happens."""

from __future__ import annotations

import logging
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from limits import full_disk
from ragtrial.cache.upkeep import Upkeep
from ragtrial.cache.vectors import Keys, VectorCache, text_keys
from ragtrial.cache.workspace import Workspace
from ragtrial.errors import WorkspaceError
from ragtrial.rankings import Floats

ROWS_PER_SHARD = 64


def keys_of(numbers: range | list[int]) -> Keys:
    return text_keys(map(str, numbers))


def vectors_of(numbers: range | list[int]) -> Floats:
    """For each number a vector that only it has."""
    return (np.array(numbers, dtype=np.float32).reshape(-1, 1) + np.float32(0.1) * np.arange(4)).astype(np.float32)


def filled(path: Path, count: int, *, compact: bool = True) -> Path:
    with VectorCache(path, "numbers") as cache:
        cache.write(keys_of(range(count)), vectors_of(range(count)))
        if compact:
            cache.compact(count, ROWS_PER_SHARD)
    return path


def shards_of(path: Path) -> list[Path]:
    return sorted(path.with_suffix(".shards").glob("[!.]*"))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 60), unique=True, max_size=25), max_size=6),
    st.integers(1, 20),
    st.integers(1, 12),
    st.lists(st.integers(0, 60)),
)
def test_a_cache_has_what_was_written_wherever_it_lies(
    batches: list[list[int]], most_rows: int, rows_per_shard: int, asked: list[int]
) -> None:
    written = {number for batch in batches for number in batch}
    asked = [number for number in asked if number in written]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "v.sqlite"
        with VectorCache(path) as cache, VectorCache(path) as other:
            for batch in batches:
                new = [number for number, absent in zip(batch, cache.missing(keys_of(batch)), strict=True) if absent]
                cache.write(keys_of(new), vectors_of(new))
                cache.compact(most_rows, rows_per_shard)
            with VectorCache(path) as reopened:
                for one in (cache, other, reopened):
                    assert one.missing(keys_of(range(61))).tolist() == [number not in written for number in range(61)]
                    assert one.read(keys_of(asked)).tobytes() == vectors_of(asked).tobytes()
                    assert b"".join(one.read_each(keys_of(asked))) == vectors_of(asked).tobytes()
                    assert len(one) == len(written)
                    assert one.dimension() == (4 if written else None)
            in_database = len(cache.keys_in_database())
            assert in_database < most_rows


def test_shards_are_arrays_in_the_order_of_their_keys(tmp_path: Path) -> None:
    path = filled(tmp_path / "v.sqlite", 1000)
    shards = shards_of(path)
    assert len(shards) == round(1000 / ROWS_PER_SHARD)
    every_key = []
    for shard in shards:
        keys, vectors = np.load(shard / "keys.npy"), np.load(shard / "vectors.npy")
        names = [key.tobytes() for key in keys]
        assert names == sorted(names)
        assert abs(len(names) - ROWS_PER_SHARD) <= 2
        numbers = vectors[:, 0].astype(int).tolist()
        assert names == [key.tobytes() for key in keys_of(numbers)]
        every_key += names
    assert sorted(every_key) == sorted(key.tobytes() for key in keys_of(range(1000)))


def test_equal_texts_are_all_found(tmp_path: Path) -> None:
    """Also those of the first and of the last key of a shard."""
    with VectorCache(filled(tmp_path / "v.sqlite", 300)) as cache:
        asked = [number for number in range(300) for _ in range(3)]
        assert not cache.missing(keys_of(asked)).any()
        assert np.array_equal(cache.read(keys_of(asked)), vectors_of(asked))


def test_a_few_rows_stay_in_the_database(tmp_path: Path) -> None:
    path = filled(tmp_path / "v.sqlite", 100, compact=False)
    with VectorCache(path) as cache:
        cache.compact(101, ROWS_PER_SHARD)
        assert shards_of(path) == []
        cache.compact(100, ROWS_PER_SHARD)
        assert len(cache.keys_in_database()) == 0
        cache.write(keys_of([100]), vectors_of([100]))
        cache.compact(100, ROWS_PER_SHARD)
        assert len(cache.keys_in_database()) == 1


def test_whoever_has_it_open_finds_what_another_one_moves(tmp_path: Path) -> None:
    path = filled(tmp_path / "v.sqlite", 300, compact=False)
    with VectorCache(path) as reader, VectorCache(path) as writer:
        writer.compact(300, ROWS_PER_SHARD)
        assert np.array_equal(reader.read(keys_of(range(300))), vectors_of(range(300)))
    with VectorCache(path) as reader, VectorCache(path) as writer:
        writer.write(keys_of(range(300, 600)), vectors_of(range(300, 600)))
        assert not reader.missing(keys_of(range(600))).any()
        writer.compact(300, ROWS_PER_SHARD)
        assert not reader.missing(keys_of(range(600))).any()


@pytest.mark.parametrize("file", ["keys.npy", "vectors.npy", "stage.json"])
@pytest.mark.parametrize("what", ["flipped", "cut", "missing"])
def test_the_vectors_of_a_damaged_shard_are_missing_and_no_others(
    file: str, what: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = filled(tmp_path / "v.sqlite", 300)
    shard = shards_of(path)[1]
    lost = np.load(shard / "vectors.npy")[:, 0].astype(int).tolist()
    content = bytearray((shard / file).read_bytes())
    if what == "missing":
        (shard / file).unlink()
    else:
        content[len(content) // 2] ^= 1
        (shard / file).write_bytes(content[: len(content) // 2] if what == "cut" else content)
    with VectorCache(path) as cache:
        assert np.flatnonzero(cache.missing(keys_of(range(300)))).tolist() == sorted(lost)
        with pytest.raises(KeyError):
            cache.read(keys_of(lost[:1]))
        whole = sorted(set(range(300)) - set(lost))
        assert np.array_equal(cache.read(keys_of(whole)), vectors_of(whole))
    assert not shard.exists()
    (message,) = {record.getMessage() for record in caplog.records if record.levelno == logging.WARNING}
    assert message.startswith(f"{shard} is damaged (")
    assert message.endswith("); it is made again.")


def test_a_kill_at_any_time_loses_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from ragtrial.cache.vectors import VectorCache\n"
        "with VectorCache(Path(sys.argv[1])) as cache:\n"
        "    print('begins', flush=True)\n"
        "    cache.compact(1, 50)"
    )
    rolls = random.Random(0)
    for attempt in range(8):
        path = filled(tmp_path / str(attempt) / "v.sqlite", 2_000, compact=False)
        with subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            wanted = rolls.randrange(1, 30)
            while len(shards_of(path)) < wanted and process.poll() is None:
                time.sleep(0.001)
            os.kill(process.pid, signal.SIGKILL)
        with VectorCache(path) as cache:
            assert np.array_equal(cache.read(keys_of(range(2_000))), vectors_of(range(2_000)))
            for half_made in path.with_suffix(".shards").glob(".partial-*"):
                os.utime(half_made, (0, 0))  # an hour later
            cache.compact(1, 50)
            assert len(cache) == 2_000
            assert np.array_equal(cache.read(keys_of(range(2_000))), vectors_of(range(2_000)))
            assert not list(path.with_suffix(".shards").glob(".*"))


def test_vectors_that_are_all_in_shards_leave_the_database(tmp_path: Path) -> None:
    """Two processes may embed the same texts: one writes what the other has moved meanwhile."""
    path = filled(tmp_path / "v.sqlite", 300)
    with VectorCache(path) as cache:
        shards = shards_of(path)
        cache.write(keys_of(range(300)), vectors_of(range(300)))
        cache.compact(300, ROWS_PER_SHARD)
        assert len(cache.keys_in_database()) == 0
        assert shards_of(path) == shards
        assert np.array_equal(cache.read(keys_of(range(300))), vectors_of(range(300)))


def test_what_another_process_fetches_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = filled(tmp_path / "v.sqlite", 300, compact=False)
    fetched = path.with_suffix(".shards") / ".partial-of-another"
    fetched.mkdir(parents=True)
    with VectorCache(path) as cache:
        cache.compact(300, ROWS_PER_SHARD)
    assert fetched.exists()


def test_a_full_disk_ends_the_move_and_nothing_is_lost(tmp_path: Path) -> None:
    path = filled(tmp_path / "v.sqlite", 3_000, compact=False)
    with VectorCache(path) as cache:
        with full_disk(1_000), pytest.raises(WorkspaceError, match=f"the embedding cache {path} cannot be used: "):
            cache.compact(3_000, 1_000)
        assert np.array_equal(cache.read(keys_of(range(3_000))), vectors_of(range(3_000)))


def test_shards_that_cannot_be_read_are_an_error_and_stay(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path\n"
        "from ragtrial.cache.vectors import VectorCache, text_keys\n"
        "from ragtrial.errors import WorkspaceError\n"
        "path, keys = Path(sys.argv[1]), text_keys(map(str, range(300)))\n"
        "with VectorCache(path) as cache:\n"
        "    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
        "    for act in (lambda: cache.missing(keys), lambda: cache.read(keys), lambda: VectorCache(path)):\n"
        "        try:\n"
        "            act()\n"
        "        except WorkspaceError as error:\n"
        "            print(error)\n"
    )
    path = filled(tmp_path / "v.sqlite", 300)
    shards = shards_of(path)
    ended = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=False)
    assert ended.stdout.count(f"the embedding cache {path} cannot be used: [Errno 24] Too many open files") == 3
    assert shards_of(path) == shards


def test_the_workspace_counts_verifies_and_removes_shards_with_their_cache(tmp_path: Path) -> None:
    Workspace(tmp_path)
    path = filled(tmp_path / "vectors" / f"{'a' * 32}.sqlite", 5_000)
    (entry,) = Upkeep(tmp_path).entries()
    assert entry.what == "5,000 cached vectors (numbers)"
    assert entry.size > 5_000 * 4 * 4 + sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))
    assert Upkeep(tmp_path).verify() == []
    shard = shards_of(path)[0]
    lost = len(np.load(shard / "keys.npy"))
    with (shard / "vectors.npy").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"\xff")
    assert [why for _, why in Upkeep(tmp_path).verify()] == [f"{lost} vectors had other bytes than were written"]
    Upkeep(tmp_path).prune()
    assert list((tmp_path / "vectors").iterdir()) == []


def test_a_damaged_database_costs_no_shard(tmp_path: Path) -> None:
    Workspace(tmp_path)
    path = filled(tmp_path / "vectors" / f"{'a' * 32}.sqlite", 300)
    with VectorCache(path) as cache:
        cache.keep_probe("a text with – signs", vectors_of([7])[0])
        cache.write(keys_of(range(300, 400)), vectors_of(range(300, 400)))
        cache.compact(100, ROWS_PER_SHARD)
    path.write_bytes(b"no database " * 1_000)
    ((_, why),) = Upkeep(tmp_path).verify()
    assert why.endswith("file is not a database")
    with VectorCache(path, as_it_is=True) as cache:
        probe = cache.probe()
        assert probe is not None, "or nothing would tell another model's vectors from these"
        assert probe[0] == "a text with – signs"
        assert probe[1].tobytes() == vectors_of([7])[0].tobytes()
        assert np.array_equal(cache.read(keys_of(range(300))), vectors_of(range(300)))


def test_a_shard_may_be_moved_by_hand(tmp_path: Path) -> None:
    """Shards of two machines, which overlap, are together what either has."""
    one, other = filled(tmp_path / "one" / "v.sqlite", 300), tmp_path / "other" / "v.sqlite"
    with VectorCache(other) as cache:
        cache.write(keys_of(range(200, 400)), vectors_of(range(200, 400)))
        cache.compact(200, ROWS_PER_SHARD)
    for shard in shards_of(one):
        shutil.copytree(shard, other.with_suffix(".shards") / shard.name)
    with VectorCache(other) as cache:
        assert np.array_equal(cache.read(keys_of(range(400))), vectors_of(range(400)))


def test_a_shard_of_another_model_is_not_read(tmp_path: Path) -> None:
    one, other = filled(tmp_path / "one.sqlite", 300), filled(tmp_path / "other.sqlite", 100)
    shutil.copytree(shards_of(one)[0], other.with_suffix(".shards") / shards_of(one)[0].name, dirs_exist_ok=True)
    with VectorCache(other) as cache:
        assert cache.missing(keys_of(range(100, 300))).all()
        assert len(cache) <= 100
