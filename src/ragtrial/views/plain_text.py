"""Text as it may be shown anywhere: nothing in it changes how the text around it reads."""

from __future__ import annotations

_CONTROL = dict.fromkeys(
    [*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A),
     *range(0xD800, 0xE000)], 0xFFFD,
)  # fmt: skip


def plain(text: str) -> str:
    """``text`` with a replacement character for each control character, mark of direction and lone surrogate."""
    return text.translate(_CONTROL)


def visible(text: str) -> str:
    """``text`` on one line, without characters that would steer the terminal."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)
