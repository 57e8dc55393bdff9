"""A remote cache that anyone may have written: what is wrong is named and skipped, and the rest is fetched."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrial.cache.fingerprints import checksum, fingerprint
from ragtrial.cache.seals import seal
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.cache.workspace import Workspace

KEY, OTHER, MODEL = "a" * 32, "b" * 32, "c" * 32
SOURCE = Path(__file__).parents[2] / "src"
MEGABYTES = 300


def put(remote: Path, content: bytes) -> tuple[int, str]:
    """An object of ``content``, as a list of files names it."""
    digest = checksum(content)
    (remote / "objects").mkdir(parents=True, exist_ok=True)
    (remote / "objects" / digest).write_bytes(content)
    return len(content), digest


def stage(remote: Path, key: str = KEY, kind: str = "chunks", **changes: Any) -> dict[str, Any]:
    """A stage as `cache push` sends it, with ``changes`` of its list; that list."""
    beside = remote.parent / "made" / kind / key
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    (beside / "x.bin").write_bytes(b"abc")
    seal(beside, f"a stage {key[:2]}")
    files = {path.name: list(put(remote, path.read_bytes())) for path in beside.iterdir()}
    manifest = {"what": f"a stage {key[:2]}", "experiments": ["e"], "files": files} | changes
    return write_list(remote, f"stages/{kind}/{key}.json", manifest)


def write_list(remote: Path, name: str, manifest: dict[str, Any]) -> dict[str, Any]:
    path = remote / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**manifest, "checksum": fingerprint(manifest)}))
    return manifest


def with_file(name: str, size: int | None = None, content: bytes = b"x") -> Callable[[Path], None]:
    """A stage with one more file of this name, of another size than it has if ``size`` is given."""

    def write(remote: Path) -> None:
        files = stage(remote)["files"]
        real, digest = put(remote, content)
        stage(remote, files={**files, name: [real if size is None else size, digest]})

    return write


def changed(**changes: Any) -> Callable[[Path], None]:
    def write(remote: Path) -> None:
        stage(remote, **changes)

    return write


def text(content: str | bytes) -> Callable[[Path], None]:
    """A list of files that is this text."""

    def write(remote: Path) -> None:
        path = remote / "stages" / "chunks" / f"{KEY}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def sparse(remote: Path) -> None:
    """An object that is said to have one byte, and has three billion."""
    with_file("y.bin")(remote)
    with (remote / "objects" / checksum(b"x")).open("r+b") as file:
        file.truncate(3_000_000_000)


def fifo(remote: Path) -> None:
    with_file("y.bin")(remote)
    (remote / "objects" / checksum(b"x")).unlink()
    os.mkfifo(remote / "objects" / checksum(b"x"))


def of_kind(kind: str) -> Callable[[Path], None]:
    def write(remote: Path) -> None:
        stage(remote, kind=kind)

    return write


def moved_seal(remote: Path) -> None:
    """A whole stage under the name of another one."""
    manifest = stage(remote, OTHER)
    write_list(remote, f"stages/chunks/{KEY}.json", manifest)
    (remote / "stages" / "chunks" / f"{OTHER}.json").unlink()


def pack(change: str = "", *, kind: str = "vectors", keys: int = 3, name: str = MODEL) -> Callable[[Path], None]:
    """A pack of three vectors, changed by SQL, whose list of keys has ``keys``."""

    def write(remote: Path) -> None:
        path = remote.parent / "made" / "rows.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        known = text_keys(["one", "two", "three"])
        with VectorCache(path, "a model", name=name) as cache:
            cache.keep_probe("one", np.ones(4, np.float32))
            cache.write(known, np.ones((3, 4), np.float32))
        with closing(sqlite3.connect(path)) as database:
            database.executescript(change)
            database.commit()
        send(remote, path.read_bytes(), kind, known.tobytes()[: 16 * keys])

    return write


def send(remote: Path, content: bytes, kind: str = "vectors", keys: bytes = b"k" * 32) -> None:
    folder = remote / "rows" / kind / MODEL
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{checksum(content)}.sqlite").write_bytes(content)
    (folder / f"{checksum(content)}.keys").write_bytes(keys)


ENDLESS = """
DROP TABLE vectors;
CREATE VIEW vectors AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
SELECT randomblob(16) AS key, zeroblob(16) AS vector, 1 AS crc, x'' AS cost FROM n;
"""


def vector_of(value: float, dimension: int = 4) -> Callable[[Path], None]:
    """A pack of one vector with the checksum of a sound one."""

    def write(remote: Path) -> None:
        path = remote.parent / "made" / "rows.sqlite"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        keys = text_keys(["one", "two"])
        with VectorCache(path, "a model", name=MODEL) as cache:
            cache.write(keys[:1], np.full((1, dimension), value, np.float32))
            cache.write(keys[1:], np.ones((1, 4), np.float32))
        send(remote, path.read_bytes(), keys=keys.tobytes())

    return write


def answers(content: str | bytes) -> Callable[[Path], None]:
    def write(remote: Path) -> None:
        data = content.encode() if isinstance(content, str) else content
        folder = remote / "rows" / "answers" / MODEL
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{checksum(data)}.jsonl").write_bytes(data)

    return write


def remote_file(name: str) -> Callable[[Path], None]:
    content = json.dumps({"kind": "qdrant", "collection": "production", "place": {"url": "http://127.0.0.1:9"}})
    return with_file(name, content=content.encode())


DEEP = "[" * 200_000
PULLS: Mapping[str, Callable[[Path], None]] = {
    "a list that is not JSON": text("{"),
    "an empty list": text(""),
    "a list in other bytes": text(b"\xff\xfe\x00"),
    "a list that is a list": text("[]"),
    "a list that is a number": text("7"),
    "a list that is null": text("null"),
    "a list that is 200,000 deep": text(DEEP),
    "a list of 200,000 deep files": text('{"files": ' + DEEP),
    "a list with an integer of 5,000 digits": text('{"files": {}, "checksum": ' + "1" * 5_000 + "}"),
    "a list with an infinite number": text('{"what": 1e999, "files": {}, "checksum": ""}'),
    "a list without a checksum": text('{"what": "x", "experiments": [], "files": {}}'),
    "a list of 40 MB": text(b" " * 40_000_000),
    "a gzip bomb for a list": text(gzip.compress(b"[" * 10_000_000)),
    "experiments that are null": changed(experiments=None),
    "experiments that are a number": changed(experiments=3),
    "experiments of numbers": changed(experiments=[1, 2]),
    "files that are a list": changed(files=["x.bin"]),
    "files that are null": changed(files=None),
    "no files": changed(files={}),
    "a file of a short tuple": changed(files={"x.bin": [3]}),
    "a file of a long tuple": changed(files={"x.bin": [3, "0" * 32, 1]}),
    "a size that is a text": changed(files={"x.bin": ["3", "0" * 32]}),
    "a size that is true": changed(files={"x.bin": [True, "0" * 32]}),
    "a negative size": with_file("y.bin", -1),
    "a size that is too small": with_file("y.bin", 0),
    "a size that is too large": with_file("y.bin", 2),
    "a checksum that is a path": changed(files={"x.bin": [3, "../../etc/passwd"]}),
    "a checksum of no object": changed(files={"x.bin": [3, "0" * 32], "stage.json": [3, "1" * 32]}),
    "no words": changed(what=None),
    "words that are a list": changed(what=["a"]),
    "no seal": changed(files={"x.bin": [1, "0" * 32]}),
    "a file without a name": with_file(""),
    "a file that is the folder": with_file("."),
    "a file above the folder": with_file("../x.bin"),
    "a file of an absolute path": with_file("/tmp/x.bin"),
    "a file with a backslash": with_file("..\\x.bin"),
    "a file with NUL": with_file("x\0y"),
    "a file with an escape": with_file("x\x1b[2Jy"),
    "a file with half a character": with_file("x\ud800y"),
    "a file of 300 letters": with_file("x" * 300),
    "a file 600 folders deep": with_file("x/" * 600 + "y"),
    "a file below a file": with_file("x.bin/y"),
    "a file in two cases": with_file("X.bin"),
    "a file that is not sealed": with_file("probe.json"),
    "a server": remote_file("remote.json"),
    "a server in capitals": remote_file("Remote.JSON"),
    "a server in a folder": remote_file("deep/remote.json"),
    "a folder named like a server": remote_file("remote.json/x"),
    "an object of 3 GB for a byte": sparse,
    "an object that is a pipe": fifo,
    "a stage under another name": moved_seal,
    "a stage of marks": of_kind("uses"),
    "a stage of locks": of_kind("locks"),
    "a stage among vectors": of_kind("vectors"),
    "a stage of latencies": of_kind("latency"),
    "a pack that is an endless view": pack(ENDLESS),
    "a pack with one more view": pack("CREATE VIEW more AS SELECT 1"),
    "a pack with a trigger": pack("CREATE TRIGGER t AFTER INSERT ON vectors BEGIN DELETE FROM about; END"),
    "a pack with a computed column": pack("ALTER TABLE about ADD COLUMN x AS (zeroblob(1000000000))"),
    "a pack without rows' table": pack("DROP TABLE vectors"),
    "a pack of another model": pack(name=OTHER),
    "a pack with more rows than keys": pack(keys=1),
    "a pack with a changed row": pack("UPDATE vectors SET vector = zeroblob(16)"),
    "a pack with a text for a row": pack("UPDATE vectors SET vector = 'aaaa'"),
    "a pack with a changed checksum": pack("UPDATE vectors SET crc = 1"),
    "a pack that is no database": lambda remote: send(remote, b"no database " * 100),
    "a pack that is cut": lambda remote: send(remote, b"SQLite format 3\0" + bytes(5_000)),
    "a pack of infinite numbers": vector_of(float("inf")),
    "a pack without numbers": vector_of(float("nan")),
    "a pack of two dimensions": vector_of(1.0, 3),
    "a pack with a cut list of keys": lambda remote: send(remote, b"x", keys=b"k" * 17),
    "a pack of documents": pack(kind="documents"),
    "answers that are no JSON": answers("{\n"),
    "answers 100,000 deep": answers(DEEP[:100_000]),
    "answers that are numbers": answers("1\n2\n"),
    "answers without hits": answers('{"query": "q", "asked": 1, "unlocated": 0}\n'),
    "answers with more keys": answers('{"key": "k", "reply": {}, "more": 1}\n'),
    "answers in one line of 5 MB": answers('{"key": "k", "reply": "' + "x" * 5_000_000 + '"}'),
}


@pytest.fixture(scope="module")
def remotes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each hostile remote, in which there is a sound stage, too."""
    root = tmp_path_factory.mktemp("remotes")
    for number, write in enumerate(PULLS.values()):
        remote = root / str(number) / "remote"
        write(remote)
        stage(remote, "d" * 32, "documents")
    return root


PULL = """
import json, resource, sys, time
from pathlib import Path
from ragtrial.cache.sharing import SharedCache
from ragtrial.cache.workspace import Workspace
root = Path(sys.argv[1])
SharedCache(str(root / "none")).listed()
start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for number in range(int(sys.argv[2])):
    began = time.process_time()
    shared, workspace = SharedCache(str(root / str(number) / "remote")), Workspace(root / str(number) / "workspace")
    done = shared.pull(workspace, shared.listed())
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - start) / 1024
    print(json.dumps([done.damaged, done.moved, more, time.process_time() - began]), flush=True)
"""


@pytest.fixture(scope="module")
def outcomes(remotes: Path) -> list[tuple[list[list[str]], list[str], float, float]]:
    """Of each remote, in one process: what was wrong, what was fetched, the memory so far, and the seconds."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(remotes)}
    done = subprocess.run([sys.executable, "-c", PULL, str(remotes), str(len(PULLS))], env=environment, text=True,
                          capture_output=True, check=False, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", PULLS)
def test_a_hostile_entry_is_named_and_skipped_and_the_rest_is_fetched(
    remotes: Path, outcomes: list[tuple[list[list[str]], list[str], float, float]], name: str
) -> None:
    number = list(PULLS).index(name)
    damaged, moved, megabytes, seconds = outcomes[number]
    assert len(damaged) >= 1
    assert all(what and why for what, why in damaged)
    assert "a stage dd" in moved
    assert megabytes < MEGABYTES
    assert seconds < 10
    workspace = Workspace(remotes / str(number) / "workspace")
    assert not workspace.path("chunks", KEY).exists()
    for path in (workspace.root / "vectors").glob("*.sqlite"):
        with VectorCache(path) as cache:
            assert len(cache) == 0
    assert not list((workspace.root / "answers").glob("*"))
    assert not list(workspace.root.rglob("[rR][eE][mM][oO][tT][eE].[jJ]*"))
    assert not list(workspace.root.glob("*/.partial-*"))


def test_nothing_is_left_beside_the_workspaces(
    remotes: Path, outcomes: list[tuple[list[list[str]], list[str], float, float]]
) -> None:
    assert {path.name for path in remotes.iterdir()} == {str(number) for number in range(len(PULLS))}
    assert len(outcomes) == len(PULLS) >= 60
