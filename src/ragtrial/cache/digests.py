"""Hashes of files that have not changed since they were hashed: model weights and corpora are large."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import file_digest
from ragtrial.cache.presence import only_writer

_SETTLED_NS = 2_000_000_000
"""How long a file must have been left alone: a change within the clock's grain would show in nothing but its bytes."""

logger = logging.getLogger(__name__)


class FileDigests:
    """Hashes of files, remembered in ``path`` by size, inode and times of change; what is remembered may be lost.

    A file is hashed again when any of these differ; setting back the modification time does not hide a change,
    because the time of the change of the inode tells it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, list[int | str]] = {}
        self._new = False
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            self._known = {name: row for name, row in found.items() if isinstance(row, list)}
        except (OSError, ValueError, AttributeError):
            logger.debug("no remembered hashes in %s", path)

    def digest(self, path: Path) -> str:
        """The hash of the bytes of ``path``, as ``file_digest`` gives it. Raises OSError."""
        real = os.path.realpath(path)
        state = _state(real)
        known = self._known.get(real)
        if known is not None and known[:-1] == state:
            return str(known[-1])
        digest = file_digest(path)
        if _state(real) == state and time.time_ns() - max(state[1:3]) > _SETTLED_NS:
            self._known[real] = [*state, digest]
            self._new = True
        return digest

    def save(self) -> None:
        """Remember what was learned. Of two processes that do so the later one wins; nothing depends on it."""
        if self._new:
            self._new = False
            try:
                with only_writer(self._path.parent):
                    known = {name: self._known[name] for name in sorted(self._known)}
                    write_text(self._path, json.dumps(known), may_be_lost=True)
            except OSError as error:
                logger.debug("hashes are not remembered: %s", error)


def _state(path: str) -> list[int]:
    found = os.stat(path)  # noqa: PTH116 - a text, as it came from realpath
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino, found.st_dev]
