"""Draws the README's picture: runs the commands it shows and puts what they print into docs/terminal.svg.

make picture
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COMMANDS = ("ragtrial run configs/chunking.yaml", "ragtrial show latest --query hub-05 --setting tokens-128")
MOST_LINES = 17


def output_of(command: str) -> list[str]:
    """The lines a command prints to stdout."""
    arguments = [sys.executable, "-m", *command.split()]
    environment = {**os.environ, "NO_COLOR": "1", "COLUMNS": "126"}
    done = subprocess.run(arguments, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.replace(f"{ROOT}/", "").rstrip().split("\n")


def main() -> None:
    console = Console(record=True, width=126, file=io.StringIO(), force_terminal=True)
    for command in COMMANDS:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        lines = output_of(command)
        for number, line in enumerate(lines[:MOST_LINES]):
            heading = "run" in command and (number == 0 or line.startswith(("setting ", "within ")))
            console.print(Text(line[:126], style="bold" if heading else ""))
        console.print("..." if len(lines) > MOST_LINES else "")
    # Without the web fonts that rich names: a picture should fetch nothing.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="ragtrial"), flags=re.DOTALL)
    (ROOT / "docs" / "terminal.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
