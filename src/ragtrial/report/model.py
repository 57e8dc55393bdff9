"""report.json and its neighbours: the report, its environment and tables, writing and reading it."""

from __future__ import annotations

import io
import os
import platform
import re
import secrets
import struct
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import groupby, islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

from pydantic import Field, PrivateAttr, ValidationError, model_validator
from pydantic_core import from_json, to_json

from ragtrial.cache.atomic import new_folder, write_text
from ragtrial.cache.bookkeeping import only_writer
from ragtrial.cache.fingerprints import checksum, file_checksum, fingerprint
from ragtrial.cache.untrusted import inflated, lines_of, load_json, usual_bytes
from ragtrial.errors import DamagedReportError, Fault, ReportError, RunError, counted, did_you_mean, listed
from ragtrial.records import Unit
from ragtrial.registry import installed_version
from ragtrial.report import schema
from ragtrial.report.find import find_report

if TYPE_CHECKING:
    from pandas import DataFrame

Row = dict[str, Any]

_ALWAYS = ("ragtrial", "numpy")


def environment(packages: Iterable[str] = ()) -> dict[str, Any]:
    """Versions and machine, as JSON values; with versions of installed ``packages``, named as pip names them."""
    versions = {name: installed_version(name) for name in sorted({*_ALWAYS, *packages})}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": {name: version for name, version in versions.items() if version is not None},
    }


def data_frame(rows: Sequence[Row]) -> DataFrame:
    """One row each. Raises ReportError where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError:
        message = "a DataFrame needs pandas, which is not installed: pip install 'ragtrial[pandas]'."
        raise ReportError(message) from None
    return DataFrame(list(rows))


SCHEMA_VERSION = 2
OTHER_BYTES = "has other bytes than were written: it is damaged, or was edited. Run the experiment again."
OTHER_QUERIES = "is damaged: its rows are not those of the queries in report.json. Run the experiment again."
TEXTS = "texts.jsonl.gz"
LABEL_TEXT = 400
"""The most characters of the text of a label that no setting found."""

PARTS = "parts"
"""The folder of the rankings of parts, below rankings/."""

_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6}")

_END = b'"\n}\n'
"""The bytes after the checksum of report.json, its last field."""

_LARGEST = 2**31


class Report(schema.Part):
    """The outcome of one run of an experiment."""

    schema_version: Literal[2]
    experiment: str
    run_id: str
    parent: str | None = None
    """The run whose rankings were scored again by other labels or metrics; null for an original run."""

    config: dict[str, Any]
    """As it was written; variables are not resolved."""

    dataset: schema.DatasetPart
    unit: Unit = "document"
    """The retrieved unit, which is relevant or not."""

    span_coverage: float | None = None
    """The share of a passage's characters that must be found, under unit: span; null for documents."""

    relevance_threshold: int = 1
    """The grade from which a hit is relevant in binary metrics."""

    clusters: Literal["document"] | None = None
    """`document` if questions that share relevant documents are one cluster, in addition to those that labels name."""

    search: schema.SearchedPart | None = None
    """Null where all settings were in the config."""

    primary_metric: str
    scored: schema.ScoredPart | None = None
    """How many queries the primary metric scores, and why not the others; null before the report is written."""

    has_rankings: bool = Field(default=True, exclude_if=bool)
    """False for a table of scores per question, which has no hits and no labels; not written otherwise."""

    metrics: dict[str, schema.MetricPart]
    prompt: str | None
    """The prompt template of the labels."""

    queries: list[schema.QueryPart]
    settings: list[schema.SettingPart]
    failures: list[schema.FailurePart]
    warnings: list[schema.WarningPart]
    environment: dict[str, Any]
    files: dict[str, str] = Field(default={})
    """The checksum (XXH3, 128 bits) of each other file of the folder; empty in a report that was edited by hand."""

    sizes: dict[str, int] = Field(default={})
    """The bytes of each packed file of the folder before it was packed: readers read no more."""

    checksum: str = ""
    """The checksum of this file, computed while this field was empty."""

    _folder: Path | None = PrivateAttr(default=None)
    _sound: set[str] = PrivateAttr(default_factory=set)
    _held: dict[str, dict[str, Row]] = PrivateAttr(default_factory=dict)
    """The rankings of a report that is in no folder: for each setting a row by query."""

    _rows: dict[str, int] = PrivateAttr(default_factory=dict)
    """The row that each query has in the files of rankings, once the report is written or if it was read."""

    @model_validator(mode="after")
    def _has_a_value_per_query(self) -> Self:
        for setting in self.settings:
            columns = setting.per_query
            sizes = {len(columns.short), len(columns.skipped), len(columns.collapsed)}
            sizes |= {len(values) for values in columns.evaluations.values()}
            if sizes | ({len(columns.passages)} if columns.passages is not None else set()) != {len(self.queries)}:
                raise ValueError(f"per_query of {setting.name} must have {len(self.queries)} rows, one per query")
        return self

    @property
    def folder(self) -> Path:
        """The folder of the report, once it is written or if it was read. Raises ReportError before."""
        if not self.has_rankings:
            raise ReportError(
                f"{self.experiment} is a table of scores, without rankings, labels and texts. `ragtrial compare` and "
                "`ragtrial report` read it."
            )
        if self._folder is None:
            raise ReportError(f"run {self.run_id} is not written yet; it has no folder.")
        return self._folder

    @property
    def original_run(self) -> str:
        """The id of the run that made the rankings."""
        return self.parent or self.run_id

    @property
    def is_written(self) -> bool:
        """True if the report has a folder."""
        return self._folder is not None

    def file(self, name: str) -> Path:
        """The path of a file of the folder, such as ``texts.jsonl.gz``, compared with its checksum if it exists.

        Raises ReportError if it has other bytes than were written, or if ``name``, or a link, leads out of the folder.
        """
        path = self.folder / name
        if not _is_inside(name) or not path.resolve().is_relative_to(self.folder.resolve()):
            raise ReportError(f"run {self.run_id} names {name!r}, which is outside of its folder; it is not read.")
        if name in self.files and name not in self._sound and path.is_file():
            if file_checksum(path) != self.files[name]:
                raise DamagedReportError(Fault(str(path), message=OTHER_BYTES))
            self._sound.add(name)
        return path

    def ranking_file(self, setting: str) -> Path:
        """The path of the file with all hits of a setting, or of a part; see ``file``."""
        return self.file(f"rankings/{setting}.jsonl.gz")

    def rankings(self, setting: str, queries: Sequence[str]) -> Iterator[Row]:
        """The hits of a setting, or a part, for each of ``queries``, in this order, in columns.

        No other query is read. Raises ReportError if the file is missing or damaged, KeyError for an unknown query.
        """
        if setting in self._held:
            yield from (self._held[setting][query] for query in queries)
            return
        path = self.ranking_file(setting)
        size = self.sizes.get(f"rankings/{setting}.jsonl.gz")
        wanted = [self._rows[query] for query in queries]
        ordered = sorted(wanted)
        rows = read_numbered(path, ordered, size)
        if wanted != ordered:
            by_number = dict(zip(ordered, rows, strict=True))
            rows = (by_number[number] for number in wanted)
        for query, row in zip(queries, rows, strict=True):
            if row.get("query") != query or not _has_places(row):
                raise ReportError(Fault(str(path), message=OTHER_QUERIES))
            yield row

    def holding(self, rankings: Mapping[str, Iterable[Row]]) -> Report:
        """A copy with these rankings in memory, for each setting one row per query."""
        copy = self.model_copy()
        copy._held = {name: {row["query"]: row for row in rows} for name, rows in rankings.items()}  # noqa: SLF001 - its own
        return copy

    def all_texts(self) -> Iterator[Row]:
        """The text and the place of each chunk that the report has. Raises ReportError if they cannot be read."""
        return read_rows(self.file(TEXTS), self.sizes.get(TEXTS))

    def texts(self, chunks: Collection[str]) -> dict[str, Row]:
        """The text and the place of each of these chunks that the report has, by name.

        Raises ReportError if the file is missing or damaged.
        """
        wanted, texts = set(chunks), dict[str, Row]()
        for row in self.all_texts() if wanted else ():
            if row["chunk"] in wanted:
                texts[row["chunk"]] = row
                if len(texts) == len(wanted):
                    break
        return texts

    def __repr__(self) -> str:
        size = f"{counted(len(self.settings), 'setting')}, {counted(len(self.queries), 'query', 'queries')}"
        value = "no value"
        for best in self.ranked_settings()[:1]:
            mean = best.scores[self.primary_metric].mean
            value = value if mean is None else f"{best.name} {mean:,.3f}"
        return f"Report({self.experiment!r}, {size}, {self.primary_metric}: {value})"

    def to_frame(self, *, per_query: bool = False) -> DataFrame:
        """The scores as a pandas DataFrame: one row per setting, best first, or per setting and query.

        Columns are ``setting`` (and ``query``), then the metrics, the primary one first. A value is missing where a
        metric is not defined. Raises ReportError where pandas is not installed.
        """
        return data_frame(self.rows([self.primary_metric, *self.metrics], per_query=per_query))

    def rows(self, metrics: Sequence[str], *, per_query: bool = False) -> list[Row]:
        """The scores by ``setting`` (and ``query``) and metric: a row per setting, best first, or per query of each."""
        if per_query:
            return [
                {"setting": setting.name, "query": query.id, **{name: values[place] for name, values in columns}}
                for setting in self.ranked_settings()
                for columns in [[(name, setting.per_query.evaluations[name]) for name in metrics]]
                for place, query in enumerate(self.queries)
            ]
        return [
            {"setting": setting.name, **{name: getattr(setting.scores.get(name), "mean", None) for name in metrics}}
            for setting in self.ranked_settings()
        ]

    def setting(self, name: str) -> schema.SettingPart:
        """The setting called ``name``. Raises ReportError that lists the settings."""
        for setting in self.settings:
            if setting.name == name:
                return setting
        names = [setting.name for setting in self.settings]
        near = did_you_mean(name, names)
        raise ReportError(f"run {self.run_id} has no setting {name!r}.{near} It has: {', '.join(names)}.")

    def scored_queries(self) -> schema.ScoredPart:
        """The number of queries that the primary metric scores for any setting, and why not the others."""
        columns, rows = [setting.per_query for setting in self.settings], range(len(self.queries))
        known = [any(own.evaluations[self.primary_metric][row] is not None for own in columns) for row in rows]
        failed = [all(own.skipped[row] for own in columns) for row in rows]
        return schema.scored_part(self.queries, known, failed, have_labels=self.has_rankings)

    def sign(self, metric: str) -> int:
        """1 if higher values of ``metric`` are better, -1 if lower values are."""
        return -1 if metric in self.metrics and self.metrics[metric].better == "lower" else 1

    def ranked_settings(self) -> list[schema.SettingPart]:
        """The settings by the primary metric, best first; settings without a value last; ties by name."""

        def key(setting: schema.SettingPart) -> tuple[bool, float, str]:
            mean = setting.scores[self.primary_metric].mean
            return mean is None, -self.sign(self.primary_metric) * (mean or 0.0), setting.name

        return sorted(self.settings, key=key)


def report_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of report.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Report.model_json_schema()}


def label_text(doc: str, start: int) -> str:
    """The name of the text of a label, among the chunks of texts.jsonl.gz: a passage from ``start``, or 0."""
    return f"label {doc} {start}"


def part_file(whole: Mapping[str, Any], entry: str) -> str:
    """The name, below rankings/ and without its ending, of the component ranking of ``entry`` in ``whole``.

    ``whole`` are the parameters of a setting, or of a part with parts, as they are in the report. Equal parts that are
    used equally deep have one file, in any setting.
    """
    looked_at = whole["retriever"].get("candidates")
    return f"{PARTS}/{entry}-{fingerprint([whole['parts'][entry], looked_at])[:12]}"


def new_run_id(now: datetime) -> str:
    """UTC time and six random hex digits, like ``20260131T235959Z-0a1b2c``; sorts by time."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def run_time(run_id: str) -> datetime | None:
    """The UTC time in the id of a run; None for a text that is not such an id."""
    with suppress(ValueError):
        return datetime.strptime(run_id[:-7], "%Y%m%dT%H%M%SZ") if _RUN_ID.fullmatch(run_id) else None
    return None


def time_text(run_id: str) -> str:
    """``23 November 2026, 11:57 UTC`` for the id of a run; empty for another text."""
    time = run_time(run_id)
    return f"{time.day} {time:%B %Y, %H:%M} UTC" if time else ""


RankingRows = Mapping[str, Iterable[dict[str, Any]]]
"""For each setting, and under ``parts/`` for parts, one row per query."""


def write_report(
    report: Report,
    directory: Path,
    rankings: RankingRows,
    texts: Iterable[dict[str, Any]],
    config_text: str,
    files: Mapping[str, str] | None = None,
    *,
    name: str = "",
) -> Report:
    """Write a report as ``write_folder`` does, as ``directory/<experiment>/<run id>``, and point ``latest`` to it.

    With ``name`` it is ``directory/<name>``, and nothing points to it. Partial folders of killed runs are removed.
    Raises RunError if it cannot be written.
    """
    folder = directory / (name or f"{report.experiment}/{report.run_id}")
    advice = "Finished work is cached; free space or set output.directory, and run the same command again."
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(folder.parent, name):
            placed = write_folder(report, folder, rankings, texts, {"config.yaml": config_text, **(files or {})})
            if not name:
                write_text(folder.parent / "latest", report.run_id + "\n")
    except OSError as error:
        advice = "Free space, or name another folder with -o." if name else advice
        message = f"cannot be written: {error.strerror or error}. {advice}"
        raise RunError(Fault(str(folder), message=message)) from error
    return placed


def write_folder(
    report: Report, folder: Path, rankings: RankingRows, texts: Iterable[dict[str, Any]], files: Mapping[str, str]
) -> Report:
    """Write a report's ``folder``, which is new, whole or not at all. Returns the report, which now knows its folder.

    ``texts`` has one row per retrieved chunk; ``files`` has the texts of other files by their names. Raises OSError.
    """
    with new_folder(folder) as new:
        for name, content in files.items():
            (new / name).write_text(content, encoding="utf-8")
        sizes = {}
        for name, rows in [*((f"rankings/{name}.jsonl.gz", rows) for name, rows in rankings.items()), (TEXTS, texts)]:
            (new / name).parent.mkdir(exist_ok=True, parents=True)
            sizes[name] = write_rows(new / name, rows)
        sums = {path.relative_to(new).as_posix(): file_checksum(path) for path in sorted(new.rglob("*.*"))}
        given = {"files": sums, "sizes": sizes, "scored": report.scored_queries(), "checksum": ""}
        unsealed = report.model_copy(update=given)
        text = to_json(unsealed, indent=1) + b"\n"
        sealed = unsealed.model_copy(update={"checksum": checksum(text)})
        with (new / "report.json").open("wb") as file:
            file.writelines([memoryview(text)[: -len(_END)], sealed.checksum.encode(), _END])
    return _placed(sealed, folder)


LARGEST_REPORT = 8 * 2**30
"""The most bytes of report.json that are read: room for some hundred settings of a million queries."""


def load_report(reference: str | Path, directory: str | Path = "results") -> Report:
    """The report that ``reference`` means: a folder, a run id, or ``latest``, looked for in ``directory``.

    Raises ReportError if it is not there, damaged, or of another version.
    """
    folder = find_report(str(reference), Path(directory))
    path = folder / "report.json"
    try:
        if path.stat().st_size > LARGEST_REPORT:
            message = f"has {path.stat().st_size:,} bytes; a report has at most {LARGEST_REPORT:,}."
            raise ReportError(Fault(str(path), message=message))
        text = path.read_bytes()
        report = Report.model_validate_json(text)
        own = report.checksum.encode() + _END
        before = memoryview(text)[: -len(own)] if text.endswith(own) else text  # of some gigabytes, no copy
        if report.checksum and checksum(before, _END) != report.checksum:
            raise DamagedReportError(Fault(str(path), message=OTHER_BYTES))
        scores = [setting.scores.keys() & setting.per_query.evaluations.keys() for setting in report.settings]
        if any(report.primary_metric not in names for names in (report.metrics, *scores)):
            message = f"is damaged: it does not have its primary metric, {report.primary_metric!r}, everywhere."
            raise ReportError(Fault(str(path), message=message))
    except OSError as error:
        raise ReportError(Fault(str(path), message=f"cannot be read: {error.strerror or error}.")) from error
    except ValidationError as error:
        raise ReportError(Fault(str(path), message=_damage(error))) from None
    return _placed(_with_warning(report, folder), folder)


def _with_warning(report: Report, folder: Path) -> Report:
    """The report; if files that it lists, or always has, are gone, with a warning that names them."""
    names = report.files or [TEXTS, *(f"rankings/{setting.name}.jsonl.gz" for setting in report.settings)]
    missing = [name for name in names if _is_inside(name) and not (folder / name).is_file()]
    if not missing:
        return report
    message = (
        f"{counted(len(missing), 'file')} of {folder} {'is' if len(missing) == 1 else 'are'} missing: "
        f"{listed(missing, 3)}. Parts that need them are left out or are an error; run the experiment again."
    )
    warning = schema.WarningPart(code="files-missing", message=message, may_change_verdict=True)
    return report.model_copy(update={"warnings": [*report.warnings, warning]})


def _has_places(row: Row) -> bool:
    """True if the columns of numbers of a row fit into arrays."""
    columns = [row.get(name) or [0] for name in ("starts", "ends", "tokens")]
    try:
        return all(column[0] is None or -_LARGEST < min(column) <= max(column) < _LARGEST for column in columns)
    except (LookupError, TypeError):
        return False


def _is_inside(name: str) -> bool:
    """True if the name of a file stays inside its folder."""
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts and "\0" not in name


def _damage(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    message = f"is damaged, or of another version: {place}{': ' if place else ''}{first['msg']}"
    return f"{message}. Update ragtrial, or make it again with the command that wrote it."


def _placed(report: Report, folder: Path) -> Report:
    placed = report.model_copy()
    placed._folder, placed._sound = folder, set()  # noqa: SLF001 - set once, here
    placed._rows = {query.id: place for place, query in enumerate(report.queries)}  # noqa: SLF001
    return placed


ROWS_IN_MEMBER = 100
"""A .jsonl.gz file of a report has one JSON object per line, which can be read without the other lines.

It is a series of gzip members (RFC 1952) of so many rows each, so any gzip reader reads it as one. The header of a
member has the member's length in an extra field, which lets a reader skip it.
"""

_LEVEL = 2  # level 4 takes half as long again for a tenth of the size, the default, 9, five times as long
_HEADER = struct.Struct("<4sIHH2sHI")
"""Magic number, method and flags; time; extra flags and system; then the extra field: its length and one subfield."""

_MAGIC = b"\x1f\x8b\x08\x04"  # deflate, with an extra field
_NO_SYSTEM = 0xFF00
_SUBFIELD = b"RT"


def write_rows(path: Path, rows: Iterable[Row]) -> int:
    """Write ``rows`` as a new file; how many bytes they are before they are packed. Raises OSError."""
    size = 0
    lines = (to_json(row, inf_nan_mode="null") + b"\n" for row in rows)
    with path.open("wb") as file:
        while text := b"".join(islice(lines, ROWS_IN_MEMBER)):
            file.write(_member(text))
            size += len(text)
    return size


def read_rows(path: Path, size: int | None = None) -> Iterator[Row]:
    """All rows, in order. ``size`` is their number of bytes before packing, None if unknown.

    Raises ReportError if the file cannot be read, is damaged, or holds more.
    """
    try:
        with path.open("rb") as file:
            yield from map(_row, lines_of(inflated(file, _most(path, size))))
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise _unreadable(path, error) from error


def read_numbered(path: Path, numbers: Sequence[int], size: int | None = None) -> Iterator[Row]:
    """The rows with these ``numbers``, counted from 0, in ascending order; only their members are read.

    ``size`` as in ``read_rows``. Raises ReportError if the file cannot be read, is damaged, holds more, or has no such
    row.
    """
    try:
        with path.open("rb") as file:
            start = member = 0
            for wanted, group in groupby(numbers, key=lambda number: number // ROWS_IN_MEMBER):
                while member < wanted:
                    start, member = start + _length(file, start), member + 1
                length = _length(file, start)
                file.seek(start)
                places = [number % ROWS_IN_MEMBER for number in group]
                lines = lines_of(inflated(io.BytesIO(file.read(length)), _most(path, size)))
                asked = {index: line for index, line in enumerate(lines) if index in places}
                yield from (_row(asked[index]) for index in places)
    except (OSError, EOFError, ValueError, LookupError, struct.error, zlib.error) as error:
        raise _unreadable(path, error) from error


def _member(text: bytes) -> bytes:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = packer.compress(text) + packer.flush() + struct.pack("<II", zlib.crc32(text), len(text) & 0xFFFFFFFF)
    length = _HEADER.size + len(body)
    return _HEADER.pack(_MAGIC, 0, _NO_SYSTEM, 8, _SUBFIELD, 4, length) + body


def _length(file: BinaryIO, start: int) -> int:
    """The number of bytes of the member at ``start``."""
    file.seek(start)
    magic, *_, name, _, length = _HEADER.unpack(file.read(_HEADER.size))
    if (magic, name) != (_MAGIC, _SUBFIELD) or length <= _HEADER.size:
        raise ValueError("it was not written by ragtrial")
    return int(length)


def _most(path: Path, size: int | None) -> int:
    """The most bytes that a file may have after unpacking."""
    return usual_bytes(path.stat().st_size) if size is None else size


def _row(line: bytes) -> Row:
    row = from_json(line, allow_inf_nan=False)  # in a third of the time that json takes, and as deep as we allow
    if b"Infinity" in to_json(row, inf_nan_mode="constants"):
        row = load_json(line)  # says which number it is; a text may have that word
    if not isinstance(row, dict):
        raise ValueError("a row is not an object")  # noqa: TRY004 - damage, not a caller's mistake
    return row


def _unreadable(path: Path, error: Exception) -> ReportError:
    return ReportError(Fault(str(path), message=f"cannot be read: {getattr(error, 'strerror', None) or error}."))
