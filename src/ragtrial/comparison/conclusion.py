"""The conclusion of a comparison. Every form of output shows these fields and sentences.

The grammar is in docs/reading-the-result.md: the top setting and how certain that is, a line for each verdict, and one
next step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ragtrial.comparison.commands import Commands
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import (
    ComparisonPart,
    ConclusionKind,
    ConclusionPart,
    FoundPart,
    NextStepPart,
    ProcedurePart,
    Verdict,
    VerdictLinePart,
)
from ragtrial.comparison.evidence import could_be_labelled
from ragtrial.comparison.judged_rankings import could_be_undone
from ragtrial.comparison.number_text import mean_number, percent, signed
from ragtrial.comparison.statistics.estimates import finite, mean_limits
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.errors import counted, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import metric_called
from ragtrial.report.schema import PAID
from ragtrial.scoring.tables.table_report import AMOUNT

MOST_NAMED = 5

WORSE: tuple[Verdict, ...] = ("worse", "worse within the margin")

_ORDER: tuple[Verdict, ...] = (
    "better", "worse", "worse within the margin", "no worse", "inconclusive", "too few differences", "identical",
)  # fmt: skip
"""The order of the lines where the settings are compared with the top one; with a baseline the worse come last."""

ALL_IDENTICAL = "All identical"
"""The headline where all settings have the same score on every question."""

SHOWN = "shown"
"""The label of the line about settings none of which is the highest."""

_NOISE, _NOISE_MS = 1.5, 1.0
"""Latencies differ by less than this factor and so many milliseconds from one measurement to the next."""

_HEADS = {"best": "Best: ", "leading": "Leading: ", "baseline": "Baseline: ", "one setting": ""}


def found_answers(inputs: ComparisonInput) -> FoundPart | None:
    """For how many of the questions that count for all settings each finds an answer where the deciding metric cuts.

    None without a cutoff, where grades of 1 are not relevant, and where a report has no hit_rate at that cutoff.
    """
    k = metric_called(inputs.primary).k
    columns = [setting.part.per_query.evaluations.get(f"hit_rate@{k}") for setting in inputs.settings]
    thresholds = {setting.report.relevance_threshold for setting in inputs.settings}
    if k is None or thresholds != {1} or any(column is None for column in columns):
        return None
    hits = np.array(columns, dtype=np.float64)  # None becomes NaN
    counts = ~np.isnan(hits).any(axis=0) & ~np.isnan(inputs.scores(inputs.primary).values).any(axis=0)
    answered = np.count_nonzero(hits[:, counts] > 0, axis=1).tolist()
    return FoundPart(k=k, questions=int(counts.sum()), by_setting=dict(zip(inputs.names, answered, strict=True)))


def conclude(
    inputs: ComparisonInput,
    parts: Sequence[ComparisonPart],
    procedure: ProcedurePart,
    commands: Commands,
    depend_on_unjudged: Callable[[Sequence[ComparisonPart]], Sequence[bool]],
    *,
    top: str | None,
    expected: float | None = None,
    estimated: Scores | None = None,
) -> ConclusionPart:
    """The conclusion from ``parts``, the comparisons of ``inputs`` by the primary metric.

    ``top`` is the setting with the best mean, ``expected`` its mean on new questions; None where none is sought.
    Without a baseline ``top`` is the baseline of all its comparisons. ``depend_on_unjudged`` says of claims whether
    hits without a label could take them back. ``estimated`` are the means with a judge, for which answers are not
    counted.
    """
    means = inputs.scores(inputs.primary).means if estimated is None else estimated
    reference = None if inputs.are_pairs_by_name else procedure.baseline or top
    shown = {part.setting: part for part in parts if inputs.are_pairs_by_name or part.baseline == reference}
    known = {name: finite(mean) for name, mean in zip(inputs.names, means.tolist(), strict=True)}
    found = found_answers(inputs) if estimated is None else None
    are_identical = all(part.verdict == "identical" for part in parts)
    scored = inputs.scored_queries()
    drawn = _Conclusion(inputs, procedure, commands, known, scored.scored, found, shown, are_identical)
    claims = [shown[name] for name in drawn.named("better", *WORSE, "no worse")]
    unclear = [part.setting for part, depends in zip(claims, depend_on_unjudged(claims), strict=True) if depends]
    is_ranked = drawn.kind in ("best", "leading", "nothing shown", "one setting") and top is not None
    if drawn.kind == "nothing shown":
        elsewhere = drawn.found_elsewhere(parts)
        drawn = replace(drawn, elsewhere=elsewhere, is_elsewhere_unclear=any(depend_on_unjudged(elsewhere)))
    drawn = replace(drawn, unclear=unclear, top=[str(top), *drawn.named("identical")] if is_ranked else [])
    step = drawn.next_step()
    if not commands.reports:  # no command can read them
        step = step.model_copy(update={"command": ""})
    return ConclusionPart(
        kind=drawn.kind,
        metric=inputs.primary,
        better="higher" if drawn.sign > 0 else "lower",
        top=drawn.top,
        score=drawn.means[str(top)] if is_ranked else None,
        expected=expected if is_ranked else None,
        baseline=procedure.baseline,
        scored=scored,
        found=drawn.found,
        verdicts={verdict: names for verdict in _ORDER if (names := drawn.named(verdict))},
        lines=drawn.verdict_lines(),
        depends_on_unjudged=unclear,
        next_step=step,
        sentences=[*drawn.lines(), step.sentence],
    )


@dataclass(frozen=True)
class _Conclusion:
    """A conclusion from the comparisons ``shown``, by setting; ``means`` are of the metric that decides.

    ``found`` counts the questions for which each setting finds an answer; None if that is unknown. ``unclear`` are the
    settings whose verdict holds with the current labels.
    """

    inputs: ComparisonInput
    procedure: ProcedurePart
    commands: Commands
    means: Mapping[str, float | None]
    scored: int
    found: FoundPart | None
    shown: Mapping[str, ComparisonPart]
    are_all_identical: bool
    """If no two compared settings differ on any question."""

    unclear: Sequence[str] = ()
    elsewhere: Sequence[ComparisonPart] = ()
    """If nothing is shown of the highest setting: the settings that another one is shown to be better than."""

    is_elsewhere_unclear: bool = False
    top: list[str] = field(default_factory=list)

    @property
    def baseline(self) -> str | None:
        return self.procedure.baseline

    @property
    def sign(self) -> int:
        return self.inputs.sign(self.inputs.primary)

    @property
    def kind(self) -> ConclusionKind:
        if len(self.means) < 2:
            return "one setting"
        if self.scored < LEAST_DIFFERENCES:
            return "no ranking yet"
        if self.inputs.are_pairs_by_name:
            return "two runs"
        if self.baseline is not None:
            return "baseline"
        worse = len(self.named(*WORSE))
        is_best = worse + len(self.named("identical")) == len(self.shown)
        return "nothing shown" if not worse else "best" if is_best else "leading"

    def ranked(self, names: Sequence[str]) -> list[str]:
        """``names``, best mean first; those without one last."""
        return sorted(names, key=lambda name: math.inf if (mean := self.means[name]) is None else -self.sign * mean)

    def named(self, *verdicts: Verdict) -> list[str]:
        """The settings with these verdicts, verdict by verdict."""
        names = self.ranked(list(self.shown))
        return [name for verdict in verdicts for name in names if self.shown[name].verdict == verdict]

    def found_elsewhere(self, parts: Sequence[ComparisonPart]) -> list[ComparisonPart]:
        """The comparisons in which one setting is shown to be better: those of the setting with most of them."""
        found: dict[str, list[ComparisonPart]] = {name: [] for name in self.ranked(list(self.means))}
        for part in parts:
            if part.verdict in WORSE:
                found[part.baseline].append(part)
        return max(found.values(), key=len)

    def called(self, name: str) -> str:
        """The name of a setting in sentences, short if two reports are compared name by name."""
        is_short = self.inputs.are_pairs_by_name and len(self.inputs.report_names) == 2
        return self.inputs.settings[self.inputs.setting_index(name)].part.name if is_short else name

    def lines(self) -> Iterator[str]:
        """The headline, and a line for each verdict."""
        kind = self.kind
        if kind == "no ranking yet":
            yield f"No ranking yet: {counted(self.scored, 'scored question')}; a ranking needs {LEAST_DIFFERENCES}."
            return
        if kind == "two runs":
            same = identical if len(identical := self.named("identical")) > MOST_NAMED else []
            yield from (self.changed(name) for name in self.shown if name not in same)
            if same:
                yield f"identical: {listed(map(self.called, same), MOST_NAMED)}"
            return
        names = [str(self.baseline)] if kind == "baseline" else self.top
        mean = self.means[names[0]]
        score = "without a score" if mean is None else mean_number(mean, self.scored)
        text = " and ".join(names) if len(names) == 2 else listed(names, MOST_NAMED)
        text += ", identical" if len(names) > 1 and not self.are_all_identical else ""
        extreme = "highest" if self.sign > 0 else "lowest"
        shown = "the best" if self.elsewhere else "better"
        head = _HEADS.get(kind, f"No setting is shown to be {shown}; {extreme}: ")
        head = f"{ALL_IDENTICAL}: " if self.are_all_identical and kind == "nothing shown" else head
        yield f"{head}{text}, {self.inputs.primary} {score}{self.counts(names)}"
        groups = self.verdict_lines()
        width = max((len(group.label) for group in groups), default=0)
        for group in groups:
            ending = "   with the current labels" if group.depends_on_unjudged else ""
            yield f"  {group.label:<{width}}  {listed(group.settings, MOST_NAMED)}{group.detail}{ending}"

    def counts(self, names: Sequence[str]) -> str:
        """How often ``names``, the first settings, find an answer, and in brackets the next setting and the last."""
        if self.found is None:
            return ""
        counts, finds = self.found.by_setting, "it finds" if len(names) == 1 else "they find"
        others = self.ranked([name for name in counts if name not in names])
        rivals = ", ".join(f"{name} {counts[name]:,}" for name in dict.fromkeys([*others[:1], *others[-1:]]))
        return f": {finds} {_answers(self.found, names)}" + (f" ({rivals})" if rivals else "")

    def verdict_lines(self) -> list[VerdictLinePart]:
        """The settings of each verdict; those whose verdict holds with the current labels only are apart."""
        if self.kind in ("no ranking yet", "two runs"):
            return []
        margin = f"{self.procedure.margin:g}"
        no_worse: dict[Verdict, str] = {
            "no worse": f"no worse within {margin}",
            "inconclusive": "inconclusive",
            "too few differences": "too few differences",
        }
        labels: dict[Verdict, str] = {"better": "worse than", "worse": "better than"}
        labels |= {"worse within the margin": f"better, within {margin}", **no_worse}  # the identical are on top, too
        if self.baseline is not None:
            labels = {"better": "better", **no_worse, "identical": "identical", "worse": "worse"}
            labels["worse within the margin"] = f"worse, within {margin}"
        lines = [
            VerdictLinePart(
                label=label,
                settings=names,
                detail=self.difference(self.shown[names[0]]) if len(names) == 1 else "",
                depends_on_unjudged=is_unclear,
            )
            for verdict, label in labels.items()
            for is_unclear in (False, True)
            if (names := [name for name in self.named(verdict) if (name in self.unclear) == is_unclear])
        ]
        if self.elsewhere:
            worse = listed(self.ranked([part.setting for part in self.elsewhere]), MOST_NAMED)
            better, is_unclear = [self.elsewhere[0].baseline], self.is_elsewhere_unclear
            detail = f" better than {worse}"
            lines.append(VerdictLinePart(label=SHOWN, settings=better, detail=detail, depends_on_unjudged=is_unclear))
        return lines

    def difference(self, part: ComparisonPart) -> str:
        """`` (+0.049, 95% CI -0.023 to +0.122)``; nothing where they are equal.

        It is the top setting less the other one; with a baseline, the setting less the baseline. Without an interval
        because of clusters: `` (+0.049; 37 questions differ, but 3 of 5 clusters, fewer than 10)``.
        """
        if part.difference is None or not part.wins + part.losses:
            return ""
        sign = -1 if self.baseline is None else 1
        interval = ""
        if part.ci is not None:
            low, high = (signed(end, self.scored) for end in sorted(sign * end for end in part.ci))
            interval = f", {percent(self.procedure.confidence)} CI {low} to {high}"
        elif part.clusters is not None and part.differing < LEAST_DIFFERENCES <= part.wins + part.losses:
            few = f"{part.differing:,} of {counted(part.clusters, 'cluster')}, fewer than {LEAST_DIFFERENCES}"
            interval = f"; {part.wins + part.losses:,} questions differ, but {few}"
        return f" ({signed(sign * part.difference, self.scored)}{interval})"

    def changed(self, name: str) -> str:
        """The change of a setting from one report to another."""
        part, margin = self.shown[name], f"within {self.procedure.margin:g}"
        if part.mean is None or part.mean_baseline is None:
            return f"{self.called(name)}: no question counts for both"
        before, after = (mean_number(mean, self.scored) for mean in (part.mean_baseline, part.mean))
        verdict = f"no worse {margin}" if part.verdict == "no worse" else str(part.verdict)
        verdict = verdict.replace("within the margin", margin)
        labels = " with the current labels" if name in self.unclear else ""
        counts = ""
        if self.found is not None:
            counts = f"; it finds {_answers(self.found, [name])} (before: {self.found.by_setting[part.baseline]:,})"
        change = f"{part.metric} {before} to {after}{self.difference(part)}"
        return f"{self.called(name)}: {verdict}{labels}, {change}{counts}"

    @property
    def look(self) -> str:
        """The command that shows the questions on which settings differ."""
        return self.commands.compare("--queries")

    def next_step(self) -> NextStepPart:
        """One thing to do next: the first of these that applies."""
        for step in (self._first_labels, self._harden, self._take_winner, self._settle, self._take_cheapest):
            if (found := step()) is not None:
                return found
        if self.are_all_identical:
            action, more = "there is nothing to choose, since no score differs", ""
            if len(self.inputs.report.metrics) > 1:
                action, more = f"{action}; look at other metrics", self.commands.compare("--metrics", "all")
            return NextStepPart(action=action, command=more)
        if self.kind == "baseline":
            return NextStepPart(action=f"keep {self.baseline}; see where it is better", command=self.look)
        if self.kind == "two runs" and self.named("better"):
            return NextStepPart(action="keep the new run; see what has changed", command=self.look)
        return NextStepPart(action="look at the questions that have changed", command=self.look)

    def _label(self, action: str, needed: int = 0, questions: int | None = None) -> NextStepPart:
        """Label ``needed`` more questions; in a table, score them, or fill in its missing scores if so many are."""
        if not self.inputs.report.has_rankings:  # other tools score more questions
            missing = np.isnan(self.inputs.scores(self.inputs.primary).values).sum(axis=1)
            action = action.replace("label", "score", 1)
            if 0 < needed <= missing.max():
                some = f"{missing.max():,} of {counted(len(self.inputs.queries), 'question')}"
                action = f"fill in the missing scores first ({self.inputs.names[missing.argmax()]} has none for {some})"
                questions = None
            return NextStepPart(action=action, command=self.commands.compare(), questions=questions)
        action, command = action + self.commands.about_config, self.commands.label_question()
        return NextStepPart(action=action, command=command, questions=questions)

    def _first_labels(self) -> NextStepPart | None:
        """The next step if no comparison is possible yet, or labels of hits could change it."""
        if self.kind == "one setting" and not self.inputs.report.has_rankings:
            return NextStepPart(action="add the scores of another system", command=self.commands.compare("OTHER"))
        if self.kind == "one setting":
            config = self.inputs.report.config
            retrievers = config.get("retrievers", {}).values()
            if config.get("sweep") or sum(options.get("score", True) for options in retrievers) > 1:
                action = f"run the other settings of the config, too{self.commands.about_config}"
                return NextStepPart(action=action, command=self.commands.run())
            action = "add another setting to the config, to compare it with"
            return NextStepPart(action=action, command="ragtrial list retrievers")
        if self.kind == "no ranking yet":
            noun, needed = "more question" if self.scored else "question", LEAST_DIFFERENCES - self.scored
            return self._label(f"label at least {counted(needed, noun)}", needed)
        if not self.unclear:
            return None
        settling = None if any(map(self.is_unevenly_labelled, self.unclear)) else self._settle()
        if settling is not None and settling.questions is not None:
            return settling
        action = f"label the hits that could change this{self.commands.about_config}"
        return NextStepPart(action=action, command=self.commands.pool())

    def is_unevenly_labelled(self, name: str) -> bool:
        """Check that one of the two settings of a verdict has so many more unlabelled hits that these could change it.

        If all unlabelled hits were relevant, precision would change by the difference of the shares of labelled hits.
        The verdict could change if its interval, wider by as much, allows it; or if a share is unknown.
        """
        part, highest = self.shown[name], mean_limits(self.inputs.primary)[1] or math.inf
        if part.gain_ci is None or part.judged is None or part.judged_baseline is None:
            return True
        low, high = part.gain_ci
        most = highest * abs(part.judged - part.judged_baseline)
        return could_be_undone(part.verdict, low - most, high + most, self.procedure.margin) is not False

    def _harden(self) -> NextStepPart | None:
        """Add harder questions if no setting can score higher, or if all find every answer and differ on too few."""
        highest, found = mean_limits(self.inputs.primary)[1] if self.sign > 0 else None, self.found
        if highest is not None and set(self.means.values()) == {highest}:
            return self._label("add harder questions: every setting has the highest possible score on every question")
        are_alike = len(self.named("too few differences", "identical")) == len(self.shown)
        if self.kind != "nothing shown" or not are_alike or found is None:
            return None
        if set(found.by_setting.values()) != {found.questions}:
            return None
        return self._label(
            f"add harder questions: every setting finds an answer in the first {found.k} for each of these"
        )

    def _take_winner(self) -> NextStepPart | None:
        action, better = "", self.named("better")
        if self.kind == "two runs" and self.named(*WORSE):
            action = "look at the questions that are answered worse now"
        elif self.kind == "baseline" and better:
            action = f"replace {self.baseline} by {self.winner(better[0], [str(self.baseline)])}"
        elif self.kind == "best":
            action = f"use {self.winner(self.top[0], self.named(*WORSE))}"
        return NextStepPart(action=action, command=self.look) if action else None

    def winner(self, name: str, rivals: Sequence[str]) -> str:
        """``a, at a higher cost (12.1 ms per query, b 0.4), after a look at the questions that it loses``.

        Each cost that is clearly higher is shown with the least of ``rivals``. Questions are lost to any of them.
        """
        parts, higher = [self.shown[name]] if self.baseline else self.shown.values(), []
        loses = any(part.losses if self.baseline else part.wins for part in parts)
        for cost in _costs(self.inputs, [name, *rivals]):
            own, cheapest = cost.values.get(name, 0.0), min(cost.values, key=cost.values.__getitem__, default=name)
            if own and own > _NOISE * cost.values[cheapest] + cost.slack:
                higher.append(f"{cost.shown(own)} {cost.title}, {cheapest} {cost.shown(cost.values[cheapest])}")
        costs = f", at a higher cost ({'; '.join(higher)})" if higher else ""
        return f"{name}{costs}, {'after a look at the questions that it loses' if loses else 'which loses no question'}"

    def _settle(self) -> NextStepPart | None:
        """Look at the options of a sweep; else label questions that settle the nearest open comparison that they can.

        The action names the others of that verdict that as many questions settle, or that cannot be settled, either.
        """
        is_rerun, names = self.kind == "two runs", self.named("inconclusive") or self.named("too few differences")
        if not names:
            return None
        if self.kind == "nothing shown" and self.inputs.report.config.get("sweep") and not self.commands.after_axes:
            action = "look at what each option does, over all settings that differ in nothing else"
            return NextStepPart(action=action, command=self.commands.compare("--axes"))
        labels = {name: labels_to_settle(self.shown[name]) or math.inf for name in names}
        nearest = next((name for name, needed in labels.items() if needed < math.inf), names[0])
        part, more = self.shown[nearest], labels[nearest]
        is_thin = part.verdict == "too few differences"
        rivals = [name for name, needed in labels.items() if needed == more or needed < more < math.inf]
        each, few = ("each of ", "as few as ") if len(rivals) > 1 and not is_rerun else ("", "")
        pair = f"{part.baseline} and {each}{listed(rivals, MOST_NAMED)}"
        pair = f"the two runs of {self.called(nearest)}" if is_rerun else pair
        if more < math.inf:
            why = f"they settle {pair} in 4 of 5 cases, if {'each' if each else 'the'} difference stays as it is"
            if is_thin:
                differing = f"{part.differing:,} of {part.n:,}" if part.clusters is None else part.differing_text
                why = f"{pair} differ on {few}{differing}, and a comparison needs {LEAST_DIFFERENCES}"
            where = "" if part.clusters is None else " in other clusters"
            needed = int(more)
            return self._label(f"label about {counted(needed, 'more question')}{where} ({why})", needed, needed)
        action = f"look at the questions on which {pair} differ"
        action += "" if is_thin or is_rerun else "; too many questions would be needed to settle them"
        return NextStepPart(action=action, command=self.look)

    def _take_cheapest(self) -> NextStepPart | None:
        """Take the cheapest of the settings that are no worse or identical. The reason leaves out unknown costs."""
        reference = self.baseline or next(iter(self.top), None)
        equal = self.named("no worse", "identical")
        if self.kind == "two runs" or reference is None or not equal:
            return None
        taken, reason = reference, "no other is shown to be better"
        if (cheapest := _cheapest(self.inputs, [reference, *equal])) is not None:
            taken, cost = cheapest
            as_good = "identical, and " if taken in self.named("identical") else "no worse, and "
            reason = f"{'' if taken == reference else as_good}{cost}"
        elif self.are_all_identical:
            return None
        verb = "keep" if taken == self.baseline else "take"
        command = self.commands.show("--costs") if self.inputs.report.has_rankings else self.look
        return NextStepPart(action=f"{verb} {taken}: {reason}", command=command)


def _answers(found: FoundPart, names: Sequence[str]) -> str:
    """How many answers the settings find; a range where settings of one score differ in that."""
    counts = sorted({found.by_setting[name] for name in names})
    answers = " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1])))
    return f"an answer in the first {found.k} for {answers} of {counted(found.questions, 'question')}"


@dataclass(frozen=True)
class _Cost:
    """A cost of settings, by their names, without those of which it is not known."""

    title: str
    form: str
    """Empty for a metric of a table, whose size is not known."""

    slack: float
    """A cost that exceeds ``_NOISE`` times another one by more than this is clearly higher."""

    values: Mapping[str, float]

    def shown(self, value: float) -> str:
        return format(value, self.form or (",.3f" if value >= 1 else ".2g"))


def _costs(inputs: ComparisonInput, names: Sequence[str]) -> Iterator[_Cost]:
    """The costs of the settings called ``names``: money, latency, context and size of the index.

    The costs of a table are metrics with a unit, of which lower values are better.
    """
    for metric in () if inputs.report.has_rankings else inputs.metrics[1:]:
        if inputs.sign(metric) < 0 and AMOUNT.search(metric):
            means = dict(zip(inputs.names, inputs.scores(metric).means.tolist(), strict=True))
            yield _Cost(metric, "", 0.0, {name: means[name] for name in names if math.isfinite(means[name])})
    parts = {name: inputs.settings[inputs.setting_index(name)].part for name in names}
    k = metric_called(inputs.primary).k
    unit = "characters" if any(part.cost(f"tokens@{k}") is None for part in parts.values()) else "tokens"
    costs = {
        "for 1,000 queries": (".2f", 1.0, 0.01, PAID[1]),
        "ms per query": (",.1f", 1e3, _NOISE_MS, "latency.p50"),
        f"{unit}@{k}": (",.0f", 1.0, 0.0, f"{unit}@{k}"),
        "MB of index": (",.1f", 1e-6, 100.0, "index_bytes"),
    }
    if len({part.latency.machine for part in parts.values() if part.latency}) > 1:  # their latencies do not compare
        del costs["ms per query"]
    for title, (form, factor, slack, cost_name) in costs.items():
        known = {name: cost for name, part in parts.items() if (cost := part.cost(cost_name)) is not None}
        yield _Cost(title, form, slack, {name: factor * cost for name, cost in known.items()})


def _cheapest(inputs: ComparisonInput, names: Sequence[str]) -> tuple[str, str] | None:
    """The cheapest of the settings called ``names``, and why: by money, latency, context or size of the index.

    A cost that is known of all leaves out what costs more than the least, and the next one decides between the others.
    A latency counts as more only above what repeated measurements differ by. None if no cost leaves any out.
    """
    left, decisive = list(names), list[_Cost]()
    for cost in _costs(inputs, names):
        values = {name: value for name, value in cost.values.items() if name in left}
        if len(values) < len(left):
            continue
        least = min(values.values())
        limit = least if cost.form and cost.title != "ms per query" else _NOISE * least + cost.slack
        left = [name for name in left if values[name] <= limit]
        if len(left) < len(values):
            decisive.append(replace(cost, values=values))
    if not decisive:
        return None
    others = ["the others", *["those about as cheap"] * len(decisive)]
    reasons = [f"{cost.shown(cost.values[left[0]])} {cost.title}, {among} up to {cost.shown(max(cost.values.values()))}"
               for among, cost in zip(others, decisive, strict=False)]  # fmt: skip
    return left[0], f"{'the' if len(left) == len(decisive) == 1 else 'among the'} cheapest ({'; '.join(reasons)})"


def labels_to_settle(part: ComparisonPart) -> int | None:
    """About how many more questions settle an open comparison at its observed difference, in two digits.

    None if there are too many, or the number is unknown. If too few questions differ, the result is the number that has
    enough differing questions.
    """
    total, differing = part.queries_to_settle, part.differing
    if part.verdict == "too few differences":
        total = math.ceil(part.n * LEAST_DIFFERENCES / differing) if differing else None
    more = 0 if total is None else total - part.n
    unit = int(10 ** max(0, len(str(more)) - 2))
    return math.ceil(more / unit) * unit if could_be_labelled(more, part.n) else None
