"""The bookkeeping of a workspace: locks of the runs at work, uses of stages, and values remembered between runs."""

from __future__ import annotations

import json
import logging
import os
import shutil
import time
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from threading import Lock
from types import ModuleType
from typing import Any

from ragtrial.cache.atomic import remove_partial, write_text
from ragtrial.cache.fingerprints import file_digest, fingerprint

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: runs are not seen there, stages are locked all the same
    fcntl = None

_BEGAN, _FINISHED = "began", "finished"
_FROM = "@"

_SETTLED_NS = 2_000_000_000
"""The time that a file must be unchanged for: a change within the clock's resolution shows in nothing but its bytes."""

_WORTH_WRITING = 1.0
"""Seconds of work; a rate that was measured on less is written at the end of the run."""

logger = logging.getLogger(__name__)


def _flock(descriptor: int, *, exclusively: bool, waits: bool) -> None:
    """Lock an open file. Raises BlockingIOError if another process has locked it, unless this one ``waits``."""
    if fcntl is not None:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusively else fcntl.LOCK_SH) | (0 if waits else fcntl.LOCK_NB))


class Presence:
    """A shared lock on a file, held until it is closed, garbage-collected, or the process ends.

    The constructor waits while another process holds the lock exclusively.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        self.close = weakref.finalize(self, os.close, self._descriptor)
        """Release the lock; also done when the object is garbage-collected."""
        try:
            _flock(self._descriptor, exclusively=False, waits=False)
        except BlockingIOError:
            logger.warning("waiting for what is being removed from %s", path.parent)
            _flock(self._descriptor, exclusively=False, waits=True)

    def become_alone(self) -> bool:
        """Turn the shared lock into an exclusive one; False, and nothing changes, if other processes hold it."""
        try:
            _flock(self._descriptor, exclusively=True, waits=False)
        except OSError:
            _flock(self._descriptor, exclusively=False, waits=True)  # the change is not atomic: the lock may be lost
            return False
        return True


@contextmanager
def only_writer(folder: Path, name: str = "") -> Iterator[None]:
    """Wait for other writers to ``folder`` under this lock, and keep them waiting; the lock leaves no file.

    Unfinished files there belong to killed processes and are removed, unless the folder cannot be locked. In a folder
    that ragtrial does not own, ``name`` is the file to be written: no other unfinished file is touched.
    """
    with ExitStack() as stack:
        with suppress(OSError):
            descriptor = os.open(folder, os.O_RDONLY)
            stack.callback(os.close, descriptor)
            _flock(descriptor, exclusively=True, waits=True)
            if fcntl is not None:
                remove_partial(folder, name)
        yield


def hold_alone(descriptor: int) -> bool:
    """Lock an open file until it is closed, if no process has locked it. True also if there are no such locks."""
    try:
        _flock(descriptor, exclusively=True, waits=False)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


@dataclass(frozen=True)
class Use:
    """``experiment`` used the stage ``name`` of ``kind``, last at ``when`` (seconds since 1970).

    ``current`` says whether it did so in its last run that finished, or later.
    """

    kind: str
    name: str
    experiment: str
    when: float
    current: bool


class Usage:
    """The uses of the stages of a workspace: empty files ``<root>/<user>/<kind>-<name>``, whose times are the times of
    use.

    Uses that cannot be written are ignored.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def mark(self, kind: str, name: str, user: str) -> None:
        """``user`` uses the stage now."""
        self._touch(self._root / user / f"{kind}-{name}")

    def is_marked(self, kind: str, name: str, user: str | None = None) -> bool:
        """True if ``user``, or any experiment without one, has used the stage."""
        return any(self._root.glob(f"{'*' if user is None else escape(user)}/{kind}-{name}"))

    def begin(self, user: str) -> float:
        """When a run of ``user`` begins, by the clock that marks go by; 0 if that is not known."""
        path = self._root / user / _BEGAN
        self._touch(path)
        return time_of(path)

    def finish(self, user: str, since: float) -> None:
        """Note that a run of ``user``, begun at ``since``, is finished: it needs no stages that it did not use."""
        self._touch(self._root / user / _FINISHED, since)

    def uses(self) -> Iterator[Use]:
        """Every use, in no order."""
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            experiment = folder.name.partition(_FROM)[0]
            since = time_of(folder / _FINISHED)
            for path in folder.glob("*-*"):
                kind, _, name = path.name.partition("-")
                when = time_of(path)
                yield Use(kind, name, experiment, when, when >= since)

    def _touch(self, path: Path, when: float | None = None) -> None:
        """Give ``path`` the time of now, or ``when``."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            if when is not None:
                os.utime(path, (when, when))
        except OSError as error:
            logger.debug("the time of %s is not noted: %s", path, error)

    def forget(self, kind: str, name: str) -> None:
        """The stage is gone."""
        for path in self._root.glob(f"*/{kind}-{name}"):
            path.unlink(missing_ok=True)

    def forget_experiment(self, experiment: str) -> None:
        """``experiment`` needs nothing any more."""
        for folder in (self._root / experiment, *self._root.glob(f"{experiment}{_FROM}*")):
            shutil.rmtree(folder, ignore_errors=True)


def user(experiment: str, place: str) -> str:
    """The name of ``experiment`` among the users of a workspace. Experiments in other places may have the same name."""
    return f"{experiment}{_FROM}{fingerprint(place)[:8]}"


def time_of(path: Path) -> float:
    """When ``path`` was changed; 0 if it does not exist."""
    try:
        return path.stat().st_mtime
    except OSError:  # never there, or removed just now
        return 0.0


# --- values that may be lost: they are measured again


class KeptValues:
    """JSON values by name in the file ``path``, with a checksum.

    Values that cannot be read or written are ignored, and so is a damaged file: the values are measured again.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = self._read()
        self._new: dict[str, Any] = {}
        self._lock = Lock()

    def save(self) -> None:
        """Write new values; values that other processes have written since stay."""
        with self._lock:
            try:
                if self._new:
                    with only_writer(self._path.parent):
                        kept = self._read() | self._new
                        write_text(self._path, json.dumps({"kept": kept, "checksum": fingerprint(kept)}))
            except OSError as error:
                logger.debug("%s is not written: %s", self._path, error)
            self._new = {}

    def _set(self, name: str, value: Any) -> None:
        with self._lock:
            self._kept[name] = self._new[name] = value

    def _read(self) -> dict[str, Any]:
        try:
            content = json.loads(self._path.read_text(encoding="utf-8"))
            kept: dict[str, Any] = content["kept"]
            return kept if fingerprint(kept) == content["checksum"] else {}
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            return {}


class FileDigests(KeptValues):
    """Hashes of files by size, inode and times of change.

    A file is hashed again when any of these differ; setting back the modification time does not hide a change,
    because the time of the change of the inode shows it.
    """

    def digest(self, path: Path) -> str:
        """The hash of the bytes of ``path``, as ``file_digest`` gives it. Raises OSError."""
        real = os.path.realpath(path)
        state = _state(real)
        known = self._kept.get(real)
        if isinstance(known, list) and known[:-1] == state:
            return str(known[-1])
        digest = file_digest(path)
        if _state(real) == state and time.time_ns() - max(state[1:3]) > _SETTLED_NS:
            self._set(real, [*state, digest])
        return digest


class Rates(KeptValues):
    """Seconds per unit by the name of the work, as it went last."""

    def note(self, work: str, amount: float, seconds: float) -> None:
        """``amount`` units of ``work`` took ``seconds``. Without an amount there is nothing to note."""
        if amount > 0:
            self._set(work, seconds / amount)
        if seconds > _WORTH_WRITING:
            self.save()

    def seconds(self, work: str, amount: float) -> float | None:
        """The estimated seconds for ``amount`` units of ``work``; None if none was done here yet; 0 for nothing."""
        rate = self._kept.get(work) if amount else 0.0
        return rate * amount if isinstance(rate, int | float) else None


def _state(path: str) -> list[int]:
    stat = os.stat(path)  # noqa: PTH116 - a text, as it came from realpath
    return [stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino, stat.st_dev]
