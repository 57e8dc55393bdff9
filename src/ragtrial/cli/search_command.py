"""ragtrial search"""

from __future__ import annotations

import click

from ragtrial.cli.terminal import Terminal, common_options, override_option


@click.command("search")
@click.argument("config", type=click.Path())
@click.argument("text")
@override_option
@click.option("--setting", metavar="NAME", help="Only this setting (default: every one).")
@common_options
def command(terminal: Terminal, config: str, text: str, overrides: tuple[str, ...], setting: str | None) -> int:
    """Show what the settings of CONFIG return for TEXT."""
    from ragtrial.config import load_config
    from ragtrial.errors import InputError
    from ragtrial.experiment import search_settings
    from ragtrial.views.query import found_text

    if not text.strip():
        raise InputError("the text to search for is empty.")
    found = search_settings(load_config(config, overrides), text, setting, progress=terminal.progress())
    for name, hits in found.items():
        terminal.say(found_text(name, hits, terminal.width))
    terminal.say_json([{"setting": name, "hits": [vars(hit) for hit in hits]} for name, hits in found.items()])
    return 0
