"""Values that are remembered between runs to save time, and may be lost: hashes of files, and rates of work."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from threading import Lock
from typing import Any

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import file_digest, fingerprint
from ragtrial.cache.presence import only_writer

_SETTLED_NS = 2_000_000_000
"""How long a file must have been left alone: a change within the clock's grain would show in nothing but its bytes."""

_WORTH_WRITING = 1.0
"""Seconds of work; a rate that was measured on less is written at the end of the run."""

logger = logging.getLogger(__name__)


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
        """How long ``amount`` units of ``work`` take about, None if none was done here yet; nothing takes no time."""
        rate = self._kept.get(work) if amount else 0.0
        return rate * amount if isinstance(rate, int | float) else None


def _state(path: str) -> list[int]:
    found = os.stat(path)  # noqa: PTH116 - a text, as it came from realpath
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]
