"""From what a user writes to gates: ``ndcg@10 < 0.70``, ``hybrid: ndcg@10 worse than baseline``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ragtrial.comparison.gates.gate import COSTS, AgainstBaseline, Bound, Gate, Relation
from ragtrial.comparison.verdicts import too_wide
from ragtrial.errors import Fault, GateError, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics import parse_metric

_QUANTITY = r"^(?P<quantity>(?:\([^()]*\)|[^<>=≤≥!()])+?)\s*"
_BOUND = re.compile(rf"{_QUANTITY}(?P<relation>[<>=≤≥!]+)\s*(?P<number>.*)$")
_AGAINST = re.compile(
    rf"{_QUANTITY}\b(?:worse\s+than|not\s+within\s+(?P<margin>\S+)\s+of)\s+(?P<than>.+)$", re.IGNORECASE
)
_OF_SETTING = re.compile(r"^(?P<setting>[^(){}<>=]*):(?P<rest>.*)$", re.DOTALL)
_RELATIONS: dict[str, Relation] = {"<": "<", "<=": "<=", ">": ">", ">=": ">=", "≤": "<=", "≥": ">="}
_PHRASES = ("worse than baseline", "not within 0.02 of baseline")
_FORMS = '"ndcg@10 < 0.70", "ndcg@10 worse than baseline" or "ndcg@10 not within 0.02 of baseline"'


@dataclass(frozen=True)
class Subject:
    """What gates can be about: settings and metrics by name, and the baseline that settings are compared with.

    ``settings`` are those that a gate without a setting is about. ``unmeasured`` are those of COSTS that will not be.
    ``compared`` are the settings that are compared with the baseline, None means all others; ``comparable`` the metrics
    that mean the same for both, None means all.
    """

    settings: tuple[str, ...]
    metrics: tuple[str, ...]
    baseline: str | None = None
    unmeasured: frozenset[str] = frozenset()
    compared: tuple[str, ...] | None = None
    comparable: tuple[str, ...] | None = None


def parse_gates(texts: Iterable[str], subject: Subject) -> list[Gate]:
    """The gates that ``texts`` mean. Raises GateError with all that is wrong with any of them."""
    gates: list[Gate] = []
    faults: list[Fault] = []
    for number, text in enumerate(texts, 1):
        reader = _GateReader(text, subject)
        gate = reader.gate()
        if gate is not None and not reader.messages:
            gates.append(gate)
        faults += (Fault(f"--fail-if #{number}", message=message) for message in reader.messages)
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


class _GateReader:
    """One gate, and what is wrong with it."""

    def __init__(self, text: str, subject: Subject) -> None:
        self.messages: list[str] = []
        self._text = " ".join(text.split())
        self._subject = subject

    def gate(self) -> Gate | None:
        """The gate, None if it is of no form that there is."""
        setting, rest = self._split()
        if match := _AGAINST.match(rest):
            margin = None if match["margin"] is None else self._number(match["margin"])
            if margin is not None and margin < 0:
                self._say(f"the margin is {match['margin']}; it must be at least 0.")
            condition: Bound | AgainstBaseline | None = AgainstBaseline(margin)
            phrase = "worse than" if match["margin"] is None else f"not within {match['margin']} of"
            self._check_baseline(setting, match["than"], f"{phrase} baseline")
        elif match := _BOUND.match(rest):
            condition = self._bound(match["relation"], match["number"])
        else:
            self._say(f"is no gate.{self._meant(rest)} Write one like {_FORMS}, for one setting with its name and a "
                      "colon before it.")  # fmt: skip
            return None
        self._check_setting(setting)
        quantity = self._quantity(match["quantity"].strip(), condition)
        return None if condition is None else Gate(self._text, setting, quantity, condition)

    def _say(self, message: str) -> None:
        join = " " if message.startswith("is ") else ": "
        self.messages.append(f"{self._text!r}{join}{message}")

    def _split(self) -> tuple[str | None, str]:
        """The setting and what is behind its colon. Names that there are may hold colons and brackets."""
        for name in sorted([*self._subject.settings, self._subject.baseline or ""], key=len, reverse=True):
            shown = " ".join(name.split())
            if shown and self._text.startswith(shown) and self._text[len(shown) :].lstrip().startswith(":"):
                return name, self._text[len(shown) :].lstrip()[1:].strip()
        match = _OF_SETTING.match(self._text)
        return (match["setting"].strip(), match["rest"].strip()) if match else (None, self._text)

    def _check_setting(self, setting: str | None) -> None:
        known = self._subject.settings
        if setting is None or setting in known:
            return
        if setting == self._subject.baseline:
            self._say(f"{setting!r} is the baseline, of an earlier report; a gate is about the settings of this run.")
        else:
            self._say(f"there is no setting {setting!r}.{did_you_mean(setting, known)} There are: {listed(known)}.")

    def _check_baseline(self, setting: str | None, than: str, phrase: str) -> None:
        baseline = self._subject.baseline
        if than.lower() != "baseline":
            near = f"name the other setting with --baseline {than}, and " if than in self._subject.settings else ""
            self._say(f"a gate compares with 'baseline', found {than!r}; {near}write '{phrase}'.")
        elif baseline is None:
            self._say("there is no baseline; name the setting to compare with: --baseline SETTING or REPORT:SETTING.")
        elif setting == baseline:
            self._say(f"{setting!r} is the baseline itself; name another setting, or none for all others.")
        elif set(self._subject.settings) <= {baseline}:
            self._say(f"there is no setting besides the baseline {baseline!r} to compare with it.")
        elif (compared := self._subject.compared) is not None and setting in set(self._subject.settings) - {*compared}:
            self._say(f"{setting!r} is not compared with the baseline {baseline!r}; these are: {listed(compared)}.")

    def _bound(self, relation: str, number: str) -> Bound | None:
        limit = self._number(number)
        if relation not in _RELATIONS:
            self._say(f"{relation!r} is no relation; it must be <, <=, > or >=.")
            return None
        return None if limit is None else Bound(_RELATIONS[relation], limit)

    def _number(self, text: str) -> float | None:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            share = re.fullmatch(r"(\d+(?:\.\d+)?)\s*%", text)
            near = f" Did you mean {float(share[1]) / 100:g}?" if share else ""
            self._say(f"{text!r} is not a number.{near}" if text else "there is no number behind the relation.")
            return None
        return value

    def _quantity(self, text: str, condition: Bound | AgainstBaseline | None) -> str:
        name = text.lower()
        if name not in COSTS:
            return self._metric(text, condition)
        if isinstance(condition, AgainstBaseline):
            self._say(f"{name} has one value for a setting, none for each query; give a limit, as in {name} > 0.2.")
        elif name in self._subject.unmeasured:
            self._say(f"{name} is not measured in this run; leave out --no-latency and `latency: false`.")
        return name

    def _metric(self, text: str, condition: Bound | AgainstBaseline | None) -> str:
        try:
            name = known_metric(text, self._subject.metrics)
        except MetricError as error:
            near = did_you_mean(text, COSTS)
            self._say(f"there is no {text!r}.{near}" if near else str(error).removeprefix(f"{text!r}: "))
            return text
        definition, comparable = parse_metric(name).definition, self._subject.comparable
        if isinstance(condition, AgainstBaseline):
            if comparable is not None and name not in comparable:
                self._say(f"{name} is not among the metrics that are compared: {listed(comparable, 40)}.")
            if definition.aggregate == "geometric":
                self._say(f"{name} is a geometric mean over queries, which is not compared query by query; "
                          "give a limit.")  # fmt: skip
            if told := too_wide(condition.margin or 0.0, name):
                self._say(told)
            return name
        highest = definition.highest if definition.aggregate != "sum" else None
        if condition is not None and not 0 <= condition.limit <= (math.inf if highest is None else highest):
            allowed = "is at least 0" if highest is None else f"lies between 0 and {highest:g}"
            likely = condition.limit / 100
            near = f" Did you mean {likely:g}?" if highest == 1 and 0 < likely <= 1 else ""
            self._say(f"{name} {allowed}; a limit of {condition.limit:g} says nothing.{near}")
        return name

    def _meant(self, rest: str) -> str:
        """``Did you mean ...?`` for words that nearly say something."""
        first, _, words = rest.partition(" ")
        near = did_you_mean(words, _PHRASES)
        return near.replace("Did you mean '", f"Did you mean '{first} ") if near else ""
