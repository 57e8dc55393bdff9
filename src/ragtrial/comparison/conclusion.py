"""The conclusion of a comparison. Every form of output shows these fields and sentences.

The grammar is in docs/reading-the-result.md: the top setting and how certain that is, a line for each verdict, and one
next step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

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
)
from ragtrial.comparison.evidence import could_be_labelled
from ragtrial.comparison.number_text import digits_of, percent, signed
from ragtrial.comparison.statistics.estimates import finite
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.comparison.tradeoffs import weigh_costs
from ragtrial.errors import counted, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.records import Direction
from ragtrial.report.schema import PAID, ScoredPart


@dataclass(frozen=True)
class Cheapest:
    """The cheapest of some settings: by which cost, in words, and how much it is."""

    setting: str
    cost: str


@dataclass(frozen=True)
class Compared:
    """Settings with their means of ``metric``, which decides.

    ``found`` counts the questions for which each setting finds an answer; None if that is unknown. ``called`` has the
    names of settings in sentences. ``cheapest`` of some settings is None if no cost is known for all of them, or all
    costs are equal. ``are_pairs_by_name``: settings of equal names in several reports are compared.
    """

    means: Mapping[str, float | None]
    metric: str
    scored: ScoredPart
    better: Direction = "higher"
    found: FoundPart | None = None
    commands: Commands = field(default_factory=Commands)
    called: Mapping[str, str] = field(default_factory=dict)
    cheapest: Callable[[Sequence[str]], Cheapest | None] = lambda _names: None
    are_pairs_by_name: bool = False

    def ranked(self, names: Sequence[str]) -> list[str]:
        """``names``, best mean first; those without one last."""
        sign = -1 if self.better == "lower" else 1
        return sorted(names, key=lambda name: math.inf if (mean := self.means[name]) is None else -sign * mean)


def compared_of(inputs: ComparisonInput, commands: Commands, estimated: Scores | None = None) -> Compared:
    """The settings of ``inputs``; ``estimated`` are their means with a judge, for which answers are not counted."""
    means = inputs.scores(inputs.primary).means if estimated is None else estimated
    return Compared(
        means={name: finite(mean) for name, mean in zip(inputs.names, means.tolist(), strict=True)},
        metric=inputs.primary,
        scored=inputs.scored_queries(),
        better="higher" if inputs.sign(inputs.primary) > 0 else "lower",
        found=found_answers(inputs) if estimated is None else None,
        commands=commands,
        called=_called(inputs),
        cheapest=partial(cheapest_of, inputs),
        are_pairs_by_name=inputs.are_pairs_by_name,
    )


def found_answers(inputs: ComparisonInput) -> FoundPart | None:
    """For how many of the questions that count for all settings each finds an answer where the deciding metric cuts.

    None without a cutoff, where grades of 1 are not relevant, and where a report has no hit_rate at that cutoff.
    """
    k = parse_metric(inputs.primary).k
    settings = [setting.part for setting in inputs.settings]
    columns = [setting.per_query.evaluations.get(f"hit_rate@{k}") for setting in settings]
    thresholds = {setting.report.relevance_threshold for setting in inputs.settings}
    if k is None or thresholds != {1} or any(column is None for column in columns):
        return None
    hits = np.array(columns, dtype=np.float64)  # None becomes NaN
    counted = ~np.isnan(hits).any(axis=0) & ~np.isnan(inputs.scores(inputs.primary).values).any(axis=0)
    counts = np.count_nonzero(hits[:, counted] > 0, axis=1)
    return FoundPart(
        k=k,
        questions=int(counted.sum()),
        by_setting={name: int(count) for name, count in zip(inputs.names, counts, strict=True)},
    )


def cheapest_of(inputs: ComparisonInput, names: Sequence[str]) -> Cheapest | None:
    """The cheapest of the settings called ``names``: by money, or else by latency, context or size of the index.

    By the first of these that is known of all and not the same for all; None where there is none.
    """
    weighed = weigh_costs(inputs)
    parts = {part.setting: part for part in weighed.settings}
    settings = {name: inputs.settings[inputs.place(name)].part for name in names}
    unit = f"{weighed.context_unit}@{weighed.k}" if weighed.k else weighed.context_unit
    costs: list[tuple[str, Callable[[str], float | None], str, float]] = [
        ("for 1,000 queries", lambda name: settings[name].cost(PAID[1]), ".2f", 1.0),
        ("ms per query", lambda name: parts[name].latency, ",.1f", 1000.0),
        (unit, lambda name: parts[name].context, ",.0f", 1.0),
        ("MB of index", lambda name: parts[name].index, ",.1f", 1e-6),
    ]
    for title, cost, form, scale in costs:
        known = {name: scale * value for name in names if (value := cost(name)) is not None}
        if len(known) == len(names) and len(set(known.values())) > 1:
            cheapest, dearest = min(known, key=lambda name: known[name]), max(known.values())
            return Cheapest(
                cheapest, f"{format(known[cheapest], form)} {title}, the others up to {format(dearest, form)}"
            )
    return None


def _called(inputs: ComparisonInput) -> dict[str, str]:
    """The name of each setting in sentences, short if no more than two reports are compared name by name."""
    is_short = inputs.are_pairs_by_name and len(inputs.report_names) == 2
    return {setting.name: setting.part.name if is_short else setting.name for setting in inputs.settings}


MOST_NAMED = 5

LEAST_SCORED = LEAST_DIFFERENCES
"""With fewer scored questions no setting is ranked."""

WORSE: tuple[Verdict, ...] = ("worse", "worse within the margin")
_CLAIMS: tuple[Verdict, ...] = ("better", *WORSE, "no worse")
"""The verdicts that labels of unjudged hits could change."""

_ORDER: tuple[Verdict, ...] = (
    "better", "worse", "worse within the margin", "no worse", "inconclusive", "too few differences", "identical",
)  # fmt: skip
"""The order of the lines where the settings are compared with the top one; with a baseline the worse come last."""


def conclusion_of(
    parts: Sequence[ComparisonPart],
    procedure: ProcedurePart,
    compared: Compared,
    top: str | None,
    expected: float | None = None,
    depend_on_unjudged: Callable[[Sequence[ComparisonPart]], Sequence[bool]] = lambda claims: [False] * len(claims),
) -> ConclusionPart:
    """The conclusion from ``parts``, the comparisons by the primary metric.

    ``top`` is the setting with the best mean, ``expected`` its mean on new questions; None where none is sought.
    Without a baseline ``top`` is the baseline of all its comparisons. ``depend_on_unjudged`` says of claims whether
    hits without a label could take them back.
    """
    kind = _kind(compared, procedure)
    reference = None if compared.are_pairs_by_name else procedure.baseline or top
    shown = {part.setting: part for part in parts if compared.are_pairs_by_name or part.baseline == reference}
    ranked = compared.ranked(list(shown))
    verdicts: dict[Verdict, list[str]] = {}
    for verdict in _ORDER:
        names = [name for name in ranked if shown[name].verdict == verdict]
        verdicts |= {verdict: names} if names else {}
    if kind == "leading":
        kind = _kind_of_top(verdicts, len(shown))
    claims = {name: shown[name] for verdict in _CLAIMS for name in verdicts.get(verdict, ())}
    unclear = depend_on_unjudged(list(claims.values()))
    is_ranked = kind in ("best", "leading", "nothing shown", "one setting")
    first = None if top is None or not is_ranked else top
    made = ConclusionPart(
        kind=kind,
        metric=compared.metric,
        better=compared.better,
        top=[] if first is None else [first, *verdicts.get("identical", [])],
        score=None if first is None else compared.means[first],
        expected=None if first is None else expected,
        baseline=procedure.baseline,
        scored=compared.scored,
        found=compared.found,
        verdicts=verdicts,
        depends_on_unjudged=[name for name, depends in zip(claims, unclear, strict=True) if depends],
        next_step=NextStepPart(action="", command=""),
        sentences=[],
    )
    judged = _Judged(made, compared, shown, procedure)
    made = made.model_copy(update={"next_step": judged.next_step()})
    return made.model_copy(update={"sentences": [*judged.lines(), made.next_step.sentence]})


def _kind(compared: Compared, procedure: ProcedurePart) -> ConclusionKind:
    if len(compared.means) < 2:
        return "one setting"
    if compared.scored.scored < LEAST_SCORED:
        return "no ranking yet"
    if compared.are_pairs_by_name:
        return "two runs"
    return "leading" if procedure.baseline is None else "baseline"


def _kind_of_top(verdicts: Mapping[Verdict, Sequence[str]], others: int) -> ConclusionKind:
    worse, equal = sum(len(verdicts.get(verdict, ())) for verdict in WORSE), len(verdicts.get("identical", ()))
    return "nothing shown" if not worse else "best" if worse + equal == others else "leading"


@dataclass(frozen=True)
class _Judged:
    """A conclusion whose sentences are to be written; ``shown`` are the comparisons that it is drawn from."""

    made: ConclusionPart
    compared: Compared
    shown: Mapping[str, ComparisonPart]
    procedure: ProcedurePart

    @property
    def digits(self) -> int:
        return digits_of(self.compared.scored.scored)

    def named(self, *verdicts: Verdict) -> list[str]:
        return [name for verdict in verdicts for name in self.made.verdicts.get(verdict, ())]

    def score(self, name: str) -> str:
        mean = self.compared.means[name]
        return "without a score" if mean is None else f"{mean:.{self.digits}f}"

    def called(self, name: str) -> str:
        return self.compared.called.get(name, name)

    def lines(self) -> Iterator[str]:
        """The headline, and a line for each verdict."""
        made, metric = self.made, self.compared.metric
        scored = counted(self.compared.scored.scored, "scored question")
        top = " and ".join(made.top) if len(made.top) == 2 else listed(made.top, MOST_NAMED)
        top += ", identical" if len(made.top) > 1 else ""
        if made.kind == "no ranking yet":
            yield f"No ranking yet: {scored}; a ranking needs {LEAST_SCORED}."
            return
        if made.kind == "two runs":
            yield from map(self.changed, self.shown)
            return
        if made.kind == "one setting":
            (name,) = self.compared.means
            yield f"{name}, {metric} {self.score(name)}{self.counts([name])}"
            return
        if made.kind == "baseline":
            name = str(made.baseline)
            yield f"Baseline: {name}, {metric} {self.score(name)}{self.counts([name])}"
        else:
            head = {"best": "Best: ", "leading": "Leading: "}.get(
                made.kind, "No setting is shown to be better; highest: "
            )
            if made.better == "lower":
                head = head.replace("highest", "lowest")
            yield f"{head}{top}, {metric} {self.score(made.top[0])}{self.counts(made.top)}"
        yield from self.verdict_lines()

    def counts(self, names: Sequence[str]) -> str:
        """How often the first of ``names`` finds an answer, and in brackets the next setting and the last."""
        found = self.compared.found
        if found is None:
            return ""
        others = self.compared.ranked([name for name in found.by_setting if name not in names])
        beside = ", ".join(f"{name} {found.by_setting[name]:,}" for name in dict.fromkeys([*others[:1], *others[-1:]]))
        finds = "it finds" if len(names) == 1 else "they find"
        return (
            f": {finds} an answer in the first {found.k} for {found.by_setting[names[0]]:,} of "
            f"{counted(found.questions, 'question')}" + (f" ({beside})" if beside else "")
        )

    def verdict_lines(self) -> Iterator[str]:
        margin, against = f"{self.procedure.margin:g}", self.made.baseline is not None
        labels: dict[Verdict, str] = {
            "better": "better than" if against else "worse than",
            "no worse": f"no worse within {margin}",
            "inconclusive": "inconclusive",
            "too few differences": "too few differences",
            "identical": "identical",
            "worse": "worse" if against else "better than",
            "worse within the margin": f"worse, within {margin}" if against else f"better, within {margin}",
        }
        if against:
            labels["better"] = "better"
        groups = []
        for verdict, label in labels.items() if against else ((one, labels[one]) for one in _ORDER):
            if verdict == "identical" and not against:
                continue  # they are on top, too
            names = self.named(verdict)
            unclear = [name for name in names if name in self.made.depends_on_unjudged]
            groups.append((label, [name for name in names if name not in unclear], ""))
            groups.append((label, unclear, "   with the current labels"))
        groups = [group for group in groups if group[1]]
        width = max((len(label) for label, _, _ in groups), default=0)
        for label, names, ending in groups:
            detail = self.difference(self.shown[names[0]]) if len(names) == 1 else ""
            yield f"  {label:<{width}}  {listed(names, MOST_NAMED)}{detail}{ending}"

    def difference(self, part: ComparisonPart) -> str:
        """`` (-0.049, 95% CI -0.122 to +0.023)``; nothing where they are equal."""
        if part.difference is None or not part.wins + part.losses:
            return ""
        interval = ""
        if part.ci is not None:
            low, high = (signed(end, self.compared.scored.scored) for end in part.ci)
            interval = f", {percent(self.procedure.confidence)} CI {low} to {high}"
        return f" ({signed(part.difference, self.compared.scored.scored)}{interval})"

    def changed(self, name: str) -> str:
        """The change of a setting from one report to another."""
        part = self.shown[name]
        called = self.called(name)
        if part.mean is None or part.mean_baseline is None:
            return f"{called}: no question counts for both"
        before, after = (f"{mean:.{self.digits}f}" for mean in (part.mean_baseline, part.mean))
        verdict = str(part.verdict).replace("within the margin", f"within {self.procedure.margin:g}")
        verdict = f"no worse within {self.procedure.margin:g}" if verdict == "no worse" else verdict
        labels = " with the current labels" if name in self.made.depends_on_unjudged else ""
        counts, found = "", self.compared.found
        if found is not None:
            counts = (
                f"; it finds an answer in the first {found.k} for {found.by_setting[name]:,} of "
                f"{counted(found.questions, 'question')} (before: {found.by_setting[part.baseline]:,})"
            )
        return f"{called}: {verdict}{labels}, {part.metric} {before} to {after}{self.difference(part)}{counts}"

    @property
    def commands(self) -> Commands:
        return self.compared.commands

    @property
    def look(self) -> str:
        """The command that shows the questions on which settings differ."""
        return self.commands.compare("--queries")

    def next_step(self) -> NextStepPart:
        """One thing to do next: the first of these that applies."""
        steps: list[Callable[[], NextStepPart | None]] = [
            self._add, self._label_hits, self._take_winner, self._settle, self._take_cheapest, self._change,
        ]  # fmt: skip
        return next(step for make in steps if (step := make()) is not None)

    def _add(self) -> NextStepPart | None:
        """The next step if no comparison is possible yet."""
        if self.made.kind == "one setting":
            return NextStepPart(
                action="add another setting to the config, to compare it with", command="ragtrial list retrievers"
            )
        if self.made.kind != "no ranking yet":
            return None
        missing = LEAST_SCORED - self.compared.scored.scored
        return self._label(f"label at least {counted(missing, 'more question')}")

    def _label(self, action: str) -> NextStepPart:
        return NextStepPart(action=action + self.commands.about_config, command=self.commands.label_question())

    def _label_hits(self) -> NextStepPart | None:
        if not self.made.depends_on_unjudged:
            return None
        action = f"label the hits that could change this{self.commands.about_config}"
        return NextStepPart(action=action, command=self.commands.pool())

    def _take_winner(self) -> NextStepPart | None:
        better, baseline, look = self.named("better"), self.made.baseline, self.look
        if self.made.kind == "two runs":
            worse = self.named(*WORSE)
            if worse:
                return NextStepPart(action="look at the questions that are answered worse now", command=look)
            return None
        if self.made.kind == "baseline" and better:
            action = f"replace {baseline} by {better[0]}, after a look at the questions that it loses"
            return NextStepPart(action=action, command=look)
        if self.made.kind == "best":
            action = f"use {self.made.top[0]}, after a look at the questions that it loses"
            return NextStepPart(action=action, command=look)
        return None

    def _settle(self) -> NextStepPart | None:
        """Label questions, as many as settle the nearest open comparison, if a person could."""
        for name in self.named("inconclusive", "too few differences"):
            part = self.shown[name]
            differing, thin = part.wins + part.losses, part.verdict == "too few differences"
            pair = f"the two runs of {self.called(name)}"
            if self.made.kind != "two runs":
                pair = f"{self.called(part.baseline)} and {self.called(name)}"
            if (more := labels_to_settle(part)) is not None:
                why = (
                    f"{pair} differ on {differing:,} of {part.n:,}, and a comparison needs {LEAST_DIFFERENCES}"
                    if thin
                    else f"they settle {pair} in 4 of 5 cases, if the difference stays as it is"
                )
                return self._label(f"label about {counted(more, 'more question')} ({why})")
            look = self.look
            action = f"look at the questions on which {pair} differ"
            if not thin and self.made.kind != "two runs":
                action += "; too many questions would be needed to settle them"
            return NextStepPart(action=action, command=look)
        return None

    def _take_cheapest(self) -> NextStepPart | None:
        """Take the cheapest of the settings that are no worse or identical. The reason leaves out unknown costs."""
        reference = self.made.baseline or next(iter(self.made.top), None)
        if self.made.kind == "two runs" or reference is None:
            return None
        good = [reference, *self.named("no worse", "identical")]
        if len(good) < 2:
            return None
        costs, cheapest = self.commands.show("--costs"), self.compared.cheapest(good)
        taken = reference if cheapest is None else cheapest.setting
        if cheapest is None and not self.named("no worse"):
            reason = "all score the same on every question"
        elif cheapest is None:
            reason = "no other is shown to be better"
        else:
            equal = "identical, and " if taken in self.named("identical") else "no worse, and "
            reason = f"{'' if taken == reference else equal}the cheapest ({cheapest.cost})"
        return NextStepPart(
            action=f"{'keep' if taken == self.made.baseline else 'take'} {taken}: {reason}", command=costs
        )

    def _change(self) -> NextStepPart:
        look = self.look
        if self.made.kind == "baseline":
            return NextStepPart(action=f"keep {self.made.baseline}; see where it is better", command=look)
        if self.made.kind == "two runs" and self.named("better"):
            return NextStepPart(action="keep the new run; see what has changed", command=look)
        if len(self.named("identical")) == len(self.shown):
            more = self.commands.compare("--metrics", "all")
            return NextStepPart(action="change something, or look at other metrics: nothing differs here", command=more)
        return NextStepPart(action="look at the questions that have changed", command=look)


def labels_to_settle(part: ComparisonPart) -> int | None:
    """About how many more questions settle an open comparison at its observed difference.

    None if there are too many, or the number is unknown. If too few questions differ, the result is the number that has
    enough differing questions.
    """
    total = part.queries_to_settle
    if part.verdict == "too few differences":
        differing = part.wins + part.losses
        total = math.ceil(part.n * LEAST_DIFFERENCES / differing) if differing else None
    more = 0 if total is None else total - part.n
    return _round_up(more) if could_be_labelled(more, part.n) else None


def _round_up(count: int) -> int:
    """Round up to two digits: an estimate is no more certain."""
    unit = int(10 ** max(0, len(str(count)) - 2))
    return math.ceil(count / unit) * unit
