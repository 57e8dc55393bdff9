"""The page on which a worklist is labelled: its files, as a browser asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ragtrial.labelling.session.serving import Asset

_HERE = Path(__file__).parent
_KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
_FILES = {
    "": _HERE / "assets" / "label.html",
    "look.css": _HERE.parent / "page" / "assets" / "page.css",
    "label.css": _HERE / "assets" / "label.css",
    "label.js": _HERE / "assets" / "label.js",
}


def assets() -> Mapping[str, Asset]:
    """The page under "", and the files that it loads by name; the page about a report has the same colours and type."""
    return {name: Asset(f"{_KINDS[file.suffix]}; charset=utf-8", file.read_bytes()) for name, file in _FILES.items()}
