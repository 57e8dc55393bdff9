"""The compiled library: found, checked against its sources, loaded and called. Its structures are those of split.c."""

from __future__ import annotations

import ctypes
import logging
from ctypes import POINTER, byref, c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from ragtrial.runs.compiled.building import FOLDER, NAME, mark_of, sources

PADDING = 64
"""Bytes beyond the end of a block that may be read; their values do not matter."""

_log = logging.getLogger(__name__)
_ROWS = ("line", "at", "length", "number", "score", "hash", "flags")
_SEGMENTS = ("first_row", "name_at", "name_length")
_DTYPES: dict[str, npt.DTypeLike] = {"score": np.float64, "hash": np.uint64, "flags": np.uint8}
_SEEN = 2**15


class TextForm(NamedTuple):
    """The number of columns of a line and the position of each; ``score`` is -1 if there is none."""

    columns: int
    may_have_more: bool
    document: int
    number: int
    may_have_sign: bool
    score: int


class _CForm(ctypes.Structure):
    _fields_: ClassVar[list[tuple[str, type]]] = [(name, c_int32) for name in TextForm._fields]


class _CSplit(ctypes.Structure):
    _fields_: ClassVar[list[tuple[str, type]]] = [
        *((name, c_int64) for name in ("lines", "rows", "segments")),
        *((name, c_void_p) for name in (*_ROWS, *_SEGMENTS, "seen", "judged")),
        ("judged_mask", c_uint64),
    ]


_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "rt_split": (c_int32, [c_void_p, c_int64, POINTER(_CForm), POINTER(_CSplit)]),
    "rt_cut": (c_int64, [c_void_p, c_int64]),
    "rt_hash": (None, [c_void_p, c_void_p, c_int64, c_void_p]),
    "rt_score": (c_int32, [c_char_p, c_int64, POINTER(c_double)]),
}


class Room:
    """The arrays for the columns of a text. Texts that are split into the same room overwrite each other's columns."""

    def __init__(self) -> None:
        self.rows = -1
        self.columns: dict[str, npt.NDArray[Any]] = {}
        self.seen = np.empty(_SEEN, dtype=np.uint64)

    def for_rows(self, rows: int) -> _CSplit:
        """The structure through which the compiled code fills this number of rows."""
        if rows > self.rows:
            self.columns = {name: np.empty(rows, _DTYPES.get(name, np.int64)) for name in (*_ROWS, *_SEGMENTS)}
            self.rows = rows
            self._split = _CSplit(seen=self.seen.ctypes.data)
            for name, column in self.columns.items():
                setattr(self._split, name, column.ctypes.data)
        return self._split


class Block(NamedTuple):
    """The first ``size`` bytes of ``buffer``, which has room for ``PADDING`` more, and room for its columns."""

    buffer: npt.NDArray[np.uint8]
    size: int
    room: Room


class SplitText(NamedTuple):
    """The number of lines of a text, and the columns of its rows and of its segments, by name."""

    lines: int
    columns: dict[str, npt.NDArray[Any]]


@cache
def library() -> ctypes.CDLL | None:
    """The library, loaded once; None if it was not built, or was built from other sources."""
    path = FOLDER / NAME
    return load(path) if path.exists() else None


def load(path: Path, folder: Path = FOLDER) -> ctypes.CDLL | None:
    """The library at ``path``, or None with a warning in the log if it cannot be used."""
    try:
        loaded = ctypes.CDLL(str(path))
        loaded.rt_mark.restype = c_char_p
        mark = loaded.rt_mark().decode()
    except (OSError, AttributeError) as failure:
        _log.warning("%s cannot be loaded (%s); scoring goes on in plain Python, slower.", path, failure)
        return None
    files = sources(folder)
    if files and mark_of(files) != mark:
        _log.warning(
            "%s was built from other sources than are here; scoring goes on in plain Python, slower, until it is "
            "built anew: python -m ragtrial.runs.compiled.building",
            path,
        )
        return None
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def split_text(
    loaded: ctypes.CDLL, block: Block, form: TextForm, judged_bits: npt.NDArray[np.uint8]
) -> SplitText | None:
    """The text of a block as columns; None if the library cannot read a line.

    The first byte behind the text is overwritten. The last bits of a hash are a place in
    ``judged_bits`` (of a power of two bytes), set if the document may be judged. Other threads run meanwhile.
    """
    split = block.room.for_rows(block.size // (2 * form.columns) + 2)
    split.judged, split.judged_mask = judged_bits.ctypes.data, 8 * len(judged_bits) - 1
    if loaded.rt_split(block.buffer.ctypes.data, block.size, byref(_CForm(*form)), byref(split)):
        return None
    cut = {name: split.segments if name in _SEGMENTS else split.rows for name in block.room.columns}
    return SplitText(split.lines, {name: column[: cut[name]] for name, column in block.room.columns.items()})


def cut_of(buffer: npt.NDArray[np.uint8], end: int) -> int:
    """The place where the lines of the last query begin, 0 if it is the only one; it may go on behind ``end``."""
    loaded = library()
    return int(loaded.rt_cut(buffer.ctypes.data, end)) if loaded else 0


def hashes_of(loaded: ctypes.CDLL, text: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64]) -> npt.NDArray[np.uint64]:
    """The hash of each of the ids that are packed in ``text``, as ``split_text`` has them for documents."""
    text, ends = np.ascontiguousarray(text), np.ascontiguousarray(ends, dtype=np.int64)
    hashes = np.empty(len(ends), dtype=np.uint64)
    loaded.rt_hash(text.ctypes.data, ends.ctypes.data, len(ends), hashes.ctypes.data)
    return hashes
