"""Draws the README's picture: runs the demo in a terminal and puts what it shows into docs/terminal.svg.

make picture
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
WIDTH = 90
COMMAND, MOST_LINES = "ragtrial demo", 14


def shown(command: str, folder: str) -> list[str]:
    """The lines that a command shows on stdout in a terminal, with their colours."""
    ours, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(WIDTH), "TERM": "xterm-256color"}
    arguments = [sys.executable, "-m", *command.split()]
    with subprocess.Popen(arguments, cwd=folder, env=environment, stdout=its, stderr=subprocess.PIPE) as process:
        os.close(its)
        text = b""
        try:
            while part := os.read(ours, 65536):
                text += part
        except OSError:  # Linux says so at the end
            pass
        assert process.stderr
        said = process.stderr.read().decode()
    if process.returncode:
        raise SystemExit(f"{command}: {said}")
    return text.decode().replace("\r\n", "\n").rstrip().split("\n")


def main() -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text.assemble(("$ ", "bold green"), (COMMAND, "bold")))
    with tempfile.TemporaryDirectory() as folder:
        lines = shown(COMMAND, folder)
    for line in lines[:MOST_LINES]:
        console.print(Text.from_ansi(line), no_wrap=True, overflow="crop", crop=True)
    console.print("..." if len(lines) > MOST_LINES else "")
    # Without the web fonts that rich names: a picture should fetch nothing.
    svg = re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="ragtrial"), flags=re.DOTALL)
    (ROOT / "docs" / "terminal.svg").write_text(svg, encoding="utf-8")


if __name__ == "__main__":
    main()
