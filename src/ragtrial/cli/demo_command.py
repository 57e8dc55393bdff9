"""ragtrial demo"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

import click

from ragtrial.cli.report_command import command as report
from ragtrial.cli.run_command import command as run
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import Fault, InputError

CONFIG = "experiment.yaml"


def sample_files() -> Iterator[tuple[str, bytes]]:
    """The files of the sample, the config first; documents and labels of a clone are where wheels have them from."""
    packaged = files("ragtrial.cli") / "samples" / "support"
    yield CONFIG, (packaged / CONFIG).read_bytes()
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


@click.command("demo")
@click.argument("folder", type=click.Path(file_okay=False), default="ragtrial-demo")
@common_options
def command(terminal: Terminal, folder: str) -> int:
    """Compare five retrievers on sample data, in FOLDER (default: ragtrial-demo), and write the HTML page.

    The sample has 118 articles of a support knowledge base, 62 labelled questions, and results of dense search that
    were made beforehand: no model is loaded. Nothing is overwritten but the page of an earlier demo.
    """
    context, root = click.get_current_context(), Path(folder)
    _write_sample(root)
    common = {name: value for name, value in context.params.items() if name != "folder"}
    with redirect_stdout(terminal.out):
        context.invoke(run, config=str(root / CONFIG), **common)
        common["as_json"] = False  # one document is the answer
        with redirect_stdout(sys.stderr if terminal.as_json else terminal.out):
            context.invoke(
                report, reports=("latest",), results=str(root / "results"), output=str(root / "report.html"), **common
            )
    terminal.say(f"\nGo on: cd {shlex.quote(folder)} && ragtrial compare\nYour own data: ragtrial init")
    return 0


def _write_sample(root: Path) -> None:
    """Write missing files. Raises InputError if ``root`` has other files, or cannot be written."""
    sample = dict(sample_files())
    way_out = "Name another folder: ragtrial demo FOLDER."
    try:
        if root.is_dir() and any(root.iterdir()) and not (root / CONFIG).exists():
            raise InputError(Fault(str(root), message=f"is not empty. {way_out}"))
        changed = [
            name for name, held in sample.items() if (root / name).exists() and (root / name).read_bytes() != held
        ]
        if changed:
            message = f"differs from the demo's own, and nothing is overwritten. {way_out}"
            raise InputError(*(Fault(str(root / name), message=message) for name in changed))
        for name, held in sample.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(held)
    except OSError as error:
        raise InputError(Fault(str(root), message=f"cannot be written: {error.strerror}. {way_out}")) from error
