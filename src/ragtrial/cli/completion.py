"""Completions for a shell: reports, settings, metrics. None where they cannot be known."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import click

from ragtrial.cli.terminal import CONFIG_NAME, config_file
from ragtrial.errors import ReportError


def reports(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """The ids of the reports, newest first, and ``latest``."""
    from ragtrial.report.find import list_reports

    with suppress(Exception):
        found = [folder.name for folder in reversed(list_reports(Path(context.params.get("results") or "results")))]
        return [name for name in ["latest", *found] if name.startswith(typed)]
    return []


def settings(context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """The settings of the config, or of the reports, that the command names."""
    with suppress(Exception):
        # The command is not complete yet, so click has not read its arguments.
        words = shlex.split(os.environ.get("COMP_WORDS", ""))[2:]
        found = (
            _of_config(words, context) if {"config", "words"} & context.params.keys() else _of_reports(words, context)
        )
        return [name for name in found if name.startswith(typed)]
    return []


def metrics(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[str]:
    """Every metric; in a list, the metrics that match the text behind its last comma."""
    from ragtrial.evaluation.metrics import METRICS

    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{name}" for name in sorted(METRICS.names()) if name.startswith(last)]


def _of_config(words: Sequence[str], context: click.Context) -> list[str]:
    from ragtrial.config import load_config
    from ragtrial.config.settings import settings_of

    named = next((word for word in words if word.endswith((".yaml", ".yml")) or Path(word).is_dir()), CONFIG_NAME)
    config = config_file(context, context.command.params[0], named)
    return [one.name for one in settings_of(load_config(config))[0]]


def _of_reports(words: Sequence[str], context: click.Context) -> list[str]:
    from ragtrial.report.model import load_report

    names = dict[str, None]()
    for word in [*words, "latest"]:
        with suppress(ReportError):
            report = load_report(word, context.params.get("results") or "results")
            names |= dict.fromkeys(setting.name for setting in report.settings)
        if names:
            break
    return list(names)


settings_option = click.option("--setting", "settings", multiple=True, metavar="NAME", shell_complete=settings,
                               help="Only this setting; may be repeated.")  # fmt: skip
"""The option of commands that take some of the settings."""
