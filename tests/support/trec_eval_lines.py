"""An oracle: what trec_eval 10 prints, its measures by its names, with those that are no metrics of ours.

Formulas and formats follow trec_eval 10 (National Institute of Standards and Technology); the experimental measures
here (``G``, ``binG``, ``ndcg_rel``, ``Rndcg``, ``Rprec_mult``, ``utility``) are described in its own help alone.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.errors import Fault, InputError, MetricError, did_you_mean
from ragtrial.evaluation.grading import GradedRankings, Scores, graded_hits
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.evaluation.metrics.base import Aggregate, gains_of, ratio, summary
from ragtrial.runs.inputs import RunInput
from ragtrial.scoring.score_runs import Protocol, evaluate

Compute = Callable[[GradedRankings, str], npt.NDArray[Any]]

_DEPTHS = ("5", "10", "15", "20", "30", "100", "200", "500", "1000")
_TENTHS = tuple(f"{tenth / 10:.1f}" for tenth in range(11))
_OTHERS = {
    "prefs": "preferences compare pairs of documents; ragtrial scores grades",
    "all_prefs": "preferences compare pairs of documents; ragtrial scores grades",
    "qrels_jg": "several groups of judgments for one query are not read; ragtrial has one grade for each document",
    "yaap": "it is an experiment of trec_eval that its own `all_trec` leaves out; `ap` is the usual measure",
}


@dataclass(frozen=True)
class TrecMeasure:
    """A measure of trec_eval: its ``name`` there, and how it is computed from what stands behind it (``P.5,10``).

    ``compute`` gives a value for each query. With ``cuts`` it is printed once for each of these numbers, whole ones or
    (``decimals``) with two places. ``aggregate`` says what its value over all queries is; ``whole`` that it is a
    count. One that is not ``of_queries`` is printed for all queries together only, one that is not ``of_all`` for
    single ones only. ``takes`` is what may stand behind the name of one without cuts.
    """

    name: str
    compute: Compute
    cuts: tuple[str, ...] = ()
    decimals: bool = False
    aggregate: Aggregate = "mean"
    whole: bool = False
    of_queries: bool = True
    of_all: bool = True
    takes: str = ""


def _ours(spelling: str) -> Compute:
    """The metric of ours that ``spelling`` means; ``{}`` is for what stands behind the name."""

    def compute(graded: GradedRankings, given: str) -> Scores:
        metric = parse_metric(spelling.format(given) if given else re.split("[.(]", spelling)[0])
        return evaluate([metric], graded, "zero")[str(metric)].values

    return compute


def _numbers(given: str, expected: int | None = None) -> list[float]:
    try:
        numbers = [float(part) for part in given.split(",")]
    except ValueError:
        raise MetricError(f"{given!r} must be comma-separated numbers.") from None
    if expected is not None and len(numbers) != expected:
        raise MetricError(f"{given!r} are {len(numbers)} numbers; {expected} are needed.")
    return numbers


def _set_map(graded: GradedRankings, _given: str) -> Scores:
    found = graded.count(graded.relevant)
    return ratio(found * found, graded.lengths * graded.relevant_counts)


def _set_relative_precision(graded: GradedRankings, _given: str) -> Scores:
    return ratio(graded.count(graded.relevant), np.minimum(graded.lengths, graded.relevant_counts))


def _num_nonrel_judged_ret(graded: GradedRankings, _given: str) -> Scores:
    return graded.count((graded.grades >= 0) & ~graded.relevant).astype(np.float64)


def _relstring(graded: GradedRankings, given: str) -> npt.NDArray[Any]:
    """The grades of the first hits: a digit, > above 9, . if it is in the pool and not judged, - if in neither."""
    (first,) = _numbers(given or "10", 1)
    strings = []
    for query in range(len(graded)):
        grades = graded.grades_by_rank(query)
        ranks = range(1, min(int(first), int(graded.lengths[query])) + 1)
        strings.append("".join(_character(grades.get(rank)) for rank in ranks))
    return np.array([f"'{string}'" for string in strings], dtype=object)


def _character(grade: int | None) -> str:
    if grade is None:
        return "-"
    return "." if grade < 0 else ">" if grade > 9 else str(grade)


def _utility(graded: GradedRankings, given: str) -> Scores:
    """Weighted counts of hits and of documents not found; of those, the non-relevant ones cannot be counted."""
    hit, miss, lost, rest = _numbers(given or "1,-1,0,0", 4)
    if rest:
        raise MetricError(
            f"the last number of {given!r} must be 0: the number of documents in the collection is not known."
        )
    found = graded.count(graded.relevant)
    return np.asarray(hit * found + miss * (graded.lengths - found) + lost * (graded.relevant_counts - found))


def _r_precision_at(graded: GradedRankings, given: str) -> Scores:
    """Precision at a multiple of R, rounded as trec_eval rounds there: (multiple x R + 0.9) without its fraction."""
    (multiple,) = _numbers(given, 1)
    cut = (multiple * graded.relevant_counts + 0.9).astype(np.int64)
    return ratio(graded.count(graded.relevant & (graded.ranks <= cut[graded.rows])), cut)


def _eleven_points(graded: GradedRankings, given: str) -> Scores:
    points = given.split(",") if given else _TENTHS
    return np.asarray(np.mean([_ours("iprec_at_recall_{}")(graded, point) for point in points], axis=0))


def _binary_g(graded: GradedRankings, _given: str) -> Scores:
    above = graded.ranks - graded.relevant_so_far
    return ratio(graded.total(1 / np.log2(2.0 + np.maximum(above, 0)), graded.relevant), graded.relevant_counts)


def _persistence(given: str) -> float:
    key, _, value = given.partition("=")
    if key != "p":
        raise MetricError(f"{given!r} must be written like p=0.8.")
    return _numbers(value, 1)[0]


def _rbp(graded: GradedRankings, given: str) -> Scores:
    """Rank-biased precision whose gains are grades, divided by the query's highest grade where that is above 1."""
    p = _persistence(given) if given else 0.9
    gains = np.maximum(graded.grades, 0) / np.maximum(graded.judgments.best, 1)[graded.rows]
    return (1 - p) * graded.total(gains * p ** (graded.ranks - 1.0), gains > 0)


def _rbp_residual(graded: GradedRankings, _given: str) -> Scores:
    """As in trec_eval: 0 where every hit is judged, also what lies below the last one."""
    p, known = 0.9, graded.is_judged
    weight = 1 - p**graded.lengths - (1 - p) * graded.total(p ** (graded.ranks - 1.0), known)
    return np.where(graded.count(known) < graded.lengths, p**graded.lengths + weight, 0.0)


@dataclass(frozen=True, eq=False)
class _Gains:
    """One query: ``ranks`` and ``gains`` of judged hits, and the ``ideal`` gains above 0 of its labels, best first."""

    ranks: Scores
    gains: Scores
    ideal: Scores
    retrieved: int

    def dcg(self, depth: int) -> float:
        kept = self.ranks <= depth
        return float(np.sum(self.gains[kept] / np.log2(self.ranks[kept] + 1)))

    @property
    def ideal_dcg(self) -> Scores:
        return np.cumsum(self.ideal / np.log2(np.arange(2, len(self.ideal) + 2)), dtype=np.float64)


def _by_query(formula: Callable[[_Gains], float]) -> Compute:
    def compute(graded: GradedRankings, given: str) -> Scores:
        gains = dict(parse_metric(f"ndcg.{given}").gains) if given else {}
        of_hits, of_labels = (gains_of(grades, gains) for grades in (graded.grades, graded.judgments.grades))
        values = np.zeros(len(graded))
        for query in range(len(graded)):
            hits, labels = (slice(*starts[query : query + 2]) for starts in (graded.starts, graded.judgments.starts))
            ideal: Scores = np.sort(of_labels[labels][of_labels[labels] > 0])[::-1]
            if len(ideal):
                one = _Gains(graded.ranks[hits].astype(np.float64), of_hits[hits], ideal, int(graded.lengths[query]))
                values[query] = formula(one)
        return values

    return compute


def _g(one: _Gains) -> float:
    """Gains, each discounted by what was lost above it: ideal gains, at least 1 for each rank, less those found."""
    ideal = np.concatenate(([0.0], np.cumsum(np.maximum(one.ideal, 1))))
    within = np.minimum(one.ranks, len(one.ideal)).astype(np.int64)
    cost = ideal[within] + (one.ranks - within)
    return float(np.sum(one.gains / np.log2(2 + cost - np.cumsum(one.gains))) / one.ideal.sum())


def _ndcg_rel(one: _Gains) -> float:
    """Average of nDCG at the rank of each document with a gain; at the last rank for those that were not found."""
    gaining = one.gains > 0
    dcg = np.cumsum(one.gains / np.log2(one.ranks + 1))
    ideal = one.ideal_dcg
    at_hits = dcg[gaining] / ideal[np.minimum(one.ranks[gaining], len(ideal)).astype(np.int64) - 1]
    lost = len(ideal) - int(gaining.sum())
    return float((at_hits.sum() + lost * one.dcg(one.retrieved) / ideal[-1]) / len(ideal))


def _r_ndcg(one: _Gains) -> float:
    """Average of nDCG at ranks where the ideal gain falls, and at the last rank if that is more than one further."""
    ends = np.append(np.flatnonzero(np.diff(one.ideal)) + 1, len(one.ideal))
    ideal = one.ideal_dcg
    parts = [one.dcg(end) / ideal[end - 1] for end in ends.tolist()]
    if one.retrieved > len(ideal) + 1:
        parts.append(one.dcg(one.retrieved) / ideal[-1])
    return float(np.mean(parts))


MEASURES: tuple[TrecMeasure, ...] = (
    TrecMeasure("num_ret", _ours("num_ret"), aggregate="sum", whole=True),
    TrecMeasure("num_rel", _ours("num_rel"), aggregate="sum", whole=True),
    TrecMeasure("num_rel_ret", _ours("num_rel_ret"), aggregate="sum", whole=True),
    TrecMeasure("map", _ours("map")),
    TrecMeasure("gm_map", _ours("map"), aggregate="geometric", of_queries=False),
    TrecMeasure("Rprec", _ours("Rprec")),
    TrecMeasure("bpref", _ours("bpref")),
    TrecMeasure("recip_rank", _ours("recip_rank")),
    TrecMeasure("iprec_at_recall", _ours("iprec_at_recall_{}"), _TENTHS, decimals=True),
    TrecMeasure("P", _ours("P_{}"), _DEPTHS),
    TrecMeasure("relstring", _relstring, of_all=False, takes="a number"),
    TrecMeasure("recall", _ours("recall_{}"), _DEPTHS),
    TrecMeasure("infAP", _ours("infAP")),
    TrecMeasure("gm_bpref", _ours("bpref"), aggregate="geometric", of_queries=False),
    TrecMeasure("Rprec_mult", _r_precision_at, tuple(f"{fifth / 5:.1f}" for fifth in range(1, 11)), decimals=True),
    TrecMeasure("utility", _utility, takes="four numbers"),
    TrecMeasure("11pt_avg", _eleven_points, takes="recalls"),
    TrecMeasure("binG", _binary_g),
    TrecMeasure("G", _by_query(_g), takes="gains"),
    TrecMeasure("dcg", _ours("dcg({})"), takes="gains"),
    TrecMeasure("ideal_dcg", _by_query(lambda one: float(one.ideal_dcg[-1])), takes="gains"),
    TrecMeasure("ndcg", _ours("ndcg({})"), takes="gains"),
    TrecMeasure("ndcg_rel", _by_query(_ndcg_rel), takes="gains"),
    TrecMeasure("Rndcg", _by_query(_r_ndcg), takes="gains"),
    TrecMeasure("ndcg_cut", _ours("ndcg_cut_{}"), _DEPTHS),
    TrecMeasure("map_cut", _ours("map_cut_{}"), _DEPTHS),
    TrecMeasure("relative_P", _ours("relative_P_{}"), _DEPTHS),
    TrecMeasure("success", _ours("success_{}"), ("1", "5", "10")),
    TrecMeasure("set_P", _ours("set_P")),
    TrecMeasure("set_relative_P", _set_relative_precision),
    TrecMeasure("set_recall", _ours("set_recall")),
    TrecMeasure("set_map", _set_map),
    TrecMeasure("set_F", _ours("set_F.{}"), takes="a weight"),
    TrecMeasure("num_nonrel_judged_ret", _num_nonrel_judged_ret, aggregate="sum", whole=True),
    TrecMeasure("rbp", _rbp, takes="p"),
    TrecMeasure("rbp_resid", _rbp_residual),
    TrecMeasure("unj", _ours("unj_{}"), ("5", "10", "20")),
)
"""In the order in which trec_eval prints them, behind ``runid`` and ``num_q``."""

_OFFICIAL = (
    "runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "map", "gm_map", "Rprec", "bpref", "recip_rank",
    "iprec_at_recall", "P",
)  # fmt: skip
_SETS = (
    "runid", "num_q", "num_ret", "num_rel", "num_rel_ret", "utility", "set_P", "set_recall", "set_relative_P",
    "set_map", "set_F",
)  # fmt: skip
_FIRST = ("runid", "num_q")
_BY_NAME = {one.name: one for one in MEASURES}
_NICKNAMES: Mapping[str, Sequence[str]] = {
    "official": _OFFICIAL,
    "set": _SETS,
    "all_trec": [*_FIRST, *(name for name in _BY_NAME if name not in ("dcg", "ideal_dcg"))],
}


def parse_measures(text: str) -> dict[str, str]:
    """trec_eval's measures by name, each with what stands behind it: ``map P.5,10 ndcg_cut_10 all_trec``.

    Spaces are between them, or commas where nothing stands behind a name. Raises MetricError with all that is wrong.
    """
    asked: dict[str, str] = {}
    faults: list[Fault] = []
    for token in text.split():
        for one in [token] if "." in token else filter(None, token.split(",")):
            name, _, given = one.partition(".")
            cut = re.fullmatch(r"(.+)_([0-9.]+)", one)
            if cut and cut[1] in _BY_NAME and _BY_NAME[cut[1]].cuts:
                name, given = cut[1], ",".join(filter(None, (asked.get(cut[1]), cut[2])))
            try:
                for known in _NICKNAMES.get(name, [name]):
                    _check(known, given, one)
                    asked[known] = given or asked.get(known, "")
            except MetricError as error:
                faults += error.faults
    if faults:
        raise MetricError(*faults)
    if not asked:
        raise MetricError("no measure is named; `official` and `all_trec` are trec_eval's sets.")
    return asked


def _check(name: str, given: str, text: str) -> None:
    other = next((why for key, why in _OTHERS.items() if name.startswith(key) or name.endswith("_avgjg")), None)
    if other is not None:
        raise MetricError(f"{text!r} is not computed: {_OTHERS['qrels_jg'] if name.endswith('_avgjg') else other}.")
    if name in _FIRST and not given:
        return
    if name not in _BY_NAME:
        near = did_you_mean(name, [*_BY_NAME, *_FIRST, *_NICKNAMES])
        raise MetricError(f"{text!r} is not a measure of trec_eval.{near} All metrics are known.")
    measure = _BY_NAME[name]
    if given and not (measure.cuts or measure.takes):
        raise MetricError(f"{text!r}: {name} takes nothing behind its name.")
    if given and measure.cuts and min(_numbers(given)) < (0 if measure.decimals else 1):
        raise MetricError(f"{text!r}: cutoffs are whole numbers from 1 on, recalls are from 0 on.")


def trec_lines(given: RunInput, protocol: Protocol, measures: str, *, per_query: bool) -> Iterator[str]:
    """The lines that trec_eval prints: name, query or ``all``, value, with tabs between.

    Queries that the run lacks count, as with its option ``-c``. Raises as ``score`` does.
    """
    asked = parse_measures(measures)
    qrels = given.judgments()
    runs = [
        joined
        for source, name in given.named_runs()
        for joined in given.joined(source, name, qrels, "trec", protocol.duplicates, lenient=True)
    ]
    if len(runs) != 1:
        raise InputError(f"there are {len(runs)} runs; trec_eval's lines do not name theirs: give one.")
    whole = graded_hits(qrels.judgments, runs[0][1], protocol.relevance_threshold, pooled=True)
    graded = protocol.prepared(whole)
    columns = [
        (label, measure, measure.compute(graded, value))
        for measure in MEASURES
        if measure.name in asked
        for label, value in _labels(measure, asked[measure.name])
    ]
    if per_query:
        for query in sorted(range(len(qrels)), key=lambda one: qrels.queries[one].encode("utf-8", "surrogateescape")):
            for label, measure, values in columns:
                if measure.of_queries:
                    yield _line(label, qrels.queries[query], values[query], whole=measure.whole)
    if "runid" in asked:
        yield _line("runid", "all", _tag(given.runs[0]) or runs[0][0])
    if "num_q" in asked:
        yield _line("num_q", "all", len(qrels), whole=True)
    for label, measure, values in columns:
        if measure.of_all:
            yield _line(label, "all", summary(values, measure.aggregate), whole=measure.whole)


def _labels(measure: TrecMeasure, given: str) -> Iterator[tuple[str, str]]:
    """What is printed for a measure, and what it is computed with."""
    if not measure.cuts:
        yield f"{measure.name}_{given}" if given else measure.name, given
        return
    for cut in sorted(_numbers(given) if given else map(float, measure.cuts)):
        value = f"{cut:.2f}" if measure.decimals else str(int(cut))
        yield f"{measure.name}_{value}", str(cut) if measure.decimals else value


def _line(label: str, query: str, value: Any, *, whole: bool = False) -> str:
    shown = value if isinstance(value, str) else f"{int(value)}" if whole else f"{value:6.4f}"
    return f"{label:<22}\t{query}\t{shown}"


def _tag(source: Any) -> str:
    """The tag in the first line of a TREC run file; empty for other runs."""
    path = Path(source) if isinstance(source, str | Path) else None
    if path is None or not path.is_file():
        return ""
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        fields = file.readline(10_000).decode(errors="replace").split()
    return fields[5] if len(fields) >= 6 else ""
