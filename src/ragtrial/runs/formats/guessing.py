"""Which form a file of qrels or of a run has: from its name, its first bytes and its first lines."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal, get_args

from ragtrial.dataset.json_places import load_json
from ragtrial.errors import Fault, InputError, LabelsError, RunFileError
from ragtrial.runs.faults import shown
from ragtrial.runs.formats.column_roles import Kind, usual_names
from ragtrial.runs.streams import HEAD, Source, head_of, is_standard_input, name_of, release

Form = Literal[
    "trec", "msmarco", "beir", "json", "jsonl", "parquet", "labels", "report", "rankings", "results"
]  # fmt: skip
"""What a file is: TREC text (runs of 6 columns, qrels of 4); MS MARCO runs of 3 columns (query, document, rank); qrels
of 3 columns, as BEIR has them; JSON objects in objects; a JSON object a line; Parquet; prompt_queries.json; a report,
by folder or id; a rankings file of a report; results as RetrievalEvaluator writes them, or as they were published."""

FORMS: tuple[Form, ...] = get_args(Form)
FORMS_OF: dict[Kind, tuple[Form, ...]] = {
    "qrels": ("trec", "beir", "json", "jsonl", "parquet", "labels", "report"),
    "run": ("trec", "msmarco", "json", "jsonl", "parquet", "report", "rankings", "results"),
}
"""The forms that qrels, or runs, may have."""

_LABELS = {"prompt_queries.json", "prompts_queries.json"}
_RUN_ID = re.compile(r"\d{8}T\d{6}Z(-[0-9a-f]{0,6})?|latest")
_LABELS_INSIDE = re.compile(r'"queries"\s*:\s*\[\s*(\{|\])')
_RANKINGS_INSIDE = re.compile(r'\s*\{\s*"query"\s*:\s*"([^"\\]|\\.)*"\s*,\s*"docs"\s*:\s*\[')
_NESTED = re.compile(r'\s*\{\s*"([^"\\]|\\.)*"\s*:\s*[\[{]|\s*\{\s*\}\s*$')
_FLAT = re.compile(r'\s*\{\s*"([^"\\]|\\.)*"\s*:\s*[^\s\[{]')
_PARQUET = b"PAR1"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_LINES = 20


def guess(source: Source, kind: Kind) -> Form:
    """The form of a file, a folder, a report's id, or standard input (``-``) that stands where ``kind`` belongs.

    Nothing of standard input or of a pipe is used up. Raises LabelsError for qrels, RunFileError for a run, if there
    is no such file, if it is empty, or if it does not look like ``kind`` in any form; the message says what was seen.
    """
    error: type[InputError] = LabelsError if kind == "qrels" else RunFileError
    form = None if is_standard_input(source) else _by_name(Path(source), error)
    if form is None:
        head = head_of(source, error)
        try:
            form = _by_head(head, source, kind, error)
        except InputError:
            release(source)
            raise
    if form not in FORMS_OF[kind]:
        release(source)
        raise _unsure(source, kind, error, f"looks like {_OTHER.get(form, 'the form ' + repr(form))}")
    return form


_OTHER: dict[Form, str] = {
    "labels": "labels, which are qrels",
    "beir": "qrels of 3 columns",
    "rankings": "the rankings of a report, which are a run",
    "results": "results, which are runs",
}


def _by_name(path: Path, error: type[InputError]) -> Form | None:
    if path.name == "report.json" or (path / "report.json").is_file() or (path.name == "latest" and path.is_file()):
        return "report"
    if path.is_dir():
        qrels = sorted(one.name for one in (path / "qrels").glob("*.tsv*"))
        inside = f" Name one of its files: qrels/{', qrels/'.join(qrels)}." if qrels else ""
        raise error(Fault(str(path), message=f"is a folder, and not one of a report (no report.json).{inside}"))
    if not path.exists():
        if _RUN_ID.match(path.name) and not path.suffix:
            return "report"
        if path.name not in _LABELS or not any(path.with_name(name).exists() for name in _LABELS):
            raise error(Fault(str(path), message="there is no such file, nor a report of that id."))
    if path.name in _LABELS:
        return "labels"
    return "parquet" if ".parquet" in path.suffixes[-2:] else None


def _by_head(head: bytes, source: Source, kind: Kind, error: type[InputError]) -> Form:
    if head.startswith(_PARQUET):
        return "parquet"
    text = head.decode("utf-8-sig", "replace")
    if not text.strip():
        raise error(Fault(name_of(source), message="is empty."))
    if "\0" in text:
        raise _unsure(source, kind, error, "is neither text nor Parquet")
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    if len(head) == HEAD and len(lines) > 1:  # the last line may be cut
        lines.pop()
    if text.lstrip()[0] in "[{":
        form = _json_form(text)
        if form is None:
            begins = shown(" ".join(text.split())[:60])
            raise _unsure(source, kind, error, f"is JSON of no known form; it begins {begins}")
        return form
    if not lines:
        what = "qrels" if kind == "qrels" else "a run"
        message = f"has no rows, only comments (lines that begin with #); is this file {what}?"
        raise error(Fault(name_of(source), message=message))
    return _text_form(lines[:_LINES], source, kind, error)


def _json_form(text: str) -> Form | None:
    if text.lstrip()[0] == "[":
        return "results" if '"results"' in text else None
    first = _first_object(text)
    if isinstance(first, dict) and first and not any(isinstance(value, dict | list) for value in first.values()):
        return "jsonl"
    if _RANKINGS_INSIDE.match(text):
        return "rankings"
    if _LABELS_INSIDE.search(text):
        return "labels"
    if _NESTED.match(text):
        return "json"
    return "jsonl" if first and _FLAT.match(text) else None


def _first_object(text: str) -> object:
    """The value of the first line, if that is one."""
    try:
        return load_json(text.lstrip().partition("\n")[0])[0]
    except (json.JSONDecodeError, ValueError, RecursionError):
        return None


def _text_form(lines: Sequence[str], source: Source, kind: Kind, error: type[InputError]) -> Form:
    """By the width that most lines have: whoever reads the file tells the lines that are shorter or longer."""
    widths = Counter(len(line.split()) for line in lines)
    usual = max(widths, key=lambda width: (widths[width], width))
    tabbed = Counter(len(line.rstrip("\r").split("\t")) for line in lines)
    seen = f"has {_counted(set(widths))} a line, such as {shown(lines[0].strip())}"
    if usual == (4 if kind == "run" else 6):
        other = "qrels" if kind == "run" else "a run"
        raise _unsure(source, kind, error, f"{seen}: it looks like {other}. Are qrels and run the wrong way round?")
    if usual == 3 or max(tabbed, key=lambda width: (tabbed[width], width)) == 3:
        return _three_columns(lines, source, kind, error)
    if usual >= (5 if kind == "run" else 4):
        return "trec"
    raise _unsure(source, kind, error, seen)


def _three_columns(lines: Sequence[str], source: Source, kind: Kind, error: type[InputError]) -> Form:
    tabbed = [line.rstrip("\r").split("\t") for line in lines]
    split = (by_tab if len(by_tab) == 3 else line.split() for by_tab, line in zip(tabbed, lines, strict=True))
    rows = [row for row in split if len(row) == 3]
    has_header = all(_is_named(name, kind) for name in rows[0])
    last = [row[-1].strip() for row in (rows[1:] if has_header else rows)]
    if kind == "qrels":
        if has_header or any(re.fullmatch(r"[+-]?\d+", value) for value in last):
            return "beir"
        raise _unsure(source, kind, error, f"has 3 columns, of which the last is no grade: {shown(last[0])}")
    if has_header:
        raise _unsure(source, kind, error, f"has 3 columns with a header, {shown(lines[0].strip())}")
    if all(re.fullmatch(r"\d+", value) for value in last):
        if _look_like_scores([row[0].strip() for row in rows], [float(value) for value in last]):
            raise _scored(source, error, last[0])
        return "msmarco"
    if all(_NUMBER.fullmatch(value) for value in last):
        raise _scored(source, error, next(value for value in last if not value.isdigit()))
    raise _unsure(source, kind, error, f"has 3 columns, of which the last is no rank: {shown(last[0])}")


def _look_like_scores(queries: Sequence[str], values: Sequence[float]) -> bool:
    """Whether whole numbers are no ranks: those of the first query fall, or are one alone and nowhere is a rank 1.

    Ranks can fall, too, where a file has the best hit last; that is so rare that its owner had better say so.
    """
    first = [value for query, value in zip(queries, values, strict=True) if query == queries[0]]
    falls = len(first) > 1 and all(later <= earlier for earlier, later in pairwise(first))
    return falls or (len(first) == 1 and not {0.0, 1.0} & set(values))


def _scored(source: Source, error: type[InputError], value: str) -> InputError:
    message = (
        f"has 3 columns, of which the last looks like a score: {shown(value)}. A run of query, document and score is "
        "no known form; give it as TREC (query Q0 document rank score tag) or JSONL, or say --format msmarco if these "
        "are ranks."
    )
    return error(Fault(name_of(source), message=message))


def _is_named(name: str, kind: Kind) -> bool:
    return name.strip().lower() in usual_names(kind) | {"score"}


def _counted(widths: set[int]) -> str:
    if len(widths) == 1:
        (width,) = widths
        return f"{width} column{'s' if width != 1 else ''}"
    return f"{min(widths)} to {max(widths)} columns"


def _unsure(source: Source, kind: Kind, error: type[InputError], seen: str) -> InputError:
    forms = ", ".join(FORMS_OF[kind])
    what, option = ("a run", "--format") if kind == "run" else ("qrels", "--qrels-format (of export: --format)")
    end = "" if seen.endswith("?") else "."
    message = f"{seen}{end} If it is {what}, say which form with {option}: {forms}."
    return error(Fault(name_of(source), message=message))
