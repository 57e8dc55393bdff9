"""All commands, with those in groups, by what is typed."""

from collections.abc import Iterator

import click

from ragtrial.cli.group import group


def _commands(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for inner in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), inner)
            assert found is not None
            yield from _commands(found, f"{name} {inner}")


COMMANDS = dict(_commands(group, "ragtrial"))
