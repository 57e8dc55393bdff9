"""The options of every command that compares reports."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ragtrial.cli import completion

if TYPE_CHECKING:
    from ragtrial.comparison.comparing import ComparisonOptions
    from ragtrial.comparison.comparison_input import ComparisonInput

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
        """What is compared; the rest is of ``input_of``, and so are the errors. No ``settings`` are all."""
        from ragtrial.comparison.comparison_input import input_of

        chosen = tuple(dict.fromkeys(settings)) or None
        return input_of(self.reports, metrics, primary=self.metric, settings=chosen, baseline=self.baseline,
                          common=self.common, directory=self.results, **options)  # fmt: skip

    def aim(self, contest: ComparisonInput, **options: Any) -> ComparisonOptions:
        """How ``contest`` is compared; ``options`` and errors are those of ``options_of``."""
        from ragtrial.comparison.comparing import options_of

        return options_of(contest, margin=self.margin, confidence=self.confidence, **options)


_USUAL = ("results", 0.02, 0.95)


def contest_options(function: F) -> F:
    """The options; the command is given them as ``compared``. Stands above ``gate_options`` and ``common_options``."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        compared = ComparisonInputs(**{field.name: kwargs.pop(field.name) for field in fields(ComparisonInputs)})
        return function(*args, compared=compared, **kwargs)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]  # click has replaced the signature


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
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
