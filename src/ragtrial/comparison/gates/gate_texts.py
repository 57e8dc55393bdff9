"""From what a user writes to gates: ``ndcg@10 < 0.70``, ``hybrid: ndcg@10 worse than baseline``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from ragtrial.comparison.evidence import too_wide
from ragtrial.comparison.gates.gate import Gate, Relation
from ragtrial.errors import Fault, GateError, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.report.schema import COSTS

_GATE = re.compile(
    r"(?:(?P<setting>.*):)?\s*(?P<quantity>[^:<>]+?)\s*"
    r"(?:(?P<bound><=?|>=?)\s*(?P<limit>[^\s<>=]+)|\b(?:worse than|not within (?P<margin>\S+) of) baseline)",
    re.IGNORECASE,
)
_FORMS = '"ndcg@10 < 0.70" (also <=, >, >=), "ndcg@10 worse than baseline" or "ndcg@10 not within 0.02 of baseline"'


@dataclass(frozen=True)
class Subject:
    """What gates can be about: settings and metrics by name, and the baseline that settings are compared with.

    ``settings`` are those that a gate without a setting is about.
    """

    settings: tuple[str, ...]
    metrics: tuple[str, ...]
    baseline: str | None = None


def parse_gates(texts: Iterable[str], subject: Subject) -> list[Gate]:
    """The gates that ``texts`` mean. Raises GateError with all that is wrong with any of them."""
    gates: list[Gate] = []
    faults: list[Fault] = []
    for number, text in enumerate(texts, 1):
        written, messages = " ".join(text.split()), list[str]()
        try:
            gates.append(_gate(written, subject))
            messages += _faults(gates[-1], subject)
        except GateError as error:
            messages.append(str(error))
        faults += (Fault(f"--fail-if #{number}", message=f"{written!r}: {message}") for message in messages)
    if faults:
        raise GateError(*faults)
    return gates


def known_metric(text: str, metrics: Sequence[str]) -> str:
    """The one of ``metrics`` that a spelling means. Raises MetricError with the nearest."""
    name = str(parse_metric(text))
    if name not in metrics:
        near = did_you_mean(name, metrics)
        raise MetricError(f"there is no {name!r} among the metrics.{near} There are: {listed(metrics, 40)}.")
    return name


def _gate(text: str, subject: Subject) -> Gate:
    """Raises GateError for what is no gate, or of no metric that there is."""
    match = _GATE.fullmatch(text)
    if match is None:
        raise GateError(f"this is no gate. Write one like {_FORMS}, for one setting with its name and a colon before.")
    number = match["limit"] or match["margin"] or "0"
    try:
        limit = float(number)
    except ValueError:
        limit = math.nan
    if not math.isfinite(limit):
        raise GateError(f"{number!r} is not a number.")
    quantity = match["quantity"].lower()
    if quantity not in COSTS:
        try:
            quantity = known_metric(match["quantity"], subject.metrics)
        except MetricError as error:
            near = did_you_mean(quantity, COSTS)
            raise GateError(f"there is no {quantity!r}.{near}" if near else str(error)) from error
    relation = match["bound"] or ("not within" if match["margin"] else "worse than")
    setting = match["setting"] and match["setting"].strip()
    return Gate(text, setting, quantity, cast("Relation", relation), limit)


def _faults(gate: Gate, subject: Subject) -> Iterator[str]:
    """Why a gate could say nothing."""
    if gate.setting is not None and gate.setting not in subject.settings:
        near = did_you_mean(gate.setting, subject.settings)
        yield f"there is no setting {gate.setting!r}.{near} There are: {listed(subject.settings)}."
    if gate.is_on_baseline:
        yield from _baseline_faults(gate, subject)
    elif gate.quantity not in COSTS:
        definition = parse_metric(gate.quantity).definition
        highest = math.inf if definition.highest is None or definition.aggregate == "sum" else definition.highest
        if not 0 <= gate.limit <= highest:
            yield f"{gate.quantity} lies between 0 and {highest:g}; a limit of {gate.limit:g} says nothing."


def _baseline_faults(gate: Gate, subject: Subject) -> Iterator[str]:
    metric, baseline = gate.quantity, subject.baseline
    if baseline is None:
        yield "there is no baseline; name the setting to compare with: --baseline SETTING or REPORT:SETTING."
    elif gate.setting == baseline or set(subject.settings) <= {baseline}:
        yield f"there is nothing to compare with the baseline {baseline!r}; name another setting."
    if metric in COSTS or parse_metric(metric).definition.aggregate == "geometric":
        yield f"{metric} is not compared query by query; give a limit, as in {metric} > 0.2."
    elif gate.limit < 0:
        yield f"the margin is {gate.limit:g}; it must be at least 0."
    elif told := too_wide(gate.limit, metric):
        yield told
