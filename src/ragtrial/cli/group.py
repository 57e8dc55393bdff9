"""The commands, each imported when it is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from ragtrial import __version__
from ragtrial.errors import InputError, did_you_mean

GROUPS = {
    "Start": {
    "demo": "Compare five retrievers on sample data.",
    "init": "Write a config, labels and documents to start from.",
    }, "Run": {
    "plan": "Say what `run` would do, why, and how long it would take.",
    "validate": "Check each CONFIG, its labels and its documents.",
    "chunks": "Show how the settings of CONFIG cut its documents.",
    "run": "Run the experiment of CONFIG and write its report.",
    }, "Result": {
    "show": "Show a REPORT: a folder, a run id, or `latest`.",
    "compare": "Say which settings are better, by how much, and how certain that is.",
    "report": "Write one HTML page about one or more reports.",
    "list": "List runs, retrievers, metrics and more.",
    "explain": "Explain a metric, a config key, a kind, or a column of a comparison.",
    }, "Labels": {
    "search": "Show what settings return for TEXT, and grade it.",
    "label": "Grade the texts of a worklist and add them to your labels.",
    "pool": "Write a worklist of the texts to label next.",
    "labels": "List and convert labels.",
    "sample": "Draw questions to label from the spans of a retriever.",
    "judge": "Let a model grade what the settings found.",
    "questions": "Let a model draft questions from the documents of CONFIG.",
    }, "Other tools": {
    "score": "Score runs by qrels.",
    "rescore": "Score stored rankings by other labels or metrics.",
    "export": "Write a run, or judgments, as trec_eval reads them; or a baseline to commit.",
    }, "Upkeep": {
    "cache": "Show, clean up and share cached results.",
    "schema": "Print the JSON Schema of a config, labels or reports.",
    },
}  # fmt: skip
"""Commands with the first line of their help, so that the list of them imports none."""

COMMANDS = {name: text for group in GROUPS.values() for name, text in group.items()}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ragtrial.cli.{cmd_name}_command").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, commands in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(max(map(len, COMMANDS))), text) for name, text in commands.items()])

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
