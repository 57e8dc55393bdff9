"""report.json and what lies beside it: the schema, writing it whole, finding and reading it again."""

from __future__ import annotations

import gzip
import json
import mmap
import re
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import PrivateAttr, ValidationError

from ragtrial.cache.atomic import new_folder, write_text
from ragtrial.cache.presence import only_writer
from ragtrial.errors import Fault, ReportError, RunError, did_you_mean
from ragtrial.records import Unit
from ragtrial.report.find import find_report
from ragtrial.report.schema import DatasetPart, FailurePart, MetricPart, Part, QueryPart, SettingPart, WarningPart

SCHEMA_VERSION = 1
HITS_SHOWN = 20
"""How many hits of a query stand in report.json; all of them are in rankings/."""

_DECODER = json.JSONDecoder()
_GZIP_LEVEL = 4  # the default, 9, takes three times as long for a twentieth of the size


class Report(Part):
    """The outcome of one run of an experiment."""

    schema_version: Literal[1]
    experiment: str
    run_id: str
    parent: str | None = None
    """The run whose rankings were scored again by other labels or metrics; null for a run of its own."""

    config: dict[str, Any]
    """As it was written; variables are not resolved."""

    dataset: DatasetPart
    unit: Unit = "document"
    """What is found, and relevant or not."""

    span_coverage: float | None = None
    """The share of a passage's characters that must be found, under unit: span; null for documents."""

    primary_metric: str
    metrics: dict[str, MetricPart]
    prompt: str | None
    """The prompt template of the labels."""

    queries: list[QueryPart]
    settings: list[SettingPart]
    failures: list[FailurePart]
    warnings: list[WarningPart]
    environment: dict[str, Any]

    _folder: Path | None = PrivateAttr(default=None)

    @property
    def folder(self) -> Path:
        """Where the report stands, once it is written or if it was read. Raises ReportError before."""
        if self._folder is None:
            raise ReportError(f"run {self.run_id} is not written yet; it has no folder.")
        return self._folder

    def setting(self, name: str) -> SettingPart:
        """The setting called ``name``. Raises ReportError with those that there are."""
        for setting in self.settings:
            if setting.name == name:
                return setting
        names = [setting.name for setting in self.settings]
        raise ReportError(
            f"run {self.run_id} has no setting {name!r}.{did_you_mean(name, names)} It has: {', '.join(names)}."
        )

    def ranked_settings(self) -> list[SettingPart]:
        """The settings by the primary metric, best first; those without a value last; equal ones by name."""

        def key(setting: SettingPart) -> tuple[bool, float, str]:
            mean = setting.scores[self.primary_metric].mean
            return mean is None, -(mean or 0.0), setting.name

        return sorted(self.settings, key=key)


def report_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of report.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Report.model_json_schema()}


def new_run_id(now: datetime) -> str:
    """UTC time and six random hex digits, like ``20260131T235959Z-0a1b2c``; sorts by time."""
    return f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def write_report(
    report: Report,
    directory: Path,
    rankings: Mapping[str, Iterable[dict[str, Any]]],
    texts: Iterable[dict[str, Any]],
    config_text: str,
) -> Report:
    """Write a report's folder, ``directory/<experiment>/<run id>``, whole or not at all, and point ``latest`` to it.

    ``rankings`` has for each setting, and under ``parts/`` for parts, one row per query, ``texts`` one row per
    retrieved chunk. Returns the report, which now knows its folder. What killed runs left half-made beside it goes.
    Raises RunError if it cannot be written.
    """
    folder = directory / report.experiment / report.run_id
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(folder.parent):
            placed = write_folder(report, folder, rankings, texts, config_text)
            write_text(folder.parent / "latest", report.run_id + "\n")
    except OSError as error:
        raise RunError(
            Fault(str(folder), message=f"cannot be written: {error.strerror or error}. What was computed is kept; "
                  "free space or set output.directory, and run the same command again.")
        ) from error  # fmt: skip
    return placed


def write_folder(
    report: Report,
    folder: Path,
    rankings: Mapping[str, Iterable[dict[str, Any]]],
    texts: Iterable[dict[str, Any]],
    config_text: str,
) -> Report:
    """Write what ``write_report`` writes as ``folder``, which is new. Raises OSError."""
    with new_folder(folder) as new:
        (new / "report.json").write_text(report.model_dump_json(indent=1) + "\n", encoding="utf-8")
        (new / "config.yaml").write_text(config_text, encoding="utf-8")
        (new / "rankings").mkdir()
        for name, rows in rankings.items():
            path = new / "rankings" / f"{name}.jsonl.gz"
            path.parent.mkdir(exist_ok=True)
            _write_lines(path, rows)
        _write_lines(new / "texts.jsonl.gz", texts)
    return _placed(report, folder)


def load_report(reference: str | Path, directory: str | Path = "results", *, hits: bool = True) -> Report:
    """The report that ``reference`` means: a folder, a run id, or ``latest``, looked for in ``directory``.

    Without ``hits`` those of every query are left out (its ``hits`` is empty, whatever was found), which takes a tenth
    of the time and of the memory where values are enough. Raises ReportError if it is not there, damaged, or of a newer
    version.
    """
    folder = find_report(str(reference), Path(directory))
    path = folder / "report.json"
    if not hits:
        with suppress(OSError, ValueError):  # what is wrong is told where all of it is read
            return _placed(Report.model_validate_json(_without_hits(path)), folder)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(path, error) from error
    version = re.search(r'"schema_version":\s*(\d+)', text[:200])
    if version and int(version[1]) > SCHEMA_VERSION:
        raise ReportError(
            Fault(
                str(path),
                message=f"has schema version {version[1]}; this ragtrial reads up to {SCHEMA_VERSION}. Update it.",
            )
        )
    try:
        return _placed(Report.model_validate_json(text), folder)
    except ValidationError as error:
        raise ReportError(Fault(str(path), message=_damage(error))) from None


_AGAIN = "Make it again with the command that wrote it."


def _damage(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        return f"has {place}, which this ragtrial does not know. A newer one wrote it, or a hand; update ragtrial."
    if place == "schema_version" and first["type"] != "missing":
        return f"has schema version {first['input']!r}; this ragtrial reads {SCHEMA_VERSION}. {_AGAIN}"
    return f"is damaged, or not a report: {place}{': ' if place else ''}{first['msg']}. {_AGAIN}"


_HITS = re.compile(rb'"hits"\s*+:\s*+\[(?=\s*+\{\s*+"doc")')
_TO_THE_END = re.compile(rb'(?:[^"\]]++|"(?:[^"\\]++|\\.)*+")*+\]', re.DOTALL)


def _without_hits(path: Path) -> bytes:
    """The text of a report.json with an empty list in place of each query's hits. Raises OSError.

    Hits have no lists in them, so theirs ends at the first bracket that stands in no string.
    """
    kept, at = bytearray(), 0
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
        while found := _HITS.search(text, at):
            start = found.end()
            end = text.find(b"]", start)
            inside = text[start:end]
            if b"\\" in inside or inside.count(b'"') % 2:
                whole = _TO_THE_END.match(text, start)
                end = whole.end() - 1 if whole else -1
            if end < 0:
                break  # cut short: what follows is kept, and refused as it is
            kept += text[at:start]
            at = end
        kept += text[at:]
    return bytes(kept)


def _placed(report: Report, folder: Path) -> Report:
    placed = report.model_copy()
    placed._folder = folder  # noqa: SLF001 - set once, here
    return placed


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The rows of one of a report's .jsonl.gz files. Raises ReportError if it is damaged."""
    for line in _lines(path):
        yield _row(path, line)


def read_rows(path: Path, key: str, wanted: Collection[str]) -> dict[str, dict[str, Any]]:
    """Of the rows of one of a report's .jsonl.gz files those whose first field, ``key``, is ``wanted``, by that.

    Other rows are not taken apart, and what stands behind the last that is wanted is not read. Rows that are not
    there are not in it. Raises ReportError if the file is damaged.
    """
    opening, missing = f'{{"{key}": ', set(wanted)
    rows: dict[str, dict[str, Any]] = {}
    lines = _lines(path)
    while missing and (line := next(lines, None)) is not None:
        name = _first_text(line, len(opening)) if line.startswith(opening) else None
        if name is None or name in missing:
            row = _row(path, line)
            if row.get(key) in missing:
                rows[row[key]] = row
                missing.remove(row[key])
    return rows


def _first_text(line: str, start: int) -> str | None:
    """The JSON string that begins at ``start``; None if there is none."""
    try:
        value, _ = _DECODER.raw_decode(line, start)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _lines(path: Path) -> Iterator[str]:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            yield from file
    except (OSError, EOFError, ValueError) as error:
        raise _unreadable(path, error) from error


def _row(path: Path, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise _unreadable(path, error) from error
    if not isinstance(row, dict):
        raise _unreadable(path, ValueError("a row is no object"))
    return row


def _unreadable(path: Path, error: Exception) -> ReportError:
    return ReportError(Fault(str(path), message=f"cannot be read: {getattr(error, 'strerror', None) or error}."))


def _write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    with path.open("wb") as raw, gzip.GzipFile("", "wb", _GZIP_LEVEL, raw, mtime=0) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False, allow_nan=False).encode("utf-8") + b"\n")
