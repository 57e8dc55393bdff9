"""Finding reports by folder, by id, or as the latest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from ragtrial.dataset.texts import near_names
from ragtrial.errors import ReportError, counted, did_you_mean, listed

_TABLES = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".eval", ".gz")
"""Endings of tables of scores."""


def find_report(reference: str, directory: Path) -> Path:
    """The folder of a report: ``reference`` is a folder, a run id (or how it begins), or ``latest``.

    ``latest`` is the newest run of all experiments in ``directory``, ``<experiment>/latest`` the newest of one
    experiment, and ``latest~1`` the run before. Raises ReportError that lists the existing runs.
    """
    match = re.fullmatch(r"(.*\blatest)~(\d{1,6})", reference)  # how many runs before the latest
    reference, back = (match[1], int(match[2])) if match else (reference, 0)
    folder = Path(reference)
    if folder.name == "report.json":
        folder = folder.parent
    if (folder / "report.json").is_file():
        return folder
    if folder.name == "latest" and not back and folder.is_file():  # the file that write_report leaves, wherever it is
        return folder.parent / folder.read_text(encoding="utf-8").strip()
    runs = list_reports(directory)
    if folder.name == "latest":
        return _newest(runs, folder.parent.name, directory, back)
    matching = [run for run in runs if run.name.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = listed(run.name for run in matching)
        raise ReportError(f"{reference!r} may be any of: {names}. Write more of the id.")
    if folder.suffix in _TABLES and not folder.exists():
        raise ReportError(f"there is no file {reference!r}.{near_names(folder)}")
    if folder.is_file():
        raise ReportError(
            f"{reference!r} is a file, and a report is a folder. A table of scores has no rankings; "
            f"`ragtrial compare {reference}` and `ragtrial report {reference}` read it."
        )
    below = [path.parent.name for path in sorted(folder.glob("*/report.json"))]
    near = f" It holds {listed(below, 3)}." if below else did_you_mean(reference, [run.name for run in runs])
    raise ReportError(
        f"{reference!r} is not a report: neither a folder with report.json nor a run in {directory} "
        f"({counted(len(runs), 'run')}).{near} `ragtrial list runs` shows them."
    )


def _newest(runs: Sequence[Path], experiment: str, directory: Path, back: int) -> Path:
    matching = [run for run in runs if experiment in ("", run.parent.name)]
    if not matching:
        names, wanted = dict.fromkeys(run.parent.name for run in runs), f" of {experiment!r}" if experiment else ""
        raise ReportError(
            f"there is no report{wanted} in {directory}.{did_you_mean(experiment, names)} "
            + (f"Experiments there: {listed(names)}; " if names else "")
            + "`ragtrial run CONFIG` makes a report."
        )
    if back >= len(matching):
        raise ReportError(f"there is no report latest~{back} in {directory}: it has {counted(len(matching), 'run')}.")
    return matching[-1 - back]


def list_reports(directory: Path) -> list[Path]:
    """The folders of all reports in ``directory``, oldest first."""
    return sorted((run for folder in directory.glob("*") for run in list_runs(folder)), key=_age)


def list_runs(experiment: Path) -> list[Path]:
    """The folders of all reports of the folder of an experiment, oldest first."""
    folders = [path.parent for path in experiment.glob("*/report.json") if not path.parent.name.startswith(".")]
    return sorted(folders, key=_age)


def find_experiment(reference: str, directory: Path) -> Path:
    """The folder of an experiment: a folder with its runs, its name in ``directory``, or results that have no other.

    ``latest`` is the experiment of the newest run. Raises ReportError that lists the experiments.
    """
    if reference == "latest":
        return _newest(list_reports(directory), "", directory, 0).parent
    runs = list_runs(Path(reference)) or list_runs(directory / reference) or list_reports(Path(reference))
    folders = {run.parent for run in runs}
    if len(folders) == 1:
        return folders.pop()
    names = sorted({run.parent.name for run in runs or list_reports(directory)})
    has = "has several experiments" if folders else f"is neither an experiment in {directory} nor a folder with runs"
    raise ReportError(f"{reference!r} {has}.{did_you_mean(reference, names)} There are: {listed(names) or 'none'}.")


def _age(folder: Path) -> tuple[str, int, str]:
    """By the second in the id; of runs in one second, by the time at which the report was written."""
    return folder.name.partition("-")[0], (folder / "report.json").stat().st_mtime_ns, folder.name
