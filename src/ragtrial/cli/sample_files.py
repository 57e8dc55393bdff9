"""The files of the sample that `ragtrial demo` compares and `ragtrial init --example` writes."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

CONFIG = "experiment.yaml"


def sample_files() -> Iterator[tuple[str, bytes]]:
    """The files of the sample, the config first; documents and labels of a clone are where wheels have them from."""
    packaged = files("ragtrial.cli") / "samples" / "support"
    yield CONFIG, (packaged / CONFIG).read_bytes()
    yield from _below(packaged)
    if not (packaged / "documents").is_dir():
        clone = Path(__file__).parents[3]
        yield "prompt_queries.json", (clone / "prompt_queries.json").read_bytes()
        yield from _below(clone / "data" / "support", "documents/")


def _below(folder: Traversable, prefix: str = "") -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        name = prefix + entry.name
        if entry.is_dir():
            yield from _below(entry, f"{name}/")
        else:
            yield name, entry.read_bytes()
