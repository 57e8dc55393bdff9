"""What a setting costs, by the names under which a search limits it."""

from __future__ import annotations

from ragtrial.config.search_options import context_limit
from ragtrial.report.schema import SettingPart


def cost_of(setting: SettingPart, name: str) -> float | None:
    """The cost called ``name``, such as ``latency.p95`` or ``tokens@10``; None where it is not known."""
    context = context_limit(name)
    if context is not None:
        found = next((one for one in setting.context if one.k == context[1]), None)
        return None if found is None else getattr(found, context[0])
    head, _, rest = name.partition(".")
    if head == "latency":
        return None if setting.latency is None else getattr(setting.latency, rest)
    return None if setting.costs is None else getattr(setting.costs, name)
