"""A plan of work as text: one line for each stage, and their sum."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import Any

from ragtrial.pipeline.dry_run import DryRun
from ragtrial.pipeline.stage import PlannedStage
from ragtrial.views.table import duration, money

_INDENT = " " * 8  # the indentation of continued lines, next to the status
_WHAT = 32  # the most columns of a description


def plan_lines(plan: DryRun, width: int, *, verbose: bool = False) -> list[str]:
    """The lines of ``plan``; a reason that does not fit into ``width`` has its own. ``verbose`` names the settings."""
    rows = [_row(stage) for stage in plan.stages]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for stage, row in zip(plan.stages, rows, strict=True):
        cells = [cell.ljust(wide) for cell, wide in zip(row[:3], widths[:3], strict=True)]
        line = "  ".join([*cells, row[3].rjust(widths[3]), row[4].rjust(widths[4])])
        fits = len(line) + 2 + len(stage.why) <= width
        lines.append(f"{line}  {stage.why if fits else ''}".rstrip())
        below = [*([] if fits else [stage.why]), *([f"for {', '.join(stage.settings)}"] if verbose else [])]
        for text in below:
            lines += textwrap.wrap(text, max(width, 40), initial_indent=_INDENT, subsequent_indent=_INDENT)
    return lines


def total_lines(plan: DryRun) -> list[str]:
    """The sum of all work, and the meaning of the signs in its lines."""
    to_do, cached = len(plan.to_do), len(plan.stages) - len(plan.to_do)
    if not to_do:
        return [f"Nothing to do: all {cached:,} stages are cached."]
    least = "at least" if plan.unknown else "about"
    time = "not known yet" if plan.unknown and not plan.seconds else f"{least} {duration(plan.seconds)}"
    cost = "" if plan.cost is None else f" Cost: about {money(plan.cost)}, at the prices of the config."
    lines = [f"{cached:,} cached, {to_do:,} to do. Time: {time}.{cost}"]
    if any(stage.amount.is_estimate for stage in plan.stages):
        lines.append("~ estimated from the size of the documents")
    if plan.unknown:
        lines.append("? not known yet: the first run measures it")
    return lines


def plan_json(plan: DryRun) -> dict[str, Any]:
    """``plan`` as one JSON document."""
    stages = [
        {
            "stage": stage.kind,
            "what": stage.what,
            "settings": list(stage.settings),
            "status": "cached" if stage.is_cached else "to do",
            "why": stage.why or None,
            **asdict(stage.amount),
        }
        for stage in plan.stages
    ]
    about = {"experiment": plan.experiment, "workspace": plan.workspace, "fingerprint": plan.fingerprint}
    counts = {"cached": len(plan.stages) - len(plan.to_do), "to_do": len(plan.to_do)}
    totals = {"seconds": plan.seconds, "cost": plan.cost, "stages_of_unknown_time": plan.unknown}
    return {**about, "settings": list(plan.settings), "stages": stages, **counts, **totals}


def _row(stage: PlannedStage) -> tuple[str, str, str, str, str]:
    amount = stage.amount
    about = "~" if amount.is_estimate else ""
    count = f"{about}{amount.count:,} {amount.unit}"
    if not stage.is_cached and amount.to_do < amount.count:
        count = f"{about}{amount.to_do:,} of {count}"
    what = stage.what if len(stage.what) <= _WHAT else stage.what[: _WHAT - 2] + ".."
    time = "" if stage.is_cached else "?" if amount.seconds is None else duration(amount.seconds)
    if amount.cost is not None:
        time += f", cost {money(amount.cost)}"
    return "cached" if stage.is_cached else "to do", stage.kind, what, count, time
