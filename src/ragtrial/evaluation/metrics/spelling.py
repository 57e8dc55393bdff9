"""The spellings of metrics, here and in other tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from ragtrial.errors import Fault, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics.base import (
    METRICS,
    Alias,
    Definition,
    Metric,
    MetricParameter,
    UnknownMetric,
    Value,
    function_definition,
)

_GAIN = MetricParameter(None, 0, 1e100, closed=True)
"""The gain after a grade, as in ndcg(1=3,2=9)@10."""
MOST_K = 1_000_000
"""The largest cutoff: rankings are not that long, and some metrics need memory for each place."""

_SPELLING = re.compile(
    r"""
    (?P<other_name> [a-z0-9_-]*? [a-z1] )                  # ndcg_cut_10, P.5, ndcg_at_10
    (?: (?P<other_between> _at_ | _cut[_.] | [._] ) (?P<other_number> [0-9]*\.?[0-9]+ )
      | \. (?P<other_inside> [a-z0-9]+ = [^()@]* ) )       # rbp.p=0.9
    |
    (?P<name> [a-z0-9] [a-z0-9_-]*? | [a-z_] [a-z0-9_.]* : [a-z_] [a-z0-9_]* ) \s*     # rbp, my_metrics:reward
    (?: \( (?P<inside> [^()]* ) \) )? \s*                 # rbp(p=0.8)
    (?: (?P<between> @ ) \s* (?P<number> [^@\s]+ ) )?
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
"""The spellings of trec_eval and MTEB; or ours, and the spellings of ir_measures, BEIR and ranx."""
_DISCOUNTS = {"log2": "linear", "exp-log2": "exp"}
"""ir_measures' dcg, which names the gain together with the discount."""

_HAYSTACK = "Haystack's mode single_hit is 1 where anything relevant was retrieved, its mode multi_hit is recall"
_ELSEWHERE_ONLY = {
    "hits": "ranx counts relevant hits with it; hit_rate@k says whether there is one, recall@k how many of all",
    "hole": "BEIR counts hits judged for no query at all; unjudged@k counts those not judged for the query itself",
    "document_recall": _HAYSTACK,
    "documentrecallevaluator": _HAYSTACK,
}
"""Names elsewhere of numbers that no metric here gives."""
_OF_TREC_EVAL = {"rbp": "rbp(p=0.9)"}


@lru_cache(maxsize=1000)
def parse_metric(text: str) -> Metric:
    """The metric of a spelling: ``ndcg@10``, or another tool's ``NDCG@10``, ``ndcg_cut_10``, ``MRR@10``.

    Raises MetricError with the fault and the nearest name.
    """
    found = _SPELLING.fullmatch(text.strip())
    if found is None:
        raise MetricError(f"{text!r} is not a metric; write it like ndcg@10 or rbp(p=0.8)@10.")
    name, inside, between, number = (
        found[part] or found[f"other_{part}"] for part in ("name", "inside", "between", "number")
    )
    definition, alias = _meant(name, text)
    given, gains = _inside(definition, inside or "", text)
    if ":" in name and given.get("low", 0.0) >= given.get("high", 1.0):  # type: ignore[operator]  # numbers
        raise MetricError(f"{text!r}: low must be below high (0 to 1 unless others are given).")
    k = None
    if number and between == "." and "p" in definition.parameters:
        raise MetricError(f"{text!r} may mean p or k; write {definition.name}(p=0.8), or {definition.name}@10.")
    if number:
        if not re.fullmatch(r"0*[1-9][0-9]{0,6}", number) or int(number) > MOST_K:
            raise MetricError(f"{text[:60]!r}: k is {number[:60]!r}; it must be a whole number from 1 to {MOST_K:,}.")
        k = int(number)
    metric = Metric(definition.name, k, tuple({**alias.sets, **given}.items()), tuple(sorted(gains.items())))
    if alias.cut == "required" and k is None:
        raise MetricError(f"{text!r} has no cutoff; write {metric}@k.")
    if k is not None and "none" in (alias.cut, definition.cut):
        right = metric.at(None) if definition.cut == "none" else metric
        raise MetricError(f"{text!r}: {name} has no cutoff; write {right}.")
    return metric


@lru_cache(maxsize=1000)
def metric_called(name: str) -> Metric:
    """The metric that reports call ``name``; an ``UnknownMetric`` if it is no spelling of ours.

    The ``accuracy`` of another tool is not the hit rate that this alias means in a config.
    """
    try:
        metric = parse_metric(name)
    except MetricError:
        return UnknownMetric(name)
    return metric if str(metric) == name else UnknownMetric(name)


def parse_metrics(metrics: str | Sequence[str | Metric], *, trec: bool = False) -> list[Metric]:
    """The metrics of a list with commas between, or of several spellings, each once.

    With ``trec``, names that trec_eval and others give to different numbers mean trec_eval's.
    Raises MetricError with all that is wrong: as ``parse_metric`` does, for a cutoff that is missing or too much, for a
    metric that is not defined for rankings of documents, and for a list of none.
    """
    made: dict[Metric, None] = {}
    faults: list[Fault] = []
    for part in [metrics] if isinstance(metrics, str) else metrics:
        for one in [part] if isinstance(part, Metric) else spellings(part):
            try:
                metric = one if isinstance(one, Metric) else parse_metric(_OF_TREC_EVAL.get(one, one) if trec else one)
                metric.check_cut()
                metric.check_unit("document")
                if metric.is_function:
                    metric.definition.compute(None, metric.k)  # an error
                made[metric] = None
            except MetricError as error:
                faults += error.faults
    MetricError.raise_any(faults)
    if not made:
        raise MetricError(f"{metrics!r} names no metric; write them like ndcg@10,ap,rbp(p=0.8).")
    return list(made)


def spellings(text: str) -> Iterator[str]:
    """The pieces between commas that are in no brackets."""
    return filter(None, (piece.strip() for piece in re.split(r",(?![^(]*\))", text)))


def _meant(name: str, text: str) -> tuple[Definition, Alias]:
    if ":" in name:
        return function_definition(name), Alias(name)
    folded = name.lower().replace("-", "_")
    if folded in _ELSEWHERE_ONLY:
        raise MetricError(f"{text!r} is the name of another number: {_ELSEWHERE_ONLY[folded]}.")
    own = dict(METRICS.registered())
    known = {name: (definition, Alias(name)) for name, definition in own.items()}
    known |= {alias.name: (definition, alias) for definition in own.values() for alias in definition.aliases}
    if folded not in known and (plug_in := METRICS.find(folded)) is not None:
        return plug_in, Alias(folded)
    if folded not in known:
        near = did_you_mean(folded, known)
        raise MetricError(f"{text!r}: there is no metric {name!r}.{near} Known: {listed(sorted(METRICS.names()), 40)}.")
    return known[folded]


def _inside(definition: Definition, inside: str, text: str) -> tuple[dict[str, Value], dict[int, float]]:
    """The parameters and the gains of grades that are in the brackets."""
    given: dict[str, Value] = {}
    gains: dict[int, float] = {}
    for part in filter(None, (piece.strip() for piece in inside.split(","))):
        key, _, value = (piece.strip().strip("'\"") for piece in part.partition("="))
        if key == "dcg" and "gain" in definition.parameters:
            key, value = "gain", _DISCOUNTS.get(value, value)
        if key in given or (key.isdigit() and int(key) in gains):
            raise MetricError(f"{text!r}: duplicate parameter {key!r}.")
        if definition.gains and key.isascii() and key.isdigit():
            gains[int(key)] = float(_parsed(_GAIN, f"the gain of grade {key}", value, text))
        else:
            given[key] = _value(definition, key, value, text)
    return given, gains


def _value(definition: Definition, key: str, value: str, text: str) -> Value:
    if key not in definition.parameters:
        known = ", ".join(definition.parameters) or "none"
        raise MetricError(f"{text!r}: {definition.name} has no parameter {key!r}; it has: {known}.")
    return _parsed(definition.parameters[key], key, value, text)


def _parsed(parameter: MetricParameter, name: str, value: str, text: str) -> Value:
    try:
        return parameter.parse(value)
    except ValueError as expected:
        raise MetricError(f"{text!r}: {name} is {value!r}; it must be {expected}.") from None
