"""Reading tables of scores: files of any form, data frames and lists of rows."""

from __future__ import annotations

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ragtrial.cache.untrusted import load_json, usual_bytes
from ragtrial.dataset.foreign_files import Content, read_content, recognised, tried
from ragtrial.errors import Fault, ReportError, counted, listed
from ragtrial.records import Direction
from ragtrial.report.model import Report
from ragtrial.runs.formats.rows import table_columns
from ragtrial.runs.streams import is_standard_input, name_of, open_source, stem_of
from ragtrial.scoring.tables.base import SCORE_FORMS, ScoreForm, ScoreTable, Source, converted, is_blank
from ragtrial.scoring.tables.table_report import table_reports

_DECIMAL = re.compile(r"[-+]?\d+(,\d+)?(e[-+]?\d+)?\s?%?", re.IGNORECASE)
_SAMPLES = re.compile(r"samples_(.*?)(?:_\d{4}-\d\d-\d\dT[\d.-]+)?\.jsonl", re.DOTALL)
HEADER = "question,system,metric,score"


def table_of(reference: object) -> tuple[Any, str | None] | None:
    """The file, folder, data frame or list of rows that ``reference`` is, and the setting that it names.

    ``FILE:SETTING`` is one setting of a file. None for a report.
    """
    if not isinstance(reference, str | Path):
        is_table = hasattr(reference, "__arrow_c_stream__") or hasattr(reference, "columns")
        return (reference, None) if is_table or isinstance(reference, list | tuple) else None
    before, _, setting = str(reference).rpartition(":")
    for path, named in ((str(reference), None), (before, setting)):
        if path and _is_table(Path(path)):
            return path, named
    return None


def _is_table(path: Path) -> bool:
    is_file = path.is_file() and path.name not in ("report.json", "latest")
    return is_file or is_standard_input(path) or bool(samples_in(path))


def samples_in(folder: Path) -> list[Path]:
    """The newest file of samples of each model and task in a folder of lm-eval; nothing in any other folder.

    The folder has a folder for each model, or is that of a model.
    """
    paths = sorted([*folder.glob("samples_*.jsonl"), *folder.glob("*/samples_*.jsonl")])
    return list({(path.parent, _task(path)): path for path in paths}.values())


def _task(samples: Path) -> str:
    return _SAMPLES.fullmatch(samples.name)[1]  # type: ignore[index]  # as ``samples_in`` finds them


def directions_of(lower: Iterable[str], higher: Iterable[str]) -> dict[str, Direction]:
    """The directions of metrics that a user gives. Raises ReportError for a metric in both."""
    if both := listed(set(lower) & set(higher)):
        raise ReportError(f"{both}: either lower or higher values are better; name it once.")
    return {**dict.fromkeys(lower, "lower"), **dict.fromkeys(higher, "higher")}


Tables = Mapping[object, tuple[Report, Sequence[str]]]
"""The report of each table, and its settings in it, by ``table_key``."""


def read_tables(references: Iterable[object], better: Mapping[str, Direction], *, apart: bool = False) -> Tables:
    """The tables among ``references``, read together, or ``apart`` as data sets that have nothing in common.

    Raises ReportError with the faults of all.
    """
    sources = {table_key(table[0]): table[0] for table in map(table_of, references) if table is not None}
    tables: dict[object, ScoreTable] = {}
    faults: list[Fault] = []
    for number, (key, source) in enumerate(sources.items(), 1):
        try:
            tables[key] = read_table(source, number, is_alone=apart or len(sources) == 1)
        except ReportError as error:
            faults += error.faults
    ReportError.raise_any(faults)
    groups = [[table] for table in tables.values()] if apart else [list(tables.values())]
    reports = [report for group in groups if group for report in table_reports(group, better)]
    each = reports * len(tables) if len(reports) == 1 else reports
    return {key: (report, tables[key].settings) for key, report in zip(tables, each, strict=True)}


def table_key(source: object) -> object:
    """Equal for the same file, or the same table in memory."""
    return Path(source).resolve() if isinstance(source, str | Path) else id(source)


def read_table(source: object, number: int = 1, *, is_alone: bool = True) -> ScoreTable:
    """The scores of a file, a folder of lm-eval, a data frame, or a list of rows.

    A table in memory is called by its ``number`` among the tables. Raises ReportError with all faults.
    """
    if isinstance(source, str | Path) and (files := samples_in(Path(source))):
        return _table_of_samples(Path(source), files)
    if isinstance(source, str | Path):
        content, name = _content(Path(source)), stem_of(source)
    else:
        name = f"table-{number}"
        content = Content(name, _rows_of(source, name), ReportError, lines=())
    form = _recognised(content)
    given = Source(content, name, is_alone)
    scores = list(converted(form.read(given), content))
    if not scores and not content.faults:
        content.fault((), "has no score.")
    content.check()
    return ScoreTable(name, content.file, form.name, scores, _directions(form), given.warnings)


def _table_of_samples(folder: Path, files: Sequence[Path]) -> ScoreTable:
    """The scores of a folder of lm-eval; the task is a tag of its questions if there are several tasks."""
    tables = {file: read_table(file, is_alone=False) for file in files}
    scores = [(_task(file), score) for file, table in tables.items() for score in table.scores]
    if len({task for task, _ in scores}) > 1:
        scores = [(task, replace(score, id=f"{task} {score.id}", tag=task)) for task, score in scores]
    first = tables[files[0]]
    return replace(first, name=folder.name, file=str(folder), scores=[score for _, score in scores])


def _content(path: Path) -> Content:
    if is_standard_input(path):
        return _standard_input()
    if is_zip(path):
        return Content(str(path), read_zip(path), ReportError)
    content = read_content(path, ReportError, HEADER, keeps_case=True)
    if content.sign == ";":
        _read_decimal_commas(content, content.rows)
    value = content.value
    if isinstance(value, Mapping) and len(value) > 1 and all(isinstance(column, Mapping) for column in value.values()):
        first, *others = value.values()
        if first and all(column.keys() == first.keys() for column in others):  # as pandas writes a frame by default
            rows = [{name: column[index] for name, column in value.items()} for index in first]
            return Content(content.file, rows, ReportError, lines=range(1, len(rows) + 1))
    return content


def _standard_input() -> Content:
    """The content of a copy, since files are read from their beginning several times."""
    with TemporaryDirectory() as folder, open_source("-", ReportError, keeps=True) as stream:
        copy = Path(folder, "copy")
        copy.write_bytes(stream.read())
        try:
            return replace(_content(copy), file=name_of("-"))
        except ReportError as error:
            raise ReportError(*(replace(fault, file=name_of("-")) for fault in error.faults)) from error


def _read_decimal_commas(content: Content, rows: Sequence[Any]) -> None:
    """Put points for commas in columns of numbers, as spreadsheets of many countries write them next to semicolons.

    Raises ReportError for a column that has both.
    """
    for column in rows[0]:
        cells = [row[column] or "" for row in rows]
        if all(is_blank(cell) or _DECIMAL.fullmatch(cell.strip().replace(".", ",")) for cell in cells):
            places = list(zip(content.lines, cells, strict=True))
            lines = {sign: line for line, cell in reversed(places) for sign in ",." if sign in cell}
            if len(lines) > 1:
                message = f"{column!r} has decimal commas (line {lines[',']}) and points (line {lines['.']}). Use one."
                raise ReportError(Fault(content.file, message=message))
            for row in rows:
                row[column] = row[column] and row[column].replace(",", ".")


def _rows_of(source: object, name: str) -> list[Any]:
    if isinstance(source, list | tuple):
        return list(source)
    columns = table_columns(source)
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    if not rows:
        raise ReportError(Fault(name, message="has no row."))
    return rows


def _recognised(content: Content) -> ScoreForm:
    if form := recognised(SCORE_FORMS, content):
        return form
    if content.rows:
        message = (
            f"is no table of scores: it is {content.seen()}, in {counted(len(content.rows), 'row')}. Needed are rows "
            f"with the columns {HEADER}, or a column of questions and a column of numbers for each system."
        )
    else:
        message = f"has scores of no known form: it is {content.seen()}. Tried: {tried(SCORE_FORMS)}."
    raise ReportError(Fault(content.file, message=message))


def _directions(form: ScoreForm) -> dict[str, Any]:
    """The directions of metrics by their names in small letters. ``form`` comes before other tools.

    What other tools call ``score`` says nothing of this table's.
    """
    known = {name: better for _, other in SCORE_FORMS.members() for name, better in other.directions.items()}
    return {**known, "score": None, **form.directions}


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
            samples = [load_json(_unpacked(log, path, info)) for info in names]
            return {**load_json(_unpacked(log, path, header)), "samples": samples}
    except _DAMAGE as error:
        message = f"is no sound log of Inspect: {error}."
        raise ReportError(Fault(str(path), message=message)) from error


def _unpacked(log: zipfile.ZipFile, path: Path, info: zipfile.ZipInfo) -> bytes:
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
