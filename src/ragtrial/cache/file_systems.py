"""Which file system a folder is on: several machines may not write one SQLite file."""

from __future__ import annotations

from pathlib import Path

_NETWORK = frozenset({
    *("nfs", "nfs4", "cifs", "smb3", "lustre", "gpfs", "beegfs", "beegfs_nodev", "ceph", "afs", "orangefs", "panfs"),
    *("fuse.ceph", "fuse.glusterfs", "fuse.sshfs", "fuse.s3fs", "fuse.gcsfuse", "fuse.juicefs"),
})  # fmt: skip


def network_file_system(folder: Path, mounts: Path = Path("/proc/self/mounts")) -> str | None:
    """The type of the network file system that ``folder`` is on, such as nfs4; None if it is on none, or unknown.

    ``mounts`` lists the file systems, as Linux does.
    """
    try:
        lines = [line.split() for line in mounts.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return None
    where = folder.resolve()
    holding = [(_unescaped(fields[1]), fields[2]) for fields in lines if len(fields) > 2]
    holding = [(point, kind) for point, kind in holding if where.is_relative_to(point)]
    if not holding:
        return None
    deepest = max(len(Path(point).parts) for point, _ in holding)
    *_, kind = (kind for point, kind in holding if len(Path(point).parts) == deepest)  # the last one hides the others
    return kind if kind in _NETWORK else None


def _unescaped(point: str) -> str:
    """A mount point as it is; spaces and the like are written as octal numbers."""
    for code in ("040", "011", "012", "134"):
        point = point.replace(f"\\{code}", chr(int(code, 8)))
    return point
