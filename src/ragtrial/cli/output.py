"""Prints lines and JSON documents, and copes with streams that are closed or full."""

from __future__ import annotations

import json
import os
import sys
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO

from ragtrial.cache.untrusted import for_json, for_terminal
from ragtrial.errors import Fault, RunError

if TYPE_CHECKING:
    from pydantic import BaseModel

_PIECES = 10_000
"""Pieces of a JSON document (names, values, brackets) that are written at a time."""


def write(text: str, stream: TextIO) -> None:
    """Print lines; nothing in them steers the terminal, or the job that keeps a log. Raises as ``write_as_is``."""
    write_as_is(for_terminal(text), stream)


def write_as_is(text: str, stream: TextIO, end: str = "\n") -> None:
    """Print lines whose escape sequences are ours.

    Once the reader of a pipe has gone (``| head``) what follows goes nowhere; the work goes on. Raises RunError if
    standard output cannot be written, to a full disk for example.
    """
    try:
        print(text, file=stream, end=end, flush=True)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        if not isinstance(error, BrokenPipeError) and stream is not sys.stderr:
            message = f"cannot be written: {error.strerror or error}."
            raise RunError(Fault("standard output", message=message)) from error


def write_json(value: Any, stream: TextIO) -> None:
    """Print one JSON document, in whatever encoding ``stream`` has, block by block.

    Models of pydantic in it become JSON when they are reached, so that a long list of them is never in memory twice.
    """
    is_utf8 = (stream.encoding or "").lower().replace("-", "") == "utf8"
    encoder = json.JSONEncoder(ensure_ascii=not is_utf8, allow_nan=False, indent=1, default=_dumped)
    pieces = encoder.iterencode(value)
    while block := "".join(islice(pieces, _PIECES)):
        write_as_is(for_json(block), stream, end="")
    write_as_is("", stream)


def _dumped(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json")
