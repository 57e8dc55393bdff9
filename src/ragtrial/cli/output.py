"""Prints lines and JSON documents, and copes with streams that are closed or full."""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from ragtrial.errors import Fault, RunError


def write(text: str, stream: TextIO) -> None:
    """Print a line. Once the reader of a pipe has gone (``| head``) what follows goes nowhere; the work goes on.

    Raises RunError if standard output cannot be written, to a full disk for example.
    """
    try:
        print(text, file=stream, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError) and stream is not sys.stderr:
            message = f"cannot be written: {error.strerror or error}."
            raise RunError(Fault("standard output", message=message)) from error


def write_json(value: Any, stream: TextIO) -> None:
    """Print one JSON document, in whatever encoding ``stream`` has."""
    is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    write(json.dumps(value, ensure_ascii=not is_utf8, allow_nan=False, indent=1), stream)
