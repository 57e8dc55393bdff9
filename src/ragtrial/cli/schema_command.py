"""ragtrial schema"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

from ragtrial.cli.options import argument, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal, save, write
from ragtrial.config import reference
from ragtrial.report import model


@declare("schema")
def command(
    terminal: Terminal,
    *,
    what: Literal["config", "labels", "report"] = argument("[WHAT]", default="config"),
    output: Path | None = option("Write it to a file.", flags="-o --output"),
) -> Answer:
    """Print the JSON Schema of a config, labels or reports.

    WHAT is config (the default), labels or report.

    Editors complete and check a config that begins with `# yaml-language-server: $schema=PATH/config.schema.json`.
    """
    schemas = {"config": reference.config_schema, "labels": reference.labels_schema, "report": model.report_schema}
    text = json.dumps(schemas[what](), indent=2)
    if output is None:
        write(text, terminal.out)
        return Answer()
    save(output, text + "\n")
    return Answer({"wrote": [str(output)]}, [Line(output)])
