"""Where reports are: found by folder, by id, or as the latest."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragtrial.errors import ReportError, did_you_mean, listed


def find_report(reference: str, directory: Path) -> Path:
    """The folder of a report: ``reference`` is a folder, a run id (or how it begins), or ``latest``.

    ``latest`` is the newest run of all experiments in ``directory``, ``<experiment>/latest`` that of one. Raises
    ReportError with what there is.
    """
    folder = Path(reference)
    if folder.name == "report.json":
        folder = folder.parent
    if (folder / "report.json").is_file():
        return folder
    if folder.name == "latest" and folder.is_file():  # the file that write_report leaves, wherever it is
        return folder.parent / folder.read_text(encoding="utf-8").strip()
    runs = list_reports(directory)
    if folder.name == "latest":
        return _newest(runs, folder.parent.name, directory)
    matching = [run for run in runs if run.name.startswith(reference)]
    if len(matching) == 1:
        return matching[0]
    if matching:
        names = listed(run.name for run in matching)
        raise ReportError(f"{reference!r} may be any of: {names}. Write more of the id.")
    if folder.is_dir():
        raise ReportError(_no_report(folder))
    near = did_you_mean(reference, [run.name for run in runs])
    raise ReportError(
        f"{reference!r} is no report: neither a folder with report.json nor the id of one of {len(runs)} runs in "
        f"{directory}.{near} `ragtrial list runs` shows them."
    )


def _no_report(folder: Path) -> str:
    """What is said of a folder that is none, the next step by what is in it."""
    below = sorted(path.parent.name for path in folder.glob("*/report.json"))
    if below:
        return f"{str(folder)!r} is no report; it holds {len(below)}: {listed(below, 3)}. Name one of them."
    return (
        f"{str(folder)!r} is a folder without report.json; `ragtrial run` makes one below its output directory, "
        "`ragtrial score -o` in a folder that you name."
    )


def _newest(runs: Sequence[Path], experiment: str, directory: Path) -> Path:
    if not runs:
        raise ReportError(f"there is no report in {directory} yet; `ragtrial run CONFIG` makes one.")
    names = dict.fromkeys(run.parent.name for run in runs)
    if experiment and experiment not in names:
        near = did_you_mean(experiment, names)
        raise ReportError(f"there is no experiment {experiment!r} in {directory}.{near} It has: {listed(names)}.")
    return [run for run in runs if experiment in ("", run.parent.name)][-1]


def list_reports(directory: Path) -> list[Path]:
    """The folders of all reports in ``directory``, oldest first."""
    found = [path.parent for path in directory.glob("*/*/report.json") if not path.parent.name.startswith(".")]
    return sorted(found, key=_age)


def _age(folder: Path) -> tuple[str, int, str]:
    """By the second in the id; of runs in one second, by the time at which the report was written."""
    return folder.name.partition("-")[0], (folder / "report.json").stat().st_mtime_ns, folder.name
