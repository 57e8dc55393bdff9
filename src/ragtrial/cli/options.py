"""Options of commands: each is declared once, as the default of the parameter that receives it."""

from __future__ import annotations

import contextlib
import inspect
import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.comparison import comparing, comparison_input
from ragtrial.components.endpoints import chat as chats
from ragtrial.errors import Fault, InputError, counted
from ragtrial.labelling import model_prompt

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
            names = [name] if default.kind is click.Argument else [name, *(default.flags or [_flag(name)])]
            yield default.kind(names, **{**_typed(hints[name], default), **default.attributes})
        else:
            options = hints[name]
            yield from _parameters({field.name: field.default for field in fields(options)}, get_type_hints(options))


def _flag(name: str) -> str:
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
        from ragtrial.options import expand_user

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


@dataclass(frozen=True)
class ComparisonInputs:
    """Which reports, against what, by which metric, and how sure one wants to be, as it was written."""

    reports: tuple[str, ...] = argument("[REPORT]...", default=("latest",))
    results: str = RESULTS
    baseline: str | None = option("SETTING, REPORT or REPORT:SETTING: what the others are compared with.", "NAME")
    metric: str | None = option("The metric that decides, instead of the report's primary one.", "NAME")
    margin: float = option("A difference that would not matter.", default=0.02, at_least=0)
    confidence: float = option("Family-wise confidence level.", default=0.95, at_least=0.5, at_most=0.9999)
    common: bool = option("Compare the queries that have the same labels in all reports.")

    def command(self, name: str, *more: str) -> str:
        """The command ``name`` about the same reports, with the same options."""
        given = [f"--{option}={value}" for option in ("results", "baseline", "metric", "margin", "confidence")
                 if (value := getattr(self, option)) not in (None, "results", 0.02, 0.95)]  # fmt: skip
        return shlex.join(["ragtrial", name, *self.reports, *given, *(["--common"] if self.common else []), *more])

    def contest(
        self, metrics: Sequence[str] | None = None, *, settings: Sequence[str] = (), **options: bool
    ) -> comparison_input.ComparisonInput:
        """The settings to compare, all without ``settings``; ``input_of`` documents other options and errors."""
        chosen = tuple(dict.fromkeys(settings)) or None
        return comparison_input.input_of(self.reports, metrics, primary=self.metric, settings=chosen,
                                         baseline=self.baseline, common=self.common, directory=self.results,
                                         **options)  # fmt: skip

    def aim(
        self, inputs: comparison_input.ComparisonInput, judge: Path | None = None, **options: Any
    ) -> tuple[comparison_input.ComparisonInput, comparing.ComparisonOptions]:
        """The settings and the options of a comparison, which uses the judgments in the file ``judge``, if any.

        ``options_of`` documents other options.
        """
        aim = comparing.options_of(inputs, margin=self.margin, confidence=self.confidence, **options)
        if judge is not None:
            aim = comparing.with_judge(inputs, aim, judge)
        return inputs if aim.judge is None else aim.judge.inputs, aim


_CHAT = ("model", "endpoint", "api_key", "price", "output_price", "max_tokens", "temperature", "seed", "concurrency",
         "retries", "fields")  # fmt: skip


@dataclass(frozen=True)
class ModelInputs:
    """A chat model and its budget, as they were written."""

    endpoint: str | None = option("The URL before /chat/completions.", "URL")
    model: str | None = option("The model, as the endpoint knows it.", "NAME")
    api_key: str | None = option("The environment variable that holds the key: '${NAME}'.", "VARIABLE")
    prompt: Path | None = option("Your own prompt.", "FILE")
    only_plan: bool = option("Say what it would take, and send nothing.", flags="--plan")
    calls: int | None = option("Send at most N requests.", "N", at_least=1)
    budget: float | None = option("Spend at most this; needs --price.", "MONEY", at_least=0)
    price: float | None = option("Price of a million input tokens.", "MONEY", at_least=0)
    output_price: float | None = option("Price of a million output tokens (default: the same).", "MONEY", at_least=0)
    max_tokens: int = option("The most tokens of a reply.", default=400, at_least=1)
    temperature: float = option("How freely the model chooses its words.", default=0.0, at_least=0, at_most=2)
    seed: int = option("Random seed, also sent to the endpoint.", default=0, at_least=0)
    field: tuple[str, ...] = option("A field of each request, in JSON; null omits one (repeatable).", "NAME=VALUE")
    concurrency: int = option("Requests at once.", default=8, at_least=1, at_most=256)
    retries: int = option("Repeats of a failed request.", default=6, at_least=0, at_most=20)

    @property
    def fields(self) -> dict[str, Any]:
        """The user's own fields. Raises UsageError unless each is NAME=VALUE."""
        return dict(_field(text) for text in self.field)

    def chat(self, output: Path, without: str = "") -> chats.BudgetedChat:
        """The model, with its replies in a file next to ``output``. ``without`` names the way to do without a model.

        Raises UsageError for options that conflict, InputError for wrong values.
        """
        from ragtrial.options import validate

        if not self.endpoint or not self.model:
            raise click.UsageError(f"name the model: --endpoint URL --model NAME{without}.")
        if self.budget is not None and self.price is None:
            raise click.UsageError("--budget needs the price of a million tokens: --price.")
        if output.is_dir() or not output.name:
            raise InputError(Fault(str(output), message="is a folder; name a file."))
        given = {name: value for name in _CHAT if (value := getattr(self, name)) is not None}
        given["base_url"] = given.pop("endpoint")

        def fault(where: tuple[str | int, ...], message: str) -> Fault:
            key = str(where[0]) if where else ""
            name = {"base_url": "endpoint"}.get(key, key if key in _CHAT else "model")
            return Fault(_flag(name) if where else "", message=message)

        replies = output.with_name(f"{output.name.removesuffix('.jsonl').removesuffix('.json')}.replies")
        return chats.BudgetedChat(validate(chats.ChatOptions, given, InputError, fault), chats.KeptReplies(replies))

    def template(self, own: str, places: tuple[str, ...]) -> model_prompt.ModelPrompt:
        """The prompt ``own``, or the prompt of the user's file, with ``places``. Raises InputError."""
        return model_prompt.read_prompt(self.prompt, own, places)

    def limit(self) -> chats.Budget:
        """The most that may be spent."""
        return chats.Budget(self.calls, self.budget)


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--field is {text!r}; it must be NAME=VALUE, like max_completion_tokens=2000.")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


def plan_line(what: str, plan: chats.CallPlan) -> str:
    """The requests, tokens and money that ``what`` takes, according to a plan."""
    if not plan.calls:
        return f"{what}, all answered: no request is needed"
    kept = f", {plan.kept:,} already answered" if plan.kept else ""
    read, written = plan.tokens
    cost = "" if plan.cost is None else f", cost about {plan.cost:.2f}"
    tokens = f"about {read:,} input and {written:,} output tokens"
    return f"{what}{kept}: {counted(plan.calls, 'request')}, {tokens}{cost}"


def plan_json(plan: chats.CallPlan) -> dict[str, Any]:
    """The same for programs."""
    return {"kept": plan.kept, "calls": plan.calls, "tokens": list(plan.tokens), "cost": plan.cost}
