"""Documents as users have them: a folder of files, or one corpus.jsonl. Read as a stream."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import IO, Literal

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.cache.untrusted import inflated, lines_of, usual_bytes
from ragtrial.dataset.faults import truncated
from ragtrial.dataset.json_places import id_of, json_row
from ragtrial.dataset.markdown import titled
from ragtrial.dataset.markup import NestedError, declared_charset, page_text
from ragtrial.dataset.pdf import pdf_reader, read_pdf
from ragtrial.dataset.texts import decoded, is_unicode, marked_encoding, near_names, normalised, read_bytes
from ragtrial.errors import CorpusError, Fault, counted
from ragtrial.records import Document, ReportWarning

READER_VERSION = 5
"""Part of the documents' fingerprint: raise it whenever the same bytes would be read, or kept, as something else."""

OnError = Literal["stop", "skip"]
"""The treatment of files or rows that cannot be read: an error, or they are left out."""

SUFFIXES = {".md", ".markdown", ".txt", ".html", ".htm", ".pdf"}
LINKED_FOLDER = "linked folder"
HIDDEN = "document with a name that begins with a dot"
MOST_CHARACTERS = 10_000_000
"""The most characters of a document, or bytes of a text file: about ten long books."""


def corpus_files(corpus: Path) -> list[Path]:
    """The files of a corpus, ascending by path below it, without hidden files.

    Raises CorpusError if there is no such path, or no readable file.
    """
    message = ""
    if corpus.is_file():
        if corpus.name.lower().endswith((".jsonl", ".jsonl.gz")):
            return [corpus]
        message = "a corpus that is one file must be a .jsonl or .jsonl.gz; for documents name their folder."
    elif not corpus.is_dir():
        message = f"there is no such folder or file; `dataset.corpus` names it.{near_names(corpus)}"
    files = [
        path
        for path in (() if message else _visible(corpus))
        if path.suffix.lower() in SUFFIXES and (path.is_file() or _leads_nowhere(path))
    ]
    if not files:
        message = message or f"has no documents; files ending in {', '.join(sorted(SUFFIXES))} are read."
        raise CorpusError(Fault(str(corpus), message=message))
    return sorted(files, key=lambda path: path.relative_to(corpus).as_posix())


def unsupported_files(corpus: Path) -> Counter[str]:
    """The number of files in a folder that are not read, by suffix; hidden folders are not entered.

    A link to a folder is not followed, since it may lead back to its own folder; it counts as LINKED_FOLDER, and a
    document with a hidden name as HIDDEN.
    """
    hidden = sum(
        path.name.startswith(".") and path.suffix.lower() in SUFFIXES and path.is_file()
        for path in (corpus.rglob("*") if corpus.is_dir() else ())
        if not _is_hidden(path.parent.relative_to(corpus))
    )
    return Counter({HIDDEN: hidden} if hidden else {}) + Counter(
        LINKED_FOLDER if path.is_dir() else path.suffix.lower() or path.name
        for path in _visible(corpus)
        if (path.is_symlink() if path.is_dir() else path.is_file() and path.suffix.lower() not in SUFFIXES)
    )


def _visible(corpus: Path) -> Iterator[Path]:
    """The visible paths below a folder."""
    for path in corpus.rglob("*") if corpus.is_dir() else ():
        if not _is_hidden(path.relative_to(corpus)):
            yield path


def _is_hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _leads_nowhere(path: Path) -> bool:
    return path.is_symlink() and not path.exists()


def corpus_fingerprint(corpus: Path, on_error: OnError = "stop", digest: Digest = file_digest) -> str:
    """The hash of everything that affects the documents: their bytes, their names below the folder, and the reader.

    A file that cannot be read is hashed with the reason; reading the documents reports it.
    """
    root = corpus if corpus.is_dir() else corpus.parent
    files = corpus_files(corpus)
    content = fingerprint([[path.relative_to(root).as_posix(), _digest(path, digest)] for path in files])
    parts = [str(READER_VERSION), content]
    if corpus.is_file():
        parts.append("file")
    if any(map(_is_pdf, files)):
        parts.append(pdf_reader() or "no-pdf")
    if on_error == "skip":
        parts.append("skip")
    return "-".join(parts)


def _digest(path: Path, digest: Digest) -> str:
    try:
        return digest(path)
    except OSError as failure:
        return f"cannot be read: {failure.strerror}"


def read_documents(corpus: Path, skipped: list[Fault] | None = None) -> Iterator[Document]:
    """The documents of a folder (ids are paths below it, ``/`` between) or of a corpus.jsonl (``_id, title, text``).

    Raises CorpusError with every fault, after the last document was read; and if there is no document at all. Where
    ``skipped`` is given, a file or row that cannot be read is left out and its fault is added to it instead.
    """
    if skipped is None:
        _refuse_unreadable_pdfs(corpus)
    faults: list[Fault] = []
    documents = _file_documents(corpus, faults) if corpus.is_dir() else _row_documents(corpus, faults)
    count = 0
    for document in documents:
        count += 1
        yield document
    # A corpus file that breaks off is not known to lack this or that row: who knows how much of it is gone?
    may_be_skipped = corpus.is_dir() or all(fault.line for fault in faults)
    if faults and (skipped is None or not may_be_skipped or not count):
        advice = Fault(str(corpus), message="`dataset.on_error: skip` leaves out what cannot be read, and names it.")
        raise CorpusError(*truncated(faults, str(corpus)), *([advice] if may_be_skipped and skipped is None else []))
    if not count:
        raise CorpusError(Fault(str(corpus), message="has no documents; each line must be one JSON object."))
    if skipped is not None:
        skipped += faults


def left_out(corpus: Path, skipped: Sequence[Fault]) -> Iterator[ReportWarning]:
    """A warning that counts and names the skipped files or rows, by their names below the corpus."""
    if skipped:
        root, what = (corpus, "file") if corpus.is_dir() else (corpus.parent, "row")
        named = [replace(fault, file=Path(fault.file).relative_to(root).as_posix()) for fault in skipped]
        message = f"{counted(len(named), what)} of the corpus left out, unreadable (dataset.on_error: skip). "
        yield ReportWarning("skipped-files", normalised(message + " ".join(map(str, truncated(named, "")))))


def _is_pdf(path: Path) -> bool:
    return path.suffix.lower() == ".pdf"


def _refuse_unreadable_pdfs(corpus: Path) -> None:
    """One fault for all PDFs where nothing can read any, before the other files are read for nothing."""
    count = sum(map(_is_pdf, corpus_files(corpus))) if corpus.is_dir() else 0
    if count and not pdf_reader():
        message = (
            f"has {counted(count, 'PDF file')}, and the package that reads them is not installed: pip install "
            "'ragtrial[pdf]'. Or leave PDFs out with `dataset.on_error: skip`."
        )
        raise CorpusError(Fault(str(corpus), message=message))


def _file_documents(corpus: Path, faults: list[Fault]) -> Iterator[Document]:
    for path in corpus_files(corpus):
        try:
            document = _file_document(path, path.relative_to(corpus).as_posix())
        except CorpusError as error:
            faults += error.faults
        else:
            yield document


def _file_document(path: Path, name: str) -> Document:
    if not is_unicode(name):
        raise CorpusError(Fault(str(path), message="has a name that is not UTF-8; rename it."))
    if _leads_nowhere(path):
        message = f"is a link to {path.readlink()}, which is not there; mend the link, or remove it."
        raise CorpusError(Fault(str(path), message=message))
    if _is_pdf(path):
        pdf = read_pdf(path)
        if message := _too_long(len(pdf.text), "characters"):
            raise CorpusError(Fault(str(path), message=message))
        return Document(name, pdf.text, pdf.title, pdf.pages)
    with suppress(OSError):  # which reading says better
        if message := _too_long(path.stat().st_size, "bytes"):
            raise CorpusError(Fault(str(path), message=message))
    content, title = read_bytes(path, CorpusError), ""
    if path.suffix.lower() in (".html", ".htm"):
        try:
            title, text = page_text(decoded(content, path, CorpusError, declared_charset(content)))
        except NestedError as error:
            raise CorpusError(Fault(str(path), message=str(error))) from None
    else:
        text = normalised(decoded(content, path, CorpusError))
        if path.suffix.lower() in (".md", ".markdown"):
            title, text = titled(text)
    return Document(name, normalised(text), normalised(title))


def _too_long(size: int, unit: str) -> str:
    """The fault of a document with ``size`` units; empty if it is short enough."""
    if size <= MOST_CHARACTERS:
        return ""
    return f"has {size:,} {unit}; a document may have {MOST_CHARACTERS:,}. Split it, or leave it out."


def _row_documents(corpus: Path, faults: list[Fault]) -> Iterator[Document]:
    seen: dict[str, int] = {}
    for number, row in json_rows(corpus, faults):
        name, text, title = id_of(row.get("_id", row.get("id"))) or "", row.get("text"), row.get("title") or ""
        message = ""
        if not name.strip() or not isinstance(text, str) or not isinstance(title, str):
            rights = {"_id": bool(name.strip()), "text": isinstance(text, str), "title": isinstance(title, str)}
            wrong = " and ".join(key for key, is_right in rights.items() if not is_right)
            keys = (f"{key} (null)" if value is None else key for key, value in row.items())
            message = f"{wrong} must be a text; found keys: {', '.join(keys)}."
        elif not is_unicode(name):
            message = f"document id {name!r} has half of a surrogate pair."
        elif name in seen:
            message = f"document {name!r} is in line {seen[name]} already."
        elif too_long := _too_long(len(text), "characters"):
            message = f"document {name!r} {too_long}"
        else:
            seen[name] = number
            yield Document(name, normalised(text), normalised(title))
        if message:
            faults.append(Fault(str(corpus), number, 0, message))


def json_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a JSONL file (or .jsonl.gz) with their line numbers; bad lines are added to ``faults``."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(_lines(file, path), 1):
                if not line.strip():
                    continue
                try:
                    row, message, column = json_row(decoded(line.rstrip(b"\r\n"), path, CorpusError))
                except CorpusError as error:
                    message, column = error.faults[0].message, 0
                if message:
                    faults.append(Fault(str(path), number, column, message))
                else:
                    yield number, row
    except CorpusError as error:  # invalid UTF-16
        faults += error.faults
    except (OSError, EOFError, ValueError, zlib.error) as error:
        faults.insert(0, Fault(str(path), message=f"cannot be read: {getattr(error, 'strerror', None) or error}."))


def _lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """The lines of a file, unpacked. Raises ValueError beyond the budget of a line, or of packed data."""
    packed = path.suffix == ".gz"
    blocks = inflated(file, usual_bytes(path.stat().st_size)) if packed else iter(lambda: file.read(2**20), b"")
    first = next(blocks, b"")
    if marked_encoding(first).startswith("utf-8"):
        yield from lines_of(chain([first], blocks))
    else:
        yield from decoded(b"".join([first, *blocks]), path, CorpusError).encode().split(b"\n")
