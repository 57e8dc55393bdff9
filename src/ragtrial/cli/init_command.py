"""ragtrial init"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import Fault, InputError

_START = Path(__file__).parent / "start"
_LISTED = 20
_DOCUMENTS = ("account", "payment", "returns", "setup", "shipping", "warranty")


@click.command("init", short_help="Write a config, labels and documents to start from.")
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@click.option("--example", type=click.Choice(["support"]), metavar="NAME",
              help="Write a larger example: support, with 118 documents and 62 questions.")  # fmt: skip
@common_options
def command(terminal: Terminal, folder: str, example: str | None) -> int:
    """Write a config, ten labelled questions and six documents to start from into FOLDER. Nothing is overwritten."""
    from ragtrial.cache.atomic import write_text
    from ragtrial.config.json_schema import config_schema

    root = Path(folder)
    files = {
        "experiment.yaml": (_START / "experiment.yaml").read_text("utf-8"),
        "experiment.schema.json": json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n",
        **(_support() if example else _small()),
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
    for name in files if len(files) < _LISTED else ("experiment.yaml", "prompt_queries.json"):
        terminal.say(f"wrote {root / name}")
    if len(files) >= _LISTED:
        terminal.say(f"wrote {root / 'documents'}: {sum(name.startswith('documents/') for name in files)} documents")
    enter = "" if root.resolve() == Path.cwd() else f"cd {root} && "
    terminal.say(f"\nNow: {enter}ragtrial run")
    terminal.say_json({"exit_code": 0, "wrote": [str(root / name) for name in files]})
    return 0


def _small() -> dict[str, str]:
    names = ("prompt_queries.json", *(f"documents/{name}.md" for name in _DOCUMENTS))
    return {name: (_START / name).read_text("utf-8") for name in names}


def _support() -> dict[str, str]:
    from ragtrial.cli.sample_files import sample_files

    wanted = dict(sample_files())
    return {name: held.decode("utf-8") for name, held in wanted.items() if name.endswith((".md", ".json", ".txt"))}
