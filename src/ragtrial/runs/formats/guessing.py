"""The form of a file of qrels or of a run, guessed from its name, its first bytes and its first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from ragtrial.dataset.faults import shown
from ragtrial.dataset.qrels_text import KIND_NAMES, SEPARATOR_LINE, Kind, fields_of, header_sign, whole_number
from ragtrial.dataset.texts import is_spreadsheet, spreadsheet_fault
from ragtrial.errors import Fault, InputError, LabelsError, RunFileError
from ragtrial.runs.streams import HEAD, Source, head_of, is_standard_input, name_of, release

Form = Literal[
    "trec", "msmarco", "beir", "csv", "json", "jsonl", "parquet", "labels", "report", "rankings", "results",
    "spans", "mteb",
]  # fmt: skip
"""The form of a file. "trec": TREC text (runs of 6 columns, qrels of 4). "msmarco": runs of 3 columns (query,
document, rank). "beir": qrels of 3 columns, as BEIR has them. "csv": runs with a header, fields between commas,
semicolons, tabs or spaces. "json": objects in an object. "jsonl": one object a line. "labels": prompt_queries.json.
"report": a report, by folder or id. "rankings": a rankings file of a report. "results": results as
RetrievalEvaluator writes them, or as they were published. "spans": retrievers' spans of OpenTelemetry or OpenInference.
"mteb": predictions that MTEB saved."""

FORMS_OF: dict[Kind, tuple[Form, ...]] = {
    "qrels": ("trec", "beir", "json", "jsonl", "parquet", "labels", "report"),
    "run": ("trec", "msmarco", "csv", "json", "jsonl", "parquet", "report", "rankings", "results", "spans", "mteb"),
}
"""The forms that qrels, or runs, may have."""

_LABELS = {"prompt_queries.json", "prompts_queries.json"}
_RUN_ID = re.compile(r"\d{8}T\d{6}Z(-[0-9a-f]{0,6})?|latest")
_KEY = r'"([^"\\]|\\.)*"\s*:\s*'
_JSON_FORMS: tuple[tuple[Form, re.Pattern[str]], ...] = (
    ("mteb", re.compile(r'\s*\{\s*"mteb_model_meta"\s*:')),
    ("spans", re.compile(r'\s*[\[{].*"resource_?[sS]pans"\s*:\s*\[', re.DOTALL)),
    ("spans", re.compile(r'(?=.*"(context\.)?(trace_id|traceId)"\s*:)(?=.*"attributes[".])\s*[\[{]', re.DOTALL)),
    ("results", re.compile(r'\s*\[.*"results"', re.DOTALL)),
    ("rankings", re.compile(r'\s*\{\s*"query"\s*:\s*"([^"\\]|\\.)*"\s*,\s*"docs"\s*:\s*\[')),
    ("labels", re.compile(r'\s*\{.*"queries"\s*:\s*\[\s*(\{|\])', re.DOTALL)),
    ("json", re.compile(r"\s*\{\s*" + _KEY + r"[\[{]|\s*\{\s*\}\s*$")),
    ("jsonl", re.compile(r"\s*\{\s*" + _KEY + r"[^\s\[{].*\}\s*(\n|$)")),
)
"""The beginning of each form of JSON; the first match counts."""
_LINES = 20


class _UnsureError(Exception):
    """A description of a file that matches no form."""


def guess(source: Source, kind: Kind) -> Form:
    """The form of a file, a folder, the id of a report, or standard input (``-``), read as ``kind``.

    Standard input and pipes can still be read. Raises LabelsError for qrels, RunFileError for a run, if the file does
    not exist, is empty, or does not look like ``kind`` in any form; the message describes the file.
    """
    error: type[InputError] = LabelsError if kind == "qrels" else RunFileError
    form = None if is_standard_input(source) else _by_name(Path(source), error)
    if form == "parquet" and kind == "run" and b"context.trace_id" in Path(source).read_bytes()[-HEAD:]:
        return "spans"  # the names of its columns are at the end of a Parquet file
    if form in FORMS_OF[kind]:
        return form
    if form is not None:
        raise error(Fault(name_of(source), message=f"looks like the form {form!r}."))
    try:
        form = _seen(head_of(source, error), kind)
        if form in FORMS_OF[kind]:
            return form
        raise _UnsureError(f"looks like the form {form!r}.")
    except _UnsureError as unsure:
        release(source)  # a pipe is given up
        option = "--format" if kind == "run" else "--qrels-format (of export: --format)"
        forms = ", ".join(FORMS_OF[kind])
        message = f"{unsure} If it is {KIND_NAMES[kind]}, say which form with {option}: {forms}."
        raise error(Fault(name_of(source), message=message)) from None


def _by_name(path: Path, error: type[InputError]) -> Form | None:
    if path.name == "report.json" or (path / "report.json").is_file() or (path.name == "latest" and path.is_file()):
        return "report"
    if path.is_dir():
        qrels = sorted(file.name for file in (path / "qrels").glob("*.tsv*"))
        inside = f" Name one of its files: qrels/{', qrels/'.join(qrels)}." if qrels else ""
        raise error(Fault(str(path), message=f"is a folder, and not one of a report (no report.json).{inside}"))
    if is_spreadsheet(path.name):
        raise error(spreadsheet_fault(str(path), f"query,document,{'grade' if error is LabelsError else 'score'}"))
    if path.name in _LABELS:
        return "labels"
    if not path.exists() and _RUN_ID.match(path.name) and not path.suffix:
        return "report"
    if not path.exists():
        raise error(Fault(str(path), message="there is no such file, nor a report of that id."))
    return "parquet" if ".parquet" in path.suffixes[-2:] else None


def _seen(head: bytes, kind: Kind) -> Form:
    if head.startswith(b"PAR1"):
        return "parquet"
    text = head.decode("utf-8-sig", "replace")
    if "\0" in text:
        raise _UnsureError("is neither text nor Parquet.")
    lines = [line for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]
    if len(head) == HEAD and len(lines) > 1:  # the last line may be cut
        lines.pop()
    if not lines:
        raise _UnsureError("is empty, or has only comments (lines that begin with #).")
    if text.lstrip()[0] not in "[{":
        return _by_columns(lines[:_LINES], kind)
    for form, begin in _JSON_FORMS:
        if begin.match(text):
            return form
    raise _UnsureError(f"is JSON of no known form; it begins {shown(' '.join(text.split())[:60])}.")


def _by_columns(lines: Sequence[str], kind: Kind) -> Form:
    """The form by the most frequent width; the reader reports shorter and longer lines."""
    if header_sign(lines[0], kind=kind) or SEPARATOR_LINE.match(lines[0]):
        return "beir" if kind == "qrels" else "csv"
    usual, seen = _usual_width([line.split() for line in lines]), f"such as {shown(lines[0].strip())}"
    tabbed = [line.rstrip("\r").split("\t") for line in lines]
    if usual == (4 if kind == "run" else 6):
        other = "qrels" if kind == "run" else "a run"
        message = f"has {usual} columns, {seen}: it looks like {other}. Are qrels and run the wrong way round?"
        raise _UnsureError(message)
    signed = [fields_of(line) for line in lines]
    if usual == 1 and (width := _usual_width(signed)) >= 3:
        if kind == "qrels" and width == 3:
            return _by_third_column([row for row in signed if len(row) == 3], kind)
        names = "query,document," + ("grade" if kind == "qrels" else "score")
        message = f"has {width} columns, {seen}, and no header; name the columns in a first line, like {names}."
        raise _UnsureError(message)
    if usual == 3 or _usual_width(tabbed) == 3:
        split = (by_tab if len(by_tab) == 3 else line.split() for by_tab, line in zip(tabbed, lines, strict=True))
        return _by_third_column([[field.strip() for field in row] for row in split if len(row) == 3], kind)
    if usual >= (5 if kind == "run" else 4):
        return "trec"
    raise _UnsureError(f"has lines of {usual} columns, {seen}.")


def _usual_width(rows: Sequence[Sequence[str]]) -> int:
    widths = Counter(map(len, rows))
    return max(widths, key=lambda width: (widths[width], width))


def _by_third_column(rows: Sequence[Sequence[str]], kind: Kind) -> Form:
    last = [row[2] for row in rows]
    if kind == "qrels":
        if any(whole_number(value) is not None for value in last):
            return "beir"
        raise _UnsureError(f"has 3 columns, of which the last is no grade: {shown(last[0])}.")
    wrong = next((value for value in last if not value.isdecimal()), None)
    if wrong is None:
        first = [int(value) for query, _, value in rows if query == rows[0][0]]
        falls = len(first) > 1 and all(later <= earlier for earlier, later in pairwise(first))
        if not falls and (len(first) > 1 or {"0", "1"} & set(last)):  # else they are whole scores
            return "msmarco"
        wrong = last[0]
    raise _UnsureError(
        f"has 3 columns, of which the last is no rank: {shown(wrong)}. Write query, document and score as TREC "
        "(query Q0 document rank score tag) or JSONL; ranks that fall are read with --format msmarco."
    )
