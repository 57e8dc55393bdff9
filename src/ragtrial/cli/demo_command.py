"""ragtrial demo"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.resources import files
from importlib.resources.abc import Traversable
from io import StringIO
from pathlib import Path

import click

from ragtrial.cli.options import CONFIG_NAME, argument, declare
from ragtrial.cli.report_command import command as report
from ragtrial.cli.run_command import command as run
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.errors import Fault, InputError


def sample_files() -> Iterator[tuple[str, bytes]]:
    """The files of the sample, the config first; documents and labels of a clone are where wheels have them from."""
    packaged = files("ragtrial.cli") / "samples" / "support"
    yield CONFIG_NAME, (packaged / CONFIG_NAME).read_bytes()
    yield from _below(packaged)
    if not (packaged / "documents").is_dir():
        clone = Path(__file__).parents[3]
        yield "prompt_queries.json", (clone / "prompt_queries.json").read_bytes()
        yield from _below(clone / "data" / "support", "documents/")


def _below(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _below(entry, f"{name}/")
        else:
            yield name, entry.read_bytes()


@declare("demo")
def command(
    terminal: Terminal,
    *,
    folder: Path = argument("[FOLDER]", default="ragtrial-demo", type=click.Path(file_okay=False, path_type=Path)),
) -> Answer:
    """Compare five retrievers on sample data.

    Config, data, report and HTML page are in FOLDER (default: ragtrial-demo). The sample has 118 articles of a support
    knowledge base, 62 labelled questions, and results of dense search that were made beforehand: no model is loaded.
    Nothing is overwritten but the page of an earlier demo.
    """
    context = click.get_current_context()
    _write_sample(folder)
    common = {name: value for name, value in context.params.items() if name != "folder"}
    with redirect_stdout(terminal.out):
        context.invoke(run, config=str(folder / CONFIG_NAME), **common)
        with redirect_stdout(StringIO()):  # the path of the page, which has its name in the last lines
            files = {"results": str(folder / "results"), "output": folder / "report.html"}
            context.invoke(report, reports=("latest",), **files, **common)
    page = Line(f"Page     {folder / 'report.html'}")
    go_on = Line(f"Go on: cd {shlex.quote(str(folder))} && ragtrial compare")
    return Answer(None, [page, "", go_on, "Your own data: ragtrial init FOLDER --corpus DOCUMENTS --labels QUESTIONS"])


def _write_sample(root: Path) -> None:
    """Write missing files. Raises InputError if ``root`` has other files, or cannot be written."""
    sample = {root / name: content for name, content in sample_files()}
    way_out = "Name another folder: ragtrial demo FOLDER."
    try:
        if root.is_dir() and any(root.iterdir()) and not (root / CONFIG_NAME).exists():
            raise InputError(Fault(str(root), message=f"is not empty. {way_out}"))
        changed = [file for file, content in sample.items() if file.exists() and file.read_bytes() != content]
        if changed:
            message = f"differs from the demo's own, and nothing is overwritten. {way_out}"
            raise InputError(*(Fault(str(file), message=message) for file in changed))
        for file, content in sample.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
    except OSError as error:
        raise InputError(Fault(str(root), message=f"cannot be written: {error.strerror}. {way_out}")) from error
