"""The options of every command that compares reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def contest_options(function: F) -> F:
    """Which reports, against what, by which metric, and how sure one wants to be."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.argument("reports", nargs=-1, required=True, metavar="REPORT..."),
    click.option("--results", type=click.Path(), default="results", show_default=True, help="Where reports are kept."),
    click.option(
        "--baseline", metavar="NAME", help="SETTING, REPORT or REPORT:SETTING: what the others are compared with."
    ),
    click.option("--metric", metavar="NAME", help="The metric that decides, in place of the report's primary one."),
    click.option("--margin", type=click.FloatRange(min=0), default=0.02, show_default=True,
                 help="A difference that would not matter."),
    click.option("--confidence", type=click.FloatRange(0.5, 0.9999), default=0.95, show_default=True,
                 help="That all intervals of a metric hold together."),
    click.option("--common", is_flag=True, help="Compare the queries that have the same labels in all reports."),
)  # fmt: skip
