"""What a search can show with the queries that it has, before it begins."""

from __future__ import annotations

import numpy as np

from ragtrial.comparison.statistics.power import detectable_difference, queries_for
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.config.search_options import SearchOptions
from ragtrial.errors import counted
from ragtrial.search.split import Split

USUAL_DEVIATION = 0.2
"""Of the differences of two settings in nDCG@10 by query, on public data sets."""

_SETTLES = 0.05
"""A difference that is worth a search."""


def detectable_with(queries: int, comparisons: int, deviation: float = USUAL_DEVIATION) -> float:
    """The difference that a verdict on so many queries finds with probability 80%, corrected for comparisons."""
    from scipy.special import stdtrit

    level = Procedure().level / max(comparisons, 1)
    critical = np.array([-stdtrit(queries - 1, level / 2)])
    return float(detectable_difference(np.array([deviation]), np.array([queries]), critical)[0])


def power_sentence(split: Split, options: SearchOptions) -> str:
    """Which difference from the baseline can be shown, and what would show smaller ones."""
    n = len(split.judging)
    if not split.held_out:
        found = detectable_with(n, options.settings)
        return (
            f"With {counted(n, 'question')}, and corrected for {options.settings} settings, a difference from the "
            f"baseline of about {found:.2f} can be shown (with 80% power, at a typical spread)."
        )
    found = detectable_with(n, 1)
    said = (
        f"With {n} held-out questions a difference from the baseline of about {found:.2f} can be shown (with 80% "
        "power, at a typical spread)."
    )
    needed = queries_for(_SETTLES, np.array([USUAL_DEVIATION]), np.array([Procedure().level]))[0] - n
    total = n + len(split.searched)
    at_random = detectable_with(total, options.settings)
    if needed <= 0:
        return said
    advice = f"hold out about {needed:.0f} more to show {_SETTLES:g}"
    if options.method != "random" and options.screen is None and at_random < found:
        advice += f", or use method: random without held_out, which shows about {at_random:.2f} with all {total}"
    return f"{said} To see smaller ones, {advice}."
