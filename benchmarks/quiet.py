"""Figures of a busy machine are of no use: a benchmark that measures time begins on a quiet one, or with ``--busy``."""

from __future__ import annotations

import os
import sys

MOST_LOAD = 2.0
"""The highest load average at which ratios of times are those of a quiet machine."""

_FLAG = "--busy"


def refuse_if_busy(load: float | None = None) -> None:
    """End the program if other programs are at work; with ``--busy``, which is then taken out, it goes on."""
    load = os.getloadavg()[0] if load is None else load
    if _FLAG in sys.argv:
        sys.argv.remove(_FLAG)
    elif load > MOST_LOAD:
        sys.exit(
            f"the load of this machine is {load:.1f}, above {MOST_LOAD:.0f}: times would be those of other programs. "
            f"Wait until it is quiet, or measure all the same with {_FLAG}."
        )
