"""What the storage knows of its files and work: seals, hashes, uses, who is at work, rates; and the cache of a user."""

import json
import os
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from corpora import write_files
from killed_databases import kill_in_transaction
from limits import full_disk
from ragtrial.cache import vectors
from ragtrial.cache.arrays import map_file, read_array, write_array, write_rows
from ragtrial.cache.bookkeeping import FileDigests, Presence, Rates
from ragtrial.cache.fingerprints import file_digest
from ragtrial.cache.seals import SEAL, DamagedError, check_bytes, check_sizes, seal
from ragtrial.cache.upkeep import Upkeep
from ragtrial.cache.vectors import VectorCache, is_on_network, text_keys
from ragtrial.cache.workspace import default_workspace
from small_experiment import CONFIG, ragtrial, small_experiment


@pytest.fixture
def sealed(tmp_path: Path) -> Path:
    folder = write_files(tmp_path / "stage", {"a.bin": b"abc", "sub/b.bin": b"", "c.json": b"{}"})
    seal(folder, "what it is")
    return folder


@given(st.data())
def test_every_byte_flipped_in_a_seal_is_seen(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = write_files(tmp_path_factory.mktemp("stage"), {"a.bin": bytes(range(50)), "b.bin": b"xyz"})
    stands = Path("kind/stage")
    seal(folder, "what it is", 1.5, {"chunker.size": 100}, stands=stands)
    before = check_bytes(folder, stands=stands)
    path = folder / data.draw(st.sampled_from(["a.bin", "b.bin", SEAL]))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    path.write_bytes(bytes(content))
    try:
        assert check_bytes(folder, stands=stands) == before
        pytest.fail("a flipped byte was not seen")
    except DamagedError:
        pass


@pytest.mark.parametrize("moved", ["another/stage", "kind/other"])
def test_a_seal_that_stands_elsewhere_is_that_of_another_stage(tmp_path: Path, moved: str) -> None:
    folder = write_files(tmp_path / "kind" / "stage", {"a.bin": b"abc"})
    seal(folder, "what it is")
    (tmp_path / moved).parent.mkdir(exist_ok=True)
    folder.rename(tmp_path / moved)
    with pytest.raises(DamagedError, match="it is another stage: kind stage"):
        check_sizes(tmp_path / moved)


def fault_of(check: Callable[[Path], object], folder: Path) -> str | None:
    try:
        check(folder)
    except DamagedError as error:
        return str(error)
    return None


@pytest.mark.parametrize(("file", "content", "fault"), [
    ("a.bin", None, "a.bin is missing"),
    ("a.bin", b"ab", "a.bin has 2 bytes and had 3"),
    ("a.bin", b"abcd", "a.bin has 4 bytes and had 3"),
    ("a.bin", b"abd", "a.bin has other bytes than it had"),
    ("more.bin", b"of another stage", "more.bin does not belong to it"),
])  # fmt: skip
def test_what_differs_from_the_seal_is_named(sealed: Path, file: str, content: bytes | None, fault: str) -> None:
    (sealed / "a.bin").unlink() if content is None else (sealed / file).write_bytes(content)
    assert fault_of(check_bytes, sealed) == fault
    assert fault_of(check_sizes, sealed) == (None if content in (b"abd", b"of another stage") else fault)


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"7", b"{}", b'{"files": {"a": [1]}}', b'{"files": 3}'])
def test_a_seal_that_cannot_be_read_is_damage(sealed: Path, content: bytes) -> None:
    (sealed / SEAL).write_bytes(content)
    with pytest.raises(DamagedError, match=r"^stage\.json cannot be read: "):
        check_sizes(sealed)


def test_a_database_may_change_its_bytes_as_long_as_its_rows_are_the_same(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rows (value TEXT)")
        database.execute("CREATE TABLE acquire_write (id INTEGER)")
        database.executemany("INSERT INTO rows VALUES (?)", [("x" * 100,)] * 1_000)
        database.commit()
        seal(tmp_path, "database")
        database.execute("INSERT INTO acquire_write VALUES (1)")
        database.commit()
    check_bytes(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content.replace(b"xxxx", b"xxyx", 1))
    check_sizes(tmp_path)
    with pytest.raises(DamagedError, match=r"^some\.sqlite3 has other bytes than it had$"):
        check_bytes(tmp_path)
    path.write_bytes(content[:4_096] + b"\xff" * 4_096 + content[8_192:])  # the page of a table's root
    with pytest.raises(DamagedError, match=r"^some\.sqlite3: "):
        check_bytes(tmp_path)
    path.write_bytes(b"not a database" * 10_000)
    with pytest.raises(DamagedError, match=r"^some\.sqlite3: file is not a database$"):
        check_bytes(tmp_path)
    path.write_bytes(b"")
    with pytest.raises(DamagedError, match=r"^some\.sqlite3 has 0 bytes and had "):
        check_sizes(tmp_path)


def test_a_database_whose_process_was_killed_while_it_wrote_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "some.sqlite3"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE rows (value TEXT)")
        database.commit()
    seal(tmp_path, "database")
    kill_in_transaction(path)
    check_bytes(tmp_path)
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == [("rows",)]


@pytest.fixture
def old_file(tmp_path: Path) -> Path:
    """A file that has been left alone for a while, as far as its times tell."""
    path = tmp_path / "weights.bin"
    path.write_bytes(b"first")
    return path


class Clock:
    """Time that passes when it is given to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead = 0
        real = time.time_ns
        monkeypatch.setattr("ragtrial.cache.bookkeeping.time.time_ns", lambda: real() + self.ahead)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock, ten seconds ahead: whatever was just written is taken for settled."""
    clock = Clock(monkeypatch)
    clock.ahead = 10_000_000_000
    return clock


@pytest.fixture
def hashed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of files that were read to be hashed."""
    names: list[str] = []

    def digest(path: Path) -> str:
        names.append(path.name)
        return file_digest(path)

    monkeypatch.setattr("ragtrial.cache.bookkeeping.file_digest", digest)
    return names


def test_a_file_left_alone_is_hashed_once(tmp_path: Path, old_file: Path, later: Clock, hashed: list[str]) -> None:
    digests = FileDigests(tmp_path / "digests.json")
    assert digests.digest(old_file) == digests.digest(old_file) == file_digest(old_file)
    assert hashed == ["weights.bin"]
    digests.save()
    assert FileDigests(tmp_path / "digests.json").digest(old_file) == file_digest(old_file)
    assert hashed == ["weights.bin"]


def test_a_file_that_was_changed_just_now_is_not_remembered(tmp_path: Path, old_file: Path, hashed: list[str]) -> None:
    digests = FileDigests(tmp_path / "digests.json")
    digests.digest(old_file)
    digests.digest(old_file)
    assert hashed == ["weights.bin"] * 2
    digests.save()
    assert not (tmp_path / "digests.json").exists()


def test_no_damage_of_the_memory_gives_a_wrong_hash(tmp_path: Path, old_file: Path, later: Clock) -> None:
    path = tmp_path / "digests.json"
    digests = FileDigests(path)
    right = digests.digest(old_file)
    digests.save()
    written = path.read_bytes()
    for place in range(len(written)):
        path.write_bytes(written[:place] + bytes([written[place] ^ 1]) + written[place + 1 :])
        assert FileDigests(path).digest(old_file) == right
        path.write_bytes(written[:place])
        assert FileDigests(path).digest(old_file) == right


def rewrite(path: Path) -> None:
    """Other bytes of the same length, and the time of the change set back."""
    before = path.stat()
    path.write_bytes(b"other")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_mtime_ns == before.st_mtime_ns


def replace(path: Path) -> None:
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(b"other")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(path)


def lengthen(path: Path) -> None:
    path.write_bytes(b"first and more")


@pytest.mark.parametrize("change", [rewrite, replace, lengthen])
def test_a_changed_file_is_hashed_again_at_any_time(tmp_path: Path, old_file: Path, later: Clock, change: Any) -> None:
    digests = FileDigests(tmp_path / "digests.json")
    first = digests.digest(old_file)
    digests.save()
    change(old_file)
    assert file_digest(old_file) != first
    assert digests.digest(old_file) == file_digest(old_file)
    assert FileDigests(tmp_path / "digests.json").digest(old_file) == file_digest(old_file)


def test_many_may_be_present_and_only_the_last_can_be_alone(tmp_path: Path) -> None:
    first, second = Presence(tmp_path / "in-use"), Presence(tmp_path / "in-use")
    assert not first.become_alone()
    assert not second.become_alone()
    second.close()
    assert first.become_alone()
    first.close()
    assert Presence(tmp_path / "in-use").become_alone()


def test_who_comes_while_another_is_alone_waits_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As a run does while `cache prune` removes something."""
    alone = Presence(tmp_path / "in-use")
    assert alone.become_alone()
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(Presence, tmp_path / "in-use")
        end = time.monotonic() + 10
        while not caplog.messages and time.monotonic() < end:
            time.sleep(0.01)
        is_waiting = not waiting.done()
        alone.close()
        waiting.result(timeout=60).close()
    assert is_waiting
    assert caplog.messages == [f"waiting for what is being removed from {tmp_path}"]


@given(
    arrays.arrays(
        dtype=st.sampled_from([np.int32, np.int64, np.uint8, np.float32]),
        shape=arrays.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=5),
    )
)
def test_an_array_comes_back_as_it_was(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray[Any, Any]) -> None:
    path = tmp_path_factory.mktemp("arrays") / "a.npy"
    write_array(path, array)
    for found in (read_array(path), np.load(path)):
        assert (found.dtype, found.shape, found.tobytes()) == (array.dtype, array.shape, array.tobytes())
    np.save(path, array)
    assert read_array(path).tobytes() == array.tobytes()


@pytest.mark.parametrize("length", [100, 100_000])
def test_an_array_that_is_read_or_mapped_cannot_be_changed(tmp_path: Path, length: int) -> None:
    write_array(tmp_path / "a.npy", np.arange(length))
    (tmp_path / "b.bin").write_bytes(np.arange(length).tobytes())
    for found in (read_array(tmp_path / "a.npy"), map_file(tmp_path / "b.bin", np.dtype(np.int64), length)):
        assert found.tolist() == list(range(length))
        with pytest.raises(ValueError, match="read-only"):
            found[0] = 1


def test_a_full_disk_is_an_error_with_its_reason(tmp_path: Path) -> None:
    with full_disk(10_000):
        with pytest.raises(OSError, match="File too large"):
            write_array(tmp_path / "a.npy", np.zeros(100_000))
        with pytest.raises(OSError, match="File too large"):
            write_rows(tmp_path / "b.npy", (np.zeros((100, 8), np.float32) for _ in range(100)), (10_000, 8))


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"junk" * 100, b"\x93NUMPY\x02\x00" + b"x" * 100])
def test_what_is_no_array_is_a_value_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"magic|header|version"):
        read_array(tmp_path / "a.npy")


@pytest.mark.parametrize(("length", "fault"), [(100, "npy ends after 799 of 800 bytes"), (100_000, "mmap length")])
def test_an_array_that_was_cut_is_a_value_error(tmp_path: Path, length: int, fault: str) -> None:
    write_array(tmp_path / "a.npy", np.arange(length))
    content = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "a.npy").write_bytes(content[:-1])
    with pytest.raises(ValueError, match=fault):
        read_array(tmp_path / "a.npy")


def note_many(path: Path, work: str) -> None:
    for _ in range(20):
        Rates(path).note(work, 10, 5)


def test_what_was_noted_last_counts_in_this_run_and_the_next(tmp_path: Path) -> None:
    rates = Rates(tmp_path / "rates.json")
    assert (rates.seconds("w", 4), rates.seconds("w", 0)) == (None, 0.0)
    rates.note("w", 10, 5)
    assert rates.seconds("w", 4) == 2.0
    rates.note("w", 5, 5)
    assert rates.seconds("w", 4) == 4.0
    rates.note("w", 0, 1)
    assert Rates(tmp_path / "rates.json").seconds("w", 4) == 4.0


def test_two_processes_lose_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    with ProcessPoolExecutor(2) as processes:
        list(processes.map(note_many, [path, path], ["a", "b"]))
    assert json.loads(path.read_text())["kept"] == {"a": 0.5, "b": 0.5}


@pytest.mark.parametrize("content", ["", "{", "[]", "3", '{"w": "a"}', '{"w": [1, 1]}', "\udcff"])
def test_a_damaged_file_holds_no_rates_and_is_written_anew(tmp_path: Path, content: str) -> None:
    path = tmp_path / "rates.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    rates = Rates(path)
    assert rates.seconds("w", 2) is None
    rates.note("w", 2, 4)
    assert Rates(path).seconds("w", 1) == 2.0


MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
me@host: /mnt/my\\040files fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(("path", "expected"), [
    ("/home/me/.cache/ragtrial/vectors/a.sqlite", True),
    ("/home/local/cache", False),
    ("/var/cache", False),
    ("/homes/me", False),
    ("/mnt/my files/cache", True),
])  # fmt: skip
def test_a_path_has_a_nearest_mount(path: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MOUNTS", tmp_path / "mounts")
    assert not is_on_network(Path(path))  # no list of mounts, as on macOS
    (tmp_path / "mounts").write_text("proc /proc proc rw 0 0\n")
    assert not is_on_network(Path(path))  # nothing above the path, as in a chroot
    (tmp_path / "mounts").write_text(MOUNTS)
    assert is_on_network(Path(path)) is expected


@pytest.mark.parametrize(("kind", "journal"), [("nfs4", "delete"), ("ext4", "wal")])
def test_vectors_on_a_network_need_no_shared_memory(
    kind: str, journal: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mounts").write_text(f"x {tmp_path} {kind} rw 0 0\n")
    monkeypatch.setattr(vectors, "MOUNTS", tmp_path / "mounts")
    file = tmp_path / "vectors" / "model.sqlite"
    with VectorCache(file) as cache:
        cache.write(text_keys(["a", "b"]), np.eye(2, dtype=np.float32))
        assert file.with_name("model.sqlite-shm").exists() == (journal == "wal")
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA journal_mode").fetchone() == (journal,)
        assert database.execute("SELECT count(*) FROM vectors").fetchone() == (2,)
    for later in (kind, kind, "ext4", kind):  # a folder may be mounted otherwise later
        (tmp_path / "mounts").write_text(f"x {tmp_path} {later} rw 0 0\n")
        monkeypatch.setattr(vectors, "_checked", set())  # as in another process
        with VectorCache(file) as cache:
            assert len(cache) == 2


def test_the_environment_names_the_cache(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert default_workspace(tmp_path) == own_cache
    (tmp_path / ".ragtrial").mkdir()
    assert default_workspace(tmp_path) == tmp_path / ".ragtrial"
    monkeypatch.setenv("RAGTRIAL_WORKSPACE", str(tmp_path / "named"))
    assert default_workspace(tmp_path) == tmp_path / "named"
    monkeypatch.setenv("RAGTRIAL_WORKSPACE", "~/named")
    assert default_workspace(tmp_path) == Path(os.environ["HOME"], "named")


def test_documents_are_embedded_once(tmp_path: Path, own_cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("first", "second"):
        config = small_experiment(tmp_path / name, config=CONFIG.replace("small", name))
        assert ragtrial(capsys, "run", config, "-q").code == 0
    (embeddings,) = own_cache.glob("embeddings/*")
    (entry,) = (one for one in Upkeep(own_cache).entries() if one.path == embeddings)
    assert entry.experiments == ("first", "second")
    assert not list(tmp_path.rglob(".ragtrial"))
