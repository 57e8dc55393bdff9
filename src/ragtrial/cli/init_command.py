"""ragtrial init"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import Fault, InputError

_START = Path(__file__).parent / "start"
_FILES = ("prompt_queries.json", "documents/returns.md", "documents/warranty.md", "documents/shipping.md")


@click.command("init", short_help="Write a config, labels and three documents to start from.")
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@common_options
def command(terminal: Terminal, folder: str) -> int:
    """Write a config, labels and three documents to start from into FOLDER. Nothing is overwritten."""
    from ragtrial.cache.atomic import write_text
    from ragtrial.config.json_schema import config_schema

    root = Path(folder)
    files = {
        "experiment.yaml": (_START / "experiment.yaml").read_text("utf-8"),
        "experiment.schema.json": json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n",
        **{name: (_START / name).read_text("utf-8") for name in _FILES},
    }
    there = [name for name in files if (root / name).exists()]
    if there:
        raise InputError(
            *(Fault(str(root / name), message="is there already; init overwrites nothing.") for name in there)
        )
    try:
        for name, text in files.items():
            write_text(root / name, text)
    except OSError as error:
        raise InputError(Fault(str(root), message=f"cannot be written: {error.strerror}.")) from error
    for name in files:
        terminal.say(f"wrote {root / name}")
    enter = "" if root.resolve() == Path.cwd() else f"cd {root} && "
    terminal.say(f"\nNow: {enter}ragtrial run experiment.yaml")
    terminal.say_json({"exit_code": 0, "wrote": [str(root / name) for name in files]})
    return 0
