"""Differences and probabilities in a few digits, the same wherever they are shown."""

from __future__ import annotations


def signed(difference: float | None, unknown: str = "-") -> str:
    """Four decimals and a sign, and never -0.0000; ``unknown`` for None."""
    return unknown if difference is None else f"{round(difference, 4) + 0.0:+.4f}"


def signed_interval(ends: tuple[float, float] | None, between: str = " ") -> str:
    """Both ends as ``signed`` has them; a dash for None."""
    return "-" if ends is None else f"{signed(ends[0])}{between}{signed(ends[1])}"


def probability(p: float) -> str:
    """Four decimals below 0.1, else two; never 0.0000."""
    return "<0.0001" if p < 0.00005 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"
