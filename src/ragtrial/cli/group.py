"""The commands, each imported when it is called."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

import click

from ragtrial import __version__
from ragtrial.errors import InputError, did_you_mean

COMMANDS = (
    "demo", "init", "run", "plan", "validate", "chunks", "labels", "show", "compare", "report", "search", "score",
    "questions", "pool", "label", "judge", "rescore", "export", "list", "explain", "cache", "schema",
)  # fmt: skip
"""In the order of the help; each is the ``command`` of a module, which is loaded when the command is called."""


class _Later(ModuleType):
    """A module of the library that is imported when one of its names is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or sys.modules.get(self.__name__) is self:
            raise AttributeError(f"{self.__name__} is not imported yet: import the module, not its {name}")
        return getattr(import_module(self.__name__), name)


class _LaterFinder(MetaPathFinder, Loader):
    """Finds modules outside the command line, and puts off their import."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> ModuleSpec | None:
        if not fullname.startswith("ragtrial.") or fullname.startswith("ragtrial.cli."):
            return None
        spec = PathFinder.find_spec(fullname, path)
        if spec is not None:
            spec.loader = self
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Later(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        return


@contextmanager
def _later() -> Iterator[None]:
    """Modules that are imported inside the block are loaded when they are used: help and wrong options need none."""
    import_module("ragtrial.cli.terminal")  # with the modules from which commands import names: errors, records, ...
    finder = _LaterFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [name for name, module in sys.modules.items() if isinstance(module, _Later)]:
            parent, _, child = name.rpartition(".")
            del sys.modules[name]
            if parent in sys.modules:
                vars(sys.modules[parent]).pop(child, None)


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with _later():
            command: click.Command = import_module(f"ragtrial.cli.{cmd_name}_command").command
        return command

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
