"""A plan of work as text: one line for each piece of it, and what all of it comes to."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ragtrial.planning import Node, WorkPlan

_INDENT = 7  # of what continues a line: below the stage, beside the status
_MOST_WHAT = 30
_LEAST_WHY = 24


def plan_lines(plan: WorkPlan, width: int, *, verbose: bool = False) -> list[str]:
    """The lines of ``plan``, none wider than ``width`` where that can be; if ``verbose`` with the settings of each."""
    rows = [_row(node) for node in plan.nodes]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for node, row in zip(plan.nodes, rows, strict=True):
        status, kind, what, count, time = row
        cells = [status.ljust(widths[0]), kind.ljust(widths[1]), what.ljust(widths[2])]
        line = "  ".join([*cells, count.rjust(widths[3]), time.rjust(widths[4])])
        left = width - len(line) - 2
        if node.why and left >= min(len(node.why), _LEAST_WHY) and len(node.why) <= left:
            lines.append(f"{line}  {node.why}")
        else:
            lines.append(line.rstrip())
            lines += _wrapped(node.why, width)
        if verbose:
            lines += _wrapped(f"for {', '.join(node.settings)}", width)
    return lines


def total_lines(plan: WorkPlan, width: int) -> list[str]:
    """What all work comes to, and what a question mark means."""
    to_do, cached = len(plan.to_do), len(plan.nodes) - len(plan.to_do)
    if not to_do:
        return [f"Nothing to do: all {cached:,} stages are cached."]
    time = f"about {_time(plan.seconds)}" if plan.unknown < to_do else "?"
    if plan.unknown and plan.unknown < to_do:
        time += f" and {plan.unknown} unknown"
    said = [f"{cached:,} cached, {to_do:,} to do: time {time}, disk about {_bytes(plan.disk)} "
            f"of {_bytes(plan.free)} free."]  # fmt: skip
    if any(node.amount.is_estimate for node in plan.nodes):
        said.append("~ is an estimate from the size of the documents: it is counted when there are chunks.")
    if plan.unknown:
        said.append("? is not known yet: no such work was done on this machine. The first run measures it.")
    return [line for one in said for line in textwrap.wrap(one, max(width, 40))]


def plan_json(plan: WorkPlan) -> dict[str, Any]:
    """``plan`` as one JSON document."""
    return {
        "experiment": plan.experiment,
        "workspace": plan.workspace,
        "settings": list(plan.settings),
        "stages": [_node_json(node) for node in plan.nodes],
        "cached": len(plan.nodes) - len(plan.to_do),
        "to_do": len(plan.to_do),
        "seconds": plan.seconds,
        "stages_of_unknown_time": plan.unknown,
        "bytes": plan.disk,
        "bytes_free": plan.free,
    }


def disk_warning(plan: WorkPlan) -> str | None:
    """What to say where the disk is too small for what is to do."""
    if plan.disk < plan.free:
        return None
    return (
        f"the disk of {plan.workspace} is too small: about {_bytes(plan.disk)} are needed, {_bytes(plan.free)} are "
        "free. `ragtrial cache prune` makes room, or name another folder with `workspace:`."
    )


def _row(node: Node) -> Sequence[str]:
    amount = node.amount
    about = "~" if amount.is_estimate else ""
    count = f"{about}{amount.count:,} {amount.unit}"
    if not node.is_cached and amount.to_do < amount.count:
        count = f"{about}{amount.to_do:,} of {count}"
    what = node.what if len(node.what) <= _MOST_WHAT else node.what[: _MOST_WHAT - 3] + "..."
    time = "" if node.is_cached else "?" if node.seconds is None else _time(node.seconds)
    return "cached" if node.is_cached else "to do", node.kind, what, count, time


def _wrapped(text: str, width: int) -> list[str]:
    indent = " " * (_INDENT + 1)
    return textwrap.wrap(text, max(width, 40), initial_indent=indent, subsequent_indent=indent)


def _node_json(node: Node) -> dict[str, Any]:
    return {
        "stage": node.kind,
        "what": node.what,
        "settings": list(node.settings),
        "status": "cached" if node.is_cached else "to do",
        "why": node.why or None,
        **asdict(node.amount),
        "seconds": node.seconds,
        "bytes": node.disk,
    }


def _time(seconds: float) -> str:
    if seconds < 1:
        return "<1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


def _bytes(size: float) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"
