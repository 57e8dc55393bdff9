"""ragtrial work"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragtrial.cli.terminal import Terminal, common_options, config_argument, override_option
from ragtrial.errors import counted

if TYPE_CHECKING:
    from ragtrial.pipeline.shard_work import EmbedderWork, ShardWork

_BESIDE = ".ragtrial-shared"


@click.command("work", short_help="Embed one shard of the texts of CONFIG, for runs elsewhere.")
@config_argument
@override_option
@click.option("--shard", "shard_text", required=True, metavar="I/N",
              help="Embed shard I of N: 1/64 to 64/64, or 0/64 to 63/64.")  # fmt: skip
@click.option("--out", metavar="URL", help=f"The shared folder, or a URL as for `cache push` "
              f"(default: {_BESIDE} beside CONFIG).")  # fmt: skip
@click.option("--every", type=click.IntRange(min=1), default=4096, show_default=True, metavar="TEXTS",
              help="Write to the shared folder after so many texts.")  # fmt: skip
@common_options
def command(
    terminal: Terminal, config: str, overrides: tuple[str, ...], shard_text: str, out: str | None, every: int
) -> int:
    """Embed one shard of the texts of CONFIG, and put the vectors into a shared folder.

    Tasks of an array job each embed another shard. `ragtrial cache pull URL` then fetches all vectors for a run. Shards
    need neither a server nor locks: start them in any order, twice, or again after a kill.
    """
    from dataclasses import asdict

    from ragtrial.cache.file_systems import network_file_system
    from ragtrial.cache.sharing import SharedCache
    from ragtrial.config import load_config
    from ragtrial.pipeline.resources import workspace_folder
    from ragtrial.pipeline.shard_work import Shard, embed_shard

    shard, experiment = Shard.parse(shard_text), load_config(config, overrides)
    shared = SharedCache(url := out or _beside(config))
    workspace = workspace_folder(experiment)
    if kind := network_file_system(workspace):
        terminal.note(
            f"warning: the workspace {workspace} is on a network file system ({kind}). Tasks on several machines must "
            "not share it: give each a workspace of its own with --set workspace=FOLDER."
        )
    made = embed_shard(experiment, shard, shared, texts_per_pack=every, progress=terminal.progress())
    _say(terminal, made, shard_text)
    for error in made.errors:
        terminal.note(f"error: {error}")
    pull = f"ragtrial cache pull {url} {config}"
    terminal.say(f"vectors: {url}\nwhen all shards are done: {pull}")
    code = 4 if made.errors else 0
    terminal.say_json({"exit_code": code, "shard": str(shard), "url": url, **asdict(made)})
    return code


def _beside(config: str) -> str:
    """The folder for vectors beside ``config``, which version control ignores."""
    from ragtrial.cache.atomic import write_text

    folder = Path(config).absolute().parent / _BESIDE
    if not folder.exists():
        write_text(folder / ".gitignore", "*\n")
    return str(folder)


def _say(terminal: Terminal, made: ShardWork, shard: str) -> None:
    for one in made.embedders:
        terminal.say(f"{one.embedder}: {counted(one.texts, 'text')} in shard {shard}: {_counts(one)}")
    if not made.embedders:
        terminal.say("nothing to embed: no setting of the config searches vectors of its own")
    for name, why in made.left.items():
        terminal.say(f"left to the run: {name} ({why})")


def _counts(one: EmbedderWork) -> str:
    kept = f", {one.kept:,} from the workspace" if one.kept else ""
    return f"{one.present:,} there already{kept}, {one.embedded:,} embedded in {one.seconds:.1f} s"
