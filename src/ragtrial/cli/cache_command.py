"""ragtrial cache"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from ragtrial import config as configs, options as values
from ragtrial.cache import sharing, upkeep, workspace
from ragtrial.cli.options import argument, declare, option
from ragtrial.cli.terminal import Answer, Line, Terminal
from ragtrial.errors import InputError, counted, did_you_mean, listed
from ragtrial.pipeline import resources
from ragtrial.progress import stage
from ragtrial.views.table import Table

_LARGE = 20e9
_HINT = "`ragtrial cache prune --older-than 30d` removes what no run has used for 30 days."
_SECONDS = {"h": 3600, "d": 86_400, "w": 7 * 86_400}


class _Age(click.ParamType[int]):
    name = "age"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        age = re.fullmatch(r"(\d+)([hdw])", str(value))
        if not age:
            self.fail(f"{value!r} is no age; write hours, days or weeks like 12h, 30d, 4w.", param, ctx)
        return int(age[1]) * _SECONDS[age[2]]


_WHERE = argument("[WHERE]")
_CONFIGS = option("A config whose servers may be asked; repeat it for several.", "CONFIG", flags="--config")


@click.group("cache")
def command() -> None:
    """Show, clean up and share cached results.

    WHERE is a config or a folder (default: RAGTRIAL_WORKSPACE, else .ragtrial in this folder, else the cache of all
    your experiments).
    """


@declare("list", command)
def list_entries(*, where: str | None = _WHERE) -> Answer:
    """List the entries of the cache: content, size, last use, and the experiments that use them."""
    cache = _upkeep(where)
    entries = cache.entries()
    content = {"workspace": str(cache.root), "entries": [_row(entry) for entry in entries]}
    hint = [_HINT] if sum(entry.size for entry in entries) > _LARGE else []
    return Answer(content, [_table(entries), "", Line(f"{_total(entries)} in {cache.root}"), *hint])


@declare("prune", command)
def prune(
    *,
    where: str | None = _WHERE,
    older_than: int | None = option("Only what has not been used for this long: 12h, 30d, 4w.", "AGE", type=_Age()),
    experiment: str | None = option("Only what no other experiment has used.", "NAME"),
    unused: bool = option("Only what no experiment's last finished run used."),
    latency: bool = option("Only latencies, so that they are measured again."),
    dry_run: bool = option("Say what would be removed, and remove nothing."),
    configs: tuple[str, ...] = _CONFIGS,
) -> Answer:
    """Remove the entries that all the given options allow; they are rebuilt if needed. Reports are not touched.

    An index on a server is removed if WHERE or --config is the config that built it. Others are kept and listed; the
    exit code is then 4.
    """
    if older_than is None and experiment is None and not unused and not latency:
        message = "say what may go: --unused, --older-than AGE, --experiment NAME, --latency, or several of them."
        raise click.UsageError(message)
    cache = _upkeep(where, configs)
    known = cache.experiments()
    if experiment is not None and experiment not in known:
        near = did_you_mean(experiment, known)
        raise InputError(f"no experiment {experiment!r} has used {cache.root}.{near} It has: {listed(known)}.")
    kind = "latency" if latency else None
    outcome = cache.prune(unused=unused, experiment=experiment, older_than=older_than, kind=kind, dry=dry_run)
    entries, kept = [entry for entry, _ in outcome.removed], outcome.kept
    content = {"workspace": str(cache.root), "dry_run": dry_run, "removed": [_row(entry) for entry in entries]}
    content["kept"] = [{**_row(entry), "why": why} for entry, why in kept]
    total = f"{_total(entries)} {'would be removed' if dry_run else 'removed'} from {cache.root}"
    errors = [f"error: {entry.what} is kept: {why}" for entry, why in kept]
    return Answer(content, [_table(entries), "", total], errors=errors, code=4 if kept else 0)


@declare("verify", command)
def verify(terminal: Terminal, *, where: str | None = _WHERE, configs: tuple[str, ...] = _CONFIGS) -> Answer:
    """Read every entry of the cache, and remove entries that are damaged.

    An index on a server is checked if WHERE or --config is a config that connects to it. An index that cannot be
    reached is kept and listed; the exit code is then 4.
    """
    cache = _upkeep(where, configs)
    entries = cache.entries()
    with stage(terminal.progress(), "verify", sum(entry.size for entry in entries), "bytes") as progress:
        outcome = cache.verify(progress.advance)
    damaged, unchecked = outcome.removed, outcome.kept
    kept = {entry for entry, _ in unchecked}
    checked = [entry for entry in entries if entry not in kept]
    lines = [f"{_total(checked)} checked in {cache.root}; {len(damaged)} damaged"]
    lines += [f"  {entry.what}: {why}; removed, and made again when needed" for entry, why in damaged]
    content: dict[str, Any] = {"workspace": str(cache.root), "checked": len(checked)}
    content["damaged"] = [{**_row(entry), "damage": why} for entry, why in damaged]
    content["unchecked"] = [{**_row(entry), "why": why} for entry, why in unchecked]
    errors = [f"error: {entry.what} could not be checked, and is kept: {why}" for entry, why in unchecked]
    return Answer(content, lines, errors=errors, code=4 if unchecked else 0)


@declare("push", command)
def push(terminal: Terminal, *, url: str = argument("URL"), where: str | None = _WHERE) -> Answer:
    """Copy finished work to URL, for other machines: a folder, s3://, gs://, ssh:// or any URL that fsspec reaches.

    Only new entries are sent. Indexes on servers and latencies stay here.
    """
    shared, cache = sharing.SharedCache(url), _upkeep(where)
    entries = cache.entries()
    with stage(terminal.progress(), "push", sum(entry.size for entry in entries), "bytes") as progress:
        transfer = shared.push(entries, progress.advance)
    return _transferred(transfer, "sent", shared.name, cache.root)


@declare("pull", command)
def pull(terminal: Terminal, *, url: str = argument("URL"), where: str | None = _WHERE) -> Answer:
    """Copy finished work from URL, where `cache push` has put it. Every file is checked by its checksum."""
    shared, local = sharing.SharedCache(url), workspace.Workspace(_folder(where).absolute())
    files = shared.listed()
    if not files:
        hint = "`ragtrial cache push URL` copies finished work there"
        terminal.note(f"warning: there is nothing at {shared.name}; {hint}")
    with stage(terminal.progress(), "pull", len(files), "files") as progress:
        transfer = shared.pull(local, files, progress.advance)
    return _transferred(transfer, "fetched", shared.name, local.root)


def _transferred(transfer: sharing.Transfer, done: str, url: str, root: Path) -> Answer:
    total = f"{counted(len(transfer.moved), 'entry', 'entries')} {done}, {_bytes(transfer.bytes)}"
    lines = [f"{total}; {len(transfer.present):,} there already"]
    lines += [f"  not sent: {what} ({why})" for what, why in transfer.left]
    lines += [f"  not {done}, damaged: {what}: {why}" for what, why in transfer.damaged]
    content: dict[str, Any] = {"url": url, "workspace": str(root), done: transfer.moved, "present": transfer.present}
    content["bytes"] = transfer.bytes
    for name, reasons in (("left", transfer.left), ("damaged", transfer.damaged)):
        content[name] = [{"what": what, "why": why} for what, why in reasons]
    return Answer(content, lines, code=3 if transfer.damaged else 0)


def _upkeep(where: str | None, named: Sequence[str] = ()) -> upkeep.Upkeep:
    """The workspace, with the servers of configs: of those ``named``, and of ``where`` if it is one. No other server
    is reached.
    """
    root = _folder(where)
    if not root.is_dir():
        raise InputError(f"there is no cache in {root}; the first run makes it. Name a config to see the one it uses.")
    files = [values.expand_user(name) for name in (*([where] if where else []), *named)]
    servers = [resources.servers_of(configs.load_config(file), root) for file in files if not file.is_dir()]
    return upkeep.Upkeep(root.absolute(), servers)


def _folder(where: str | None) -> Path:
    """The workspace of a config, or the folder that is named."""
    if where is None:
        return workspace.default_workspace(Path.cwd())
    root = values.expand_user(where)
    return resources.workspace_folder(configs.load_config(str(root))) if root.is_file() else root


def _table(entries: Iterable[upkeep.Entry]) -> Table:
    rows = [
        [entry.what, _bytes(entry.size), f"{_used(entry):%Y-%m-%d %H:%M}", ", ".join(entry.experiments) or "-"]
        for entry in entries
    ]
    return Table.of(["what", "size", "last use", "by"], rows, texts=(0, 3), prose=0)


def _row(entry: upkeep.Entry) -> dict[str, Any]:
    about = {"path": str(entry.path), "kind": entry.kind, "what": entry.what, "bytes": entry.size}
    last_use = _used(entry).isoformat(timespec="seconds")
    return {**about, "last_use": last_use, "experiments": list(entry.experiments), "needed_by": list(entry.current)}


def _used(entry: upkeep.Entry) -> datetime:
    return datetime.fromtimestamp(entry.used).astimezone()


def _total(entries: Sequence[upkeep.Entry]) -> str:
    return f"{counted(len(entries), 'entry', 'entries')}, {_bytes(sum(entry.size for entry in entries))}"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
