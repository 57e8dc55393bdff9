"""How fast work of a kind went on this machine: what estimates of the next are made of."""

from __future__ import annotations

import json
import logging
import os
import platform
from pathlib import Path
from threading import Lock

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.presence import only_writer

_FADING = 0.5
"""The weight that remains of earlier work when later work is noted: what the machine does now counts most."""

_WORTH_WRITING = 1.0
"""Seconds of work; what took less is written together with more of it, or by ``save``."""

_Noted = dict[str, tuple[float, float]]
"""Amount and seconds by the name of the work."""

logger = logging.getLogger(__name__)


class Rates:
    """Seconds per unit by the name of the work, in the file ``path``, which may be lost.

    Each machine (system, processor, cores) has its own. A file that cannot be read holds none; what cannot be written
    is left out. Several processes and threads may note at once.
    """

    def __init__(self, path: Path, machine: str | None = None) -> None:
        self._path = path
        self._machine = machine or this_machine()
        self._held: _Noted = {}
        self._lock = Lock()

    def note(self, work: str, amount: float, seconds: float) -> None:
        """``amount`` units of ``work`` took ``seconds``. Without an amount there is nothing to note."""
        if amount <= 0:
            return
        with self._lock:
            before = self._held.get(work, (0.0, 0.0))
            self._held[work] = before[0] + amount, before[1] + seconds
            is_enough = self._held[work][1] >= _WORTH_WRITING
        if is_enough:
            self.save()

    def save(self) -> None:
        """Write what is held back, if the folder of the file is still there."""
        with self._lock:
            if self._held and self._path.parent.is_dir():
                try:
                    with only_writer(self._path.parent):
                        rates = {**self._read(), self._machine: self._known()}
                        write_text(self._path, json.dumps(rates, sort_keys=True), may_be_lost=True)
                except OSError as error:
                    logger.debug("the rates of %s are not noted: %s", ", ".join(self._held), error)
                self._held = {}

    def seconds(self, work: str, amount: float) -> float | None:
        """How long ``amount`` units of ``work`` take about, None if none was done here yet; nothing takes no time."""
        if not amount:
            return 0.0
        units, seconds = self._known().get(work, (0.0, 0.0))
        return seconds / units * amount if units else None

    def _known(self) -> _Noted:
        """What is held, added to what remains of the file's."""
        known = dict(self._read().get(self._machine, {}))
        for work, (amount, seconds) in self._held.items():
            before = known.get(work, (0.0, 0.0))
            known[work] = before[0] * _FADING + amount, before[1] * _FADING + seconds
        return known

    def _read(self) -> dict[str, _Noted]:
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            return {
                machine: {work: (float(amount), float(seconds)) for work, (amount, seconds) in works.items()}
                for machine, works in found.items()
            }
        except (OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
            return {}


def this_machine() -> str:
    """What tells machines of another speed from this one: not its name, which changes with every container."""
    parts = platform.system(), platform.machine(), platform.processor(), os.cpu_count()
    return fingerprint(list(parts))
