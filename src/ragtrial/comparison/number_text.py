"""Means, differences and probabilities as text, the same wherever they are shown."""

from __future__ import annotations

MANY_QUESTIONS = 1_000
"""From as many on the fourth decimal of a mean is more than noise."""


def digits_of(n: int) -> int:
    """The decimals of a mean over ``n`` questions."""
    return 3 if n < MANY_QUESTIONS else 4


def signed(difference: float | None, unknown: str = "-", digits: int = 4) -> str:
    """Four decimals, or ``digits``, and a sign, and never -0.0000; ``unknown`` for None."""
    return unknown if difference is None else f"{round(difference, digits) + 0.0:+.{digits}f}"


def telling(difference: float, digits: int) -> str:
    """A sign and ``digits`` decimals, or four where those would show a difference as 0."""
    return signed(difference, digits=digits if abs(difference) >= 0.5 * 10**-digits else max(digits, 4))


def signed_interval(ends: tuple[float, float] | None, between: str = " ") -> str:
    """Both ends as ``signed`` has them; a dash for None."""
    return "-" if ends is None else f"{signed(ends[0])}{between}{signed(ends[1])}"


def probability(p: float) -> str:
    """Four decimals below 0.1, else two; never 0.0000."""
    return "<0.0001" if p < 0.00005 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def rounded(difference: float) -> str:
    """Three decimals, or two digits where those would not show it."""
    return f"{difference:.3f}" if difference >= 0.001 else f"{difference:.2g}"


def percent(share: float) -> str:
    """``share`` of 1 as a percentage with as many digits as it has: 95%, 99.5%."""
    return f"{100 * share:.6g}%"
