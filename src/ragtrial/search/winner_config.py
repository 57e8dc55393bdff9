"""The winner as a config of its own, which extends the one that was searched."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from ragtrial.config import ExperimentConfig
from ragtrial.config.load import written_in
from ragtrial.config.settings import Setting

_MISSING = object()


def winner_config(config: ExperimentConfig, setting: Setting, folder: Path, why: str) -> str:
    """The text of a config, to be written into ``folder``, that runs ``setting`` alone.

    It extends the file of ``config``, whose paths so keep their meaning, and has what differs; without a file it has
    all. ``why`` is a line about the setting.
    """
    written = {key: one for key, one in setting.config.as_written.items() if key not in ("sweep", "search")}
    parts = {one.entry for one in setting.tree()}
    retrievers = {name: dict(entry) for name, entry in written["retrievers"].items() if name in parts}
    for name, entry in retrievers.items():
        entry.pop("score", None)
        if name != setting.entry:
            entry["score"] = False
    written["retrievers"] = retrievers
    if config.file is None:
        return _text(written, why)
    changed: dict[str, Any] = {"extends": _relative(Path(config.file), folder)}
    changed |= _differences(written_in(config.file), written)
    return _text(changed, why)


def _differences(base: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """What to lay over ``base`` to have ``now``; null takes out what is not there any more."""
    found: dict[str, Any] = {}
    for key in {**now, **base}:
        before, after = base.get(key, _MISSING), now.get(key, _MISSING)
        if after is _MISSING:
            found[key] = None
        elif isinstance(before, dict) and isinstance(after, dict) and before.get("kind") == after.get("kind"):
            if inner := _differences(before, after):
                found[key] = inner
        elif before is _MISSING or before != after:
            found[key] = after
    return found


def _relative(file: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()
    except ValueError:  # on another drive
        return str(file.resolve())


def _text(content: Mapping[str, Any], why: str) -> str:
    plain = json.loads(json.dumps(content, default=str))
    body = yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=110)
    return f"# {why}\n# ragtrial run THIS_FILE\n{body}"
