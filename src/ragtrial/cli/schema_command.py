"""ragtrial schema"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ragtrial.cli.terminal import Terminal, common_options


@click.command("schema")
@click.argument("what", type=click.Choice(["config", "labels", "report"]), default="config")
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write it to a file.")
@common_options
def command(terminal: Terminal, what: str, output: str | None) -> int:
    """Print the JSON Schema of a config, of prompt_queries.json (labels) or of report.json.

    Editors complete and check a config that begins with
    `# yaml-language-server: $schema=PATH/config.schema.json`.
    """
    from ragtrial.config.schema import config_schema, labels_schema
    from ragtrial.report import report_schema
    from ragtrial.storage.atomic import write_text

    schema = {"config": config_schema, "labels": labels_schema, "report": report_schema}[what]()
    text = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    if output:
        write_text(Path(output), text)
        terminal.say(output)
    else:
        click.echo(text, nl=False)
    return 0
