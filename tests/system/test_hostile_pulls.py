"""A remote cache that anyone may have written: what is wrong is named and skipped, and the rest is fetched."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ragtrial.cache.fingerprints import checksum
from ragtrial.cache.seals import seal
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.cache.workspace import Workspace

KEY, OTHER, MODEL = "a" * 32, "b" * 32, "c" * 32
SOURCE = Path(__file__).parents[2] / "src"
MEGABYTES = 300
Outcomes = list[tuple[list[list[str]], list[str], float, float]]
VECTORS = np.ones((3, 4), np.float32)
NEGATIVE = b"\xf0" + b"\xff" * 7
LENGTHS, UNEQUAL = np.full(4, 16, np.int64).tobytes(), np.array([12, 20], np.int64).tobytes()


def stage(
    remote: Path,
    key: str = KEY,
    kind: str = "chunks",
    line: str | bytes | None = None,
    more: Mapping[str, bytes] | None = None,
) -> None:
    """A stage as `cache push` sends it, with ``more`` files, or with another ``line`` before its bytes."""
    beside = remote.parent / "made" / kind / key
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    (beside / "empty").touch()
    (beside / "x.bin").write_bytes(b"abc")
    seal(beside, f"a stage {key[:2]}")
    files = {path.name: path.read_bytes() for path in sorted(beside.iterdir())} | dict(more or {})
    if line is None:
        line = json.dumps({name: len(content) for name, content in files.items()})
    line = line.encode() if isinstance(line, str) else line
    content = b"".join([len(line).to_bytes(8, "little"), line, *files.values()])
    path = remote / "stages" / kind / key
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def changed(change: Callable[[bytes], bytes], remote: Path) -> None:
    """A stage whose bytes are changed."""
    stage(remote)
    path = remote / "stages" / "chunks" / KEY
    path.write_bytes(change(path.read_bytes()))


def grown(write: Callable[[Path], None], pattern: str, remote: Path) -> None:
    """The object with this name has three billion bytes."""
    write(remote)
    os.truncate(next(remote.rglob(pattern)), 3_000_000_000)


def fifo(remote: Path) -> None:
    """A pipe, which is not opened, beside a stage without a seal."""
    stage(remote, line="{}")
    os.mkfifo(remote / "stages" / "chunks" / OTHER)


def moved_seal(remote: Path) -> None:
    """A whole stage under the name of another one."""
    stage(remote, OTHER)
    (remote / "stages" / "chunks" / OTHER).rename(remote / "stages" / "chunks" / KEY)


def pack(
    remote: Path, change: Callable[[bytes], bytes] = lambda content: content, kind: str = "vectors", keys: int = 3,
    model: str = MODEL, vectors: npt.NDArray[Any] = VECTORS,
) -> None:  # fmt: skip
    """A pack of three vectors as `cache push` sends it, changed, whose list of keys has ``keys``."""
    probe = {"model": model, "what": "a model", "probe": "one"}
    lengths = np.full(len(vectors) + 1, vectors[0].nbytes, np.int64)
    costs = np.full((len(vectors), 2), np.nan)
    columns = (lengths, costs, np.ones(vectors.shape[1], np.float32), vectors)
    content = b"\n".join([json.dumps(probe).encode(), b"".join(column.tobytes() for column in columns)])
    send(remote, change(content), kind, text_keys(["one", "two", "three"]).tobytes()[: 16 * keys])


def send(remote: Path, content: bytes, kind: str = "vectors", keys: bytes = b"k" * 32) -> None:
    folder = remote / "rows" / kind / MODEL
    folder.mkdir(parents=True, exist_ok=True)
    digest = checksum(keys, content)
    (folder / f"{digest}.rows").write_bytes(content)
    (folder / f"{digest}.keys").write_bytes(keys)


def other_checksum(remote: Path) -> None:
    pack(remote)
    for path in (remote / "rows" / "vectors" / MODEL).iterdir():
        path.rename(path.with_stem("0" * 32))


def with_number(number: float) -> npt.NDArray[Any]:
    vectors = VECTORS.copy()
    vectors[1, 2] = number
    return vectors


def answers(content: str, remote: Path) -> None:
    folder = remote / "rows" / "answers" / MODEL
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{checksum(content.encode())}.jsonl").write_text(content)


SERVER = b'{"kind": "qdrant", "collection": "production", "place": {"url": "http://127.0.0.1:9"}}'
DEEP = "[" * 200_000
PULLS: Mapping[str, Callable[[Path], None]] = {
    "a list that is not JSON": partial(stage, line="{"),
    "a list in other bytes": partial(stage, line=b"\xff\xfe\x00"),
    "a list that is a list": partial(stage, line="[]"),
    "a list of 200,000 deep files": partial(stage, line='{"x.bin": ' + DEEP),
    "a list with an integer of 5,000 digits": partial(stage, line='{"x.bin": ' + "1" * 5_000 + "}"),
    "a list with an infinite number": partial(stage, line='{"x.bin": 1e999}'),
    "a list of 40 MB": partial(stage, line=b" " * 40_000_000),
    "a gzip bomb for a list": partial(stage, line=gzip.compress(b"[" * 10_000_000)),
    "no files": partial(stage, line="{}"),
    "a file of a tuple": partial(stage, line='{"x.bin": [3]}'),
    "a size that is true": partial(stage, line='{"x.bin": true}'),
    "a negative size": partial(stage, line='{"x.bin": -1}'),
    "a size that is too small": partial(stage, line='{"x.bin": 2}'),
    "a size that is too large": partial(stage, line='{"x.bin": 3000000000}'),
    "an object that is cut": partial(changed, lambda content: content[:-1]),
    "a changed byte": partial(changed, lambda content: content[:-1] + b"X"),
    "a changed byte of the seal": partial(changed, lambda content: content.replace(b'"what": "a', b'"what": "b')),
    "no seal": partial(changed, lambda _: bytes([12, *bytes(7)]) + b'{"x.bin": 3}abc'),
    "a file without a name": partial(stage, more={"": b"x"}),
    "a file that is the folder": partial(stage, more={".": b"x"}),
    "a file above the folder": partial(stage, more={"../x.bin": b"x"}),
    "a file of an absolute path": partial(stage, more={"/tmp/x.bin": b"x"}),
    "a file with a backslash": partial(stage, more={"..\\x.bin": b"x"}),
    "a file with NUL": partial(stage, more={"x\0y": b"x"}),
    "a file with an escape": partial(stage, more={"x\x1b[2Jy": b"x"}),
    "a file with half a character": partial(stage, more={"x\ud800y": b"x"}),
    "a file of 300 letters": partial(stage, more={"x" * 300: b"x"}),
    "a file 600 folders deep": partial(stage, more={"x/" * 600 + "y": b"x"}),
    "a file below a file": partial(stage, more={"x.bin/y": b"x"}),
    "a file in two cases": partial(stage, more={"X.bin": b"x"}),
    "a file that is not sealed": partial(stage, more={"probe.json": b"x"}),
    "a server": partial(stage, more={"remote.json": SERVER}),
    "a server in capitals": partial(stage, more={"Remote.JSON": SERVER}),
    "a folder named like a server": partial(stage, more={"remote.json/x": SERVER}),
    "an object of 3 GB for a byte": partial(grown, stage, KEY),
    "an object that is a pipe": fifo,
    "a stage under another name": moved_seal,
    "a stage of marks": partial(stage, kind="uses"),
    "a stage of locks": partial(stage, kind="locks"),
    "a stage among vectors": partial(stage, kind="vectors"),
    "a stage of latencies": partial(stage, kind="latency"),
    "a pack of another model": partial(pack, model=OTHER),
    "a pack with fewer rows than keys": partial(pack, vectors=VECTORS[:2]),
    "a pack with more rows than keys": partial(pack, keys=1),
    "a pack that is cut": partial(pack, change=lambda content: content[:-1]),
    "a pack with a negative length": partial(pack, change=lambda content: content.replace(LENGTHS[:8], NEGATIVE)),
    "a pack without a model": partial(pack, change=lambda content: content.replace(b"model", b"medal")),
    "a pack whose probe is a number": partial(pack, change=lambda content: content.replace(b'"one"', b"12345")),
    "a pack that is no pack": partial(send, content=b"no pack " * 100),
    "a pack that begins 100,000 deep": partial(send, content=DEEP[:100_000].encode() + b"\n"),
    "a pack of 3 GB": partial(grown, pack, "*.rows"),
    "a pack under another checksum": other_checksum,
    "a pack of infinite numbers": partial(pack, vectors=with_number(float("inf"))),
    "a pack without numbers": partial(pack, vectors=with_number(float("nan"))),
    "a pack of two dimensions": partial(pack, change=lambda content: content.replace(LENGTHS, LENGTHS[8:-8] + UNEQUAL)),
    "a pack of another probe": partial(pack, vectors=-VECTORS),
    "a pack with a cut list of keys": partial(send, content=b"x", keys=b"k" * 17),
    "a pack of documents": partial(pack, kind="documents"),
    "answers 100,000 deep": partial(answers, DEEP[:100_000]),
    "answers that are numbers": partial(answers, "1\n2\n"),
    "answers without hits": partial(answers, '{"query": "q", "asked": 1, "unlocated": 0}\n'),
    "answers in one line of 5 MB": partial(answers, '{"key": "k", "reply": "' + "x" * 5_000_000 + '"}'),
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
def outcomes(remotes: Path) -> Outcomes:
    """Of each remote, in one process: what was wrong, what was fetched, the memory so far, and the seconds."""
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), "TMPDIR": str(remotes)}
    done = subprocess.run([sys.executable, "-c", PULL, str(remotes), str(len(PULLS))], env=environment, text=True,
                          capture_output=True, check=False, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("name", PULLS)
def test_a_hostile_entry_is_skipped_and_the_rest_is_fetched(remotes: Path, outcomes: Outcomes, name: str) -> None:
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


def test_nothing_is_left_elsewhere(remotes: Path, outcomes: Outcomes) -> None:
    assert {path.name for path in remotes.iterdir()} == {str(number) for number in range(len(PULLS))}
    assert len(outcomes) == len(PULLS) >= 50
