"""The commands, each imported when it is called."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from ragtrial import __version__
from ragtrial.errors import InputError, did_you_mean

COMMANDS = {
    "demo": "Compare five retrievers on sample data.",
    "init": "Write a config, labels and documents to start from.",
    "run": "Run the experiment of CONFIG and write its report.",
    "plan": "Say what `run` would do, why, and how long it would take.",
    "validate": "Check CONFIG, its labels and its documents.",
    "chunks": "Show how the settings of CONFIG cut its documents.",
    "labels": "List, add, remove, merge and convert labels.",
    "show": "Show a REPORT: a folder, a run id, or `latest`.",
    "compare": "Say which settings are better, by how much, and how certain that is.",
    "report": "Write one HTML page about one or more reports.",
    "search": "Show what settings return for TEXT, and grade it.",
    "score": "Score runs by qrels.",
    "questions": "Let a model draft questions from the documents of CONFIG.",
    "pool": "Write a worklist of the texts to label next.",
    "label": "Grade the texts of a worklist and add them to your labels.",
    "judge": "Let a model grade what the settings found.",
    "rescore": "Score stored rankings by other labels or metrics.",
    "export": "Write a run, or judgments, as trec_eval reads them.",
    "list": "List runs, retrievers, metrics and more.",
    "explain": "Explain a metric, a config key, a kind, or a column of a comparison.",
    "cache": "Show, clean up and share cached results.",
    "schema": "Print the JSON Schema of a config, labels or reports.",
}
"""Each with the first line of its help, so that the list of commands imports none of them."""


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = import_module(f"ragtrial.cli.{cmd_name}_command").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

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

    \b
    ragtrial demo                      a finished comparison on sample data
    ragtrial init                      a config, labels and documents to start
    ragtrial run                       run experiment.yaml; scores go to results/
    ragtrial show                      show the scores again
    ragtrial compare                   which setting is better, and how certain
    ragtrial report                    one HTML page about it
    ragtrial pool                      which texts to label next
    ragtrial score QRELS RUN...        score runs that other tools made

    Exit codes: 0 done; 1 a gate failed (--fail-if); 2 invalid config, labels or options;
    3 failed while running; 4 some settings failed, the rest were saved; 130 interrupted.
    """  # noqa: D301 - click wants the control character itself: it keeps the lines below it as they are
    try:
        Path.cwd()
    except FileNotFoundError:  # no path that is relative to it means anything
        message = "the current folder no longer exists: it was removed. Go to another one, and run the command there."
        raise InputError(message) from None
