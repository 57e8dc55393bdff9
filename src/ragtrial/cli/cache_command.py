"""ragtrial cache"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cache.workspace import Workspace
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import InputError, counted, did_you_mean, listed
from ragtrial.progress import stage
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.cache.sharing import Transfer
    from ragtrial.cache.upkeep import Entry, Upkeep

_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


class _Age(click.ParamType[int]):
    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = re.fullmatch(r"(\d+)([hdw])", str(value))
        if not found:
            self.fail(f"{value!r} is no age; write hours, days or weeks like 12h, 30d, 4w.", param, ctx)
        return int(found[1]) * _SECONDS[found[2]]


_config_option = click.option(
    "--config", "configs", multiple=True, type=click.Path(), metavar="CONFIG",
    help="A config whose servers may be asked; repeat it for several.",
)  # fmt: skip


@click.group("cache")
def command() -> None:
    """Show, clean up and share cached results.

    WHERE is a config or a workspace folder (default: RAGTRIAL_WORKSPACE, or .ragtrial in this folder).
    """


@command.command("list")
@click.argument("where", required=False)
@common_options
def list_entries(terminal: Terminal, where: str | None) -> int:
    """List the entries of the cache: content, size, last use, and the experiments that use them."""
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
@_config_option
@common_options
def prune(
    terminal: Terminal,
    where: str | None,
    configs: tuple[str, ...],
    older_than: int | None,
    experiment: str | None,
    *,
    unused: bool,
    latency: bool,
    dry_run: bool,
) -> int:
    """Remove the entries that all the given options allow; they are rebuilt if needed. Reports are not touched.

    An index on a server is removed if WHERE or --config is the config that built it. Others are kept and listed; the
    exit code is then 4.
    """
    if older_than is None and experiment is None and not unused and not latency:
        message = "say what may go: --unused, --older-than AGE, --experiment NAME, --latency, or several of them."
        raise click.UsageError(message)
    upkeep = _upkeep(where, configs)
    known = upkeep.experiments()
    if experiment is not None and experiment not in known:
        near = did_you_mean(experiment, known)
        raise InputError(f"no experiment {experiment!r} has used {upkeep.root}.{near} It has: {listed(known)}.")
    kind = "latency" if latency else None
    outcome = upkeep.prune(unused=unused, experiment=experiment, older_than=older_than, kind=kind, dry=dry_run)
    entries, kept = [entry for entry, _ in outcome.removed], outcome.kept
    _say(terminal, entries)
    terminal.say(f"\n{_total(entries)} {'would be removed' if dry_run else 'removed'} from {upkeep.root}")
    for entry, why in kept:
        terminal.note(f"error: {entry.what} is kept: {why}")
    code = 4 if kept else 0
    done = {"exit_code": code, "workspace": str(upkeep.root), "dry_run": dry_run}
    rows = [{**_row(entry), "why": why} for entry, why in kept]
    terminal.say_json({**done, "removed": [_row(entry) for entry in entries], "kept": rows})
    return code


@command.command("verify")
@click.argument("where", required=False)
@_config_option
@common_options
def verify(terminal: Terminal, where: str | None, configs: tuple[str, ...]) -> int:
    """Read every entry of the cache, and remove entries that are damaged.

    An index on a server is checked if WHERE or --config is a config that connects to it. An index that cannot be
    reached is kept and listed; the exit code is then 4.
    """
    upkeep = _upkeep(where, configs)
    entries = upkeep.entries()
    with stage(terminal.progress(), "verify", sum(entry.size for entry in entries), "bytes") as progress:
        outcome = upkeep.verify(progress.advance)
    damaged, unchecked = outcome.removed, outcome.kept
    kept = {entry for entry, _ in unchecked}
    checked, code = [entry for entry in entries if entry not in kept], 4 if unchecked else 0
    terminal.say(f"{_total(checked)} checked in {upkeep.root}; {len(damaged)} damaged")
    for entry, why in damaged:
        terminal.say(f"  {entry.what}: {why}; removed, and made again when needed")
    for entry, why in unchecked:
        terminal.note(f"error: {entry.what} could not be checked, and is kept: {why}")
    terminal.say_json(
        {
            "exit_code": code,
            "workspace": str(upkeep.root),
            "checked": len(checked),
            "damaged": [{**_row(entry), "damage": why} for entry, why in damaged],
            "unchecked": [{**_row(entry), "why": why} for entry, why in unchecked],
        }
    )
    return code


@command.command("push")
@click.argument("url")
@click.argument("where", required=False)
@click.option("--verify", is_flag=True, help="Also read what is there already, and send again what is damaged.")
@common_options
def push(terminal: Terminal, url: str, where: str | None, *, verify: bool) -> int:
    """Copy finished work to URL, for other machines: a folder, s3://, gs://, ssh:// or any URL that fsspec reaches.

    Only new entries are sent. Indexes on servers and latencies stay here.
    """
    from ragtrial.cache.sharing import SharedCache

    shared, upkeep = SharedCache(url), _upkeep(where)
    entries = upkeep.entries()
    with stage(terminal.progress(), "push", sum(entry.size for entry in entries), "bytes") as progress:
        made = shared.push(entries, verify=verify, advance=progress.advance)
    return _transferred(terminal, made, "sent", shared.name, upkeep.root)


@command.command("pull")
@click.argument("url")
@click.argument("where", required=False)
@click.option("--experiment", metavar="NAME", help="Only the stages that this experiment has used.")
@common_options
def pull(terminal: Terminal, url: str, where: str | None, experiment: str | None) -> int:
    """Copy finished work from URL, where `cache push` has put it. Every file is checked by its checksum."""
    from ragtrial.cache.sharing import SharedCache

    shared, workspace = SharedCache(url), Workspace(_folder(where).absolute())
    there = shared.listed()
    if not there:
        terminal.note(
            f"warning: there is nothing at {shared.name}; `ragtrial cache push URL` copies finished work there"
        )
    with stage(terminal.progress(), "pull", len(there), "files") as progress:
        made = shared.pull(workspace, there, experiment if there else None, progress.advance)
    return _transferred(terminal, made, "fetched", shared.name, workspace.root)


def _transferred(terminal: Terminal, made: Transfer, done: str, url: str, root: Path) -> int:
    total = f"{counted(len(made.moved), 'entry', 'entries')} {done}, {_bytes(made.bytes)}"
    terminal.say(f"{total}; {len(made.present):,} there already")
    for what, why in made.left:
        terminal.say(f"  not sent: {what} ({why})")
    for what, why in made.damaged:
        terminal.say(f"  not {done}, damaged: {what}: {why}")
    content = {"url": url, "workspace": str(root), done: made.moved, "present": made.present, "bytes": made.bytes}
    reasons = {name: [{"what": what, "why": why} for what, why in getattr(made, name)] for name in ("left", "damaged")}
    code = 3 if made.damaged else 0
    terminal.say_json({"exit_code": code, **content, **reasons})
    return code


def _upkeep(where: str | None, configs: Sequence[str] = ()) -> Upkeep:
    """The workspace, with the servers of ``configs``, and of ``where`` if that is a config: they alone are reached."""
    from ragtrial.cache.upkeep import Upkeep
    from ragtrial.config import load_config
    from ragtrial.options import expand_user
    from ragtrial.pipeline.resources import servers_of

    root = _folder(where)
    if not root.is_dir():
        raise InputError(f"there is no workspace {root}; name a config whose workspace it is, or the folder.")
    named = [expand_user(config) for config in (*([where] if where else []), *configs)]
    files = [file for file in named if not file.is_dir()]
    if not files:
        return Upkeep(root.absolute())

    return Upkeep(root.absolute(), [servers_of(load_config(file), root) for file in files])


def _folder(where: str | None) -> Path:
    """The workspace of a config, or the folder that is named."""
    from ragtrial.config import load_config
    from ragtrial.options import expand_user
    from ragtrial.pipeline.resources import workspace_folder

    root = expand_user(where or os.environ.get("RAGTRIAL_WORKSPACE") or ".ragtrial")
    if root.is_file():
        root = workspace_folder(load_config(str(root)))
    return root


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
