"""ragtrial cache"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import InputError, counted, did_you_mean, listed
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.cache.upkeep import Entry, Upkeep

_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


class _Age(click.ParamType[int]):
    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = re.fullmatch(r"(\d+)([hdw])", str(value))
        if not found:
            self.fail(f"{value!r} is no age; write hours, days or weeks like 12h, 30d, 4w.", param, ctx)
        return int(found[1]) * _SECONDS[found[2]]


@click.group("cache")
def command() -> None:
    """Show and clean up cached results.

    WHERE is a config or a workspace folder (default: RAGTRIAL_WORKSPACE, or .ragtrial in this folder).
    """


@command.command("list")
@click.argument("where", required=False)
@common_options
def list_entries(terminal: Terminal, where: str | None) -> int:
    """List what is kept: what it is, its size, its last use, and by which experiments."""
    upkeep = _upkeep(where)
    entries = upkeep.entries()
    _say(terminal, entries)
    terminal.say(f"\n{_total(entries)} in {upkeep.root}")
    terminal.say_json({"exit_code": 0, "workspace": str(upkeep.root), "entries": [_row(entry) for entry in entries]})
    return 0


@command.command("prune")
@click.argument("where", required=False)
@click.option(
    "--older-than", type=_Age(), metavar="AGE", help="Only what has not been used for this long: 12h, 30d, 4w."
)
@click.option("--experiment", metavar="NAME", help="Only what no other experiment has used.")
@click.option("--unused", is_flag=True, help="Only what no experiment's last finished run used.")
@click.option("--latency", is_flag=True, help="Only latencies, so that they are measured again.")
@click.option("--dry-run", is_flag=True, help="Say what would be removed, and remove nothing.")
@common_options
def prune(
    terminal: Terminal,
    where: str | None,
    older_than: int | None,
    experiment: str | None,
    *,
    unused: bool,
    latency: bool,
    dry_run: bool,
) -> int:
    """Remove what all the given options allow; it is made again if it is needed. Reports are not touched."""
    if older_than is None and experiment is None and not unused and not latency:
        message = "say what may go: --unused, --older-than AGE, --experiment NAME, --latency, or several of them."
        raise click.UsageError(message)
    upkeep = _upkeep(where)
    known = upkeep.experiments()
    if experiment is not None and experiment not in known:
        near = did_you_mean(experiment, known)
        raise InputError(f"no experiment {experiment!r} has used {upkeep.root}.{near} It has: {listed(known)}.")
    kind = "latency" if latency else None
    entries = upkeep.prune(unused=unused, experiment=experiment, older_than=older_than, kind=kind, dry=dry_run)
    _say(terminal, entries)
    terminal.say(f"\n{_total(entries)} {'would be removed' if dry_run else 'removed'} from {upkeep.root}")
    done = {"exit_code": 0, "workspace": str(upkeep.root), "dry_run": dry_run}
    terminal.say_json({**done, "removed": [_row(entry) for entry in entries]})
    return 0


@command.command("verify")
@click.argument("where", required=False)
@common_options
def verify(terminal: Terminal, where: str | None) -> int:
    """Read everything that is kept, and remove what was changed or cut."""
    from ragtrial.progress import stage

    upkeep = _upkeep(where)
    entries = upkeep.entries()
    with stage(terminal.progress(), "verify", sum(entry.size for entry in entries), "bytes") as progress:
        damaged = upkeep.verify(progress.advance)
    terminal.say(f"{_total(entries)} checked in {upkeep.root}; {len(damaged)} damaged")
    for entry, why in damaged:
        terminal.say(f"  {entry.what}: {why}; removed, and made again when needed")
    rows = [{**_row(entry), "damage": why} for entry, why in damaged]
    terminal.say_json({"exit_code": 0, "workspace": str(upkeep.root), "checked": len(entries), "damaged": rows})
    return 0


def _upkeep(where: str | None) -> Upkeep:
    import ragtrial.components.stores  # noqa: F401 - which know how to remove what stages have on servers
    from ragtrial.cache.upkeep import Upkeep
    from ragtrial.options import expand_user

    root = expand_user(where or os.environ.get("RAGTRIAL_WORKSPACE") or ".ragtrial")
    if root.is_file():
        from ragtrial.config import load_config
        from ragtrial.pipeline.resources import workspace_folder

        root = workspace_folder(load_config(str(root)))
    if not root.is_dir():
        raise InputError(f"there is no workspace {root}; name a config whose workspace it is, or the folder.")
    return Upkeep(root.absolute())


def _say(terminal: Terminal, entries: Sequence[Entry]) -> None:
    rows = [[entry.what, _bytes(entry.size), _when(entry), ", ".join(entry.experiments) or "-"] for entry in entries]
    terminal.table(Table.of(["what", "size", "last use", "by"], rows, texts=(0, 3), prose=0))


def _row(entry: Entry) -> dict[str, Any]:
    return {
        "path": str(entry.path),
        "kind": entry.kind,
        "what": entry.what,
        "bytes": entry.size,
        "last_use": datetime.fromtimestamp(entry.used).astimezone().isoformat(timespec="seconds"),
        "experiments": list(entry.experiments),
        "needed_by": list(entry.current),
    }


def _total(entries: Sequence[Entry]) -> str:
    return f"{counted(len(entries), 'entry', 'entries')}, {_bytes(sum(entry.size for entry in entries))}"


def _when(entry: Entry) -> str:
    return f"{datetime.fromtimestamp(entry.used).astimezone():%Y-%m-%d %H:%M}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
