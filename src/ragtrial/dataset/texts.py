"""Reading bytes as normalised text: once, before any offset exists."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import re
import unicodedata
import zlib
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path

from ragtrial.errors import Fault, InputError, did_you_mean

_MOST_LOOKED_AT = 10_000
_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MAY_BE_MARKS = re.compile("[^\\x00-\u02ff]{200,}")
"""Long stretches without a Latin letter, space or digit: all that may have many combining marks in a row."""


def normalised(text: str) -> str:
    """``text`` with line feeds as line ends, in Unicode form NFC, half surrogate pairs replaced: what spans count."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text
    text = _MAY_BE_MARKS.sub(_marks_in_order, _LONE_SURROGATE.sub("\ufffd", text))
    return text if unicodedata.is_normalized("NFC", text) else unicodedata.normalize("NFC", text)


def _marks_in_order(stretch: re.Match[str]) -> str:
    """The stretch with combining marks in a row sorted as NFC has them, for which Python takes quadratic time.

    Source: https://www.unicode.org/versions/Unicode16.0.0/core-spec/chapter-3/ (D108, D109).
    """
    runs = groupby(stretch.group(), key=lambda character: unicodedata.combining(character) > 0)
    return "".join("".join(sorted(run, key=unicodedata.combining) if are_marks else run) for are_marks, run in runs)


def text_hash(text: str) -> str:
    """What tells one normalised text from another: the first 16 hexadecimal digits of the SHA-256 of its UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def is_unicode(text: str) -> bool:
    """Whether ``text`` can be written as UTF-8: half surrogate pairs, which JSON can spell, cannot."""
    return not _LONE_SURROGATE.search(text)


def decoded(content: bytes, file: Path | str, error: type[InputError]) -> str:
    """``content`` as UTF-8, a byte-order mark dropped; ``error`` with the line of the first bad byte otherwise."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = content.count(b"\n", 0, failure.start) + 1
        bad = content[failure.start]
        likely = "UTF-16" if content.startswith(_UTF_16) else "CP1252"
        message = f"byte 0x{bad:02x} is not UTF-8; save the file as UTF-8 (iconv -f {likely} -t UTF-8)."
        if b"\0" in content and likely != "UTF-16":
            message = "is not a text file: it has NUL bytes. Write it as UTF-8 text, or remove it."
        raise error(Fault(str(file), line, 0, message)) from None


def read_bytes(path: Path, error: type[InputError]) -> bytes:
    """The bytes of a file, unpacked if it ends in ``.gz``; ``error`` if it cannot be read."""
    try:
        content = path.read_bytes()
        return gzip.decompress(content) if path.suffix == ".gz" else content
    except FileNotFoundError:
        raise error(Fault(str(path), message=f"there is no such file.{near_names(path)}")) from None
    except IsADirectoryError:
        raise error(Fault(str(path), message="is a folder; a file is needed here.")) from None
    except (OSError, EOFError, zlib.error) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise error(Fault(str(path), message=f"cannot be read: {reason}.")) from failure


def near_names(path: Path) -> str:
    """`` Did you mean 'x'?`` for what is in the folder of ``path`` under a name like its own, or nothing."""
    with suppress(OSError):
        return did_you_mean(path.name, (entry.name for entry in islice(path.parent.iterdir(), _MOST_LOOKED_AT)))
    return ""


def read_text(path: Path, error: type[InputError]) -> str:
    """The text of a UTF-8 file, not normalised."""
    return decoded(read_bytes(path, error), path, error)
