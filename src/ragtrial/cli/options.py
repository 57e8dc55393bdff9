"""Options that several commands share: of comparisons, and of chat models."""

from __future__ import annotations

import functools
import json
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ragtrial.cli import completion
from ragtrial.errors import Fault, InputError, counted

if TYPE_CHECKING:
    from ragtrial.comparison.comparing import ComparisonOptions
    from ragtrial.comparison.comparison_input import ComparisonInput
    from ragtrial.components.endpoints.chat import Budget, BudgetedChat, CallPlan
    from ragtrial.labelling.model_prompt import ModelPrompt

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ComparisonInputs:
    """Which reports, against what, by which metric, and how sure one wants to be, as it was written."""

    reports: tuple[str, ...]
    results: str
    baseline: str | None
    metric: str | None
    margin: float
    confidence: float
    common: bool

    def command(self, name: str, *more: str) -> str:
        """The command ``name`` about the same reports, with the same options."""
        given = [f"--{option}={value}" for option in ("results", "baseline", "metric", "margin", "confidence")
                 if (value := getattr(self, option)) not in (None, *_USUAL)]  # fmt: skip
        return shlex.join(["ragtrial", name, *self.reports, *given, *(["--common"] if self.common else []), *more])

    def contest(
        self, metrics: Sequence[str] | None = None, *, settings: Sequence[str] = (), **options: bool
    ) -> ComparisonInput:
        """The settings to compare, all without ``settings``; ``input_of`` documents other options and errors."""
        from ragtrial.comparison.comparison_input import input_of

        chosen = tuple(dict.fromkeys(settings)) or None
        return input_of(self.reports, metrics, primary=self.metric, settings=chosen, baseline=self.baseline,
                          common=self.common, directory=self.results, **options)  # fmt: skip

    def aim(self, contest: ComparisonInput, **options: Any) -> ComparisonOptions:
        """The options of the comparison; ``options`` and errors are documented in ``options_of``."""
        from ragtrial.comparison.comparing import options_of

        return options_of(contest, margin=self.margin, confidence=self.confidence, **options)


_USUAL = ("results", 0.02, 0.95)


def contest_options(function: F) -> F:
    """Adds comparison options; the command receives them as ``compared``. Apply above other options."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        compared = ComparisonInputs(**{field.name: kwargs.pop(field.name) for field in fields(ComparisonInputs)})
        return function(*args, compared=compared, **kwargs)

    for option in reversed(_COMPARISON_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # click has replaced the signature


_COMPARISON_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("reports", shell_complete=completion.reports, nargs=-1, default=("latest",), metavar="[REPORT]..."),
    click.option("--results", type=click.Path(), default="results", show_default=True, help="Where reports are kept."),
    click.option(
        "--baseline", metavar="NAME", help="SETTING, REPORT or REPORT:SETTING: what the others are compared with."
    ),
    click.option("--metric", shell_complete=completion.metrics, metavar="NAME",
                 help="The metric that decides, instead of the report's primary one."),
    click.option("--margin", type=click.FloatRange(min=0), default=0.02, show_default=True,
                 help="A difference that would not matter."),
    click.option("--confidence", type=click.FloatRange(0.5, 0.9999), default=0.95, show_default=True,
                 help="Family-wise confidence level."),
    click.option("--common", is_flag=True, help="Compare the queries that have the same labels in all reports."),
)  # fmt: skip


_CHAT = {"model": "model", "base_url": "endpoint", "api_key": "api_key", "price": "price",
         "output_price": "output_price", "max_tokens": "max_tokens", "temperature": "temperature", "seed": "seed",
         "concurrency": "concurrency", "retries": "retries", "fields": "fields"}  # fmt: skip
"""The options of a chat model, and their names on the command line."""


@dataclass(frozen=True)
class ModelInputs:
    """A chat model and its budget, as they were written."""

    endpoint: str | None
    model: str | None
    api_key: str | None
    prompt: str | None
    calls: int | None
    budget: float | None
    price: float | None
    output_price: float | None
    max_tokens: int
    temperature: float
    seed: int
    concurrency: int
    retries: int
    field: tuple[str, ...]
    only_plan: bool

    @property
    def fields(self) -> dict[str, Any]:
        """The user's own fields. Raises UsageError unless each is NAME=VALUE."""
        return dict(_field(text) for text in self.field)

    def chat(self, output: Path, without: str = "") -> BudgetedChat:
        """The model, with its replies in a file next to ``output``. ``without`` names the way to do without a model.

        Raises UsageError for options that conflict, InputError for wrong values.
        """
        from ragtrial.components.endpoints.chat import BudgetedChat, ChatOptions, KeptReplies
        from ragtrial.options import validate

        if not self.endpoint or not self.model:
            raise click.UsageError(f"name the model: --endpoint URL --model NAME{without}.")
        if self.budget is not None and self.price is None:
            raise click.UsageError("--budget needs the price of a million tokens: --price.")
        if output.is_dir() or not output.name:
            raise InputError(Fault(str(output), message="is a folder; name a file."))
        given = {key: value for key, name in _CHAT.items() if (value := getattr(self, name)) is not None}

        def fault(where: tuple[str | int, ...], message: str) -> Fault:
            return Fault(f"--{_CHAT.get(str(where[0]), 'model').replace('_', '-')}" if where else "", message=message)

        return BudgetedChat(validate(ChatOptions, given, InputError, fault), KeptReplies(replies_file(output)))

    def template(self, own: str, places: tuple[str, ...]) -> ModelPrompt:
        """The prompt ``own``, or the prompt of the user's file, with ``places``. Raises InputError."""
        from ragtrial.labelling.model_prompt import read_prompt
        from ragtrial.options import expand_user

        return read_prompt(None if self.prompt is None else expand_user(self.prompt), own, places)

    def limit(self) -> Budget:
        """The most that may be spent."""
        from ragtrial.components.endpoints.chat import Budget

        return Budget(self.calls, self.budget)


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"--field is {text!r}; it must be NAME=VALUE, like max_completion_tokens=2000.")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value


def replies_file(output: Path) -> Path:
    """Where the replies are kept from which ``output`` is made."""
    return output.with_name(f"{output.name.removesuffix('.jsonl').removesuffix('.json')}.replies")


def plan_line(what: str, plan: CallPlan) -> str:
    """The requests, tokens and money that ``what`` takes, according to a plan."""
    if not plan.calls:
        return f"{what}, all answered: no request is needed"
    kept = f", {plan.kept:,} already answered" if plan.kept else ""
    read, written = plan.tokens
    cost = "" if plan.cost is None else f", cost about {plan.cost:.2f}"
    tokens = f"about {read:,} input and {written:,} output tokens"
    return f"{what}{kept}: {counted(plan.calls, 'request')}, {tokens}{cost}"


def plan_json(plan: CallPlan) -> dict[str, Any]:
    """The same for programs."""
    return {"kept": plan.kept, "calls": plan.calls, "tokens": list(plan.tokens), "cost": plan.cost}


def model_options(places: tuple[str, ...]) -> Callable[[F], F]:
    """The options, which the command gets as ``asked``. A user's own prompt has ``places``."""

    def decorated(function: F) -> F:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            asked = ModelInputs(**{field.name: kwargs.pop(field.name) for field in fields(ModelInputs)})
            return function(*args, asked=asked, **kwargs)

        prompt = click.option(
            "--prompt", type=click.Path(), metavar="FILE", help=f"Your own prompt, with {' and '.join(places)}."
        )
        for option in reversed((*_MODEL_OPTIONS[:3], prompt, *_MODEL_OPTIONS[3:])):
            wrapped = option(wrapped)
        return wrapped  # type: ignore[return-value]  # click has replaced the signature

    return decorated


_MODEL_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option("--endpoint", metavar="URL", help="The URL before /chat/completions."),
    click.option("--model", metavar="NAME", help="The model, as the endpoint knows it."),
    click.option("--api-key", metavar="VARIABLE", help="The environment variable that holds the key: '${NAME}'."),
    click.option("--plan", "only_plan", is_flag=True, help="Say what it would take, and send nothing."),
    click.option("--calls", type=click.IntRange(min=1), metavar="N", help="Send at most N requests."),
    click.option("--budget", type=click.FloatRange(min=0), metavar="MONEY", help="Spend at most this; needs --price."),
    click.option("--price", type=click.FloatRange(min=0), metavar="MONEY", help="Price of a million input tokens."),
    click.option("--output-price", type=click.FloatRange(min=0), metavar="MONEY",
                 help="Price of a million output tokens (default: the same)."),
    click.option("--max-tokens", type=click.IntRange(min=1), default=400, show_default=True,
                 help="The most tokens of a reply."),
    click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True,
                 help="How freely the model chooses its words."),
    click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                 help="Random seed, also sent to the endpoint."),
    click.option("--field", multiple=True, metavar="NAME=VALUE",
                 help="A field of each request, in JSON; null leaves out one that is sent otherwise (repeatable)."),
    click.option("--concurrency", type=click.IntRange(1, 256), default=8, show_default=True,
                 help="Requests at once."),
    click.option("--retries", type=click.IntRange(0, 20), default=6, show_default=True,
                 help="Repeats of a failed request."),
)  # fmt: skip
