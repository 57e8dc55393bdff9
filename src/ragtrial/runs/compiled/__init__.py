"""The part of scoring that is written in C: reading run files and looking documents up, and its doors to Python.

It is built when ragtrial is installed, if there is a C compiler. Without it the same is done in plain Python, slower;
the environment variable ``RAGTRIAL_COMPILED=0`` asks for that.
"""

from __future__ import annotations

import os


def available() -> bool:
    """Whether the compiled code is there, fits its sources, and is not switched off."""
    if os.environ.get("RAGTRIAL_COMPILED") == "0":
        return False
    from ragtrial.runs.compiled.binding import library

    return library() is not None
