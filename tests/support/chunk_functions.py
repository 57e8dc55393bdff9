"""A function that chunks, for the custom chunker."""

from __future__ import annotations


def paragraphs(text: str) -> list[str]:
    return text.split("\n\n")
