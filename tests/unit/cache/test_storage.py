"""Bytes under names: whole or not at all, once, by any number of processes."""

import os
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from corpora import write_files
from expectations import message_of
from limits import full_disk
from ragtrial.cache.atomic import new_folder, write_bytes, write_text
from ragtrial.cache.fingerprints import files_digest, fingerprint, text_key
from ragtrial.cache.vectors import Keys, VectorCache, text_keys
from ragtrial.cache.workspace import Workspace
from ragtrial.errors import WorkspaceError
from text_strategies import any_texts

PATIENCE = 60
"""Seconds after which a process that should have answered is taken for stuck."""


@contextmanager
def python(code: str, *arguments: object) -> Iterator[subprocess.Popen[str]]:
    """A Python process with pipes, killed at the end."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_written_file_replaces_the_old_one_and_can_be_read_by_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file"
    write_bytes(path, b"old and longer")
    write_text(path, "n\u00e9w\n")
    assert path.read_bytes() == b"n\xc3\xa9w\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert names_in(path.parent) == ["file"]


def test_a_write_that_fails_keeps_the_old_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"old")
    with full_disk(1000), pytest.raises(OSError, match="File too large"):
        write_bytes(path, b"x" * 5000)
    assert path.read_bytes() == b"old"
    assert names_in(tmp_path) == ["file"]


def test_a_new_folder_is_not_there_before_the_block_ends_and_whole_afterwards(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "target"
    with new_folder(target) as folder:
        write_files(folder, {"a": "A", "sub/b": "B"})
        assert not target.exists()
        assert folder.parent == target.parent  # the same disk, so that the rename is one step
    assert {path.relative_to(target).as_posix() for path in target.rglob("*")} == {"a", "sub", "sub/b"}
    assert (target / "sub" / "b").read_text() == "B"
    assert names_in(target.parent) == ["target"]
    assert target.stat().st_mode & 0o777 == 0o755


def test_a_folder_that_came_in_between_is_kept(tmp_path: Path) -> None:
    target = tmp_path / "target"

    def overtaken() -> None:
        with new_folder(target) as folder:
            write_files(folder, {"a": "mine"})
            write_files(target, {"a": "theirs"})

    with pytest.raises(FileExistsError, match="target is already there"):
        overtaken()
    assert (target / "a").read_text() == "theirs"
    assert names_in(tmp_path) == ["target"]


_json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), any_texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(any_texts, inner, max_size=4)),
    max_leaves=8,
)


def reordered(value: object) -> object:
    if isinstance(value, dict):
        return {key: reordered(inner) for key, inner in reversed(value.items())}
    return [reordered(inner) for inner in value] if isinstance(value, list) else value


@given(_json)
def test_the_order_of_keys_does_not_matter_at_any_depth(value: object) -> None:
    assert fingerprint(reordered(value)) == fingerprint(value)


def test_fingerprints_tell_values_apart_and_outlive_an_upgrade() -> None:
    values: list[object] = [
        *(None, True, False, 0, 1, 1.0, 1.5, -0.0, 0.0, "", "1", "true", "null", [], {}, [1], [[1]], [1, 2], [2, 1]),
        *({"a": 1}, {"a": 1.0}, {"a": "1"}, {"b": 1}, {"a": {"b": 1}}, {"a": 1, "b": 1}, ["a", 1], "\u00e9", "e\u0301"),
    ]
    assert len({fingerprint(value) for value in values}) == len(values)
    assert (
        fingerprint({"kind": "chunks", "size": [200, 0.5, None, True, "\u00e9"]}) == "3dde0e2f0523a2081343fb722a66e38a"
    )
    assert text_key("caf\u00e9").hex() == "9883c13e4279980fe3f262ea93047f84"


def test_digests_follow_bytes_and_workspaces_keep_a_gitignore(tmp_path: Path) -> None:
    def digest(name: str, files: dict[str, str]) -> str:
        root = write_files(tmp_path / name, files)
        return files_digest(root, [root / file for file in files])

    one = digest("one", {"a": "A", "b": "B"})
    assert digest("moved", {"b": "B", "a": "A"}) == one
    others = [digest("x", {"a": "B", "b": "A"}), digest("y", {"a": "A", "c": "B"}), digest("z", {"a": "AB", "b": ""})]
    assert len({one, *others}) == 4
    Workspace(tmp_path / "new")
    assert (tmp_path / "new" / ".gitignore").read_text() == "*\n"
    write_files(tmp_path / "old", {".gitignore": "build/\n"})
    Workspace(tmp_path / "old")
    assert (tmp_path / "old" / ".gitignore").read_text() == "build/\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    return Workspace(tmp_path / "workspace")


def no_build(folder: Path) -> None:
    pytest.fail(f"{folder} must not be built again")


def test_a_stage_is_built_once_or_says_how_to_mend_it(workspace: Workspace) -> None:
    assert not workspace.has("chunks", "abc")
    made = workspace.stage("chunks", "abc", "chunks", lambda folder: write_text(folder / "a", "A"))
    assert made == workspace.path("chunks", "abc") == workspace.root / "chunks" / "abc"
    assert workspace.has("chunks", "abc")
    assert workspace.stage("chunks", "abc", "chunks", no_build) == made
    assert Workspace(workspace.root).stage("chunks", "abc", "chunks", no_build) == made
    assert names_in(made) == ["a", "stage.json"]

    def build(folder: Path) -> None:
        with full_disk(100):
            (folder / "big").write_bytes(b"x" * 5000)

    assert message_of(WorkspaceError, workspace.stage, "chunks", "a", "chunks (small)", build) == (
        f"{workspace.root}/chunks/a cannot be written: File too large. Free space, mend permissions, or name another "
        "folder with `workspace:` or RAGTRIAL_WORKSPACE."
    )
    assert not workspace.has("chunks", "a")


@pytest.mark.parametrize("failure", [ValueError("broken"), KeyboardInterrupt()])
def test_a_build_that_fails_leaves_nothing_and_frees_the_stage(workspace: Workspace, failure: BaseException) -> None:
    def build(folder: Path) -> None:
        write_text(folder / "half", "x")
        raise failure

    with pytest.raises(type(failure)):
        workspace.stage("chunks", "a", "chunks (small)", build)
    assert not workspace.has("chunks", "a")
    assert names_in(workspace.root / "chunks") == []
    made = workspace.stage("chunks", "a", "chunks (small)", lambda folder: write_text(folder / "whole", ""))
    assert names_in(made) == ["stage.json", "whole"]


@pytest.mark.parametrize(
    "content", [b"", b"\xff", f"3 {fingerprint('3')}\n".encode(), f"2 {fingerprint('3')}\n".encode()]
)
def test_a_workspace_of_another_layout_is_an_error_and_stays_as_it_is(tmp_path: Path, content: bytes) -> None:
    root = tmp_path / "workspace"
    Workspace(root)
    assert (root / "LAYOUT").read_text() == f"2 {fingerprint('2')}\n"
    (root / "LAYOUT").write_bytes(content)
    with pytest.raises(WorkspaceError) as caught:
        Workspace(root)
    assert str(caught.value) == (
        f"{root} is no workspace of this ragtrial: its file LAYOUT is missing, damaged or of another version. Name "
        "another folder with `workspace:` or RAGTRIAL_WORKSPACE, or delete this one if it is a cache."
    )
    assert caught.value.exit_code == 3
    assert (root / "LAYOUT").read_bytes() == content


def keys_of(*numbers: int) -> Keys:
    return text_keys(map(str, numbers))


def vectors_of(*numbers: int, dimension: int = 4) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    """For each number a vector that only it has."""
    return np.array([[number + 0.1 * place for place in range(dimension)] for number in numbers], dtype=np.float32)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 30), unique=True), st.lists(st.integers(0, 30)))
def test_vectors_come_back_bit_for_bit_in_the_order_asked_for(written: list[int], asked: list[int]) -> None:
    asked = [number for number in asked if number in written]
    with tempfile.TemporaryDirectory() as folder, VectorCache(Path(folder) / "v.db") as cache:
        cache.write(keys_of(*written), vectors_of(*written).reshape(len(written), 4))
        found = cache.read(keys_of(*asked))
        assert found.dtype == np.float32
        assert found.tobytes() == vectors_of(*asked).tobytes()
        assert len(found) == len(asked)
        absent = cache.missing(keys_of(*range(31)))
        assert absent.tolist() == [number not in written for number in range(31)]
        assert len(cache) == len(written)
        assert cache.dimension() == (4 if written else None)
        assert cache.drop_damaged() == 0


def test_a_vector_that_is_missing_is_a_key_error_and_a_new_one_replaces_the_old(tmp_path: Path) -> None:
    with VectorCache(tmp_path / "v.db") as cache:
        cache.write(keys_of(1), vectors_of(1))
        with pytest.raises(KeyError):
            cache.read(keys_of(1, 2))
        cache.write(keys_of(1), vectors_of(9))
        assert np.array_equal(cache.read(keys_of(1)), vectors_of(9))
        assert cache.read(keys_of()).shape == (0, 0)
        assert cache.missing(keys_of()).shape == (0,)


def test_a_batch_that_finds_the_disk_full_is_not_written_at_all_and_the_cache_goes_on(tmp_path: Path) -> None:
    path, many = tmp_path / "v.db", range(1000)
    with VectorCache(path) as cache:
        cache.write(keys_of(-1), vectors_of(-1, dimension=64))
        with full_disk(100_000), pytest.raises(WorkspaceError, match=f"the embedding cache {path} cannot be used: "):
            cache.write(keys_of(*many), vectors_of(*many, dimension=64))
        assert cache.missing(keys_of(*many)).all()
        cache.write(keys_of(*many), vectors_of(*many, dimension=64))
        assert np.array_equal(cache.read(keys_of(-1, *many)), vectors_of(-1, *many, dimension=64))


def test_a_cache_that_is_no_database_is_made_anew_or_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "v.db"
    path.write_bytes(b"not a database " * 1000)
    assert message_of(WorkspaceError, VectorCache, path, as_it_is=True) == (
        f"the embedding cache {path} cannot be used: file is not a database. Free space or mend permissions; if the "
        "file is damaged, `ragtrial cache verify` removes it."
    )
    with VectorCache(path) as cache:
        assert len(cache) == 0
        cache.write(keys_of(1), vectors_of(1))
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} is damaged (v.db: file is not a database); it is made again."
    ]


def test_a_vector_with_other_bytes_is_missing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "v.db"
    with VectorCache(path) as cache:
        cache.write(keys_of(1, 2), vectors_of(1, 2))
    with closing(sqlite3.connect(path)) as database:
        database.execute("UPDATE vectors SET vector = zeroblob(length(vector)) WHERE key = ?", (keys_of(1).tobytes(),))
        database.commit()
    with VectorCache(path) as cache:
        assert not cache.missing(keys_of(1, 2), unchecked=True).any()
        with pytest.raises(KeyError):
            cache.read(keys_of(1))
        assert cache.missing(keys_of(1, 2)).tolist() == [True, False]
        assert np.array_equal(cache.read(keys_of(2)), vectors_of(2))
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} is damaged (1 row of other bytes, or of another model); it is made again."
    ]


def test_what_a_killed_writer_left_beside_a_file_goes_with_the_next_write_after_an_hour(tmp_path: Path) -> None:
    path, other = tmp_path / "labels.json", tmp_path / "labels.json.old"
    code = """
import os, signal, sys
from pathlib import Path
from ragtrial.cache.atomic import new_file
with new_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for written in (path, other):
        with python(code, written) as process:
            process.wait(PATIENCE)
    left, of_other = sorted(tmp_path.iterdir())
    write_text(path, "whole")
    assert sorted(tmp_path.iterdir()) == [left, of_other, path]
    for one in (left, of_other):
        os.utime(one, (0, 0))
    write_text(path, "again")
    assert path.read_text() == "again"
    assert sorted(tmp_path.iterdir()) == [of_other, path]
