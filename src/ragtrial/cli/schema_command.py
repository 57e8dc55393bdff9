"""ragtrial schema"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ragtrial.cache.atomic import write_text
from ragtrial.cli.terminal import Terminal, common_options, write
from ragtrial.errors import Fault, InputError


@click.command("schema")
@click.argument("what", type=click.Choice(["config", "labels", "report"]), default="config", metavar="[WHAT]")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write it to a file.")
@common_options
def command(terminal: Terminal, what: str, output: str | None) -> int:
    """Print the JSON Schema of a config, of prompt_queries.json (labels) or of report.json.

    WHAT is config (the default), labels or report.

    Editors complete and check a config that begins with `# yaml-language-server: $schema=PATH/config.schema.json`.
    """
    from ragtrial.config.reference import config_schema, labels_schema
    from ragtrial.report.model import report_schema

    schema = {"config": config_schema, "labels": labels_schema, "report": report_schema}[what]()
    text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    if output:
        try:
            write_text(Path(output), text)
        except OSError as error:
            raise InputError(Fault(output, message=f"cannot be written: {error.strerror}.")) from error
        terminal.say(output)
        terminal.say_json({"exit_code": 0, "wrote": [output]})
    else:
        write(text.rstrip("\n"), terminal.out)
    return 0
