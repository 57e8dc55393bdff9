"""From a spelling to a metric: ours, and those of other tools."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ragtrial.errors import Fault, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics.base import METRICS, Alias, Definition, Metric, Value

LARGEST_GAIN = 1e100
_MOST_LEVELS = 100

_NAME = r"(?P<name>[A-Za-z0-9][A-Za-z0-9_-]*?)"
_SPELLING = re.compile(rf"^{_NAME}\s*(\((?P<inside>[^()]*)\))?\s*(@\s*(?P<number>[^@\s]+))?$")
_OTHER = re.compile(
    r"^(?P<name>[A-Za-z0-9_-]*?[A-Za-z1])(?P<between>_at_|_cut_|_cut\.|[._])(?P<number>\d*\.?\d+)$", re.IGNORECASE
)
"""trec_eval's ndcg_cut_10, ndcg_cut.10 and iprec_at_recall_0.10, MTEB's ndcg_at_10."""
_POINTED = re.compile(rf"^{_NAME}\.(?P<inside>[A-Za-z0-9]+=[^()@]*)$")
"""trec_eval's parameters: ndcg.1=3,2=9 and rbp.p=0.8."""
_LEVEL = re.compile(r"^(?P<rest>\S*[^-_\s])-l(?P<level>[0-9]+)$")
"""ranx's threshold: precision@10-l2."""
_GAINS = re.compile(r"gains\s*=\s*\{(?P<pairs>[^{}]*)\}")
"""ir_measures' gains={0: 0, 1: 1}."""
_DISCOUNTS = {"log2": "linear", "exp-log2": "exp"}
"""ir_measures' dcg, which names the gain together with the discount."""

_HAYSTACK = "Haystack's mode single_hit is 1 where anything relevant was retrieved, its mode multi_hit is set_recall"
_ELSEWHERE_ONLY = {
    "hits": "ranx counts relevant hits with it; hit_rate@k says whether there is one, num_rel_ret counts all of them",
    "hole": "BEIR counts hits judged for no query at all; unjudged@k counts those not judged for the query itself",
    "document_recall": _HAYSTACK,
    "documentrecallevaluator": _HAYSTACK,
}
"""Names elsewhere of numbers that no metric here gives."""


@dataclass(frozen=True)
class _Written:
    """A spelling taken apart. ``number`` is what stands behind ``between``: a cutoff, or a parameter."""

    text: str
    name: str
    inside: str = ""
    between: str = ""
    number: str | None = None
    level: int | None = None


MOST_K = 1_000_000
"""The largest cutoff: rankings are not that long, and some metrics need memory for each place."""


@lru_cache(maxsize=1000)
def parse_metric(text: str) -> Metric:
    """The metric that a spelling means: ``ndcg@10``, or another tool's ``NDCG@10``, ``ndcg_cut_10``, ``MRR@10``.

    Raises MetricError that says what is wrong, with the nearest name.
    """
    written = _taken_apart(text)
    definition, alias = _meant(written)
    given, gains = _inside(definition, alias, written)
    k = None
    if written.number is not None and _is_parameter(definition, alias, written):
        given[alias.takes] = _value(definition, alias, alias.takes, written.number, text, translate=True)
    elif written.number is not None:
        k = _cutoff(written.number, text)
    metric = Metric(definition.name, k, tuple({**alias.sets, **given}.items()), tuple(sorted(gains.items())))
    if alias.cut == "required" and k is None:
        raise MetricError(f"{text!r} has no cutoff; write {metric}@k.")
    if k is not None and "none" in (alias.cut, definition.cut):
        right = metric.at(None) if definition.cut == "none" else metric
        raise MetricError(f"{text!r}: {written.name} has no cutoff; write {right}.")
    return metric


def parse_metrics(metrics: str | Sequence[str | Metric]) -> list[Metric]:
    """The metrics of a list with commas between, or of several spellings, each once; trec_eval's ``P.5,10`` are two.

    Raises MetricError with all that is wrong: as ``parse_metric`` does, for a cutoff that is missing or too much, for a
    metric that is not defined for rankings of documents, and for a list of none.
    """
    made: dict[Metric, None] = {}
    faults: list[Fault] = []
    for part in [metrics] if isinstance(metrics, str) else metrics:
        for one in [part] if isinstance(part, Metric) else spellings(part):
            try:
                metric = one if isinstance(one, Metric) else parse_metric(one)
                metric.check_cut()
                metric.check_unit("document")
                made[metric] = None
            except MetricError as error:
                faults += error.faults
    if faults:
        raise MetricError(*faults)
    if not made:
        raise MetricError(f"{metrics!r} names no metric; write them like ndcg@10,ap,rbp(p=0.8).")
    return list(made)


def spellings(text: str) -> Iterator[str]:
    """The pieces between commas that stand in no brackets; what goes on with trec_eval's list has its name again."""
    spelling = ""
    for piece in filter(None, (piece.strip() for piece in re.split(r",(?![^({]*[)}])", text))):
        name, point, _ = spelling.partition(".")
        if point and "(" not in name and re.fullmatch(r"\d*\.?\d+", piece):
            yield spelling
            spelling = f"{name}.{piece}"
        elif point and "(" not in name and re.match(r"\d+=", piece):
            spelling += f",{piece}"
        else:
            yield from filter(None, [spelling])
            spelling = piece
    yield from filter(None, [spelling])


def _taken_apart(text: str) -> _Written:
    leveled = _LEVEL.match(text.strip())
    rest, level = (leveled["rest"], int(leveled["level"])) if leveled else (text.strip(), None)
    if pointed := _POINTED.match(rest):
        return _Written(text, pointed["name"], pointed["inside"], level=level)
    if "@" not in rest and (other := _OTHER.match(rest)):
        return _Written(text, other["name"], "", other["between"], other["number"], level)
    if match := _SPELLING.match(rest):
        return _Written(text, match["name"], match["inside"] or "", "@", match["number"], level)
    raise MetricError(f"{text!r} is not a metric; write it like ndcg@10 or rbp(p=0.8)@10.")


def _meant(written: _Written) -> tuple[Definition, Alias]:
    folded = written.name.lower().replace("-", "_")
    if folded in _ELSEWHERE_ONLY:
        raise MetricError(f"{written.text!r} is the name of another number: {_ELSEWHERE_ONLY[folded]}.")
    known = {name: (definition, Alias(name)) for name, definition in METRICS.members()}
    known |= {alias.name: (definition, alias) for _, definition in METRICS.members() for alias in definition.aliases}
    if folded not in known:
        near = did_you_mean(folded, known)
        members = listed(sorted(METRICS.names()), 40)
        raise MetricError(f"{written.text!r}: there is no metric {written.name!r}.{near} Known: {members}.")
    return known[folded]


def _is_parameter(definition: Definition, alias: Alias, written: _Written) -> bool:
    """Whether the number behind the name is no cutoff: IPrec@0.1, set_F.2, rbp.0.8."""
    if not alias.takes:
        return False
    if written.between == "@":
        return definition.cut == "none" and alias.translated is float
    if definition.cut == "none":
        return True
    if written.between == "." and (written.number or "").isdigit():
        told = f"ranx's {written.text} adds up grades; {definition.name} knows relevant and not relevant"
        raise MetricError(
            f"{written.text!r} is the name of another number: {told}. Write p out, as in {definition.name}(p=0.8)."
        )
    return not (written.number or "").isdigit()


def _cutoff(number: str, text: str) -> int:
    if not (number.isascii() and number.isdigit() and number.strip("0")):
        raise MetricError(f"{text!r}: k is {number!r}; it must be a whole number, at least 1.")
    if len(number.lstrip("0")) > len(str(MOST_K)) or int(number) > MOST_K:
        shown = text if len(text) <= 60 else f"{text[:60]}..."
        raise MetricError(f"{shown!r}: k must be at most {MOST_K:,}; leave it out to count all hits.")
    return int(number)


def _inside(definition: Definition, alias: Alias, written: _Written) -> tuple[dict[str, Value], dict[int, float]]:
    """The parameters and the gains of grades that stand in the brackets, and what a threshold of ranx comes to."""
    given: dict[str, Value] = {}
    gains: dict[int, float] = {}
    text = written.text
    inside = _GAINS.sub(lambda match: match["pairs"].replace(":", "="), written.inside)
    for part in filter(None, (piece.strip() for piece in inside.split(","))):
        key, _, value = (piece.strip().strip("'\"") for piece in part.partition("="))
        if key == "dcg" and "gain" in definition.parameters:
            key, value = "gain", _DISCOUNTS.get(value, value)
        if key in given or (key.isdigit() and int(key) in gains):
            raise MetricError(f"{text!r}: parameter {key!r} stands twice.")
        if definition.gains and key.isascii() and key.isdigit():
            gains[int(key)] = _gain(key, value, text)
        else:
            given[key] = _value(definition, alias, key, value, text, translate=alias.name != definition.name)
    if written.level is not None and definition.gains and 0 < written.level <= _MOST_LEVELS:
        gains |= dict.fromkeys(range(1, written.level), 0.0)
    elif written.level is not None:
        given["rel"] = _value(definition, alias, "rel", str(written.level), text)
    return given, gains


def _value(definition: Definition, alias: Alias, key: str, value: str, text: str, *, translate: bool = False) -> Value:
    parameter = definition.parameters.get(key)
    if parameter is None:
        known = ", ".join(definition.parameters) or "none"
        raise MetricError(f"{text!r}: {definition.name} has no parameter {key!r}; it has: {known}.")
    try:
        parsed = parameter.parse(value)
    except ValueError as expected:
        raise MetricError(f"{text!r}: {key} is {value!r}; it must be {expected}.") from None
    return alias.translated(float(parsed)) if translate and key == alias.takes else parsed


def _gain(grade: str, value: str, text: str) -> float:
    try:
        gain = float(value)
    except ValueError:
        gain = -1.0
    if not 0 <= gain <= LARGEST_GAIN:
        raise MetricError(
            f"{text!r}: the gain of grade {grade} is {value!r}; it must be a number from 0 to {LARGEST_GAIN:g}."
        )
    return gain
