"""How fast work of a kind went on this machine: what estimates of the next are made of."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
import weakref
from collections.abc import Iterable
from pathlib import Path
from threading import Lock
from typing import Any

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.presence import only_writer

_FADING = 0.5
"""What is left of all that was noted before when something is: what the machine does now counts most."""

_WORTH_WRITING = 1.0
"""Seconds of work; what took less is written together with more of it, or at the end."""

_Noted = dict[str, tuple[float, float]]
"""Amount and seconds by the name of the work."""

logger = logging.getLogger(__name__)


class Rates:
    """Seconds per unit by the name of the work, in the file ``path``, which may be lost.

    Each machine (system, processor, cores) has its own. A file that cannot be read holds none; what cannot be written
    is left out. Several processes and threads may note at once. What short work took may be held back until ``save``.
    """

    def __init__(self, path: Path, machine: str | None = None) -> None:
        self._path = path
        self._machine = machine or this_machine()
        self._held: _Noted = {}
        self._lock = Lock()
        # Also where nobody comes to an end: in a script, or in a run that fails.
        weakref.finalize(self, _write, path, self._machine, self._held)

    def note(self, work: str, amount: float, seconds: float) -> None:
        """``amount`` units of ``work`` took ``seconds``. Without an amount there is nothing to note."""
        if not _are_right(amount, seconds):
            return
        with self._lock:
            before = self._held.get(work, (0.0, 0.0))
            self._held[work] = before[0] + amount, before[1] + seconds
            is_enough = self._held[work][1] >= _WORTH_WRITING
        if is_enough:
            self.save()

    def save(self) -> None:
        """Write what is held back."""
        with self._lock:
            _write(self._path, self._machine, self._held)

    def seconds_per_unit(self, work: str) -> float | None:
        """How long one unit of ``work`` takes, None if none was done here yet."""
        with self._lock:
            found = _faded(_read(self._path).get(self._machine, {}), self._held).get(work)
        return found[1] / found[0] if found else None

    def seconds(self, work: str, amount: float) -> float | None:
        """How long ``amount`` units of ``work`` take about, None if none was done here yet; nothing takes no time."""
        rate = self.seconds_per_unit(work) if amount else 0.0
        return None if rate is None else rate * amount


def this_machine() -> str:
    """What tells machines of another speed from this one: not its name, which changes with every container."""
    parts = platform.system(), platform.machine(), platform.processor(), os.cpu_count()
    return fingerprint(list(parts))


def _write(path: Path, machine: str, held: _Noted) -> None:
    """Move what is ``held`` to the file, if its folder is still there."""
    if not held or not path.parent.is_dir():
        return
    try:
        with only_writer(path.parent):
            machines = _read(path)
            machines[machine] = _faded(machines.get(machine, {}), held)
            write_text(path, json.dumps(machines, sort_keys=True), may_be_lost=True)
    except OSError as error:
        logger.debug("the rates of %s are not noted: %s", ", ".join(held), error)
    held.clear()


def _read(path: Path) -> dict[str, _Noted]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return {str(machine): dict(_noted(works.items())) for machine, works in found.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        logger.debug("no rates in %s: %s", path, error)
        return {}


def _faded(before: _Noted, now: _Noted) -> _Noted:
    """``before``, and ``now`` on top of what is left of it."""
    made = dict(before)
    for work, (amount, seconds) in now.items():
        old = before.get(work, (0.0, 0.0))
        made[work] = old[0] * _FADING + amount, old[1] * _FADING + seconds
    return made


def _noted(works: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, tuple[float, float]]]:
    for work, (amount, seconds) in works:
        if _are_right(float(amount), float(seconds)):
            yield work, (float(amount), float(seconds))


def _are_right(amount: float, seconds: float) -> bool:
    return math.isfinite(amount) and math.isfinite(seconds) and amount > 0 and seconds >= 0
