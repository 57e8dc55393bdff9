"""The log of Inspect in a zip file (.eval), as its JSON form has it."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from ragtrial.cache.untrusted import load_json, usual_bytes
from ragtrial.errors import Fault, ReportError

_ZSTANDARD = 93
_DAMAGE = (OSError, LookupError, ValueError, TypeError, RuntimeError, struct.error, zlib.error, zipfile.BadZipFile)


def is_zip(path: Path) -> bool:
    """True if the file begins as a zip file does. Raises ReportError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(4) == b"PK\x03\x04"
    except OSError as error:
        raise ReportError(Fault(str(path), message=f"cannot be read: {error.strerror or error}.")) from error


def read_zip(path: Path) -> dict[str, Any]:
    """The log with its ``samples``. Raises ReportError for another or a damaged file, or one that is too large."""
    try:
        with zipfile.ZipFile(path) as log:
            names = [info for info in log.infolist() if info.filename.startswith("samples/")]
            header = log.getinfo("header.json")
            if sum(info.file_size for info in [header, *names]) > usual_bytes(path.stat().st_size):
                raise ValueError("it holds more than such a file should")
            samples = [load_json(_content(log, path, info)) for info in names]
            return {**load_json(_content(log, path, header)), "samples": samples}
    except _DAMAGE as error:
        message = f"is no sound log of Inspect: {error}."
        raise ReportError(Fault(str(path), message=message)) from error


def _content(log: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo) -> bytes:
    """The bytes of a file in the log. Python before 3.14 cannot unpack Zstandard, which pyarrow can."""
    if info.compress_type != _ZSTANDARD:
        return log.read(info)
    try:
        import pyarrow as pa
    except ImportError:
        message = f"is packed with Zstandard. Install pyarrow, or convert it: inspect log convert {path} --to json"
        raise ReportError(Fault(str(path), message=f"{message} --output-dir FOLDER")) from None
    with path.open("rb") as file:
        file.seek(info.header_offset + 26)
        name, extra = struct.unpack("<HH", file.read(4))
        file.seek(name + extra, 1)
        packed = file.read(info.compress_size)
    return bytes(pa.Codec("zstd").decompress(packed, decompressed_size=info.file_size, asbytes=True))
