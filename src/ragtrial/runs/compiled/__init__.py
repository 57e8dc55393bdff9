"""The part of scoring that is written in C: it splits run files and qrels into columns.

It is built when ragtrial is installed, if there is a C compiler. Without it plain Python does the same, slower; the
environment variable ``RAGTRIAL_COMPILED=0`` asks for that.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes


def compiled_library() -> ctypes.CDLL | None:
    """The compiled code; None if it is not there, does not fit its sources, or is switched off."""
    if os.environ.get("RAGTRIAL_COMPILED") == "0":
        return None
    from ragtrial.runs.compiled.library import library

    return library()
