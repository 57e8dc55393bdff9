"""Who changed which labels, when, and what they were before: a file of JSON lines beside the labels."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from ragtrial.labelling.changes import query_of
from ragtrial.labelling.label_edits import Done


def history_file(labels: Path) -> Path:
    """Where the changes of ``labels`` are noted: ``prompt_queries.history.jsonl`` beside ``prompt_queries.json``."""
    return labels.with_name(f"{labels.name.removesuffix('.gz').rpartition('.')[0] or labels.name}.history.jsonl")


def note(labels: Path, done: Iterable[Done], who: str, when: datetime) -> None:
    """Add a line for each change. Raises OSError."""
    rows = [
        {
            "when": when.isoformat(timespec="seconds"),
            "who": who,
            "file": labels.name,
            "query": query_of(one.change),
            "action": one.action,
            "before": one.before,
            "after": one.after,
        }
        for one in done
    ]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    descriptor = os.open(history_file(labels), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    with os.fdopen(descriptor, "ab") as file:
        file.write(lines.encode("utf-8"))
        file.flush()
        os.fsync(file.fileno())


def whoever() -> str:
    """The name under which changes are noted unless another is given: that of the user of the machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
