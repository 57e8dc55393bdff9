"""Maintenance of a workspace: its entries, their removal, and the search for damage."""

from __future__ import annotations

import gc
import re
import shutil
import sqlite3
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ragtrial.cache.atomic import TEMPORARY_PREFIX, remove_folder
from ragtrial.cache.bookkeeping import Presence, Usage, Use, time_of
from ragtrial.cache.journal import drop_foreign_rows
from ragtrial.cache.remote import Servers, UnreachedError, damage, release
from ragtrial.cache.seals import DamagedError, check_bytes, read_seal
from ragtrial.cache.vectors import VectorCache, check_model
from ragtrial.cache.workspace import check_layout
from ragtrial.errors import InputError, WorkspaceError, counted

_STAGE = re.compile(r"[0-9a-f]{32}(-[0-9]+)*")
_LEFT_BEHIND = re.compile(re.escape(TEMPORARY_PREFIX) + r"[0-9a-f]{32}-.+")
"""The names of our entries in a folder of stages: no other file or folder is touched."""

ROW_CACHES = {"vectors": "vectors", "pairs": "scores of pairs", "tokens": "token vectors"}
"""The folders of growing files, each a VectorCache, and the content of each."""

_UNFINISHED = "unfinished"
ANSWERS = "answers"
"""Files of lines that are checked whenever they are read: damaged answers are requested again."""

GROWING = (*ROW_CACHES, ANSWERS)
"""The folders of files that grow: several settings and experiments fill each of these files."""


@dataclass(frozen=True)
class Entry:
    """Something in a workspace that can be removed by itself.

    ``size`` is in bytes; ``used`` is when an experiment last asked for it, or when it was made if none has (seconds
    since 1970). ``current`` are the experiments whose last finished run, or a later one, asked for it.
    """

    path: Path
    kind: str
    what: str
    size: int
    used: float
    experiments: tuple[str, ...] = ()
    current: tuple[str, ...] = ()


@dataclass
class Outcome:
    """The removed entries, each with its damage, if any; and the kept entries, each with the reason.

    An entry is kept if it names a collection that cannot be reached.
    """

    removed: list[tuple[Entry, str]] = field(default_factory=list)
    kept: list[tuple[Entry, str]] = field(default_factory=list)


class Upkeep:
    """The entries of the workspace in ``root``; servers are reached as ``configs`` say.

    Raises InputError if it is no workspace, or one of another layout.
    """

    def __init__(self, root: Path, configs: Sequence[Servers] = ()) -> None:
        try:
            check_layout(root)
        except WorkspaceError as error:
            raise InputError(*error.faults) from error
        self.root = root
        self._configs = configs
        self._usage = Usage(root / "uses")

    def entries(self) -> list[Entry]:
        """All entries, the largest first. An entry that a run is still building is unfinished."""
        uses: dict[tuple[str, str], list[Use]] = defaultdict(list)
        for use in self._usage.uses():
            uses[use.kind, use.name].append(use)
        entries = []
        for path, kind, what in self._found():
            own = uses.get((kind, path.stem), [])
            size = sum(_size(file) for part in _parts(path) for file in (part, *part.rglob("*")))
            used = max((use.when for use in own), default=time_of(path) or time.time())
            experiments = sorted({use.experiment for use in own})
            current = sorted({use.experiment for use in own if use.current})
            entries.append(Entry(path, kind, what, size, used, tuple(experiments), tuple(current)))
        return sorted(entries, key=lambda entry: (-entry.size, str(entry.path)))

    def prune(
        self,
        *,
        unused: bool = False,
        experiment: str | None = None,
        older_than: float | None = None,
        kind: str | None = None,
        dry: bool = False,
    ) -> Outcome:
        """Remove the entries that all the given conditions allow, and leftovers of killed runs.

        ``unused``: no experiment used it in its last finished run. ``experiment``: no other experiment used it.
        ``older_than``: it was not used for this number of seconds. ``kind``: it is a stage of this kind. ``dry``
        removes nothing. Raises WorkspaceError if another run is at work in the workspace.
        """
        outcome = Outcome()
        with self._alone():
            entries = [
                entry
                for entry in self.entries()
                if entry.kind == _UNFINISHED
                or (
                    not (unused and entry.current)
                    and (experiment is None or entry.experiments == (experiment,))
                    and (older_than is None or time.time() - entry.used > older_than)
                    and (kind is None or entry.kind == kind)
                )
            ]
            # Unfinished entries first, while it is known who used their stages.
            for entry in sorted(entries, key=lambda entry: entry.kind != _UNFINISHED):
                try:
                    if not dry:
                        self._remove(entry)
                    outcome.removed.append((entry, ""))
                except UnreachedError as error:
                    outcome.kept.append((entry, str(error)))
            if not dry:
                shutil.rmtree(self.root / "locks", ignore_errors=True)  # no other run holds one
                if experiment is not None and older_than is None and kind is None and not unused:
                    self._usage.forget_experiment(experiment)
        return outcome

    def experiments(self) -> list[str]:
        """The experiments that have used the workspace."""
        return sorted({use.experiment for use in self._usage.uses()})

    def verify(self, advance: Callable[[int], None] = lambda _: None) -> Outcome:
        """Read everything, and remove changed or cut entries: they are built again when they are needed.

        In a file of cached vectors or scores, only the damaged rows are removed. Raises WorkspaceError if another run
        is at work in the workspace.
        """
        outcome = Outcome()
        with self._alone():
            for entry in self.entries():
                try:
                    if entry.kind == _UNFINISHED:
                        self._remove(entry)
                    elif (why := self._damage(entry)) is not None:
                        outcome.removed.append((entry, why))
                except UnreachedError as error:
                    outcome.kept.append((entry, str(error)))
                advance(entry.size)
        return outcome

    def _damage(self, entry: Entry) -> str | None:
        """The damage of ``entry``, which is removed; None without damage. Raises UnreachedError."""
        try:
            if entry.kind == ANSWERS:
                foreign = drop_foreign_rows(entry.path)
                return f"{counted(foreign, 'line')} of another file" if foreign else None
            if entry.kind in ROW_CACHES:
                check_model(entry.path)
                with VectorCache(entry.path, as_it_is=True) as cache:
                    lost = cache.drop_damaged()
                return f"{lost:,} {ROW_CACHES[entry.kind]} had other bytes than were written" if lost else None
            check_bytes(entry.path)
            why = damage(entry.path, self._configs)
        except DamagedError as error:
            why = str(error)
        except WorkspaceError as error:
            if type(error.__cause__) is not sqlite3.DatabaseError:  # a full disk or the like: no damage
                raise
            why = str(error.__cause__)
        if why is not None:
            self._remove(entry)
        return why

    def _found(self) -> Iterator[tuple[Path, str, str]]:
        """The path, kind and description of each entry."""
        for path in self.root.glob("*/*"):
            kind = path.parent.name
            if path.parent.is_symlink():
                continue
            if _LEFT_BEHIND.fullmatch(path.name):
                yield path, _UNFINISHED, f"unfinished {kind}: of a run at work, or of one that was stopped"
            elif kind in ROW_CACHES and path.suffix == ".sqlite":
                yield path, kind, _cache_in_words(path, ROW_CACHES[kind])
            elif kind == ANSWERS and path.suffix == ".jsonl":
                count = path.read_bytes().count(b"\n")
                yield path, kind, f"{counted(count, 'answer')} of custom retrievers and chat models"
            elif _STAGE.fullmatch(path.name) and path.is_dir():
                yield path, kind, _stage_in_words(path)

    def _remove(self, entry: Entry) -> None:
        """Remove an entry. Raises UnreachedError if it stays because it names a collection that cannot be removed."""
        if entry.path.is_dir():
            release(entry.path, self._configs)
        try:
            if entry.path.is_dir():
                remove_folder(entry.path)
            for part in _parts(entry.path):
                part.unlink(missing_ok=True)
        except OSError as error:
            raise WorkspaceError(f"{entry.path} cannot be removed: {error.strerror}.") from error
        self._usage.forget(entry.kind, entry.path.stem)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            presence = Presence(self.root / "in-use")
        except OSError as error:
            raise WorkspaceError(f"the workspace {self.root} cannot be written to: {error.strerror}.") from error
        try:
            if not presence.become_alone():
                gc.collect()  # a finished run of this process releases the workspace when its objects are collected
                if not presence.become_alone():
                    again = "run the same command again when it is done."
                    raise WorkspaceError(f"another run is at work in the workspace {self.root}; {again}")
            yield
        finally:
            presence.close()


def _stage_in_words(path: Path) -> str:
    try:
        return read_seal(path).what
    except DamagedError as error:
        return f"{path.parent.name}, damaged: {error}"


def _cache_in_words(path: Path, things: str) -> str:
    try:
        with VectorCache(path, as_it_is=True) as cache:
            return f"{len(cache):,} cached {things} ({cache.description})"
    except WorkspaceError as error:
        return f"cached {things}, which cannot be read: {error.__cause__}"


def _parts(path: Path) -> list[Path]:
    """The files of a cache: itself, the logs and the index of SQLite, our lock."""
    return [Path(f"{path}{part}") for part in ("", "-wal", "-shm", "-journal", ".lock")]


def _size(path: Path) -> int:
    """The bytes of a file; 0 for a folder, and for a file that a run has just removed."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
