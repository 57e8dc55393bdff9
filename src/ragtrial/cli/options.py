"""Options of commands: each is declared once, as the default of the parameter that receives it."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.errors import Fault, InputError

CONFIG_NAME = "experiment.yaml"


@dataclass(frozen=True, eq=False)
class _Declared:
    """An option or an argument; its name and type come from the parameter that receives it."""

    kind: type[click.Parameter]
    flags: Sequence[str]
    attributes: Mapping[str, Any]
    bounds: Mapping[str, float]


def option(
    text: str,
    metavar: str | None = None,
    *,
    flags: str = "",
    kind: type[click.Option] = click.Option,
    default: Any = None,
    at_least: float | None = None,
    at_most: float | None = None,
    **attributes: Any,
) -> Any:
    """Declares an option with the help ``text``; it is the default of the parameter that receives its value.

    ``flags`` are its names, separated by spaces, where they are not the name of the parameter; click documents other
    ``attributes``.
    """
    bounds = {key: bound for key, bound in (("min", at_least), ("max", at_most)) if bound is not None}
    declared: dict[str, Any] = {"help": text, "metavar": metavar}
    if default is not None:
        declared |= {"default": default, "show_default": default is not True}
    return _Declared(kind, flags.split(), {**declared, **attributes}, bounds)


def argument(metavar: str, *, default: Any = None, **attributes: Any) -> Any:
    """An argument for the default of a parameter, as ``option``; optional if it has a default or brackets."""
    declared = {"metavar": metavar, "default": default, "required": not metavar.startswith("[") and default is None}
    return _Declared(click.Argument, (), {**declared, **attributes}, {})


def declare(
    name: str, group: click.Group | None = None, kind: type[click.Command] = click.Command
) -> Callable[[Callable[..., Answer]], click.Command]:
    """A decorator that makes a command of a function: its parameters declare options, the terminal prints its answer.

    A parameter may be a dataclass, whose fields declare options. A function that needs the terminal has it as its first
    parameter. Every command has the options of all commands, too.
    """

    def decorate(function: Callable[..., Answer]) -> click.Command:
        signature, hints = inspect.signature(function), get_type_hints(function)
        given = signature.parameters.values()
        declared = {value.name: value.default for value in given if value.kind is value.KEYWORD_ONLY}
        groups = {key: hints[key] for key in declared if is_dataclass(hints[key])}

        def callback(*, as_json: bool, quiet: bool, verbose: bool, no_color: bool, **values: Any) -> int:
            terminal = Terminal(as_json=as_json, quiet=quiet, verbose=verbose, no_color=no_color)
            for key, options in groups.items():
                values[key] = options(**{field.name: values.pop(field.name) for field in fields(options)})
            with contextlib.redirect_stdout(sys.stderr):  # what a user's function prints is not the answer
                return terminal.finish(function(*[terminal][: "terminal" in hints], **values))

        parameters = [*_parameters(declared, hints), *_parameters(_COMMON, dict.fromkeys(_COMMON, bool))]
        text = function.__doc__ or ""
        command = kind(name, params=parameters, callback=callback, help=text, short_help=text.partition("\n")[0])
        if group is not None:
            group.add_command(command)
        return command

    return decorate


_COMMON = {
    "as_json": option("Print one JSON document on stdout.", flags="--json"),
    "quiet": option("No progress and no warnings.", flags="-q --quiet"),
    "verbose": option("Say more about what is done.", flags="-v --verbose"),
    "no_color": option("No colours (as NO_COLOR in the environment)."),
}


def _parameters(declared: Mapping[str, Any], hints: Mapping[str, Any]) -> Iterator[click.Parameter]:
    for name, default in declared.items():
        if isinstance(default, _Declared):
            names = [name] if default.kind is click.Argument else [name, *(default.flags or [flag_of(name)])]
            yield default.kind(names, **{**_typed(hints[name], default), **default.attributes})
        else:
            options = hints[name]
            yield from _parameters({field.name: field.default for field in fields(options)}, get_type_hints(options))


def flag_of(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _typed(hint: Any, declared: _Declared) -> dict[str, Any]:
    """The attributes of a parameter that follow from its type."""
    typed: dict[str, Any] = {}
    if get_origin(hint) in (Union, UnionType):
        hint = next(kind for kind in get_args(hint) if kind is not NoneType)
    if get_origin(hint) is tuple:
        typed = {"nargs": -1} if declared.kind is click.Argument else {"multiple": True}
        hint = get_args(hint)[0]
    if hint is bool:
        return {"is_flag": True, "default": False}
    if get_origin(hint) is Literal:
        return {**typed, "type": click.Choice(get_args(hint))}
    if declared.bounds:
        kinds: dict[Any, Callable[..., click.ParamType[Any]]] = {int: click.IntRange, float: click.FloatRange}
        return {**typed, "type": kinds[hint](**declared.bounds)}
    return {**typed, "type": _File() if hint is Path else hint}


class _File(click.Path):
    """A path in which ``~`` is the folder of the user."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from ragtrial.options import expand_user  # it needs pydantic, which scores do without

        return expand_user(str(super().convert(value, param, ctx)))


def config_file(_context: click.Context | None, _parameter: click.Parameter | None, value: str) -> str:
    """The file of a config: ``value``, or the experiment.yaml of that folder. Raises InputError if there is none."""
    path = Path(value) / CONFIG_NAME if Path(value).is_dir() else Path(value)
    if path.name == CONFIG_NAME and not path.exists():
        message = "there is no such file; name a config, or write one with `ragtrial init FOLDER`."
        raise InputError(Fault(str(path), message=message))
    return str(path)


CONFIG = argument("[CONFIG]", default=CONFIG_NAME, type=click.Path(), callback=config_file)
"""The argument of every command that reads a config: a file, or the folder of an experiment.yaml, such as this one."""

OVERRIDES = option("Override a key: retrievers.dense.top_k=20.", "KEY=VALUE", flags="--set")
SETTINGS = option("Only this setting; may be repeated.", "NAME", flags="--setting")
RESULTS = option("Where reports are kept.", "PATH", default="results")
WHO = option("Who labels, for the history (default: the user of the machine).", "NAME")
