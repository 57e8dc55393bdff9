"""Reading bytes as normalised text: once, before any offset exists."""

from __future__ import annotations

import codecs
import hashlib
import io
import re
import unicodedata
import zlib
from contextlib import suppress
from itertools import groupby, islice
from pathlib import Path
from typing import IO

from ragtrial.cache.untrusted import inflated, usual_bytes
from ragtrial.errors import Fault, InputError, did_you_mean

_MOST_LOOKED_AT = 10_000
_MARKS = {  # of UTF-32 before UTF-16, whose mark begins alike
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
    codecs.BOM_UTF8: "utf-8-sig",
}
_IN_ASCII = {"iso2022_jp", "iso2022_kr", "hz"}
"""Encodings that write every character with ASCII bytes: a text in them is UTF-8, too, but not the same text."""
_LABELS = {
    "iso8859-1": "cp1252", "ascii": "cp1252", "iso8859-9": "cp1254", "iso8859-11": "cp874", "tis_620": "cp874",
    "shift_jis": "cp932", "x-sjis": "cp932", "euc_kr": "cp949", "gb2312": "gb18030", "gbk": "gb18030",
    "x-gbk": "gb18030", "x-x-big5": "big5hkscs", "big5": "big5hkscs",
}  # fmt: skip
"""The encodings of declared charsets in browsers (WHATWG Encoding Standard, section 4.2), by their names in Python."""
_SPREADSHEETS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer
_UNSEEN = re.compile(
    "[\0-\x08\x0b\x0e-\x1f\x7f\u00ad\u200e\u200f\u2060\ufeff\ufffe\uffff]"
    f"|(?<![{_UNSPACED}])\u200b|\u200b(?![{_UNSPACED}])"
)
_CP1252 = " (iconv -f CP1252 -t UTF-8)."
_OTHER = ": iconv -f ENCODING -t UTF-8, with the encoding it was written in, such as CP1251, SHIFT_JIS or GB18030."
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
    """The first 16 hexadecimal digits of the SHA-256 of a normalised text in UTF-8."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def is_unicode(text: str) -> bool:
    """True if ``text`` can be written as UTF-8; half surrogate pairs, which JSON can spell, cannot."""
    return not _LONE_SURROGATE.search(text)


def without_unseen(text: str) -> str:
    """``text`` without invisible characters: control characters, soft hyphens, marks of order and direction.

    A zero-width space is removed, except between letters of scripts without spaces, where it separates words.
    """
    return text if text.isascii() and text.isprintable() else _UNSEEN.sub("", text)


def marked_encoding(head: bytes) -> str:
    """The encoding that a byte-order mark at the start says; UTF-8 without one."""
    return next((name for mark, name in _MARKS.items() if head.startswith(mark)), "utf-8")


def as_utf8(stream: IO[bytes], file: Path | str, error: type[InputError]) -> IO[bytes]:
    """A stream that can be read again, as it is; what a byte-order mark says is UTF-16 or UTF-32, as UTF-8."""
    encoding = marked_encoding(stream.read(4))
    stream.seek(0)
    return stream if encoding.startswith("utf-8") else io.BytesIO(decoded(stream.read(), file, error).encode())


def decoded(content: bytes, file: Path | str, error: type[InputError], declared: str = "") -> str:
    """The text of ``content``, without a byte-order mark.

    It is UTF-8, or has the encoding of its byte-order mark; other text that declares an encoding is read as
    ``declared``. Raises ``error`` with the line of the first invalid byte.
    """
    encoding = marked_encoding(content)
    if encoding == "utf-8" and declared:
        encoding = _declared_encoding(content, declared, file, error)
    if encoding.startswith("utf-8") and b"\0" in content:
        way = f" (iconv -f {name} -t UTF-8)" if (name := _unmarked_utf16(content)) else ""
        message = f"is not a text file: it has NUL bytes. Write it as UTF-8 text{way}, or remove it."
        raise error(Fault(str(file), _line_of(content, content.index(b"\0")), 0, message))
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as failure:
        bad = f"byte 0x{content[failure.start]:02x} is not"
        if encoding.startswith("utf-8"):
            message = f"{bad} UTF-8; save the file as UTF-8{_CP1252 if is_western(content) else _OTHER}"
        else:
            message = f"{bad} {encoding.upper()}, which the file says it is; save it as UTF-8."
        raise error(Fault(str(file), _line_of(content, failure.start), 0, message)) from None


def _unmarked_utf16(content: bytes) -> str:
    """The form of UTF-16 that the bytes are in without a mark, by the places of their NUL bytes; empty if in none."""
    even, odd = 0 in content[::2], 0 in content[1::2]
    name = "UTF-16BE" if even else "UTF-16LE"
    is_utf8 = 3 * content.count(0) < len(content) and _is_text(content.replace(b"\0", b""), "utf-8-sig")
    return name if not (even and odd) and not is_utf8 and _is_text(content, name) else ""


def _is_text(content: bytes, encoding: str) -> bool:
    with suppress(UnicodeDecodeError):
        return not _UNSEEN.search(content.decode(encoding))
    return False


def _line_of(content: bytes, place: int) -> int:
    return content.count(b"\n", 0, place) + 1


def _declared_encoding(content: bytes, declared: str, file: Path | str, error: type[InputError]) -> str:
    """The encoding to read a text with that names one itself: UTF-8 if it is that after all."""
    try:
        name = codecs.lookup(declared).name
    except LookupError:
        name = declared.lower()
    name = _LABELS.get(name, name)
    if name.startswith(("utf-16", "utf-32")):
        return "utf-8"  # else the declaration itself could not have been read
    if name not in _IN_ASCII:
        with suppress(UnicodeDecodeError):
            content.decode()
            return "utf-8"
    with suppress(LookupError):
        return codecs.lookup(name).name
    message = f"says that it is in {declared!r}, an encoding that is not known; save it as UTF-8."
    raise error(Fault(str(file), message=message))


def is_western(content: bytes) -> bool:
    """True if bytes that are not UTF-8 seem to be CP1252, the encoding of Windows for Western European languages.

    Two of three letters are ASCII, no letter is next to a sign within a word, and no word of three letters has only
    others. Letters that are rare in CP1252 and have frequent counterparts in other encodings (Turkish, Czech, Polish)
    are evidence against it.
    """
    try:
        text = content.decode("cp1252")
    except UnicodeDecodeError:
        return False
    letters = sum(map(str.isalpha, text))
    beyond = re.findall(r"[^\W\d_\x00-\x7f]", text)
    within = re.search(r"[^\W\d_][¡-©«-´¶-¹»-¿][^\W\d_]|(?<!\w)[^\W\d_\x00-\x7f]{3,}(?!\w)", text)
    return 3 * len(beyond) <= letters and not within and not set(beyond) & set("ŠšŽžÐðÞþÝý")


def read_bytes(path: Path, error: type[InputError]) -> bytes:
    """The bytes of a file, unpacked if it ends in ``.gz``; ``error`` if it cannot be read."""
    try:
        if path.suffix != ".gz":
            return path.read_bytes()
        with path.open("rb") as file:
            return b"".join(inflated(file, usual_bytes(path.stat().st_size)))
    except FileNotFoundError:
        raise error(Fault(str(path), message=f"there is no such file.{near_names(path)}")) from None
    except IsADirectoryError:
        raise error(Fault(str(path), message="is a folder; a file is needed here.")) from None
    except (OSError, EOFError, ValueError, zlib.error) as failure:
        reason = getattr(failure, "strerror", None) or failure
        raise error(Fault(str(path), message=f"cannot be read: {reason}.")) from failure


def is_spreadsheet(name: str, content: bytes = b"") -> bool:
    """True for a file of a spreadsheet program, by the end of its name or by what it packs."""
    is_packed = content.startswith(b"PK\x03\x04") and (b"xl/" in content or b"opendocument.spreadsheet" in content)
    return name.lower().endswith(_SPREADSHEETS) or is_packed


def spreadsheet_fault(file: str, header: str) -> Fault:
    """The fault of a spreadsheet, with the way out; ``header`` is an example of the first line."""
    message = (
        f"is a spreadsheet; save it as CSV, with a header such as {header}: in Excel by File > Save As > "
        "CSV UTF-8, in Google Sheets by File > Download, in LibreOffice by File > Save As > Text CSV."
    )
    return Fault(file, message=message)


def near_names(path: Path) -> str:
    """`` Did you mean 'x'?`` for a similar name in the folder of ``path``, or nothing."""
    with suppress(OSError):
        return did_you_mean(path.name, (entry.name for entry in islice(path.parent.iterdir(), _MOST_LOOKED_AT)))
    return ""


def read_text(path: Path, error: type[InputError]) -> str:
    """The text of a file, not normalised: UTF-8, or as its byte-order mark says."""
    return decoded(read_bytes(path, error), path, error)


def short(text: str, most: int = 160) -> str:
    """``text`` on one line, cut after ``most`` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 3] + "..."
