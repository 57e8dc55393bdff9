"""Who is at work in a workspace: any number of runs at once, or one that removes things."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from ragtrial.cache.atomic import remove_partial

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # Windows: runs are not seen there, stages are locked all the same
    fcntl = None

logger = logging.getLogger(__name__)


class Presence:
    """A shared lock on a file, held until it is closed, forgotten, or its process ends.

    Making one waits while somebody is alone there.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                self._lock(exclusively=False)
            except BlockingIOError:
                logger.warning("waiting for what is being removed from %s", path.parent)
                self._lock(exclusively=False, wait=True)
        except OSError:
            os.close(self._descriptor)
            raise
        self.close = weakref.finalize(self, os.close, self._descriptor)
        """Let go; also done when nobody refers to it any more."""

    def become_alone(self) -> bool:
        """Turn the shared lock into one that nobody else can share; False, and nothing changed, if others hold it."""
        try:
            self._lock(exclusively=True)
        except OSError:
            self._lock(exclusively=False, wait=True)  # the change is not one step: what was held may have been let go
            return False
        return True

    def _lock(self, *, exclusively: bool, wait: bool = False) -> None:
        if fcntl is not None:
            how = fcntl.LOCK_EX if exclusively else fcntl.LOCK_SH
            fcntl.flock(self._descriptor, how if wait else how | fcntl.LOCK_NB)


@contextmanager
def only_writer(folder: Path, name: str = "") -> Iterator[None]:
    """Wait for others who write into ``folder`` under this lock, and keep them waiting; the lock leaves no file.

    What stands half-made there is then of processes that were killed, and goes; not where folders cannot be locked.
    In a folder that is not ragtrial's own, ``name`` is what is written: nothing else is touched.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield
        return
    try:
        if fcntl is not None and _locked(descriptor, fcntl.LOCK_EX):
            remove_partial(folder, name)
        yield
    finally:
        os.close(descriptor)


def hold_alone(descriptor: int) -> bool:
    """Lock an open file until it is closed, if nobody else has; True also where there are no such locks."""
    try:
        if fcntl is not None:
            _locked(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _locked(descriptor: int, how: int) -> bool:
    """Whether an open file could be locked; not on a file system without such locks. Raises BlockingIOError."""
    try:
        if fcntl is not None:
            fcntl.flock(descriptor, how)
    except BlockingIOError:
        raise
    except OSError:
        return False
    return True
