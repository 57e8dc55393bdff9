"""The comparison of settings: every metric of every pair, and what may be claimed of it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np

from ragtrial.comparison.commands import Commands, commands_about
from ragtrial.comparison.compared import compared_of
from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput, Pair, PairedScores, input_of
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart, FamilyKind, ProcedurePart
from ragtrial.comparison.conclusion import conclusion_of
from ragtrial.comparison.drafted import drafted_part, drafted_warning
from ragtrial.comparison.evidence import (
    caution_of,
    cautions_of,
    evidence_of,
    sentence_of,
    too_wide,
    verdict_of,
)
from ragtrial.comparison.judge_part import judge_part, people_needed
from ragtrial.comparison.judge_side import JudgeSide, judge_side
from ragtrial.comparison.judgments import read_judgments
from ragtrial.comparison.number_text import percent
from ragtrial.comparison.report_inputs import Reference
from ragtrial.comparison.statistics.flips import takes_all
from ragtrial.comparison.statistics.procedures import DEFAULT, PROCEDURES, infer_by
from ragtrial.comparison.statistics.samples import (
    LEAST_DIFFERENCES,
    Family,
    Inference,
    Procedure,
)
from ragtrial.comparison.statistics.selection import SelectionPart, select_winner
from ragtrial.comparison.statistics.two_phase import TwoPhaseInference, infer_two_phase
from ragtrial.comparison.unjudged import depend_on_unjudged
from ragtrial.errors import ComparisonError, counted
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.records import ReportWarning
from ragtrial.report.schema import WarningPart

MOST_PAIRS = 15
"""Of more pairs only those with the best setting are looked at closely."""

MOST_DESCRIBED = 1_000
"""Of more pairs only those with the best setting are compared by metrics that decide nothing."""

MOST_SETTINGS = 50
"""A run of more settings gives no conclusion unasked: all pairs would take long."""


@dataclass(frozen=True)
class ComparisonOptions:
    """What is asked: against which baseline (None: all pairs), and which difference would not matter."""

    baseline: str | None = None
    margin: float = 0.02
    procedure: Procedure = field(default_factory=Procedure)
    procedure_name: str = DEFAULT
    """One of PROCEDURES."""
    judge: JudgeSide | None = None
    """A judge that has judged queries beside people; the inputs is then ``judge.inputs``."""
    judge_file: str = ""
    config: str | None = None
    """The config of the reports, as a command names it; None if it is not known."""

    def commands(self, inputs: ComparisonInput) -> Commands:
        """Commands that go on from a comparison of ``inputs`` with these options."""
        usual, flips = ComparisonOptions(), self.procedure
        confidence = f"{1 - flips.level:.12g}"
        common = ["--margin", f"{self.margin:.12g}"] if self.margin != usual.margin else []
        common += ["--confidence", confidence] if flips.level != usual.procedure.level else []
        common += ["--common"] if inputs.is_common else []
        own = ["--procedure", self.procedure_name] if self.procedure_name != DEFAULT else []
        own += ["--judge", self.judge_file] if self.judge_file else []
        return commands_about(inputs, common, own, self.config)


def options_of(
    inputs: ComparisonInput,
    *,
    margin: float = 0.02,
    confidence: float = 0.95,
    procedure: str = DEFAULT,
    flips: int = 10_000,
    seed: int = 0,
) -> ComparisonOptions:
    """How ``inputs`` is compared. Raises ComparisonError for a number out of range, or a margin that says nothing."""
    level = round(1 - confidence, 12)  # 1 - 0.9 falls short of 0.1
    least = max(100, math.ceil(1 / level - 1)) if 0 < level < 1 else 100
    for name, value, fits, expected in (
        ("margin", margin, 0 <= margin < math.inf, "a number from 0 on"),
        ("confidence", confidence, 0.5 <= confidence <= 0.9999, "from 0.5 to 0.9999"),
        ("flips", flips, flips >= least, f"at least {least:,}, so that a difference can be shown"),
        ("seed", seed, seed >= 0, "at least 0"),
    ):
        if not fits:
            raise ComparisonError(f"{name} is {value!r}; it must be {expected}.")
    if told := too_wide(margin, inputs.primary):
        raise ComparisonError(told)
    return ComparisonOptions(inputs.baseline, margin, Procedure(level, flips, seed), procedure)


def compare(
    *reports: Reference,
    baseline: Reference | None = None,
    settings: Sequence[str] | None = None,
    metric: str | None = None,
    metrics: Sequence[str] | None = None,
    margin: float = 0.02,
    confidence: float = 0.95,
    all_pairs: bool = False,
    common: bool = False,
    procedure: str = DEFAULT,
    flips: int = 10_000,
    seed: int = 0,
    directory: str | Path = "results",
    judge: str | Path | None = None,
) -> Comparison:
    """Which settings of one or more reports are better, by how much, and how sure one can be.

    A report is a ``Report``, its folder, its id or ``latest`` (looked for in ``directory``), or one of its settings,
    ``REPORT:SETTING``. Settings of several reports are called so, too. All others are compared with ``baseline``, a
    setting or a report (then those of equal names); without one all pairs are, and of several reports the first is it,
    unless ``all_pairs`` are asked for. ``metric`` decides, or the first of ``metrics``, or the primary metric of the
    first report; the others are shown beside it. A difference below ``margin`` would not matter. ``procedure`` is one
    of docs/statistics.md; by that which is usual all intervals of a metric hold simultaneously with the probability
    ``confidence``. With ``common`` only those queries are compared that have the same labels in all reports. ``judge``
    is a file of a model's judgments, which narrow the intervals around what people judged.

    Raises InputError for reports that cannot be read or may not be compared, and for numbers out of range.
    """
    inputs = input_of(
        reports,
        metrics,
        primary=metric,
        settings=settings,
        baseline=baseline,
        all_pairs=all_pairs,
        common=common,
        directory=directory,
        may_be_unlabelled=judge is not None,
    )
    options = options_of(inputs, margin=margin, confidence=confidence, procedure=procedure, flips=flips, seed=seed)
    if judge is not None:
        options = with_judge(inputs, options, judge)
    return compare_settings(inputs if options.judge is None else options.judge.inputs, options)


def with_judge(inputs: ComparisonInput, options: ComparisonOptions, file: str | Path) -> ComparisonOptions:
    """How ``inputs`` is compared with the judgments of ``file``: by the inputs of ``judge`` in what is returned.

    Raises InputError for judgments that cannot be read, or not be used with these labels.
    """
    if options.procedure_name != DEFAULT:
        raise ComparisonError(f"--judge has a procedure of its own; leave out --procedure {options.procedure_name}.")
    return replace(options, judge=judge_side(inputs, read_judgments(file)), judge_file=str(file))


def compare_settings(inputs: ComparisonInput, options: ComparisonOptions) -> Comparison:
    """All comparisons of a inputs. Raises ReportError if its baseline is not there."""
    inputs = replace(inputs, baseline=options.baseline)
    scored = [inputs.scores(metric) for metric in inputs.metrics]
    selection = None if inputs.are_pairs_by_name else _selection(inputs, scored[0], options)
    ranked = _ranked(inputs, scored[0], options, selection)
    pairs = _best_first(inputs.pairs(), ranked) if options.baseline is None else inputs.pairs(options.baseline)
    two = [] if options.judge is None else _two_phase(scored, pairs, options.judge, options)
    needed = people_needed(two[0], options.margin) if two else None
    described = pairs
    if len(pairs) > MOST_DESCRIBED and options.baseline is None and not two:
        described = tuple(pair for pair in pairs if pair.baseline == ranked[0])
    if described is pairs:
        inferred = [one.inference for one in two] or _inferred(scored, pairs, options)
    else:
        inferred = [*_inferred(scored[:1], pairs, options), *_inferred(scored[1:], described, options)]
    families = [pairs, *[described] * (len(scored) - 1)]
    parts = [
        part
        for scores, family, inference in zip(scored, families, inferred, strict=True)
        for part in _parts(inputs, options, scores, family, inference, needed)
    ]
    procedure = _procedure_part(inputs, options, parts)
    drafts = drafted_part(inputs, scored[0])
    decisive = [part for part in parts if part.family == "primary"]
    told = [*inputs.warnings, *_of_judge(options), *cautions_of(decisive, options.baseline)]
    told += [] if drafts is None else [drafted_warning(drafts)]
    return Comparison(
        conclusion=conclusion_of(
            decisive,
            procedure,
            compared_of(
                inputs, options.commands(inputs), None if options.judge is None else options.judge.means(scored[0])
            ),
            None if inputs.are_pairs_by_name else inputs.names[ranked[0]],
            None if selection is None else selection.corrected,
            partial(depend_on_unjudged, inputs, margin=options.margin),
        ),
        selection=selection,
        judge=None
        if options.judge is None
        else judge_part(options.judge, scored[0], pairs, two[0], options.margin, options.procedure.level),
        comparisons=parts,
        procedure=procedure,
        primary_metric=inputs.primary,
        metrics=list(inputs.metrics),
        settings=list(inputs.names),
        queries=len(inputs.queries),
        warnings=[WarningPart(code=warning.code, message=warning.message) for warning in told],
        drafted=drafts,
    )


def primary_comparisons(inputs: ComparisonInput, options: ComparisonOptions) -> list[ComparisonPart]:
    """The comparisons by the primary metric alone, as ``compare_settings`` has them, without a judge."""
    scores = inputs.scores(inputs.primary)
    ranked = _ranked(inputs, scores, options, None)
    pairs = _best_first(inputs.pairs(), ranked) if options.baseline is None else inputs.pairs(options.baseline)
    (inference,) = _inferred([scores], pairs, options)
    return list(_parts(inputs, options, scores, pairs, inference, None))


def close_comparisons(comparison: Comparison, *, everything: bool = False) -> Sequence[ComparisonPart]:
    """By the primary metric, largest difference first: all against a baseline, or of many pairs those with the best.

    The best is the baseline of all of them; of few pairs its own come first, then those of the next. Over no queries
    there is no difference: these come last. ``everything`` means all, however many.
    """
    rows = [part for part in comparison.comparisons if part.metric == comparison.primary_metric]
    rows.sort(key=lambda part: math.inf if part.gain is None else -part.gain)
    if comparison.procedure.baseline:
        return rows
    beaten = Counter(part.baseline for part in rows)  # the better of two is its baseline: of the best most are
    rows.sort(key=lambda part: math.inf if part.difference is None else -beaten[part.baseline])
    if everything or len(rows) <= MOST_PAIRS:
        return rows
    (best,) = {part.baseline for part in rows} - {part.setting for part in rows}
    return [part for part in rows if part.baseline == best]


def _means(scores: PairedScores, options: ComparisonOptions) -> Scores:
    """The mean of each setting over the queries that count for it, 0 over none; with a judge as both estimate it."""
    if options.judge is not None:
        return np.nan_to_num(options.judge.means(scores))
    counted = ~np.isnan(scores.values)
    sums = np.where(counted, scores.values, 0.0).sum(axis=1)
    return np.asarray(sums / np.maximum(counted.sum(axis=1), 1))


def _ranked(
    inputs: ComparisonInput, scores: PairedScores, options: ComparisonOptions, selection: SelectionPart | None
) -> list[int]:
    """The places of the settings, best mean first; the one of ``selection`` before those that are equal to it."""
    means = inputs.sign(scores.metric) * _means(scores, options)
    if selection is not None and selection.setting is not None:
        means[inputs.place(selection.setting)] = np.inf
    return [int(place) for place in np.argsort(-means, kind="stable")]


def _best_first(pairs: Sequence[Pair], ranked: Sequence[int]) -> tuple[Pair, ...]:
    """The pairs with the better mean as the baseline: how much is lost with the other."""
    ranks = {place: rank for rank, place in enumerate(ranked)}
    turned = [ranks[pair.setting] < ranks[pair.baseline] for pair in pairs]
    return tuple(Pair(one.setting, one.baseline) if turn else one for one, turn in zip(pairs, turned, strict=True))


def _inferred(scored: Sequence[PairedScores], pairs: Sequence[Pair], options: ComparisonOptions) -> list[Inference]:
    if options.judge is not None:
        return [one.inference for one in _two_phase(scored, pairs, options.judge, options)]
    places = np.array([(pair.setting, pair.baseline) for pair in pairs], dtype=np.int64).reshape(-1, 2)
    return infer_by(options.procedure_name, [Family(scores.values, places) for scores in scored], options.procedure)


def _two_phase(
    scored: Sequence[PairedScores], pairs: Sequence[Pair], side: JudgeSide, options: ComparisonOptions
) -> list[TwoPhaseInference]:
    return infer_two_phase([side.sample(scores, pairs) for scores in scored], options.procedure)


def _of_judge(options: ComparisonOptions) -> Sequence[ReportWarning]:
    return () if options.judge is None else options.judge.warnings


def _selection(inputs: ComparisonInput, scores: PairedScores, options: ComparisonOptions) -> SelectionPart:
    if options.judge is None:
        return select_winner(inputs, seed=options.procedure.seed)
    means = options.judge.means(scores)
    known = bool(np.isfinite(means).any())
    best = int(np.nanargmax(inputs.sign(inputs.primary) * means)) if known else 0
    said = "people judged no question, so no setting was chosen"
    if known:
        said = f"{inputs.names[best]}: estimated mean {means[best]:.4f}, from people's labels and the judge's grades"
    return SelectionPart(
        metric=inputs.primary,
        setting=inputs.names[best] if known else None,
        mean=float(means[best]) if known else None,
        corrected=None, ci=None, optimism=None, chosen={}, n=len(inputs.people or ()), draws=0,
        seed=options.procedure.seed,
        sentence=said,
    )  # fmt: skip


def _parts(
    inputs: ComparisonInput, options: ComparisonOptions, scores: PairedScores, pairs: Sequence[Pair],
    inference: Inference, needed: Sequence[int | None] | None,
) -> Iterator[ComparisonPart]:  # fmt: skip
    """``needed`` are the questions that people would have to judge by the primary metric; None without a judge."""
    kind: FamilyKind = "primary" if scores.metric == inputs.primary else "descriptive"
    judged = [judged_share(setting, scores.metric) for setting in inputs.settings]
    sign = inputs.sign(scores.metric)
    evidences = evidence_of(inference, options.margin, sign)
    estimated = None if options.judge is None else options.judge.means(scores)
    if needed is not None and kind == "primary":
        evidences = [
            replace(one, queries_needed=n, queries_to_settle=None) for one, n in zip(evidences, needed, strict=True)
        ]
    for row, (pair, evidence) in enumerate(zip(pairs, evidences, strict=True)):
        (differences,) = scores.differences([pair])
        both = ~np.isnan(differences)
        wins, losses = np.count_nonzero(sign * differences > 0), np.count_nonzero(sign * differences < 0)
        verdict = verdict_of(evidence, options.margin)
        deviation = float(inference.deviation[row])
        difference = _number(inference.mean[row])
        yield ComparisonPart(
            metric=scores.metric,
            better="higher" if sign > 0 else "lower",
            family=kind,
            baseline=inputs.settings[pair.baseline].name,
            setting=inputs.settings[pair.setting].name,
            mean_baseline=_mean(scores.values[pair.baseline][both])
            if estimated is None
            else _number(estimated[pair.baseline]),
            mean=_mean(scores.values[pair.setting][both]) if estimated is None else _number(estimated[pair.setting]),
            difference=difference,
            ci=None if evidence.low is None else (_number(inference.low[row]), _number(inference.high[row])),
            p=_number(inference.p[row]),
            p_corrected=_number(inference.p_corrected[row]),
            wins=wins,
            ties=evidence.n - wins - losses,
            losses=losses,
            effect_size=difference / deviation if difference is not None and deviation > 0 else None,
            skewness=_number(inference.skewness[row]),
            n=evidence.n,
            caution=None
            if evidence.low is None
            else caution_of(evidence.n, evidence.differing, inference.skewness[row]),
            verdict=verdict if kind == "primary" else None,
            sentence=sentence_of(verdict, evidence, options.margin),
            detectable=evidence.detectable,
            queries_needed=evidence.queries_needed,
            queries_to_settle=evidence.queries_to_settle,
            judged_baseline=judged[pair.baseline],
            judged=judged[pair.setting],
        )


def judged_share(setting: ComparedSetting, metric: str) -> float | None:
    """The mean share of judged hits where ``metric`` cuts; None if the report has none for that cutoff."""
    k = parse_metric(metric).k
    known = setting.part.scores.get("judged" if k is None else f"judged@{k}")
    return None if known is None else known.mean


def _procedure_part(
    inputs: ComparisonInput, options: ComparisonOptions, parts: Sequence[ComparisonPart]
) -> ProcedurePart:
    comparisons = sum(part.family == "primary" for part in parts)
    sentence = f"Too little data to compare: no two settings differ on {LEAST_DIFFERENCES} or more queries."
    if any(part.wins + part.losses >= LEAST_DIFFERENCES for part in parts):
        sentence = _procedure_sentence(options, comparisons, len(inputs.queries))
    return ProcedurePart(
        name=options.procedure_name,
        confidence=1 - options.procedure.level,
        margin=options.margin,
        flips=options.procedure.flips,
        seed=options.procedure.seed,
        baseline=options.baseline,
        comparisons=comparisons,
        sentence=sentence,
    )


def _procedure_sentence(options: ComparisonOptions, comparisons: int, queries: int) -> str:
    card, procedure = PROCEDURES[options.procedure_name], options.procedure
    if options.judge is not None:
        family = "" if comparisons == 1 else (
            f", simultaneous for {counted(comparisons, 'comparison')} ({procedure.flips:,} draws, seed "
            f"{procedure.seed})"
        )  # fmt: skip
        return (
            f"Two-phase regression of people's differences on the judge's (Cochran 1977, chapter 12); "
            f"{percent(1 - procedure.level)} t intervals{family}."
        )
    if card.name != DEFAULT:
        drawn = f" {procedure.flips:,} {card.draws}, seed {procedure.seed}." if card.draws else ""
        return f"{card.name}: {card.sentence}{drawn} Level {procedure.level:g}. {card.caveat}"
    procedure = procedure.limited_to(comparisons)
    drawn = f"{procedure.flips:,} flips" if not takes_all(queries, procedure) else f"all {2**queries:,} flips"
    drawn = f"{drawn}, {procedure.flips:,} resamples, seed {procedure.seed}"
    family = "" if comparisons == 1 else f", simultaneous for {counted(comparisons, 'comparison')}"
    intervals = f"{percent(1 - procedure.level)} intervals{family}"
    return f"Paired sign-flip test and balanced bootstrap-t (max-t, {drawn}); {intervals}."


def _mean(values: Scores) -> float | None:
    return float(values.mean()) if len(values) else None


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None
