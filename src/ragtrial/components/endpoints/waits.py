"""The wait that a busy server asks for, in headers or in words."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_ASKING = re.compile(r"(?:retry|try again|wait)[^\d\n]{0,40}", re.IGNORECASE)
_DURATION = re.compile(
    r"(?:(?P<h>\d{1,6})\s?h[a-z]*\s?)?(?:(?P<m>\d{1,6})\s?m(?:in[a-z]*)?(?![a-z])\s?)?"
    r"(?:(?P<s>\d{1,9}(?:\.\d{1,9})?)\s?(?P<unit>ms|milli|s)?)?",
    re.IGNORECASE,
)


def asked_wait(headers: Mapping[str, str], text: str) -> float | None:
    """The seconds that a failed answer asks to wait, None where neither its headers nor its ``text`` name them.

    The header has a number or a date (RFC 9110, 10.2.3); texts say ``Please try again in 1m2.5s``, or have
    ``"retryDelay": "34s"``.
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        try:
            seconds = float(value) * scale
        except ValueError:
            continue
        if 0 <= seconds < float("inf"):
            return seconds
    try:
        return max(0.0, parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time.time())
    except (TypeError, ValueError, OverflowError):
        return _wait_in(text)


def _wait_in(text: str) -> float | None:
    for asking in _ASKING.finditer(text):
        parts = _DURATION.match(text, asking.end())
        if parts is not None and parts[0]:
            is_short = (parts["unit"] or "").lower().startswith("m") or "ms" in asking[0].lower()
            seconds = float(parts["s"] or 0) * (0.001 if is_short else 1.0)
            return int(parts["h"] or 0) * 3600 + int(parts["m"] or 0) * 60 + seconds
    return None
