"""The compiled library: found, checked against its sources, and loaded. Its structures are those of run.h."""

from __future__ import annotations

import ctypes
import logging
from ctypes import POINTER, c_char_p, c_double, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path
from typing import ClassVar

from ragtrial.dataset.faults import MOST_FAULTS
from ragtrial.runs.compiled.block_scans import MOST_UNKNOWN
from ragtrial.runs.compiled.building import FOLDER, NAME, mark_of, sources

_log = logging.getLogger(__name__)
_Fields = list[tuple[str, type]]


class CRules(ctypes.Structure):
    """How rows are read and ordered."""

    _fields_: ClassVar[_Fields] = [
        (name, c_int32) for name in ("form", "order", "drop_duplicates", "lenient", "has_scores", "unique_ranks")
    ]


class CFault(ctypes.Structure):
    """A fault; texts by place and length."""

    _fields_: ClassVar[_Fields] = [
        *((name, c_int64) for name in ("line", "other", "number", "found_at", "query_at")),
        *((name, c_int32) for name in ("found_length", "query_length", "error", "unused")),
    ]


class CUnknown(ctypes.Structure):
    """A query that nobody judged."""

    _fields_: ClassVar[_Fields] = [(name, c_int64) for name in ("line", "name_at", "name_length")]


class CFound(ctypes.Structure):
    """What a scan found; the columns hold until the scanner's next one."""

    _fields_: ClassVar[_Fields] = [
        *((name, c_int64) for name in ("lines", "rows", "duplicates", "fault_count", "faults_kept", "unknown_kept")),
        *((name, c_int64) for name in ("segment_count", "hit_count")),
        *((name, c_double) for name in ("read", "check", "join")),
        *((name, c_void_p) for name in ("queries", "keys", "lengths", "hit_counts", "tied")),
        *((name, c_void_p) for name in ("contradicted", "judgments", "ranks", "tie_first", "tie_last")),
        ("faults", CFault * MOST_FAULTS),
        ("unknown", CUnknown * MOST_UNKNOWN),
    ]


class CNames(ctypes.Structure):
    """Packed ids."""

    _fields_: ClassVar[_Fields] = [("text", c_void_p), ("ends", c_void_p), ("count", c_int64)]


class CQrels(ctypes.Structure):
    """Qrels as they were read; what is wrong comes behind the arrays and is not looked at."""

    _fields_: ClassVar[_Fields] = [
        *((name, c_int64) for name in ("rows", "queries", "query_size", "document_size", "fault_count")),
        ("faults_kept", c_int64),
        *((name, c_void_p) for name in ("query_text", "document_text", "ends", "starts", "grades")),
    ]


_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "rt_mark": (c_char_p, []),
    "rt_judged_new": (c_void_p, [POINTER(CNames), POINTER(CNames), c_void_p]),
    "rt_judged_free": (None, [c_void_p]),
    "rt_scanner_new": (c_void_p, [c_void_p, POINTER(CRules)]),
    "rt_scanner_free": (None, [c_void_p]),
    "rt_scan": (c_int32, [c_void_p, c_void_p, c_int64]),
    "rt_match": (c_int32, [c_void_p, POINTER(CNames), POINTER(CNames), c_void_p, c_void_p, c_int64, c_int64]),
    "rt_found": (POINTER(CFound), [c_void_p]),
    "rt_cut": (c_int64, [c_void_p, c_int64, c_int64]),
    "rt_qrels_new": (POINTER(CQrels), [c_void_p, c_int64]),
    "rt_qrels_free": (None, [POINTER(CQrels)]),
    "rt_score": (c_int32, [c_char_p, c_int64, POINTER(c_double)]),
}


@cache
def library() -> ctypes.CDLL | None:
    """The library, loaded once; None where it was not built, or was built from other sources than are here."""
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
