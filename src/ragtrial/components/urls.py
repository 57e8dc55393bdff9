"""URLs as options have them."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit


def parts_of(url: str) -> SplitResult | None:
    """The parts of a URL that has a scheme, a host and, if any, a valid port; None for any other text."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, a port that is no number
        return None
    return parts if is_whole else None
