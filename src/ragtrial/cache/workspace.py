"""The workspace: finished stages under their fingerprints, safe to delete at any time."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tokenize import TokenError
from typing import ClassVar, TypeVar
from zipfile import BadZipFile

from ragtrial.cache.atomic import TEMPORARY_PREFIX, new_folder, remove_folder, remove_partial, write_bytes, write_text
from ragtrial.cache.bookkeeping import FileDigests, Presence, Rates, Usage, only_writer
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.remote import Servers, UnreachedError, release
from ragtrial.cache.seals import REPAIRS, SMALL, DamagedError, MadeOf, Seal, check_bytes, check_sizes, note_repair, seal
from ragtrial.errors import WorkspaceError, listed
from ragtrial.options import expand_user

_LAYOUT = b"2 0f72cab23116e1f26557eca089786de8\n"
"""The content of the file LAYOUT: the version of the folder's layout, and its hash."""

DAMAGE = (
    DamagedError, ValueError, TypeError, LookupError, EOFError, BadZipFile, OSError, RuntimeError, SyntaxError,
    TokenError,
)  # fmt: skip
"""The errors that reading a damaged stage may raise."""

_MOST_REPAIRS = 3  # in one run: of several that find the same damage, each may see what another is mending

Build = Callable[[Path], None]
"""Fills the empty folder of a stage."""

T = TypeVar("T")
logger = logging.getLogger(__name__)


class Workspace:
    """A folder of stages, ``<kind>/<fingerprint>``, each built once and then only read.

    ``user`` is noted for every stage that is requested (see ``bookkeeping.user``); ``servers`` are those that its
    config connects to. Several processes may share the folder. Raises WorkspaceError if the folder cannot be created,
    or has another layout.
    """

    opened: ClassVar[Path | None] = None
    """The folder that this process opened last: crashes are written there."""

    def __init__(self, root: Path, user: str = "", servers: Sequence[Servers] = ()) -> None:
        self.root = root
        self._servers = servers
        self.digests = FileDigests(root / "digests.json")
        self.rates = Rates(root / "rates.json")
        self._earlier_repairs = len(REPAIRS)
        self._sound: set[str] = set()
        self._user = user
        self.usage = Usage(root / "uses")
        with self._errors(f"the workspace {root} cannot be used"):
            _prepare(root)
        check_layout(root)
        Workspace.opened = root
        with suppress(OSError):  # a workspace may be read-only
            self._presence = Presence(root / "in-use")
        self._began = self.usage.begin(user) if user else 0.0

    @property
    def repaired(self) -> list[str]:
        """Descriptions of the damage that was found and repaired."""
        return [message for path, message in REPAIRS[self._earlier_repairs :] if path.is_relative_to(self.root)]

    def path(self, kind: str, name: str) -> Path:
        """The path of the stage ``name`` of ``kind``, which need not exist."""
        return self.root.joinpath(kind, name)

    def has(self, kind: str, name: str) -> bool:
        return bool(self.build_id(kind, name))

    def seal(self, kind: str, name: str) -> Seal:
        """The seal of a finished stage. Raises DamagedError."""
        return check_sizes(self.path(kind, name))

    def stage(self, kind: str, name: str, what: str, build: Build, made_of: Callable[[], MadeOf] | None = None) -> Path:
        """The folder of a finished stage; ``build`` fills it first if it does not exist, or is damaged.

        ``what`` describes the stage; ``made_of`` returns its inputs once it is built. The folder appears whole: a build
        that fails or is killed leaves nothing that counts. If several processes want the same stage, one builds and the
        others wait.
        """
        self.mark(kind, name)
        target = self.path(kind, name)
        if self.has(kind, name):
            return target
        with self.lock(f"{kind}-{name}", f"the {what}"):
            if not self.has(kind, name):
                if damage := self.damage(kind, name):
                    note_repair(target, damage)
                    self.drop(kind, name)
                remove_partial(target.parent, name, self._may_go)  # left behind by a run that was killed
                with self._errors(f"{target} cannot be written"), new_folder(target, self._may_go) as folder:
                    start = time.perf_counter()
                    build(folder)
                    seal(folder, what, time.perf_counter() - start, made_of() if made_of else None, stands=target)
        return target

    def load(self, kind: str, name: str, what: str, build: Build, read: Callable[[Path], T]) -> T:
        """The result of ``read`` for the folder of the stage; its bytes are checked, a damaged stage is built again."""

        def checked(folder: Path) -> T:
            self.check(kind, name)
            return read(folder)

        return self.read(kind, lambda: self.stage(kind, name, what, build).name, checked)

    def check(self, kind: str, name: str, *, small_only: bool = False) -> None:
        """Compare every byte of a stage, or of its small files, with its hashes, once in a run. Raises DamagedError."""
        if self.build_id(kind, name) not in self._sound:
            sealed = check_bytes(self.path(kind, name), SMALL if small_only else None)
            if not small_only:
                self._sound.add(sealed.id)

    def read(self, kind: str, make: Callable[[], str], read: Callable[[Path], T]) -> T:
        """The result of ``read`` for the stage that ``make`` builds and names; a stage that cannot be read is built
        again.
        """
        for _ in range(_MOST_REPAIRS):
            name = make()
            build_id = self.build_id(kind, name)
            try:
                return read(self.path(kind, name))
            except DAMAGE as error:
                self.drop_damaged(kind, name, build_id, error)
        raise WorkspaceError(f"{self.path(kind, name)} cannot be read, however often it is made; is the disk sound?")

    def damage(self, kind: str, name: str) -> str | None:
        """The damage of an existing stage; None without damage, or without the stage."""
        try:
            self.seal(kind, name)
        except DamagedError as error:
            return str(error) if self.path(kind, name).exists() else None
        return None

    def seals(self, kind: str) -> Iterator[tuple[str, Seal]]:
        """The name and seal of every whole stage of ``kind``."""
        for folder in sorted((self.root / kind).glob("[!.]*")):
            with suppress(DamagedError):
                yield folder.name, check_sizes(folder)

    def build_id(self, kind: str, name: str) -> str:
        """The id of this build of a stage; empty if the stage does not exist or is not whole."""
        try:
            return self.seal(kind, name).id
        except DamagedError:
            return ""

    def drop_damaged(self, kind: str, name: str, build_id: str, error: Exception) -> None:
        """Remove a build of a stage that could not be read, and report it; a newer build stays."""
        with self.lock(f"{kind}-{name}", f"{kind} {name}"):
            if self.build_id(kind, name) == build_id and self.path(kind, name).exists():
                note_repair(self.path(kind, name), str(error) or type(error).__name__)
                self.drop(kind, name)

    def mark(self, kind: str, name: str) -> None:
        """The experiment uses this stage."""
        if self._user:
            self.usage.mark(kind, name, self._user)

    def finish(self, *, complete: bool = True) -> None:
        """The run is finished; if it was ``complete``, its experiment needs no stage any more that it did not use."""
        self.digests.save()
        self.rates.save()
        if self._user and complete:
            self.usage.finish(self._user, self._began)

    @contextmanager
    def lock(self, name: str, what: str) -> Iterator[None]:
        """Hold a lock among processes; a wait for ``what`` is logged. The lock of a dead process is free."""
        from filelock import FileLock, Timeout

        path = self.root / "locks" / (fingerprint(name) + ".lock")
        with self._errors(f"{path} cannot be locked"):
            path.parent.mkdir(parents=True, exist_ok=True)
            lock = FileLock(path)
            try:
                lock.acquire(timeout=0)
            except Timeout:
                logger.warning("waiting for another run that works on %s (lock %s)", what, path)
                lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def drop(self, kind: str, name: str) -> None:
        """Remove a stage, so that it is built again."""
        path = self.path(kind, name)
        with self._errors(f"{path} cannot be removed"), suppress(FileNotFoundError):
            remove_folder(path, self._may_go)

    def _may_go(self, folder: Path) -> bool:
        try:
            release(folder, self._servers)
        except UnreachedError as error:
            logger.warning("what %s names stays on its server: %s", folder, error)
            return False
        return True

    @contextmanager
    def _errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise WorkspaceError(
                f"{what}: {error.strerror or error}. Free space, mend permissions, or name another folder "
                "with `workspace:` or RAGTRIAL_WORKSPACE."
            ) from error


def default_workspace(folder: Path) -> Path:
    """The workspace of the configs in ``folder`` that name none: RAGTRIAL_WORKSPACE, else an existing .ragtrial in
    ``folder``, else the one of all experiments of a user, in the platform's folder for caches.
    """
    if named := os.environ.get("RAGTRIAL_WORKSPACE"):
        return expand_user(named).absolute()
    if (beside := folder / ".ragtrial").is_dir():
        return beside
    from platformdirs import user_cache_path

    return user_cache_path("ragtrial", appauthor=False)


def _prepare(root: Path) -> None:
    """Make ``root`` a workspace if it is new or empty."""
    root.mkdir(parents=True, exist_ok=True)
    here = {path.name for path in root.iterdir()}
    if (root / "LAYOUT").exists():  # the first thing that another run would have written
        return
    if others := sorted(name for name in here - {".gitignore"} if not name.startswith(TEMPORARY_PREFIX)):
        raise WorkspaceError(
            f"the folder {root} holds other things ({listed(others, 3)}) and is no workspace; "
            "name a new or an empty folder with `workspace:` or RAGTRIAL_WORKSPACE."
        )
    with only_writer(root):
        write_bytes(root / "LAYOUT", _LAYOUT)
        if not (root / ".gitignore").exists():
            write_text(root / ".gitignore", "*\n")


def check_layout(root: Path) -> None:
    """Raise WorkspaceError if ``root`` is no workspace, or one of another layout."""
    try:
        is_ours = (root / "LAYOUT").read_bytes() == _LAYOUT
    except OSError:
        is_ours = False
    if not is_ours:
        raise WorkspaceError(
            f"{root} is no workspace of this ragtrial: its file LAYOUT is missing, damaged or of another version. Name "
            "another folder with `workspace:` or RAGTRIAL_WORKSPACE, or delete this one if it is a cache."
        )
