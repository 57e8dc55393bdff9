"""Documents as users have them: a folder of files, or one corpus.jsonl. Read as a stream."""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from ragtrial.dataset.markup import page_text
from ragtrial.dataset.texts import decoded, is_unicode, normalised, read_text
from ragtrial.errors import CorpusError, Fault
from ragtrial.records import Document
from ragtrial.storage.fingerprints import Digest, file_digest, files_digest

READER_VERSION = 1
"""Part of the documents' fingerprint: raise it whenever the same bytes would be read as another text."""

SUFFIXES = {".md", ".markdown", ".txt", ".html", ".htm"}
_MOST_FAULTS = 20
_FIRST_HEADING = re.compile(r"^#[ \t]+(\S.*)$", re.MULTILINE)
_NO_PROSE = re.compile(r"\A---\n.*?\n---$|^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
"""Front matter and fenced code, where a number sign begins a comment."""


def corpus_files(corpus: Path) -> list[Path]:
    """The files a corpus consists of, ascending by path below it; hidden ones are passed over.

    Raises CorpusError if there is no such path, or no file of a kind that can be read.
    """
    if corpus.is_file():
        if not corpus.name.lower().endswith((".jsonl", ".jsonl.gz")):
            message = "a corpus that is one file must be a .jsonl or .jsonl.gz; for documents name their folder."
            raise CorpusError(Fault(str(corpus), message=message))
        return [corpus]
    if not corpus.is_dir():
        raise CorpusError(Fault(str(corpus), message="there is no such folder or file; `dataset.corpus` names it."))
    files = [
        path
        for path in corpus.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and path.is_file()
        and not any(part.startswith(".") for part in path.relative_to(corpus).parts)
    ]
    if not files:
        raise CorpusError(
            Fault(str(corpus), message=f"has no documents; files ending in {', '.join(sorted(SUFFIXES))} are read.")
        )
    return sorted(files, key=lambda path: path.relative_to(corpus).as_posix())


def passed_over(corpus: Path) -> Counter[str]:
    """How many files of a folder are not read, by the end of their names; hidden ones are not counted."""
    if not corpus.is_dir():
        return Counter()
    paths = (path for path in corpus.rglob("*") if path.suffix.lower() not in SUFFIXES and path.is_file())
    visible = (path for path in paths if not any(part.startswith(".") for part in path.relative_to(corpus).parts))
    return Counter(path.suffix.lower() or path.name for path in visible)


def corpus_fingerprint(corpus: Path, digest: Digest = file_digest) -> str:
    """The hash of what the documents will be: their bytes, their names below the folder, the reader's version."""
    root = corpus if corpus.is_dir() else corpus.parent
    try:
        content = files_digest(root, corpus_files(corpus), digest)
    except OSError as failure:
        raise CorpusError(Fault(str(failure.filename), message=f"cannot be read: {failure.strerror}.")) from failure
    return f"{READER_VERSION}-{content}" if corpus.is_dir() else f"{READER_VERSION}-file-{content}"


def read_documents(corpus: Path) -> Iterator[Document]:
    """The documents of a folder (ids are paths below it, ``/`` between) or of a corpus.jsonl (``_id, title, text``).

    Raises CorpusError with every fault, after the last document was read; and if there is no document at all.
    """
    faults: list[Fault] = []
    documents = _file_documents(corpus, faults) if corpus.is_dir() else _row_documents(corpus, faults)
    count = 0
    for document in documents:
        count += 1
        yield document
    if faults:
        rest = len(faults) - _MOST_FAULTS
        more = [Fault(str(corpus), message=f"and {rest} more like these.")] if rest > 0 else []
        raise CorpusError(*faults[:_MOST_FAULTS], *more)
    if not count:
        raise CorpusError(Fault(str(corpus), message="has no documents; each line must be one JSON object."))


def _file_documents(corpus: Path, faults: list[Fault]) -> Iterator[Document]:
    for path in corpus_files(corpus):
        name = path.relative_to(corpus).as_posix()
        if not is_unicode(name):
            faults.append(Fault(str(path), message="has a name that is not UTF-8; rename it."))
            continue
        try:
            text = read_text(path, CorpusError)
        except CorpusError as error:
            faults += error.faults
            continue
        title = ""
        if path.suffix.lower() in (".html", ".htm"):
            title, text = page_text(text)
        text = normalised(text)
        if path.suffix.lower() in (".md", ".markdown"):
            title = _heading(text)
        yield Document(name, text, normalised(title))


def _heading(text: str) -> str:
    """The first Markdown heading of the top level, without the number signs that may close it."""
    found = _FIRST_HEADING.search(_NO_PROSE.sub("", text))
    if not found:
        return ""
    heading = found.group(1).rstrip()
    opened = heading.rstrip("#")
    return opened.rstrip() if opened.endswith((" ", "\t")) else heading


def _row_documents(corpus: Path, faults: list[Fault]) -> Iterator[Document]:
    seen: dict[str, int] = {}
    for number, row in json_rows(corpus, faults):
        text = row.get("text")
        missing = [] if isinstance(text, str) else ["text"]
        name = row.get("_id", row.get("id"))
        if isinstance(name, bool) or not isinstance(name, str | int) or name == "":
            missing.insert(0, "_id")
        title = row.get("title") or ""
        if not isinstance(title, str):
            missing.append("title")
        if missing or not isinstance(text, str) or not isinstance(title, str):
            faults.append(
                Fault(str(corpus), number, 0, f"{' and '.join(missing)} must be a text; found keys: {', '.join(row)}.")
            )
            continue
        if not is_unicode(str(name)):
            faults.append(Fault(str(corpus), number, 0, f"document id {name!r} has half of a surrogate pair."))
            continue
        document = Document(str(name), normalised(text), normalised(title))
        if document.id in seen:
            faults.append(
                Fault(str(corpus), number, 0, f"document {document.id!r} stands in line {seen[document.id]} already.")
            )
            continue
        seen[document.id] = number
        yield document


def json_rows(path: Path, faults: list[Fault]) -> Iterator[tuple[int, dict[str, object]]]:
    """The objects of a JSONL file (or .jsonl.gz) with their line numbers; bad lines are added to ``faults``."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                try:
                    row = json.loads(decoded(line.rstrip(b"\r\n"), path, CorpusError))
                except CorpusError as error:
                    faults.append(Fault(str(path), number, 0, error.faults[0].message))
                except json.JSONDecodeError as error:
                    faults.append(Fault(str(path), number, error.colno, f"is not JSON: {error.msg}."))
                except ValueError:  # the standard library's word on numbers of thousands of digits
                    faults.append(Fault(str(path), number, 0, "has a number too long to be read."))
                except RecursionError:
                    faults.append(Fault(str(path), number, 0, "is nested too deeply to be read."))
                else:
                    if isinstance(row, dict):
                        yield number, row
                    else:
                        faults.append(Fault(str(path), number, 0, "must be a JSON object, in {}."))
    except (OSError, EOFError, zlib.error) as error:
        faults.append(Fault(str(path), message=f"cannot be read: {getattr(error, 'strerror', None) or error}."))
