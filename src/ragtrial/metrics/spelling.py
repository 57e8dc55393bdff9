"""From a spelling to a metric: ours, and those of other tools."""

from __future__ import annotations

import re

from ragtrial.errors import MetricError
from ragtrial.metrics.base import METRICS, Definition, Metric, Value

_SPELLING = re.compile(r"^\s*(?P<name>[A-Za-z][A-Za-z0-9_-]*?)\s*(\((?P<inside>[^()]*)\))?\s*(@\s*(?P<k>[^@\s]+))?\s*$")
_OTHER_CUT = re.compile(r"^(?P<name>.*?[A-Za-z1])(?:_at_|_cut_|_cut\.|[._])(?P<k>\d+)$", re.IGNORECASE)


def parse_metric(text: str) -> Metric:
    """The metric that a spelling means: ``ndcg@10``, or another tool's ``NDCG@10``, ``ndcg_cut_10``, ``MRR@10``.

    Raises MetricError that says what is wrong, with the nearest name.
    """
    other = _OTHER_CUT.match(text.strip())
    match = _SPELLING.match(f"{other['name']}@{other['k']}" if other and "@" not in text else text)
    if not match:
        raise MetricError(f"{text!r} is not a metric; write it like ndcg@10 or rbp(p=0.8)@10.")
    name = _canonical(match["name"], text)
    k = match["k"]
    if k is not None and not (k.isascii() and k.isdigit() and int(k) > 0):
        raise MetricError(f"{text!r}: k is {k!r}; it must be a whole number, at least 1.")
    given, gains = _inside(METRICS[name], match["inside"] or "", text)
    return Metric(name, int(k) if k else None, tuple(given.items()), tuple(sorted(gains.items())))


def _canonical(name: str, text: str) -> str:
    folded = name.lower().replace("-", "_")
    for definition_name, definition in METRICS.members():
        if folded == definition_name or folded in definition.aliases:
            return definition_name
    raise MetricError(f"{text!r}: {METRICS.unknown(name)}")


def _inside(definition: Definition, inside: str, text: str) -> tuple[dict[str, Value], dict[int, float]]:
    """The parameters and the gains of grades that stand in the brackets."""
    given: dict[str, Value] = {}
    gains: dict[int, float] = {}
    for part in filter(None, (piece.strip() for piece in inside.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        if key in given or (key.isdigit() and int(key) in gains):
            raise MetricError(f"{text!r}: parameter {key!r} stands twice.")
        if definition.gains and key.isascii() and key.isdigit():
            gains[int(key)] = _gain(key, value, text)
            continue
        parameter = definition.parameters.get(key)
        if parameter is None:
            known = ", ".join(definition.parameters) or "none"
            raise MetricError(f"{text!r}: {definition.name} has no parameter {key!r}; it has: {known}.")
        try:
            given[key] = parameter.parse(value)
        except ValueError as expected:
            raise MetricError(f"{text!r}: {key} is {value!r}; it must be {expected}.") from None
    return given, gains


def _gain(grade: str, value: str, text: str) -> float:
    try:
        gain = float(value)
    except ValueError:
        gain = -1.0
    if not 0 <= gain < float("inf"):
        raise MetricError(f"{text!r}: the gain of grade {grade} is {value!r}; it must be a number, at least 0.")
    return gain
