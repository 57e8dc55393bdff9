"""A plan of work as text: one line for each piece of it, and what all of it comes to."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ragtrial.pipeline.dry_run import DryRun, PlannedStage

_INDENT = " " * 8  # of what continues a line: below the stage, beside the status
_NARROWEST = 60
_AFTER = 20  # columns for the shortest of reasons
_WHAT = 14, 40  # columns for what it is: at least, at most


def plan_lines(plan: DryRun, width: int, *, verbose: bool = False) -> list[str]:
    """The lines of ``plan``, none wider than ``width`` (of 60 at least); if ``verbose`` with the settings of each.

    A reason that does not fit into its line has a line of its own; so have all, before what is made is cut.
    """
    width = max(width, _NARROWEST)
    rows = [_row(stage) for stage in plan.stages]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = width - _AFTER - sum(widths) + widths[2] - 2 * len(widths)
    wanted = min(widths[2], _WHAT[1])
    widths[2] = min(wanted, max(left if left >= wanted else left + _AFTER, _WHAT[0]))
    lines = []
    for stage, (status, kind, what, count, time) in zip(plan.stages, rows, strict=True):
        if len(what) > widths[2]:
            what = what[: widths[2] - 2] + ".."
        cells = [status.ljust(widths[0]), kind.ljust(widths[1]), what.ljust(widths[2])]
        line = "  ".join([*cells, count.rjust(widths[3]), time.rjust(widths[4])])
        reasons = (stage.why, f"after {stage.after}" if stage.after else "")
        why = next((one for one in reasons if len(line) + 2 + len(one) <= width), "")
        lines.append(f"{line}  {why}".rstrip())
        lines += [] if why else _wrapped(stage.why, width)
        lines += _wrapped(f"for {', '.join(stage.settings)}", width) if verbose else []
    return lines


def total_lines(plan: DryRun, width: int) -> list[str]:
    """What all work comes to, and what the signs in its lines mean."""
    to_do, cached = len(plan.to_do), len(plan.stages) - len(plan.to_do)
    if not to_do:
        return [f"Nothing to do: all {cached:,} stages are cached."]
    least = "at least" if plan.unknown else "about"
    time = "not known yet" if plan.unknown and not plan.seconds else f"{least} {_time(plan.seconds)}"
    said = [f"{cached:,} cached, {to_do:,} to do. Time: {time}."]
    if any(stage.amount.is_estimate for stage in plan.stages):
        said.append("~ is an estimate from the size of the documents; chunks are counted when they are made.")
    if plan.unknown:
        said.append("? is not known yet: no such work was done on this machine; the first run measures it.")
    return [line for one in said for line in textwrap.wrap(one, max(width, _NARROWEST))]


def plan_json(plan: DryRun) -> dict[str, Any]:
    """``plan`` as one JSON document."""
    return {
        "experiment": plan.experiment,
        "workspace": plan.workspace,
        "settings": list(plan.settings),
        "stages": [_stage_json(stage) for stage in plan.stages],
        "cached": len(plan.stages) - len(plan.to_do),
        "to_do": len(plan.to_do),
        "seconds": plan.seconds,
        "stages_of_unknown_time": plan.unknown,
    }


def _row(stage: PlannedStage) -> Sequence[str]:
    amount = stage.amount
    about = "~" if amount.is_estimate else ""
    count = f"{about}{amount.count:,} {amount.unit}"
    if not stage.is_cached and amount.to_do < amount.count:
        count = f"{about}{amount.to_do:,} of {count}"
    time = "" if stage.is_cached else "?" if stage.seconds is None else _time(stage.seconds)
    return "cached" if stage.is_cached else "to do", stage.kind, stage.what, count, time


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=_INDENT, subsequent_indent=_INDENT)


def _stage_json(stage: PlannedStage) -> dict[str, Any]:
    return {
        "stage": stage.kind,
        "what": stage.what,
        "settings": list(stage.settings),
        "status": "cached" if stage.is_cached else "to do",
        "why": stage.why or None,
        "after": stage.after,
        **asdict(stage.amount),
        "seconds": stage.seconds,
    }


def _time(seconds: float) -> str:
    if seconds < 1:
        return "<1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"
