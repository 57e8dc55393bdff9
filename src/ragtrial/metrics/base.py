"""What a metric is: a definition, and a value with parameters and a cutoff that computes scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragtrial.errors import MetricError
from ragtrial.grading import GradedRankings, Scores
from ragtrial.judgments import Bools
from ragtrial.registry import Registry

Family = Literal["order_unaware", "order_aware", "graded"]
Needs = Literal["relevant", "gain", "order", "nothing"]
Cut = Literal["required", "optional", "none"]
Aggregate = Literal["mean", "geometric", "sum"]
Value = float | int | str | bool


@dataclass(frozen=True)
class Parameter:
    """What may stand in brackets behind a metric's name.

    A number strictly between ``low`` and ``high`` (a whole one from ``low`` to ``high`` where ``whole``), one of
    ``choices``, or, where neither is given, true or false. A parameter whose ``default`` is None, or that is not
    ``always`` shown, stands in the spelling only where it is given and is not the default.
    """

    default: Value | None
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    whole: bool = False
    always: bool = False

    def parse(self, text: str) -> Value:
        """The value that ``text`` means. Raises ValueError with what it must be."""
        if self.choices:
            if text.lower() not in self.choices:
                raise ValueError(f"one of: {', '.join(self.choices)}")
            return text.lower()
        if self.low == self.high:
            if text.lower() not in ("true", "false"):
                raise ValueError("true or false")
            return text.lower() == "true"
        try:
            value = int(text) if self.whole else float(text)
        except ValueError:
            raise ValueError("a whole number" if self.whole else "a number") from None
        if self.whole and not self.low <= value <= self.high:
            raise ValueError(f"from {self.low:,g} to {self.high:,g}")
        if not self.whole and not self.low < value < self.high:
            raise ValueError(f"above {self.low:g} and below {self.high:g}")
        return value


LARGEST_GRADE = 2**31 - 1
_RELEVANCE = Parameter(None, low=1, high=LARGEST_GRADE, whole=True)
_JUDGED_ONLY = Parameter(default=False)


@dataclass(frozen=True)
class Card:
    """What stands on a metric's card beside its formula: edge cases, and what other tools call the same number.

    ``elsewhere`` maps a tool to its spelling there, with ``k`` for the cutoff.
    """

    gain: str = "1 for a relevant hit, else 0"
    denominator: str = ""
    edges: tuple[str, ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Definition:
    """What a metric computes, in words that stand beside the numbers.

    ``needs`` says for which queries it is defined: those with a relevant document, with a judged gain above 0, with
    relevant documents whose labels are an order, or all. ``cut`` says whether it has a cutoff, ``aggregate`` what its
    value over many queries is. ``highest`` is the most it can be for any query, None where that depends on the query.
    Where ``gains``, a gain may be given for each grade. ``aliases`` are other names for the same number.
    """

    name: str
    family: Family
    needs: Needs
    formula: str
    source: str
    compute: Callable[..., Scores]
    aliases: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)
    cut: Cut = "required"
    aggregate: Aggregate = "mean"
    highest: float | None = 1.0
    gains: bool = False
    card: Card = field(default_factory=Card)

    def eligible(self, graded: GradedRankings) -> Bools:
        """For which queries the metric is defined, shape (queries,)."""
        if self.needs == "nothing":
            return np.ones(len(graded), dtype=np.bool_)
        if self.needs == "gain":
            return np.asarray(graded.judgments.best > 0)
        defined = np.asarray(graded.relevant_counts > 0)
        return defined & graded.judgments.ordered if self.needs == "order" else defined


METRICS: Registry[Definition] = Registry("metric")


def metric(
    family: Family,
    needs: Needs,
    formula: str,
    source: str,
    *,
    parameters: Mapping[str, Parameter] | None = None,
    **more: Any,
) -> Callable[[Callable[..., Scores]], Callable[..., Scores]]:
    """A decorator for the methods of a ``Metrics`` class: registers the method as the metric of its own name.

    ``more`` are fields of ``Definition``. Metrics of relevant documents take ``rel``, the grade from which a document
    is relevant, and all but counts ``judged_only``, which drops hits that nobody judged.
    """
    common = {"rel": _RELEVANCE} if needs in ("relevant", "order") else {}
    if needs != "nothing":
        common["judged_only"] = _JUDGED_ONLY

    def register(method: Callable[..., Scores]) -> Callable[..., Scores]:
        known = {**(parameters or {}), **common}
        definition = Definition(method.__name__, family, needs, formula, source, method, parameters=known, **more)
        METRICS.register(definition.name)(definition)
        return method

    return register


@dataclass(frozen=True)
class Metric:
    """A metric with its parameters and cutoff: ``ndcg@10``, ``rbp(p=0.8)@10``. ``str()`` gives the one spelling.

    ``k`` is None for a spelling without one. ``parameters`` has what differs from the defaults, and what is always
    shown, in the order of the definition; ``gains`` the gain of each grade that is given one.
    """

    name: str
    k: int | None = None
    parameters: tuple[tuple[str, Value], ...] = ()
    gains: tuple[tuple[int, float], ...] = ()

    def __post_init__(self) -> None:
        given = dict(self.parameters)
        shown = tuple(
            (key, given.get(key, parameter.default))
            for key, parameter in self.definition.parameters.items()
            if parameter.always or given.get(key, parameter.default) != parameter.default
        )
        object.__setattr__(self, "parameters", shown)

    @property
    def definition(self) -> Definition:
        return METRICS[self.name]

    def at(self, k: int | None) -> Metric:
        """The same metric, cut at ``k``."""
        return Metric(self.name, k, self.parameters, self.gains)

    def seen(self, graded: GradedRankings) -> GradedRankings:
        """The rankings as this metric sees them: with its threshold, without hits that nobody judged if it says so."""
        given = dict(self.parameters)
        seen = graded.at_threshold(int(given.get("rel", graded.threshold)))
        return seen.condensed() if given.get("judged_only") else seen

    def compute(self, formulas: Any) -> Scores:
        """The scores from the ``Metrics`` object of its family, made of what it has ``seen``. Raises CutoffError."""
        definition = self.definition
        given: dict[str, Any] = {key: value for key, value in self.parameters if key not in ("rel", "judged_only")}
        if self.gains:
            given["gain"] = dict(self.gains)
        return (
            definition.compute(formulas, **given)
            if definition.cut == "none"
            else definition.compute(formulas, self.k, **given)
        )

    def check_cut(self) -> None:
        """Raises MetricError where the definition wants a cutoff and there is none, or the other way about."""
        if self.definition.cut == "required" and self.k is None:
            raise MetricError(f"{self} has no cutoff; write {self}@k.")
        if self.definition.cut == "none" and self.k is not None:
            raise MetricError(f"{self}: {self.name} has no cutoff; write {self.at(None)}.")

    def __str__(self) -> str:
        gains = [f"{grade}={gain:g}" for grade, gain in self.gains]
        inside = ",".join([*gains, *(f"{key}={_shown(value)}" for key, value in self.parameters)])
        return self.name + (f"({inside})" if inside else "") + (f"@{self.k}" if self.k is not None else "")


def _shown(value: Value) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any] | np.float64) -> Scores:
    """``numerator / denominator`` as float64, 0 where the denominator is 0."""
    result: Scores = np.zeros(np.shape(numerator), dtype=np.float64)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) != 0)
    return result
