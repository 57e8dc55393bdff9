"""Reports that a test edits by hand."""

import re
from pathlib import Path


def edit_report(folder: Path, old: str, new: str) -> None:
    """Replace text in report.json, which then has no checksum."""
    path = folder / "report.json"
    text = path.read_text(encoding="utf-8").replace(old, new)
    path.write_text(re.sub(r'"checksum": "[0-9a-f]+"', '"checksum": ""', text), encoding="utf-8")
