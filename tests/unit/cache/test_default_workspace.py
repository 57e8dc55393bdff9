"""The cache of a user: where it is, and that a second experiment finds it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from ragtrial.cache import vectors
from ragtrial.cache.upkeep import Upkeep
from ragtrial.cache.vectors import VectorCache, is_on_network, text_keys
from ragtrial.cache.workspace import default_workspace
from small_experiment import CONFIG, ragtrial, small_experiment

MOUNTS = """\
/dev/sda1 / ext4 rw 0 0
server:/home /home nfs4 rw 0 0
/dev/sdb1 /home/local xfs rw 0 0
me@host: /mnt/my\\040files fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/.cache/ragtrial/vectors/a.sqlite", True),
        ("/home/local/cache", False),
        ("/var/cache", False),
        ("/homes/me", False),
        ("/mnt/my files/cache", True),
    ],
)
def test_a_path_is_on_the_file_system_of_its_nearest_mount(
    path: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
