"""The commands, each imported when it is called.

A command NAME is listed in ``GROUPS``. It is the function ``command`` of the module ``NAME_command``, under
``@declare("NAME")``: its parameters are its arguments and options, its docstring is its help, and the terminal prints
the ``Answer`` that it returns, as text or as JSON::

    @declare("count")
    def command(*, report: str = argument("REPORT")) -> Answer:
        '''Count the settings of REPORT.'''
        count = len(load_report(report).settings)
        return Answer({"settings": count}, [f"{count} settings"])
"""

from __future__ import annotations

import ast
from importlib import import_module
from itertools import chain
from pathlib import Path

import click

from ragtrial import __version__
from ragtrial.errors import InputError, did_you_mean

GROUPS = {
    "Start": ("demo", "init"),
    "Run": ("plan", "validate", "chunks", "run"),
    "Result": ("show", "compare", "report", "list", "explain"),
    "Labels": ("search", "label", "pool", "labels", "sample", "judge", "questions"),
    "Other tools": ("score", "rescore", "export"),
    "Upkeep": ("cache", "schema"),
}
COMMANDS = tuple(chain.from_iterable(GROUPS.values()))


def summary_of(name: str) -> str:
    """The first line of a command's help, from its source: the list of commands imports none of them."""
    module = ast.parse((Path(__file__).parent / f"{name}_command.py").read_text(encoding="utf-8"))
    functions = [node for node in module.body if isinstance(node, ast.FunctionDef) and node.name == "command"]
    return (ast.get_docstring(functions[0]) or "").partition("\n")[0]


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ragtrial.cli.{cmd_name}_command").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, names in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(max(map(len, COMMANDS))), summary_of(name)) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[:1] == ["help"]:  # as git and pip have it
            if not args[1:]:
                click.echo(ctx.get_help())
                ctx.exit()
            args = [args[1], "--help"]
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = did_you_mean(args[0], COMMANDS)
            raise click.UsageError(f"there is no command {args[0]!r}.{near} Commands: {', '.join(COMMANDS)}.", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="ragtrial")
def group() -> None:
    """Retrieval experiments for RAG, from a config file.

    Exit codes: 0 done; 1 a gate failed (--fail-if); 2 invalid config, labels or options;
    3 failed while running; 4 some settings failed, the rest were saved; 130 interrupted.
    """
    try:
        Path.cwd()
    except FileNotFoundError:  # no path that is relative to it means anything
        message = "the current folder no longer exists: it was removed. Go to another one, and run the command there."
        raise InputError(message) from None
