"""The comparison of settings: every metric of every pair, with verdicts."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import numpy as np

from ragtrial.comparison.commands import Commands, commands_about
from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput, Pair, PairedScores, input_of
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart, JudgePart, ProcedurePart
from ragtrial.comparison.conclusion import conclude
from ragtrial.comparison.evidence import Evidence, cautions_of, evidence_of, too_wide
from ragtrial.comparison.judge import JudgeSide, judge_part, judge_side, people_needed, read_judgments
from ragtrial.comparison.judged_rankings import depend_on_unjudged
from ragtrial.comparison.number_text import percent
from ragtrial.comparison.report_inputs import Reference
from ragtrial.comparison.selection import SelectionPart, select_winner
from ragtrial.comparison.statistics.estimates import finite, mean_of
from ragtrial.comparison.statistics.flips import takes_all
from ragtrial.comparison.statistics.procedures import TwoPhaseInference, infer, infer_two_phase
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Inference, Procedure, Sample
from ragtrial.dataset.resolution import drafted_share
from ragtrial.errors import ComparisonError, counted, listed
from ragtrial.evaluation.clusters import LEAST_CLUSTERS, clusters_of
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import metric_called
from ragtrial.records import ReportWarning
from ragtrial.report.schema import WarningPart
from ragtrial.scoring.tables.reading import directions_of
from ragtrial.scoring.tables.table_report import AMOUNT

MOST_DESCRIBED = 1_000
"""With more pairs, metrics that decide nothing are compared only for the pairs with the best setting."""

_NOT_CHANCE = 1.645
"""With so many standard errors above 1, a design effect of independent questions is reached in about 5% of cases."""

MOST_SETTINGS = 50
"""A run of more settings gives no conclusion unless asked: all pairs would take long."""


@dataclass(frozen=True)
class ComparisonOptions:
    """The baseline of a comparison (None: all pairs), the difference that does not matter, and the procedure."""

    baseline: str | None = None
    margin: float = 0.02
    procedure: Procedure = field(default_factory=Procedure)
    judge: JudgeSide | None = None
    """A judge that judged queries in addition to people; then ``judge.inputs`` is compared."""

    judge_file: str = ""
    config: str | None = None
    """The config of the reports, as a command names it; None if it is not known."""

    labels: str = ""
    """The file of the labels, if it is not the config's."""

    shows_axes: bool = False
    """True if the effects of options are shown with the comparison."""

    def commands(self, inputs: ComparisonInput) -> Commands:
        """Commands that go on from a comparison of ``inputs`` with these options."""
        level = self.procedure.level
        common = ["--margin", f"{self.margin:.12g}"] if self.margin != usual_margin(inputs) else []
        common += ["--confidence", f"{1 - level:.12g}"] if level != Procedure.level else []
        common += ["--common"] if inputs.is_common else []
        own = ["--judge", self.judge_file] if self.judge_file else []
        commands = commands_about(inputs, common, own, self.config)
        return replace(commands, labels=self.labels or commands.labels, after_axes=self.shows_axes)


def usual_margin(inputs: ComparisonInput) -> float:
    """0.02; none, which is 0, for times and amounts and for scores beyond 0 to 1, as tables may have."""
    values = inputs.scores(inputs.primary).values
    is_share = inputs.report.has_rankings or not (AMOUNT.search(inputs.primary) or ((values < 0) | (values > 1)).any())
    return ComparisonOptions.margin if is_share else 0.0


def options_of(
    inputs: ComparisonInput, *, margin: float | None = None, confidence: float = 0.95, flips: int = 10_000,
    seed: int = 0,
) -> ComparisonOptions:  # fmt: skip
    """The options for comparing ``inputs``; ``usual_margin`` without a ``margin``.

    Raises ComparisonError for a number out of range, or a margin that exceeds the range of the metric.
    """
    margin = usual_margin(inputs) if margin is None else margin
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
    if error := too_wide(margin, inputs.primary):
        raise ComparisonError(error)
    return ComparisonOptions(inputs.baseline, margin, Procedure(level, flips, seed))


def compare(
    *reports: Reference,
    baseline: Reference | None = None,
    settings: Sequence[str] | None = None,
    metric: str | None = None,
    metrics: Sequence[str] | None = None,
    margin: float | None = None,
    confidence: float = 0.95,
    all_pairs: bool = False,
    common: bool = False,
    flips: int = 10_000,
    seed: int = 0,
    directory: str | Path = "results",
    judge: str | Path | None = None,
    lower_is_better: Collection[str] = (),
    higher_is_better: Collection[str] = (),
) -> Comparison:
    """Show which settings of one or more reports are better, by how much, and how certain that is.

    A report is a ``Report``, the runs that ``score`` scored, a folder, an id or ``latest`` (looked up in
    ``directory``), or one of its settings, ``REPORT:SETTING``; settings of several reports have such names, too. It may
    also be a table of scores per question: a CSV or JSON file, a result file of another tool, a data frame. ``print``
    shows the conclusion and the table of verdicts. All others are compared with ``baseline``, a setting or a report
    (then with the settings of equal names). By default all pairs are compared, and of several reports the first is the
    baseline, unless ``all_pairs`` is set. ``metric`` decides (default: the first of ``metrics``, or the primary metric
    of the first report); the others are shown with it. A difference below ``margin`` does not matter (default: 0.02; 0
    for times, amounts and scores beyond 0 to 1). All intervals of a metric hold simultaneously with the probability
    ``confidence``. ``common`` limits the comparison to queries with the same labels in all reports. ``judge`` is a file
    of a model's judgments, which narrow the intervals. ``lower_is_better`` and ``higher_is_better`` name metrics of
    tables.

    Raises InputError for reports that cannot be read or compared, and for numbers out of range.
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
        better=directions_of(lower_is_better, higher_is_better),
    )
    options = options_of(inputs, margin=margin, confidence=confidence, flips=flips, seed=seed)
    if judge is not None:
        options = with_judge(inputs, options, judge)
    return compare_settings(inputs if options.judge is None else options.judge.inputs, options)


def with_judge(inputs: ComparisonInput, options: ComparisonOptions, file: str | Path) -> ComparisonOptions:
    """The options for comparing ``inputs`` with the judgments of ``file``.

    Raises InputError for judgments that cannot be read, or not be used with these labels.
    """
    return replace(options, judge=judge_side(inputs, read_judgments(file)), judge_file=str(file))


def compare_settings(inputs: ComparisonInput, options: ComparisonOptions) -> Comparison:
    """All comparisons of ``inputs``. Raises ReportError if the baseline does not exist."""
    inputs = replace(inputs, baseline=options.baseline)
    comparing, judge = _Comparing(inputs, options), options.judge
    parts = comparing.parts()
    decisive = [part for part in parts if part.family == "primary"]
    selection = None if _are_identical(decisive) else comparing.selection
    procedure = _procedure_part(inputs, options, decisive)
    drafts = drafted_share([query.tags for query in inputs.queries])
    warnings = [*inputs.warnings, *(judge.warnings if judge else ())]
    warnings += cautions_of(decisive, options.baseline, are_joined=inputs.are_joined_by_document)
    warnings += comparing.unnamed_clusters(decisive)
    warnings += [] if drafts is None else [drafts]
    shown = [part for part in parts if part.ci and part.ci[0] * part.ci[1] > 0 and not AMOUNT.search(part.metric)]
    gains = {(part.setting, part.baseline): part.gain or 0.0 for part in shown if part.family == "primary"}
    others = [part for part in shown if (part.gain or 0.0) * gains.get((part.setting, part.baseline), 0.0) < 0]
    if others and not inputs.report.has_rankings:
        named = listed((f"{part.metric} for {part.setting} against {part.baseline}" for part in others), 3)
        message = f"other metrics show the opposite of {inputs.primary}: {named}. --metrics all shows every metric."
        warnings.append(ReportWarning("metrics-disagree", message))
    return Comparison(
        conclusion=conclude(
            inputs,
            decisive,
            procedure,
            options.commands(inputs),
            partial(depend_on_unjudged, inputs, margin=options.margin),
            top=comparing.best,
            expected=None if selection is None else selection.corrected,
            estimated=None if judge is None else comparing.means,
        ),
        selection=selection,
        judge=comparing.judge_part(),
        comparisons=parts,
        procedure=procedure,
        primary_metric=inputs.primary,
        metrics=list(inputs.metrics),
        settings=list(inputs.names),
        queries=len(inputs.queries),
        warnings=[WarningPart(**asdict(warning)) for warning in warnings],
    )


def _are_identical(parts: Sequence[ComparisonPart]) -> bool:
    return {part.verdict for part in parts} == {"identical"}


def primary_comparisons(inputs: ComparisonInput, options: ComparisonOptions) -> list[ComparisonPart]:
    """The comparisons by the primary metric only, as in ``compare_settings``, without a judge."""
    return _Comparing(replace(inputs.limited_to([]), baseline=options.baseline), options, selects=False).parts()


def close_comparisons(comparison: Comparison, *, everything: bool = False) -> Sequence[ComparisonPart]:
    """The comparisons by the primary metric, largest difference first.

    Against a baseline these are all. Among all pairs, these are the pairs with the best setting; ``everything`` adds
    the others below them. Comparisons over no queries come last.
    """
    rows = [part for part in comparison.comparisons if part.metric == comparison.primary_metric]
    rows.sort(key=lambda part: math.inf if part.gain is None else -part.gain)
    if comparison.procedure.baseline:
        return rows
    beaten = Counter(part.baseline for part in rows)  # the better of two is the baseline, so the best has most
    rows.sort(key=lambda part: math.inf if part.difference is None else -beaten[part.baseline])
    if everything or not rows:
        return rows
    (best,) = {part.baseline for part in rows} - {part.setting for part in rows}
    return [part for part in rows if part.baseline == best]


def judged_share(setting: ComparedSetting, metric: str) -> float | None:
    """The mean share of judged hits at the cutoff of ``metric``; None if the report does not have it."""
    k = metric_called(metric).k
    mean = setting.part.scores.get("judged" if k is None else f"judged@{k}")
    return None if mean is None else mean.mean


@dataclass(frozen=True, eq=False)
class _Comparing:
    """One comparison while it is computed. The baseline is ``inputs.baseline``."""

    inputs: ComparisonInput
    options: ComparisonOptions
    selects: bool = True
    """False to rank settings by their means only, without a resampled choice of the best."""

    @cached_property
    def scored(self) -> list[PairedScores]:
        return [self.inputs.scores(metric) for metric in self.inputs.metrics]

    @property
    def primary(self) -> PairedScores:
        return self.scored[0]

    @cached_property
    def means(self) -> Scores:
        """The means of the primary metric, with a judge estimated from both sides; shape (settings,)."""
        judge = self.options.judge
        return self.primary.means if judge is None else judge.means(self.primary)

    @cached_property
    def selection(self) -> SelectionPart | None:
        """The choice of the best setting; None between reports compared name by name, and if the baseline is best."""
        inputs, metric, seed = self.inputs, self.inputs.primary, self.options.procedure.seed
        if inputs.are_pairs_by_name or not self.selects:
            return None
        if self.options.judge is None:
            sign, clusters = inputs.sign(metric), inputs.clusters
            chosen = select_winner(self.primary.values, inputs.names, metric, clusters, sign=sign, seed=seed)
            return chosen if inputs.baseline is None or chosen.setting != inputs.baseline else None
        n = len(inputs.people or ())
        if not np.isfinite(self.means).any():
            sentence = "people judged no question, so no setting was chosen"
            return SelectionPart(metric=metric, n=n, seed=seed, sentence=sentence)
        best = int(np.nanargmax(inputs.sign(metric) * self.means))
        name, mean = inputs.names[best], float(self.means[best])
        sentence = f"{name}: estimated mean {mean:,.4f}, from people's labels and the judge's grades"
        return SelectionPart(metric=metric, setting=name, mean=mean, n=n, seed=seed, sentence=sentence)

    @cached_property
    def ranked(self) -> list[int]:
        """The indices of the settings, best mean first. The selected setting precedes settings equal to it."""
        means = self.inputs.sign(self.inputs.primary) * np.nan_to_num(self.means)
        if self.selection is not None and self.selection.setting is not None:
            means[self.inputs.setting_index(self.selection.setting)] = np.inf
        return [int(index) for index in np.argsort(-means, kind="stable")]

    @property
    def best(self) -> str | None:
        """The setting with the best mean; None if reports are compared name by name."""
        return None if self.inputs.are_pairs_by_name else self.inputs.names[self.ranked[0]]

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, the better mean as the baseline, so that differences are losses; or those with the baseline."""
        if self.inputs.baseline is not None:
            return self.inputs.pairs(self.inputs.baseline)
        ranks = {index: rank for rank, index in enumerate(self.ranked)}
        both = [sorted((pair.baseline, pair.setting), key=ranks.__getitem__) for pair in self.inputs.pairs()]
        return tuple(Pair(*pair) for pair in both)

    @cached_property
    def two_phase(self) -> list[TwoPhaseInference]:
        """With a judge, the inference by each metric; otherwise empty."""
        judge, procedure = self.options.judge, self.options.procedure
        if judge is None:
            return []
        return infer_two_phase([judge.sample(scores, self.pairs) for scores in self.scored], procedure)

    def parts(self) -> list[ComparisonPart]:
        pairs, others = self.pairs, self.pairs
        inferences = [two_phase.inference for two_phase in self.two_phase]
        if len(pairs) > MOST_DESCRIBED and self.inputs.baseline is None and not inferences:
            others = tuple(pair for pair in pairs if pair.baseline == self.ranked[0])
            inferences = [*self._inferred(self.scored[:1], pairs), *self._inferred(self.scored[1:], others)]
        inferences = inferences or self._inferred(self.scored, pairs)
        families = [pairs, *[others] * (len(self.scored) - 1)]
        return [
            part
            for scores, pairs, inference in zip(self.scored, families, inferences, strict=True)
            for part in self._parts(scores, pairs, inference)
        ]

    def judge_part(self) -> JudgePart | None:
        judge, options = self.options.judge, self.options
        if judge is None:
            return None
        return judge_part(judge, self.primary, self.pairs, self.two_phase[0], options.margin, options.procedure.level)

    def _inferred(self, scored: Sequence[PairedScores], pairs: Sequence[Pair]) -> list[Inference]:
        families = [scores.family(pairs, self.inputs.clusters) for scores in scored]
        return infer(families, self.options.procedure)

    def unnamed_clusters(self, parts: Sequence[ComparisonPart]) -> Iterator[ReportWarning]:
        """A warning if ``parts``, by the primary metric, had other verdicts with questions of a document as clusters.

        Nothing is said where labels chain most questions together, or into too few clusters to know anything.
        """
        inputs, pairs = self.inputs, self.pairs
        clusters = clusters_of(inputs.queries, by_document=True, threshold=inputs.report.relevance_threshold)
        if inputs.clusters is not None or self.options.judge is not None or clusters is None or not pairs:
            return
        sizes = self.primary.sizes_of(clusters)
        if len(sizes) < LEAST_CLUSTERS or 2 * sizes.max() > sizes.sum():
            return
        families = [self.primary.family(pairs, own) for own in (None, clusters)]
        samples = map(Sample, families)
        alone, together = (np.square(own.scaled_deviation * own.scale) / own.n for own in samples)
        with np.errstate(invalid="ignore", divide="ignore"):
            effects = together / alone
        least = 1 + _NOT_CHANCE * np.sqrt(2 / (len(sizes) - 1))
        if not (effects >= least).any():
            return
        (inference,) = infer(families[1:], self.options.procedure)
        evidences = evidence_of(inference, self.options.margin, inputs.sign(inputs.primary), self.primary.counts(pairs))
        changed = [
            (float(effect), part, evidence.verdict)
            for effect, part, evidence in zip(effects.tolist(), parts, evidences, strict=True)
            if effect >= least and part.verdict != evidence.verdict
        ]
        if changed:
            effect, part, verdict = max(changed, key=lambda change: change[0])
            more = f"; others that change: {len(changed) - 1:,}" if len(changed) > 1 else ""
            yield ReportWarning.of_verdict(
                "clusters-not-named",
                f"questions with a common relevant document seem to belong together: in {len(sizes):,} clusters, the "
                f"{part.n:,} questions for {part.setting} against {part.baseline} count as about "
                f"{part.n / effect:,.0f} (design effect {effect:.1f}), and the verdict is {verdict}, not "
                f"{part.verdict}{more}. Set evaluators.clusters: document, or name a cluster for each question.",
            )

    def _evidences(self, scores: PairedScores, pairs: Sequence[Pair], inference: Inference) -> list[Evidence]:
        """With a judge, the questions needed by the primary metric are questions that people have to judge."""
        queries = None if self.inputs.clusters is None else scores.counts(pairs)
        evidences = evidence_of(inference, self.options.margin, self.inputs.sign(scores.metric), queries)
        if not self.two_phase or scores is not self.primary:
            return evidences
        needed = people_needed(self.two_phase[0], self.options.margin)
        both = zip(evidences, needed, strict=True)
        return [replace(evidence, queries_needed=n, queries_to_settle=None) for evidence, n in both]

    def _parts(self, scores: PairedScores, pairs: Sequence[Pair], inference: Inference) -> Iterator[ComparisonPart]:
        inputs, judge, metric = self.inputs, self.options.judge, scores.metric
        sign, is_primary = inputs.sign(metric), metric == inputs.primary
        judged = [judged_share(setting, metric) for setting in inputs.settings]
        estimated = None if judge is None else judge.means(scores)
        for row, (pair, evidence) in enumerate(zip(pairs, self._evidences(scores, pairs, inference), strict=True)):
            (differences,) = scores.differences([pair])
            both = ~np.isnan(differences)
            wins, losses = np.count_nonzero(sign * differences > 0), np.count_nonzero(sign * differences < 0)
            evidence = replace(evidence, is_identical=not wins + losses)
            means = [
                mean_of(scores.values[index][both]) if estimated is None else finite(estimated[index])
                for index in (pair.baseline, pair.setting)
            ]
            deviation, difference = float(inference.deviation[row]), finite(inference.mean[row])
            if evidence.clusters is not None:  # the inference has that of clusters
                deviation = float(differences[both].std(ddof=1))
            yield ComparisonPart(
                metric=metric,
                better="higher" if sign > 0 else "lower",
                family="primary" if is_primary else "descriptive",
                baseline=inputs.names[pair.baseline],
                setting=inputs.names[pair.setting],
                mean_baseline=means[0],
                mean=means[1],
                difference=difference,
                ci=None if evidence.low is None else (finite(inference.low[row]), finite(inference.high[row])),
                p=finite(inference.p[row]),
                p_corrected=finite(inference.p_corrected[row]),
                wins=wins,
                ties=evidence.n - wins - losses,
                losses=losses,
                effect_size=difference / deviation if difference is not None and deviation > 0 else None,
                skewness=finite(inference.skewness[row]),
                n=evidence.n,
                clusters=evidence.clusters,
                differing_clusters=None if evidence.clusters is None else evidence.differing,
                caution=evidence.caution,
                verdict=evidence.verdict if is_primary else None,
                sentence=evidence.sentence,
                detectable=evidence.detectable,
                queries_needed=evidence.queries_needed,
                queries_to_settle=evidence.queries_to_settle,
                judged_baseline=judged[pair.baseline],
                judged=judged[pair.setting],
            )


def _procedure_part(
    inputs: ComparisonInput, options: ComparisonOptions, parts: Sequence[ComparisonPart]
) -> ProcedurePart:
    """How ``parts``, the comparisons by the primary metric, were made; by other metrics nothing is claimed."""
    procedure, clusters, comparisons = options.procedure, inputs.clusters, len(parts)
    sizes = None if clusters is None else inputs.scores(inputs.primary).sizes_of(clusters)
    over = ""
    if sizes is not None:
        over = f" over {len(sizes):,} clusters of {sizes.sum():,} questions, the largest of {sizes.max():,}"
    family = "" if comparisons == 1 else f", simultaneous for {counted(comparisons, 'comparison')}"
    confidence = percent(1 - procedure.level)
    if _are_identical(parts):
        sentence = "No two settings differ on any question: there is nothing to test."
    elif all(part.differing < LEAST_DIFFERENCES for part in parts):
        units = "questions" if sizes is None else "clusters of questions"
        few = f"no two settings differ on {LEAST_DIFFERENCES} or more {units}."
        sentence = f"Too little data to compare by {inputs.primary}: {few}"
    elif options.judge is not None:
        family = family and f"{family} ({procedure.flips:,} draws, seed {procedure.seed})"
        sentence = (
            f"Two-phase regression of people's differences on the judge's{over} (Cochran 1977, chapter 12); "
            f"{confidence} t intervals{family}."
        )
    else:
        drawn = procedure.limited_to(comparisons)
        count = len(inputs.queries) if clusters is None else int(clusters.max()) + 1
        flips = f"all {2**count:,} flips" if takes_all(count, drawn) else f"{drawn.flips:,} flips"
        sentence = (
            f"Paired sign-flip test and balanced bootstrap-t{over} (max-t, {flips}, {drawn.flips:,} resamples, seed "
            f"{drawn.seed}); {confidence} intervals{family}."
        )
    return ProcedurePart(
        name="max-t",
        confidence=1 - procedure.level,
        margin=options.margin,
        flips=procedure.flips,
        seed=procedure.seed,
        baseline=options.baseline,
        comparisons=comparisons,
        clusters=None if sizes is None else len(sizes),
        largest_cluster=None if sizes is None else int(sizes.max()),
        sentence=sentence,
    )
