"""Inputs that several commands share: the reports of a comparison, and a chat model with its budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from ragtrial.cli.options import RESULTS, argument, flag_of, option
from ragtrial.comparison import comparing, comparison_input
from ragtrial.components.endpoints import chat as chats
from ragtrial.errors import Fault, InputError, counted
from ragtrial.options import validate
from ragtrial.records import Direction
from ragtrial.scoring.tables import reading


@dataclass(frozen=True)
class ComparisonInputs:
    """Which reports, against what, by which metric, and how sure one wants to be, as it was written."""

    reports: tuple[str, ...] = argument("[REPORT]...", default=("latest",))
    results: str = RESULTS
    baseline: str | None = option("SETTING, REPORT or REPORT:SETTING: what the others are compared with.", "NAME")
    metric: str | None = option("The metric that decides, instead of the report's primary one.", "NAME")
    margin: float | None = option("A difference that would not matter (0.02 for scores from 0 to 1).", at_least=0)
    confidence: float = option("Family-wise confidence level.", default=0.95, at_least=0.5, at_most=0.9999)
    common: bool = option("Compare the queries that have the same labels in all reports.")

    @property
    def better(self) -> Mapping[str, Direction]:
        """The directions that are given for metrics of tables."""
        return {}

    def inputs(
        self, metrics: Sequence[str] | None = None, *, settings: Sequence[str] = (), **options: bool
    ) -> comparison_input.ComparisonInput:
        """The settings to compare, all without ``settings``; ``input_of`` documents other options and errors."""
        chosen = tuple(dict.fromkeys(settings)) or None
        return comparison_input.input_of(self.reports, metrics, primary=self.metric, settings=chosen,
                                         baseline=self.baseline, common=self.common, directory=self.results,
                                         better=self.better,
                                         **options)  # fmt: skip

    def with_options(
        self, inputs: comparison_input.ComparisonInput, judge: Path | None = None, **options: Any
    ) -> tuple[comparison_input.ComparisonInput, comparing.ComparisonOptions]:
        """The settings and the options of a comparison, which uses the judgments in the file ``judge``, if any.

        ``options_of`` documents other options.
        """
        chosen = comparing.options_of(inputs, margin=self.margin, confidence=self.confidence, **options)
        if judge is not None:
            chosen = comparing.with_judge(inputs, chosen, judge)
        return inputs if chosen.judge is None else chosen.judge.inputs, chosen


@dataclass(frozen=True)
class TableInputs(ComparisonInputs):
    """Reports or tables of scores."""

    lower_is_better: tuple[str, ...] = option("Lower values of this metric of a table are better; repeatable.", "NAME")
    higher_is_better: tuple[str, ...] = option("Higher values of it are better; repeatable.", "NAME")

    @property
    def better(self) -> Mapping[str, Direction]:
        return reading.directions_of(self.lower_is_better, self.higher_is_better)


_CHAT = ("model", "endpoint", "api_key", "price", "output_price", "max_tokens", "temperature", "seed", "concurrency",
         "retries", "fields")  # fmt: skip


@dataclass(frozen=True)
class ModelInputs:
    """A chat model and its budget, as they were written."""

    endpoint: str | None = option("The URL before /chat/completions.", "URL")
    model: str | None = option("The model, as the endpoint knows it.", "NAME")
    api_key: str | None = option("The environment variable that holds the key: '${NAME}'.", "VARIABLE")
    prompt: Path | None = option("Your own prompt, with {passage} and {query} (judge) or {task} (questions).", "FILE")
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
            return Fault(flag_of(name) if where else "", message=message)

        replies = output.with_name(f"{output.name.removesuffix('.jsonl').removesuffix('.json')}.replies")
        return chats.BudgetedChat(validate(chats.ChatOptions, given, InputError, fault), chats.KeptReplies(replies))

    def template(self, own: str, places: tuple[str, ...]) -> chats.ModelPrompt:
        """The prompt ``own``, or the prompt of the user's file, with ``places``. Raises InputError."""
        return chats.read_prompt(self.prompt, own, places)

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
