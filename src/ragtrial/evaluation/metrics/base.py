"""A metric as a definition, and as a value with parameters and a cutoff that computes scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragtrial.errors import MetricError
from ragtrial.evaluation.grading import GradedRankings, Scores
from ragtrial.rankings import Bools, Counts
from ragtrial.records import Direction, Unit
from ragtrial.registry import Registry


@dataclass(frozen=True)
class HitCount:
    """The value is the number of relevant hits in the first k over a divisor, which R may change.

    ``divisor`` takes the metric and R, an array. It rises with R, by at most 1 for each relevant document, or stays.
    """

    divisor: Callable[[Metric, Counts], npt.NDArray[Any]]

    def value(self, metric: Metric, found: Counts, relevant: Counts) -> Scores:
        """The score of rankings with ``found`` relevant hits in the first k; both in one shape."""
        return np.minimum(ratio(found, self.divisor(metric, relevant)), 1.0)  # divisors are rounded


@dataclass(frozen=True)
class WeightedSum:
    """The value is a sum over hits: the gain of each (1 if relevant, or by its grade) times the weight of its rank.

    ``weight`` takes the metric and ranks from 1 on; it falls with the rank. If ``normalised``, the sum is divided by
    the sum of the best order of all judged documents.
    """

    weight: Callable[[Metric, npt.NDArray[Any]], Scores]
    normalised: bool = False


Structure = HitCount | WeightedSum


def ratio(numerator: npt.NDArray[Any], denominator: npt.NDArray[Any] | np.float64) -> Scores:
    """``numerator / denominator`` as float64, 0 where the denominator is 0."""
    result: Scores = np.zeros(np.shape(numerator), dtype=np.float64)
    np.divide(numerator, denominator, out=result, where=np.asarray(denominator) != 0)
    return result


MetricFamily = Literal["order_unaware", "order_aware", "graded"]
Needs = Literal["relevant", "gain", "order", "forbidden"]
LabelKind = Literal["order", "groups", "forbidden"]
"""A kind of labels: in an order, in groups, or with grades below 0."""
Cut = Literal["required", "optional", "none"]
Preference = Literal["relevant", "gain", "judged", "unjudged"]
Value = float | int | str | bool


@dataclass(frozen=True)
class MetricParameter:
    """A parameter in brackets after a metric's name.

    It is a number strictly between ``low`` and ``high`` (including both if ``whole`` or ``closed``), one of
    ``choices``, or, without either, true or false. A parameter whose ``default`` is None, or that is not ``always``
    shown, is only in the spelling if it differs from the default.
    """

    default: Value | None
    low: float = 0
    high: float = 0
    choices: tuple[str, ...] = ()
    whole: bool = False
    closed: bool = False
    always: bool = False

    def parse(self, text: str) -> Value:
        """Parse ``text``. Raises ValueError with the valid values."""
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
        if self.whole or self.closed:
            if not self.low <= value <= self.high:
                raise ValueError(f"from {self.low:,.12g} to {self.high:,.12g}")
        elif not self.low < value < self.high:
            raise ValueError(f"above {self.low:g} and below {self.high:g}")
        return value


DEFINED_FOR: Mapping[Needs, str] = {
    "relevant": "queries with at least one relevant document",
    "gain": "queries with at least one document of a grade above 0",
    "order": "queries whose labels are an order, with at least one relevant document",
    "forbidden": "queries with at least one document of a grade below 0",
}
"""The queries that a metric is defined for, in words."""

LARGEST_GRADE = 2**31 - 1
LARGEST_POWER = 1000
"""The highest grade that an exponential gain has a number for."""

RELEVANCE = MetricParameter(None, low=1, high=LARGEST_GRADE, whole=True)
_JUDGED_ONLY = MetricParameter(default=False)


@dataclass(frozen=True)
class Alias:
    """Another tool's name for the same number, in small letters and with ``_`` for ``-``.

    ``sets`` are the parameters that the name implies. ``cut`` states if a cutoff follows the name.
    """

    name: str
    sets: Mapping[str, Value] = field(default_factory=dict)
    cut: Cut = "optional"


@dataclass(frozen=True)
class Definition:
    """The definition of a metric, in words that appear next to the numbers.

    ``needs`` states for which queries it is defined: queries with a relevant document, with a judged gain above 0, with
    relevant documents whose labels are an order, or with a grade below 0. ``cut`` states if it has a cutoff.
    ``highest`` is its maximum for any query, None if that depends on the query; ``lowest`` is its minimum. ``better``
    is the direction, which sorting, verdicts and gates follow. If ``gains``, a gain may be given for each grade.
    ``aliases`` are other names for the same number.

    ``spans`` is the formula if passages are found in chunks, empty if the metric is not defined for that; ``documents``
    is true if it is defined for documents. ``of_chunks`` metrics describe the chunks, independently of rankings.

    The metric never falls when a hit that it ``prefers`` moves up into the position of another hit: one sort of equal
    scores then finds their best order. Leave it None without a proof. ``ideal`` names the documents of the best
    ranking, if they differ; without either they are the relevant ones. ``structure`` describes a value that is a sum
    over hits, from which the share of each hit follows; None for any other value.

    A run computes a ``standard`` metric by default; one that names a kind of ``labels``, if there are any. Metrics
    without ``alternatives`` are not defined if a group of labels has several members. ``divides_by_k`` leaves it out if
    rankings end elsewhere than at k. ``columns`` is its position among the metrics of a table, per unit, lower
    positions first; narrow tables leave out the last columns, and all tables leave out the other metrics.

    The rest is for its card: ``gain`` and ``denominator`` of the formula, edge cases (``edges``), and the names of the
    same number in other tools. ``elsewhere`` maps a tool to its spelling, ``uncut`` to its spelling without a cutoff,
    ``exponential`` to its spelling with 2^grade - 1; ``{k}`` is replaced by the cutoff, the name of a parameter in such
    brackets by its value. ``unlike`` are tools with another number of that name.
    """

    name: str
    family: MetricFamily
    needs: Needs
    formula: str
    source: str
    compute: Callable[..., Scores]
    formulas: type[Formulas]
    aliases: tuple[Alias, ...] = ()
    parameters: Mapping[str, MetricParameter] = field(default_factory=dict)
    cut: Cut = "required"
    highest: float | None = 1.0
    lowest: float = 0.0
    better: Direction = "higher"
    gains: bool = False
    spans: str = ""
    documents: bool = True
    of_chunks: bool = False
    prefers: Preference | None = None
    ideal: Preference | None = None
    structure: Structure | None = None
    standard: bool = False
    labels: LabelKind | None = None
    alternatives: bool = True
    divides_by_k: bool = False
    columns: Mapping[Unit, int] = field(default_factory=dict)
    gain: str = "1 for a relevant hit, else 0"
    denominator: str = "none"
    edges: tuple[str, ...] = ()
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    uncut: Mapping[str, str] = field(default_factory=dict)
    exponential: Mapping[str, str] = field(default_factory=dict)
    unlike: tuple[str, ...] = ()

    def has_unit(self, unit: Unit) -> bool:
        """True if it is defined for this unit: documents, or passages in chunks."""
        return self.documents if unit == "document" else bool(self.spans)

    def is_known(self, graded: GradedRankings) -> bool:
        """False for a metric of all chunks if only the chunks in rankings are known."""
        return not self.of_chunks or graded.overlaps is None or graded.overlaps.is_whole

    def eligible(self, graded: GradedRankings) -> Bools:
        """For which queries the metric is defined, shape (queries,)."""
        judgments = graded.judgments
        if self.needs == "gain":
            return np.asarray(judgments.best > 0)
        if self.needs == "forbidden":
            unwanted = judgments.rows[(judgments.grades < 0) & (not graded.skips_negatives)]
            return np.bincount(unwanted, minlength=len(graded)) > 0
        defined = np.asarray(graded.relevant_counts > 0) & self.is_known(graded)
        return defined & graded.judgments.ordered if self.needs == "order" else defined


METRICS: Registry[Definition] = Registry("metric", "ragtrial.evaluation.metrics", Definition, in_order=True)


def metric(
    family: MetricFamily,
    needs: Needs,
    formula: str,
    source: str,
    *,
    parameters: Mapping[str, MetricParameter] | None = None,
    condensable: bool = True,
    aliases: tuple[str | Alias, ...] = (),
    **more: Any,
) -> Callable[[Callable[..., Scores]], Callable[..., Scores]]:
    """A decorator for the methods of a ``Formulas`` class: the method is the metric of its name.

    ``more`` are fields of ``Definition``. Metrics of relevant documents take ``rel``, the grade from which a document
    is relevant. All ``condensable`` metrics take ``judged_only``, which drops unjudged hits.
    """
    common = {"rel": RELEVANCE} if needs in ("relevant", "order") else {}
    if condensable:
        common["judged_only"] = _JUDGED_ONLY

    def define(method: Callable[..., Scores]) -> Callable[..., Scores]:
        known = {**(parameters or {}), **common}
        names = tuple(Alias(one) if isinstance(one, str) else one for one in aliases)
        definition = Definition(method.__name__, family, needs, formula, source, method, Formulas, names, known, **more)
        method.definition = definition  # type: ignore[attr-defined]
        return method

    return define


_ANY = MetricParameter(0.0, low=-1e100, high=1e100, closed=True)
_OF_FUNCTIONS = {
    "better": MetricParameter("higher", choices=("higher", "lower")), "low": _ANY, "high": replace(_ANY, default=1.0)
}  # fmt: skip


@lru_cache
def function_definition(name: str, better: Direction = "higher", low: float = 0.0, high: float = 1.0) -> Definition:
    """The definition of a metric that is the function ``name``, like ``my_metrics:reward``; nothing is imported.

    It is given by name, direction and range alone, so a report by any function can be read.
    """

    def compute(_formulas: Formulas, _k: int, **_given: Value) -> Scores:
        raise MetricError(
            f"{name} is a function, which needs the hits themselves: only a run, `rescore` and RetrievalEvaluator "
            "compute it."
        )

    formula = f"the value of {name} for the first k hits"
    return Definition(
        name, "graded", "gain", formula, "a function of the user", compute, Formulas, parameters=_OF_FUNCTIONS,
        lowest=low, highest=high, better=better, spans=formula, divides_by_k=True, gain="up to the function",
        denominator="up to the function",
        edges=("called as function(query, hits, k): the labelled query, and its first k hits with texts and grades",),
    )  # fmt: skip


class Formulas:
    """The base of the classes with formulas, which holds their rankings. A subclass registers its metrics."""

    def __init_subclass__(cls) -> None:
        for method in vars(cls).values():
            if isinstance(definition := getattr(method, "definition", None), Definition):
                METRICS.register(definition.name)(replace(definition, formulas=cls))

    def __init__(self, graded: GradedRankings) -> None:
        self._graded = graded

    @property
    def _groups(self) -> GradedRankings:
        """The rankings in which groups are found instead of documents or passages."""
        return self._graded.of_groups


@dataclass(frozen=True)
class Metric:
    """A metric with its parameters and cutoff: ``ndcg@10``, ``rbp(p=0.8)@10``. ``str()`` returns the spelling.

    ``k`` is None without a cutoff. ``parameters`` are the values that differ from the defaults or are always shown, in
    the order of the definition; ``gains`` has the given gain of each grade.
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
        if not self.gains:
            return
        grades = np.array([grade for grade, _ in self.gains], dtype=np.int64)
        usual = gains_of(grades, {}, exponential=given.get("gain") == "exp")
        other = tuple(pair for pair, gain in zip(self.gains, usual, strict=True) if pair[1] != gain)
        object.__setattr__(self, "gains", other)

    @property
    def is_function(self) -> bool:
        """True for a function of the user, whose name is ``package.module:function``."""
        return ":" in self.name

    @property
    def definition(self) -> Definition:
        return function_definition(self.name, **dict(self.parameters)) if self.is_function else METRICS[self.name]

    def at(self, k: int | None) -> Metric:
        """The same metric, cut at ``k``."""
        return replace(self, k=k)

    def value_of(self, parameter: str) -> Value | None:
        """The value of a parameter: the given one, or the default."""
        return dict(self.parameters).get(parameter, self.definition.parameters[parameter].default)

    def threshold(self, usual: int) -> int:
        """The grade from which a document is relevant to it: its own, else ``usual``."""
        return int(dict(self.parameters).get("rel", usual))

    def gain(self, grades: npt.NDArray[Any]) -> Scores:
        """The gains of documents with these grades."""
        return gains_of(grades, dict(self.gains), exponential=dict(self.parameters).get("gain") == "exp")

    def prepared(self, graded: GradedRankings) -> GradedRankings:
        """The rankings for this metric: with its threshold, and without unjudged hits if it drops them.

        Raises MetricError as ``check_unit`` and ``check_groups`` do.
        """
        self.check_unit(graded.unit)
        self.check_groups(has_groups=graded.judgments.groups is not None)
        prepared = graded.at_threshold(self.threshold(graded.threshold))
        return prepared.condensed if dict(self.parameters).get("judged_only") else prepared

    def eligible(self, prepared: GradedRankings) -> Bools:
        """The queries of the ``prepared`` rankings for which the metric is defined, shape (queries,)."""
        defined = self.definition.eligible(prepared)
        if not self.gains:
            return defined
        judgments = prepared.judgments
        gaining = self.gain(judgments.grades) > 0
        return np.bincount(judgments.rows[gaining], minlength=len(judgments)) > 0

    def compute(self, prepared: GradedRankings) -> Scores:
        """The scores of the ``prepared`` rankings, one per query.

        Raises CutoffError for a cutoff beyond the retrieved depth, MetricError as ``check_cut`` does.
        """
        self.check_cut()
        definition = self.definition
        formulas = definition.formulas(prepared)
        given: dict[str, Any] = {key: value for key, value in self.parameters if key not in ("rel", "judged_only")}
        if self.gains:
            given["gains"] = dict(self.gains)
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

    def check_unit(self, unit: Unit) -> None:
        """Raise MetricError if the metric is not defined for this unit."""
        if not self.definition.has_unit(unit) or (unit == "span" and dict(self.parameters).get("judged_only")):
            known = [name for name, one in METRICS.members() if one.has_unit(unit)]
            what = "passages in chunks (unit: span)" if unit == "span" else "documents (unit: document)"
            raise MetricError(f"{self} is not defined where {what} are found. Those that are: {', '.join(known)}.")

    def check_groups(self, *, has_groups: bool) -> None:
        """Raise MetricError if the metric is not defined for labels whose groups have several members."""
        if has_groups and not self.definition.alternatives:
            raise MetricError(
                f"{self} is not defined for labels that are alternatives (`group`, or a passage that is in several "
                "documents). Use ndcg, ap, recall or complete, which count each group once."
            )

    def __str__(self) -> str:
        gains = [f"{grade}={_plain(gain)}" for grade, gain in self.gains]
        inside = ",".join([*gains, *(f"{key}={shown(value)}" for key, value in self.parameters)])
        return self.name + (f"({inside})" if inside else "") + (f"@{self.k}" if self.k is not None else "")


class UnknownMetric(Metric):
    """A metric of another tool, another version or a plug-in: only its name is known, and it is never computed here."""

    @property
    def is_function(self) -> bool:
        return False

    @property
    def definition(self) -> Definition:
        """A definition without limits. Reports keep the direction."""
        return Definition(
            self.name, "graded", "gain", "", "", _not_computed, Formulas, cut="none", highest=None, lowest=-math.inf
        )  # fmt: skip


def _not_computed(_formulas: Formulas) -> Scores:
    raise MetricError("the metric of another tool is not computed here.")


def _plain(gain: float) -> str:
    return str(int(gain)) if gain.is_integer() and gain < LARGEST_GRADE else repr(gain)


def shown(value: Value) -> str:
    """A parameter's value as it is in a spelling."""
    if isinstance(value, float):
        return _plain(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def gains_of(grades: npt.NDArray[Any], gains: Mapping[int, float], *, exponential: bool = False) -> Scores:
    """The gain of each grade: from ``gains``, else the grade itself (or 2^grade - 1); 0 for grades below 0."""
    known = np.maximum(grades, 0).astype(np.float64)
    worth = np.exp2(np.minimum(known, LARGEST_POWER)) - 1 if exponential else known
    for grade, gain in gains.items():
        worth[grades == grade] = gain
    return np.asarray(worth)
