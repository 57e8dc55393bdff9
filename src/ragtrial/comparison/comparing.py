"""The comparison of settings: every metric of every pair, and what may be claimed of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart, FamilyKind, ProcedurePart
from ragtrial.comparison.contest import ComparedSetting, ComparisonSet, Pair, PairedScores
from ragtrial.comparison.statistics.flips import takes_all
from ragtrial.comparison.statistics.procedures import DEFAULT, FLIPPED, PROCEDURES, infer_by
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Family, Inference, Procedure
from ragtrial.comparison.verdicts import evidence_of, percent, sentence_of, verdict_of
from ragtrial.errors import listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.records import ReportWarning, WarningCode
from ragtrial.report.schema import WarningPart

MOST_PAIRS = 15
"""Of more pairs only those with the best setting are looked at closely."""


MOST_SETTINGS = 50
"""Of more the best by descriptive metrics are not looked for, where it takes a comparison of all pairs beside."""


_QUERIES_PER_SQUARE = 25
"""With so many times the squared skewness a 95% interval of a mean is wrong in 6% at most (Cochran 1977, 2.15)."""

_MOST_NAMED = 3


@dataclass(frozen=True)
class ComparisonOptions:
    """What is asked: against which baseline (None: all pairs), and which difference would not matter."""

    baseline: str | None = None
    margin: float = 0.02
    procedure: Procedure = field(default_factory=Procedure)
    procedure_name: str = DEFAULT
    """One of PROCEDURES."""


def compare_settings(contest: ComparisonSet, aim: ComparisonOptions) -> Comparison:
    """All comparisons of a contest. Raises ReportError if its baseline is not there."""
    scored = [contest.scores(metric) for metric in contest.metrics]
    all_pairs = _best_first(contest.pairs(), scored[0])
    pairs = all_pairs if aim.baseline is None else contest.pairs(aim.baseline)
    inferred = infer_by(aim.procedure_name, [_family(scores, pairs) for scores in scored], aim.procedure)
    best_by = scored if pairs is all_pairs or len(contest.names) <= MOST_SETTINGS else scored[:1]
    of_all = (
        inferred
        if pairs is all_pairs
        else infer_by(aim.procedure_name, [_family(one, all_pairs) for one in best_by], aim.procedure)
    )
    parts = [
        part
        for scores, inference in zip(scored, inferred, strict=True)
        for part in _parts(contest, aim, scores, pairs, inference)
    ]
    skewed = skewed_claims(contest.names, pairs, inferred[0])
    return Comparison(
        comparisons=parts,
        not_worse_than_best={
            scores.metric: _not_worse_than_best(contest, all_pairs, inference)
            for scores, inference in zip(best_by, of_all, strict=True)
        },
        procedure=_procedure_part(contest, aim, parts),
        primary_metric=contest.primary,
        metrics=list(contest.metrics),
        settings=list(contest.names),
        queries=len(contest.queries),
        warnings=[WarningPart(code=warning.code, message=warning.message) for warning in [*contest.warnings, *skewed]],
    )


_NOTHING_TESTED = f"Nothing was tested: in no comparison do {LEAST_DIFFERENCES} queries differ."


def close_comparisons(comparison: Comparison, *, everything: bool = False) -> Sequence[ComparisonPart]:
    """By the primary metric, largest difference first: all against a baseline, or of many pairs those with the best.

    The best is the baseline of all of them; of few pairs its own come first, then those of the next. Over no queries
    there is no difference: these come last. ``everything`` means all, however many.
    """
    rows = [part for part in comparison.comparisons if part.metric == comparison.primary_metric]
    rows.sort(key=lambda part: math.inf if part.difference is None else -part.difference)
    if comparison.procedure.baseline:
        return rows
    highest: dict[str, float] = {}
    for part in rows:  # over other queries a setting has another mean
        highest[part.baseline] = max(highest.get(part.baseline, -math.inf), part.mean_baseline or 0.0)
    rows.sort(key=lambda part: math.inf if part.difference is None else -highest[part.baseline])
    if everything or len(rows) <= MOST_PAIRS:
        return rows
    (best,) = {part.baseline for part in rows} - {part.setting for part in rows}
    return [part for part in rows if part.baseline == best]


def _best_first(pairs: Sequence[Pair], scores: PairedScores) -> tuple[Pair, ...]:
    """The pairs with the higher mean as the baseline: how much is lost with the other."""
    counted = ~np.isnan(scores.values)
    sums = np.where(counted, scores.values, 0.0).sum(axis=1)
    means = sums / np.maximum(counted.sum(axis=1), 1)
    return tuple(
        Pair(pair.setting, pair.baseline) if means[pair.setting] > means[pair.baseline] else pair for pair in pairs
    )


def _family(scores: PairedScores, pairs: Sequence[Pair]) -> Family:
    weights = np.zeros((len(pairs), len(scores.values)))
    for row, pair in enumerate(pairs):
        weights[row, pair.baseline], weights[row, pair.setting] = -1.0, 1.0
    return Family(scores.values, weights)


def _parts(
    contest: ComparisonSet, aim: ComparisonOptions, scores: PairedScores, pairs: Sequence[Pair], inference: Inference
) -> Iterator[ComparisonPart]:
    kind: FamilyKind = "primary" if scores.metric == contest.primary else "descriptive"
    differences = scores.differences(pairs)
    wins, losses = (differences > 0).sum(axis=1), (differences < 0).sum(axis=1)
    judged = [judged_share(contender, scores.metric) for contender in contest.contenders]
    evidences = evidence_of(inference, aim.margin)
    for row, (pair, means, evidence) in enumerate(zip(pairs, _means(scores, pairs), evidences, strict=True)):
        verdict = verdict_of(evidence, aim.margin)
        deviation = float(inference.deviation[row])
        difference = _number(inference.mean[row])
        yield ComparisonPart(
            metric=scores.metric,
            family=kind,
            baseline=contest.contenders[pair.baseline].name,
            setting=contest.contenders[pair.setting].name,
            mean_baseline=means[0],
            mean=means[1],
            difference=difference,
            ci=None if evidence.low is None or evidence.high is None else (evidence.low, evidence.high),
            p=_number(inference.p[row]),
            p_corrected=_number(inference.p_corrected[row]),
            wins=int(wins[row]),
            ties=evidence.n - int(wins[row]) - int(losses[row]),
            losses=int(losses[row]),
            effect_size=difference / deviation if difference is not None and deviation > 0 else None,
            n=evidence.n,
            verdict=verdict if kind == "primary" else None,
            sentence=sentence_of(verdict, evidence, aim.margin),
            detectable=evidence.detectable,
            queries_needed=evidence.queries_needed,
            judged_baseline=judged[pair.baseline],
            judged=judged[pair.setting],
        )


def _means(scores: PairedScores, pairs: Sequence[Pair]) -> Iterator[tuple[float | None, float | None]]:
    """The means of the baseline and of the setting of each pair, over the queries that count for both."""
    counts = ~np.isnan(scores.values)
    alone = [_mean(values[known]) for values, known in zip(scores.values, counts, strict=True)]
    kinds = [known.tobytes() for known in counts]
    for pair in pairs:
        if kinds[pair.baseline] == kinds[pair.setting]:
            yield alone[pair.baseline], alone[pair.setting]
        else:
            both = counts[pair.baseline] & counts[pair.setting]
            yield _mean(scores.values[pair.baseline][both]), _mean(scores.values[pair.setting][both])


def _not_worse_than_best(contest: ComparisonSet, pairs: Sequence[Pair], inference: Inference) -> list[str]:
    beaten = set()
    for row, pair in enumerate(pairs):
        if inference.claims[row]:
            beaten.add(pair.baseline if inference.claims[row] > 0 else pair.setting)
    return [name for place, name in enumerate(contest.names) if place not in beaten]


def skewed_claims(names: Sequence[str], pairs: Sequence[Pair], inference: Inference) -> Iterator[ReportWarning]:
    """A warning about the claims for ``pairs`` whose differences are too skewed."""
    told = []
    for row in np.flatnonzero(inference.claims).tolist():
        skewness, n = float(inference.skewness[row]), int(inference.n[row])
        needed = math.ceil(_QUERIES_PER_SQUARE * skewness**2)
        if n < needed:
            pair = f"{names[pairs[row].setting]} against {names[pairs[row].baseline]}"
            told.append((needed, f"{pair} (skewness {skewness:+.1f}: {n:,} queries, {needed:,} would do)"))
    if told:
        named = listed([text for _, text in sorted(told, reverse=True)], _MOST_NAMED)
        message = (
            f"a few queries make most of the difference, and such claims are wrong more often than said: {named}. "
            "Look at these queries (--queries), or ask more."
        )
        yield ReportWarning(WarningCode.SKEWED_DIFFERENCES, message)


def judged_share(contender: ComparedSetting, metric: str) -> float | None:
    """The mean share of judged hits where ``metric`` cuts; None if the report has none for that cutoff."""
    k = parse_metric(metric).k
    known = contender.setting.scores.get("judged" if k is None else f"judged@{k}")
    return None if known is None else known.mean


def _procedure_part(contest: ComparisonSet, aim: ComparisonOptions, parts: Sequence[ComparisonPart]) -> ProcedurePart:
    procedure = aim.procedure
    comparisons = sum(part.family == "primary" for part in parts)
    tested = any(part.wins + part.losses >= LEAST_DIFFERENCES for part in parts)
    return ProcedurePart(
        name=aim.procedure_name,
        confidence=1 - procedure.level,
        margin=aim.margin,
        flips=procedure.flips,
        seed=procedure.seed,
        baseline=aim.baseline,
        comparisons=comparisons,
        sentence=_procedure_sentence(aim, comparisons, len(contest.queries)) if tested else _NOTHING_TESTED,
    )


def _procedure_sentence(aim: ComparisonOptions, comparisons: int, queries: int) -> str:
    card, procedure = PROCEDURES[aim.procedure_name], aim.procedure
    if aim.procedure_name not in FLIPPED:
        drawn = f" {procedure.flips:,} {card.draws}, seed {procedure.seed}." if card.draws else ""
        return f"{aim.procedure_name}: {card.sentence}{drawn} Level {procedure.level:g}. {card.caveat}"
    exact = takes_all(queries, procedure)
    drawn = f"All {2**queries:,} flips" if exact else f"{procedure.flips:,} random flips, seed {procedure.seed}"
    together = "the interval holds" if comparisons == 1 else f"all {comparisons:,} intervals of a metric hold together"
    said = f"{aim.procedure_name}: {card.sentence} {drawn}; with probability {percent(1 - procedure.level)} {together}."
    return said if aim.procedure_name == DEFAULT else f"{said} {card.caveat}"


def _mean(values: Scores) -> float | None:
    return float(values.mean()) if len(values) else None


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
