"""What a metric is: a definition, a spelling that parses and prints back, and a function of graded rankings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragtrial.errors import MetricError
from ragtrial.grading import Bools, GradedRankings
from ragtrial.registry import Registry

Scores = npt.NDArray[np.float64]
"""One value per query, shape (queries,)."""

Family = Literal["order_unaware", "order_aware", "graded"]
Needs = Literal["relevant", "gain", "order"]


@dataclass(frozen=True)
class Parameter:
    """A number in brackets behind a metric's name, strictly between ``low`` and ``high``."""

    default: float
    low: float
    high: float


@dataclass(frozen=True)
class Definition:
    """What a metric computes, in words that stand beside the numbers.

    ``needs`` says for which queries it is defined: those with a relevant document, with a judged gain above 0, or
    with relevant documents whose labels are an order. ``aliases`` are other names for the same number.
    """

    name: str
    family: Family
    needs: Needs
    formula: str
    source: str
    compute: Callable[..., Scores]
    aliases: tuple[str, ...] = ()
    parameters: Mapping[str, Parameter] = field(default_factory=dict)

    def eligible(self, graded: GradedRankings) -> Bools:
        """For which queries the metric is defined, shape (queries,)."""
        if self.needs == "gain":
            return graded.best_grades > 0
        defined: Bools = graded.relevant_counts > 0
        return defined & graded.ordered if self.needs == "order" else defined


METRICS: Registry[Definition] = Registry("metric")


def metric(
    family: Family,
    needs: Needs,
    formula: str,
    source: str,
    aliases: tuple[str, ...] = (),
    parameters: Mapping[str, Parameter] | None = None,
) -> Callable[[Callable[..., Scores]], Callable[..., Scores]]:
    """A decorator for the methods of a ``Metrics`` class: registers the method as the metric of its own name."""

    def register(method: Callable[..., Scores]) -> Callable[..., Scores]:
        name = method.__name__
        METRICS.register(name)(
            Definition(name, family, needs, formula, source, method, aliases, dict(parameters or {}))
        )
        return method

    return register


@dataclass(frozen=True)
class Metric:
    """A metric with its parameters and cutoff: ``ndcg@10``, ``rbp(p=0.8)@10``. ``str()`` gives the one spelling.

    ``k`` is None for a spelling without one; it must be set before anything is computed.
    """

    name: str
    k: int | None = None
    parameters: tuple[tuple[str, float], ...] = ()

    @property
    def definition(self) -> Definition:
        return METRICS[self.name]

    def at(self, k: int) -> Metric:
        """The same metric, cut at ``k``."""
        return Metric(self.name, k, self.parameters)

    def compute(self, metrics: Any) -> Scores:
        """The scores from the ``Metrics`` object of its family. Raises CutoffError as that does."""
        return self.definition.compute(metrics, self.k, **dict(self.parameters))

    def __str__(self) -> str:
        inside = ",".join(f"{key}={value}" for key, value in self.parameters)
        return self.name + (f"({inside})" if inside else "") + (f"@{self.k}" if self.k is not None else "")


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
    return Metric(name, int(k) if k else None, _parameters(METRICS[name], match["inside"] or "", text))


def _canonical(name: str, text: str) -> str:
    folded = name.lower().replace("-", "_")
    for definition_name, definition in METRICS.members():
        if folded == definition_name or folded in definition.aliases:
            return definition_name
    raise MetricError(f"{text!r}: {METRICS.unknown(name)}")


def _parameters(definition: Definition, inside: str, text: str) -> tuple[tuple[str, float], ...]:
    given: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in inside.split(","))):
        key, _, value = (piece.strip() for piece in part.partition("="))
        parameter = definition.parameters.get(key)
        if parameter is None:
            known = ", ".join(definition.parameters) or "none"
            raise MetricError(f"{text!r}: {definition.name} has no parameter {key!r}; it has: {known}.")
        if key in given:
            raise MetricError(f"{text!r}: parameter {key!r} stands twice.")
        try:
            given[key] = float(value)
        except ValueError:
            raise MetricError(f"{text!r}: {key} is {value!r}; it must be a number.") from None
        if not parameter.low < given[key] < parameter.high:
            raise MetricError(
                f"{text!r}: {key} is {value}; it must be above {parameter.low:g} and below {parameter.high:g}."
            )
    return tuple((key, given.get(key, parameter.default)) for key, parameter in definition.parameters.items())


def row_sums(terms: npt.NDArray[Any]) -> Scores:
    """The sum of each row, added from left to right, shape (rows,).

    Unlike with ``@`` and ``sum``, its last bit depends neither on the other rows nor on zeros at the end.
    """
    if not terms.shape[1]:
        return np.zeros(len(terms))
    return np.cumsum(terms, axis=1, dtype=np.float64)[:, -1].copy()


def ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any] | np.float64) -> Scores:
    """``numerator / denominator`` as float64, 0 where the denominator is 0."""
    result: Scores = np.zeros(np.shape(numerator), dtype=np.float64)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) != 0)
    return result
