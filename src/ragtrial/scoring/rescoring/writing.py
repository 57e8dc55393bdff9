"""The report of stored rankings that were scored again, written beside its parent."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ragtrial.cache.presence import only_writer
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.report.model import PARTS, Report, read_lines, write_folder, write_report


def check_new(target: str | Path) -> Path:
    """``target`` as the folder of a report. Raises InputError if something is there."""
    folder = Path(target)
    if folder.exists():
        raise InputError(Fault(str(folder), message="is there already; a report is a new folder. Name another one."))
    return folder


def write_rescored(parent: Report, made: Report, target: str | Path | None) -> Report:
    """Write ``made``, whose rankings and texts are those of ``parent``, as ``target``, by default beside ``parent``.

    There it is the latest run. Raises InputError if ``target`` is there already, RunError if it cannot be written.
    """
    names = [query.id for query in made.queries]
    rankings = {setting.name: _rows(parent, setting.name, names) for setting in made.settings}
    for path in sorted((parent.folder / "rankings" / PARTS).glob("*.jsonl.gz")):
        name = f"{PARTS}/{path.name.removesuffix('.jsonl.gz')}"
        rankings[name] = _rows(parent, name, names)
    texts = read_lines(parent.folder / "texts.jsonl.gz")
    copy = parent.folder / "config.yaml"
    text = copy.read_text(encoding="utf-8") if copy.is_file() else json.dumps(made.config, indent=1) + "\n"
    own = parent.folder.absolute()
    if target is None and (own.name, own.parent.name) == (parent.run_id, parent.experiment):
        return write_report(made, own.parent.parent, rankings, texts, text)
    folder = own.with_name(f"{own.name}-{made.run_id}") if target is None else check_new(target)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(folder.parent, folder.name):
            return write_folder(made, folder, rankings, texts, text)
    except OSError as error:
        message = f"cannot be written: {error.strerror or error}. Free space, or name another folder with -o."
        raise RunError(Fault(str(folder), message=message)) from error


def _rows(parent: Report, setting: str, queries: Sequence[str]) -> Iterator[dict[str, Any]]:
    rows = {row["query"]: row for row in read_lines(parent.folder / "rankings" / f"{setting}.jsonl.gz")}
    return (rows[query] for query in queries)
