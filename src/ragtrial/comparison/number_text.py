"""Means, differences and probabilities as text, the same wherever they are shown."""

from __future__ import annotations

MANY_QUESTIONS = 1_000
"""With as many questions the fourth decimal of a mean is more than noise."""


def digits_of(n: int) -> int:
    """The number of decimals of a mean over ``n`` questions."""
    return 3 if n < MANY_QUESTIONS else 4


def number(value: float | None, digits: int = 4) -> str:
    """``0.6631``, ``1,363.8000``; a dash if there is none."""
    return "-" if value is None else f"{value:,.{digits}f}"


def mean_number(value: float | None, n: int) -> str:
    """A mean over ``n`` questions, with as many digits as these allow; a dash if there is none."""
    return number(value, digits_of(n))


def signed(difference: float | None, n: int = 0, unknown: str = "-") -> str:
    """A sign and the decimals of a mean over ``n`` questions, or four if those would show a difference as 0.

    0 has no sign; ``unknown`` stands for None.
    """
    if difference is None:
        return unknown
    digits = digits_of(n)
    shown = digits if abs(difference) >= 0.5 * 10**-digits else 4
    return f"{difference:+,.{shown}f}" if round(difference, shown) else f"{0:.{digits}f}"


def signed_interval(ends: tuple[float, float] | None, n: int = 0, between: str = " ") -> str:
    """Both ends as ``signed`` has them; a dash for None."""
    return "-" if ends is None else f"{signed(ends[0], n)}{between}{signed(ends[1], n)}"


def probability(p: float) -> str:
    """Four decimals below 0.1, else two; never 0.0000."""
    return "<0.0001" if p < 0.00005 else f"{p:.4f}" if p < 0.1 else f"{p:.2f}"


def rounded(difference: float) -> str:
    """Three decimals, or two digits where those would not show it."""
    return f"{difference:,.3f}" if difference >= 0.001 else f"{difference:.2g}"


def percent(share: float) -> str:
    """``share`` of 1 as a percentage with as many digits as it has: 95%, 99.5%."""
    return f"{100 * share:.6g}%"
