"""How fast work of a kind went on this machine: what estimates of the next are made of."""

from __future__ import annotations

import json
import logging
import math
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ragtrial.storage.atomic import write_text
from ragtrial.storage.fingerprints import fingerprint
from ragtrial.storage.presence import only_writer

_FADING = 0.5
"""What is left of all that was noted before when something is: what the machine does now counts most."""

_Noted = dict[str, tuple[float, float]]
"""Amount and seconds by the name of the work."""

logger = logging.getLogger(__name__)


class Rates:
    """Seconds per unit by the name of the work, in the file ``path``, which may be lost.

    Each machine (system, processor, cores) has its own. A file that cannot be read holds none; what cannot be written
    is left out. Several processes may note at once.
    """

    def __init__(self, path: Path, machine: str | None = None) -> None:
        self._path = path
        self._machine = machine or this_machine()

    def note(self, work: str, amount: float, seconds: float) -> None:
        """``amount`` units of ``work`` took ``seconds``. Without an amount there is nothing to note."""
        if not _are_right(amount, seconds):
            return
        try:
            with only_writer(self._path.parent):
                machines = self._read()
                noted = machines.setdefault(self._machine, {})
                before = noted.get(work, (0.0, 0.0))
                noted[work] = before[0] * _FADING + amount, before[1] * _FADING + seconds
                write_text(self._path, json.dumps(machines, sort_keys=True), may_be_lost=True)
        except OSError as error:
            logger.debug("the rate of %s is not noted: %s", work, error)

    def seconds_per_unit(self, work: str) -> float | None:
        """How long one unit of ``work`` takes, None if none was done here yet."""
        found = self._read().get(self._machine, {}).get(work)
        return found[1] / found[0] if found else None

    def seconds(self, work: str, amount: float) -> float | None:
        """How long ``amount`` units of ``work`` take about, None if none was done here yet; nothing takes no time."""
        rate = self.seconds_per_unit(work) if amount else 0.0
        return None if rate is None else rate * amount

    def _read(self) -> dict[str, _Noted]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {str(machine): dict(_noted(works.items())) for machine, works in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            logger.debug("no rates in %s: %s", self._path, error)
            return {}


def this_machine() -> str:
    """What tells machines of another speed from this one: not its name, which changes with every container."""
    parts = platform.system(), platform.machine(), platform.processor(), os.cpu_count()
    return fingerprint(list(parts))


def _noted(works: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, tuple[float, float]]]:
    for work, (amount, seconds) in works:
        if _are_right(float(amount), float(seconds)):
            yield work, (float(amount), float(seconds))


def _are_right(amount: float, seconds: float) -> bool:
    return math.isfinite(amount) and math.isfinite(seconds) and amount > 0 and seconds >= 0
