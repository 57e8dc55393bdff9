"""Small collections of documents on disk."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import mkdtemp

from ragtrial.dataset.library import Library


def write_rows(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """A JSONL file with one object a line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """A folder with these files below it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return folder


def write_beir(folder: Path, texts: Mapping[str, str], queries: Mapping[str, str], qrels: str) -> Path:
    """A BEIR folder with these texts of documents and queries by id, and these lines of judgments."""
    for file, rows in (("corpus", texts), ("queries", queries)):
        write_rows(folder / f"{file}.jsonl", [{"_id": name, "text": text} for name, text in rows.items()])
    return write_files(folder, {"qrels/test.tsv": qrels})


def library_of(folder: Path, texts: Mapping[str, str]) -> Library:
    """The library of a corpus.jsonl with these texts by id, written below ``folder``."""
    corpus = write_rows(folder / "corpus.jsonl", [{"_id": name, "text": text} for name, text in texts.items()])
    made = Path(mkdtemp(dir=folder))
    Library.write(corpus, made)
    return Library(made)
