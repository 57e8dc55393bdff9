"""The workspace: finished stages under their fingerprints, safe to delete at any time."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from ragtrial.errors import WorkspaceError
from ragtrial.storage.atomic import TEMPORARY_PREFIX, new_folder, write_text
from ragtrial.storage.fingerprints import fingerprint

LAYOUT = "1"
"""The version of the folder's layout; a workspace of another version is refused, not guessed at."""

logger = logging.getLogger(__name__)


class Workspace:
    """A folder of stages, ``<kind>/<fingerprint>``, each built once and then only read.

    Raises WorkspaceError if the folder cannot be made, or is of another layout.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        with self._errors(f"the workspace {root} cannot be used"):
            root.mkdir(parents=True, exist_ok=True)
            marker = root / "LAYOUT"
            if not marker.exists():
                write_text(marker, LAYOUT + "\n")
                if not (root / ".gitignore").exists():
                    write_text(root / ".gitignore", "*\n")
            found = marker.read_text().strip()
        if found != LAYOUT:
            raise WorkspaceError(
                f"the workspace {root} has layout {found!r}; this ragtrial reads {LAYOUT!r}. "
                "Use the version that made it, delete the folder, or name another with `workspace:`."
            )

    def path(self, kind: str, name: str) -> Path:
        """Where the stage ``name`` of ``kind`` stands, or would."""
        return self.root / kind / name

    def has(self, kind: str, name: str) -> bool:
        return self.path(kind, name).is_dir()

    def stage(self, kind: str, name: str, build: Callable[[Path], None]) -> Path:
        """The folder of a finished stage; ``build`` fills it first if it is not there.

        The folder appears whole: a build that fails or is killed leaves nothing that counts. Of several processes
        that want the same stage one builds and the others wait for it.
        """
        target = self.path(kind, name)
        if target.is_dir():
            return target
        with self.lock(f"{kind}-{name}"):
            if not target.is_dir():
                for left_behind in target.parent.glob(f"{TEMPORARY_PREFIX}{name}-*"):  # by a run that was killed
                    shutil.rmtree(left_behind, ignore_errors=True)
                with self._errors(f"{target} cannot be written"), new_folder(target) as folder:
                    build(folder)
        return target

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Hold a lock among processes; a wait is logged. The lock of a dead process is free."""
        path = self.root / "locks" / (fingerprint(name) + ".lock")
        with self._errors(f"{path} cannot be locked"):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                logger.warning("waiting for another run that is working on %s (lock %s)", name, path)
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def drop(self, kind: str, name: str) -> None:
        """Remove a stage, so that it is built again."""
        with self._errors(f"{self.path(kind, name)} cannot be removed"):
            if self.has(kind, name):
                shutil.rmtree(self.path(kind, name))

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WorkspaceError(
                f"{what}: {error.strerror or error}. Free space, mend permissions, or name another folder "
                "with `workspace:` or RAGTRIAL_WORKSPACE."
            ) from error
