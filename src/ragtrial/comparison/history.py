"""The history of an experiment: its runs in the order of time, and the steps between them that are not chance.

A run is compared, setting by setting, with the last accepted run: the first one, then each run that shows a step. The
levels of these comparisons add up to the level of the history, so that runs that move by noise alone show a false step
with at most this probability, however many they are. A step begins a new sequence; a break does not.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from ragtrial.comparison.comparing import ComparisonOptions, primary_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput, Pair, PairedScores, input_of
from ragtrial.comparison.judged_rankings import depend_on_unjudged
from ragtrial.comparison.number_text import percent, signed, signed_interval
from ragtrial.comparison.report_inputs import why_incomparable
from ragtrial.comparison.statistics.estimates import finite
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Procedure, Sample
from ragtrial.errors import ComparisonError, DamagedReportError, ReportError, counted, listed
from ragtrial.evaluation.clusters import Places
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.records import Direction
from ragtrial.report.find import list_runs
from ragtrial.report.model import Report, load_report, run_time, time_text
from ragtrial.report.schema import Part

_LONGEST_VALUE = 60
"""The most characters of a value of a config."""

_MOST_CHANGES = 8

AFTER_STEP = 4
"""The number that the comparisons after a step go on from. A run that shows a step scored high or low by some chance,
too, so that noise alone more often differs from it; at these levels that shows another step in at most 5% of cases."""


class PointPart(Part):
    """A setting in a run, and its difference from the last accepted run."""

    setting: str
    """Its name in the newest run that has it: a setting that was renamed keeps its fingerprint."""

    mean: float | None
    n: int
    accepted: str | None
    """The run that it is compared with; null where its line begins, also after a break."""

    accepted_mean: float | None
    difference: float | None
    ci: tuple[float, float] | None
    """All intervals of the history since the last step hold together with its confidence; null if fewer than ten
    questions (or clusters) differ."""

    step: Literal["better", "worse"] | None
    """Whether the difference is shown; null for no step."""

    depends_on_unjudged: bool = False
    """True for a step that labels of unjudged hits could take back."""


class HistoryRunPart(Part):
    """A run, its settings, and what is not as in the run before."""

    run_id: str
    time: str
    points: list[PointPart]
    breaks: list[str] = Field(default=[])
    """Why it is not comparable with the runs before; empty if it is."""

    changes: list[str] = Field(default=[])
    """Config, documents, labels and versions that changed since the run before."""

    sentences: list[str]
    """Its steps in words."""


class HistoryPart(Part):
    """The runs of an experiment, oldest first, and what may be said of them."""

    experiment: str
    metric: str
    better: Direction
    confidence: float
    runs: list[HistoryRunPart]
    left_out: list[str]
    """Runs that cannot be read, or lack the metric, and why."""

    sentences: list[str]
    """The state of the history; the first sentence is the headline."""


@dataclass(frozen=True)
class Outcome:
    """The comparison of a row of scores with the accepted row; without a test there is no interval."""

    accepted: int
    difference: float | None
    interval: tuple[float, float] | None = None
    claim: int = 0
    """1 if the difference is shown to be above 0, -1 if below, else 0."""


@dataclass
class Steps:
    """The sequence of comparisons with accepted runs; ``number`` counts them, and is set back by a step."""

    procedure: Procedure
    number: int = 0

    def follow(
        self, scores: PairedScores, runs: Sequence[Mapping[str, int]], clusters: Places | None
    ) -> Iterator[dict[str, Outcome]]:
        """For each of ``runs``, the outcome of each line except lines that begin; a run has the row of each line.

        A row that has the scores of an earlier one since the last step is no new comparison: the outcome is the same.
        The other lines of a run are one family.
        """
        lines: dict[str, dict[int, Outcome]] = {}  # rows since the accepted one, which is the first
        for run in runs:
            outcomes, pairs = dict[str, Outcome](), dict[str, Pair]()
            for line, row in run.items():
                earlier = lines.get(line, {})
                if repeated := _repeated(scores, list(earlier), row):
                    outcomes[line] = earlier[repeated[0]]
                elif earlier:
                    pairs[line] = Pair(next(iter(earlier)), row)
            outcomes |= zip(pairs, self._compared(scores, [*pairs.values()], clusters), strict=True)
            for line, row in run.items():
                if line not in outcomes or outcomes[line].claim:
                    lines[line] = {row: Outcome(row, 0.0)}
                else:
                    lines[line][row] = outcomes[line]
            yield outcomes

    def _compared(self, scores: PairedScores, pairs: Sequence[Pair], clusters: Places | None) -> list[Outcome]:
        family = scores.family(pairs, clusters)
        if not pairs:
            return []
        self.number += bool(Sample(family).tested.any())
        (inference,) = infer([family], self.procedure.with_alpha_spending(max(self.number, 1)))
        if inference.claims.any():
            self.number = AFTER_STEP
        numbers = zip(pairs, inference.mean, inference.low, inference.high, inference.claims, strict=True)
        return [
            Outcome(pair.baseline, finite(mean), None if np.isnan(low) else (float(low), float(high)), int(claim))
            for pair, mean, low, high, claim in numbers
        ]


def _repeated(scores: PairedScores, rows: Sequence[int], row: int) -> list[int]:
    """Those of ``rows`` that have the scores of ``row``, for the same queries."""
    differences = scores.differences([Pair(other, row) for other in rows])
    unknown = np.isnan(scores.values[[*rows, row]])
    is_equal = (np.nan_to_num(differences) == 0.0) & (unknown[:-1] == unknown[-1])
    return [other for other, equal in zip(rows, is_equal.all(axis=1), strict=True) if equal]


def experiment_runs(folder: Path) -> tuple[list[Report], list[str]]:
    """The runs below ``folder`` in the order of time, and a sentence about each that is left out.

    A run that was scored again counts once, by its newest scores, at the time of the run.
    """
    reports, roots, left_out = dict[str, Report](), dict[str, str](), list[str]()
    for path in list_runs(folder):
        try:
            report = load_report(path)
        except ReportError as error:
            left_out.append(str(error))
            continue
        if reason := _why_left_out(report, roots):
            left_out.append(f"{path.name}: {reason}.")
            continue
        root = roots.get(report.parent, report.parent) if report.parent else report.run_id
        roots[report.run_id] = root
        reports[root] = report
    return [reports[root] for root in sorted(reports, key=lambda root: root.partition("-")[0])], left_out


def _why_left_out(report: Report, known: Collection[str]) -> str:
    if run_time(report.run_id) is None or report.run_id in known:
        return "its id is that of another run, or not an id"
    if report.search is not None and report.search.is_adaptive:
        return "a search chose its settings by scores on these questions"
    return "" if report.settings and report.queries else "it has no settings, or no queries"


def history_of(
    reports: Sequence[Report], left_out: Sequence[str], *, metric: str | None = None, confidence: float = 0.95
) -> HistoryPart:
    """The history of ``reports``, oldest first, by ``metric``, or else by the primary metric of the newest run.

    Raises ComparisonError if no run has the metric.
    """
    metric = metric or reports[-1].primary_metric
    metric = metric if any(metric in report.metrics for report in reports) else str(parse_metric(metric))
    scored = [report for report in reports if _has(report, metric)]
    if not scored:
        raise ComparisonError(f"no run has {metric!r}; the newest one has: {listed(reports[-1].metrics, 40)}.")
    lacking = [f"{report.run_id}: it does not have {metric}." for report in reports if not _has(report, metric)]
    lines, steps = _lines(scored), Steps(Procedure(level=round(1 - confidence, 12)))
    runs: list[HistoryRunPart] = []
    for start, end, breaks in _stretches(scored, metric):
        inputs = input_of(scored[start:end], [metric], all_pairs=True, may_be_one=True, may_be_unlabelled=True)
        stretch = _Stretch(inputs, lines[start:end], confidence)
        for number, part in enumerate(stretch.runs(steps), start):
            changes = _changes(scored[number - 1], scored[number]) if number else []
            runs.append(part.model_copy(update={"changes": changes, "breaks": breaks if number == start else []}))
    return HistoryPart(
        experiment=scored[-1].experiment,
        metric=metric,
        better="higher" if scored[-1].sign(metric) > 0 else "lower",
        confidence=confidence,
        runs=runs,
        left_out=[*left_out, *lacking],
        sentences=list(_state(runs)),
    )


def _has(report: Report, metric: str) -> bool:
    names = [setting.scores.keys() & setting.per_query.evaluations.keys() for setting in report.settings]
    return all(metric in own for own in (report.metrics, *names))


def _stretches(reports: Sequence[Report], metric: str) -> Iterator[tuple[int, int, list[str]]]:
    """The first report and the end of each stretch of comparable runs, and why it is not comparable with the last."""
    start, breaks = 0, list[str]()
    for number in range(1, len(reports)):
        if reasons := why_incomparable(reports[start], reports[number], metric):
            yield start, number, breaks
            start, breaks = number, reasons
    yield start, len(reports), breaks


def _lines(reports: Sequence[Report]) -> list[dict[str, str]]:
    """For each report the line of each setting by its name.

    A line has the name of its newest setting. A setting whose name no later run has continues the line of the later
    setting with the same fingerprint.
    """
    lines, known, by_fingerprint = list[dict[str, str]](), set[str](), dict[str, str]()
    for report in reversed(reports):
        own: dict[str, str] = {}
        names = {setting.name for setting in report.settings}
        for setting in report.settings:
            twin = by_fingerprint.get(setting.fingerprint, setting.name)
            is_renamed = setting.name not in known and twin not in names and twin not in own.values()
            own[setting.name] = twin if is_renamed else setting.name
        known |= set(own.values())
        by_fingerprint |= {setting.fingerprint: own[setting.name] for setting in report.settings}
        lines.insert(0, own)
    return lines


@dataclass(frozen=True, eq=False)
class _Stretch:
    """Comparable runs: ``lines`` has the line of each setting of each run."""

    inputs: ComparisonInput
    lines: Sequence[Mapping[str, str]]
    confidence: float

    def runs(self, steps: Steps) -> Iterator[HistoryRunPart]:
        inputs, scores = self.inputs, self.inputs.scores(self.inputs.primary)
        numbers = {name: number for number, name in enumerate(inputs.report_names)}
        rows: list[dict[str, int]] = [{} for _ in self.lines]
        for row, setting in enumerate(inputs.settings):
            number = numbers[setting.report_name]
            rows[number][self.lines[number][setting.part.name]] = row
        for own, outcomes in zip(rows, steps.follow(scores, rows, inputs.clusters), strict=True):
            points = [self._point(line, row, scores, outcomes.get(line)) for line, row in own.items()]
            report = inputs.settings[next(iter(own.values()))].report
            sentences = [self._sentence(point) for point in points if point.step]
            time = time_text(report.parent or "") or time_text(report.run_id)
            yield HistoryRunPart(run_id=report.run_id, time=time, points=points, sentences=sentences)

    def _point(self, line: str, row: int, scores: PairedScores, outcome: Outcome | None) -> PointPart:
        inputs, sign = self.inputs, self.inputs.sign(self.inputs.primary)
        claim = outcome.claim * sign if outcome else 0
        return PointPart(
            setting=line,
            mean=finite(scores.means[row]),
            n=int(np.count_nonzero(~np.isnan(scores.values[row]))),
            accepted=inputs.settings[outcome.accepted].report.run_id if outcome else None,
            accepted_mean=finite(scores.means[outcome.accepted]) if outcome else None,
            difference=outcome.difference if outcome else None,
            ci=outcome.interval if outcome else None,
            step=("better" if claim > 0 else "worse") if claim else None,
            depends_on_unjudged=bool(claim and outcome and self._depends(outcome.accepted, row)),
        )

    def _depends(self, accepted: int, row: int) -> bool:
        """True if labels of unjudged hits could take a step back; False if that is unknown."""
        pair = self.inputs.only([self.inputs.names[accepted], self.inputs.names[row]])
        options = ComparisonOptions(pair.names[0])
        with suppress(DamagedReportError):
            return any(depend_on_unjudged(pair, primary_comparisons(pair, options), options.margin))
        return False

    def _sentence(self, point: PointPart) -> str:
        difference, ends = signed(point.difference, point.n), signed_interval(point.ci, point.n, " to ")
        labels = " with the current labels" if point.depends_on_unjudged else ""
        than = f"{point.step} than in run {point.accepted}{labels}"
        return f"{point.setting} is {than}: {self.inputs.primary} {difference} ({percent(self.confidence)} CI {ends})."


def _state(runs: Sequence[HistoryRunPart]) -> Iterator[str]:
    """The state of the history: the newest step, the runs since then, and the comparisons that show nothing."""
    newest = runs[-1]
    last = max((number for number, run in enumerate(runs) if run.sentences), default=0)
    since = runs[last + 1 :]
    if len(runs) == 1:
        yield f"One run so far, of {newest.time}: a step needs two."
    elif newest.breaks:
        yield f"The newest run is not comparable with the runs before: {newest.breaks[0]}"
    elif newest.sentences:
        yield f"Step in the newest run: {newest.sentences[0]}"
        yield from newest.sentences[1:]
    else:
        shown = counted(len(since), "run") if len(since) > 1 else "run"
        yield f"No step is shown in the {shown} since {runs[last].time}."
    if last and since:
        yield from (f"Last step, {runs[last].time}: {sentence}" for sentence in runs[last].sentences)
    broken = [run for run in since[:-1] if run.breaks]
    if broken and not newest.breaks:
        yield f"The runs since {broken[-1].time} are not comparable with those before: {broken[-1].breaks[0]}"
    points = [point for run in since for point in run.points if point.accepted]
    few = sum(point.ci is None and point.difference != 0 for point in points)
    if few:
        units = "questions, or clusters of them"
        yield f"In {few:,} of {counted(len(points), 'comparison')} since then fewer than ten {units}, differ: too few."


def _changes(before: Report, after: Report) -> list[str]:
    """Documents, labels, versions, config and other inputs that are not as in the run before."""
    ours, theirs = _facts(before), _facts(after)
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    changes = [f"{name}: {ours.get(name, 'none')} → {theirs.get(name, 'none')}" for name in names]
    known = {setting.name: setting.fingerprint for setting in before.settings}
    unlike = [own.name for own in after.settings if known.get(own.name, own.fingerprint) != own.fingerprint]
    if unlike and not changes:
        changes = [f"other inputs of {listed(unlike)}, such as the files of a model or a function"]
    more = len(changes) - _MOST_CHANGES
    return [*changes[:_MOST_CHANGES], *([f"{more:,} more"] if more > 0 else [])]


def _facts(report: Report) -> dict[str, str]:
    data, packages = report.dataset, report.environment.get("packages")
    versions = {"Python": report.environment.get("python"), **(packages if isinstance(packages, dict) else {})}
    return {
        "documents": f"{data.documents} ({str(data.documents_fingerprint)[:6]})",
        "questions and labels": f"{data.queries} ({data.labels_fingerprint[:6]})",
        **{name: str(version) for name, version in versions.items()},
        **dict(_flat(report.config)),
    }


def _flat(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """The keys of a config with dots, and their values as JSON, cut to be read."""
    if isinstance(value, Mapping) and value:
        for name, own in value.items():
            yield from _flat(own, f"{key}.{name}" if key else str(name))
    else:
        text = json.dumps(value, ensure_ascii=False, default=str)
        yield key, text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
