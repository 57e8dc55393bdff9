"""Which experiment used which stage, and when: empty files whose times tell it, so that no lock is needed."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ragtrial.cache.fingerprints import fingerprint

_BEGAN, _FINISHED = "began", "finished"
_FROM = "@"

logger = logging.getLogger(__name__)


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
    """The uses of a workspace's stages, ``<root>/<user>/<kind>-<name>``; what cannot be written is left out."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def mark(self, kind: str, name: str, user: str) -> None:
        """``user`` uses the stage now."""
        self._touch(self._root / user / f"{kind}-{name}")

    def begin(self, user: str) -> float:
        """When a run of ``user`` begins, by the clock that marks go by; 0 if that cannot be told."""
        path = self._root / user / _BEGAN
        self._touch(path)
        return _time(path)

    def finish(self, user: str, since: float) -> None:
        """A run of ``user`` that began at ``since`` is finished: what it did not use, it needs no more."""
        self._touch(self._root / user / _FINISHED, since)

    def uses(self) -> Iterator[Use]:
        """Every use, in no order."""
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            experiment = folder.name.partition(_FROM)[0]
            since = _time(folder / _FINISHED)
            for path in folder.glob("*-*"):
                kind, _, name = path.name.partition("-")
                when = _time(path)
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
    """The name that ``experiment`` goes by among the users of a workspace: those of other places may have its name."""
    return f"{experiment}{_FROM}{fingerprint(place)[:8]}"


def _time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # never there, or removed just now
        return 0.0
