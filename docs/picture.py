"""Draws the README's picture: runs the commands it shows and puts what they print into docs/terminal.svg.

make picture
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMANDS = ("ragtrial run configs/hybrid.yaml", "ragtrial compare latest --baseline dense")
MOST_LINES = {"run": 22, "compare": 11}
WIDTH = 134


def output_of(command: str) -> list[str]:
    """The lines a command prints to stdout."""
    arguments = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": str(WIDTH)}
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.replace(f"{ROOT}/", "").rstrip().split("\n")


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        lines = output_of(command)
        most = MOST_LINES[command.split()[1]]
        for number, line in enumerate(lines[:most]):
            heading = number == 0 or line.startswith(("setting ", "costs ", "differences"))
            for part in textwrap.wrap(line, WIDTH, subsequent_indent="  ") or [""]:
                console.print(Text(part if len(line) > WIDTH else line, style="bold" if heading else ""))
        console.print("..." if len(lines) > most else "")
    # Without the web fonts that rich names: a picture should fetch nothing.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="ragtrial"), flags=re.DOTALL)
    (ROOT / "docs" / "terminal.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
