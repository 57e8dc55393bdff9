"""A judge next to people: the scores by its grades, and its worth."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.comparison.comparison_input import ComparisonInput, Pair, PairedScores
from ragtrial.comparison.judged_rankings import Found, JudgedRankings
from ragtrial.comparison.judgments import JudgmentsError, ModelJudgments, on_scale
from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.comparison.statistics.estimates import confusion, finite, mean_of, weighted_kappa
from ragtrial.comparison.statistics.power import detectable_difference, level_of
from ragtrial.comparison.statistics.procedures import Basis, TwoPhaseInference, TwoPhaseSample, infer_two_phase
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Procedure
from ragtrial.errors import Fault, ReportError, counted, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.rankings import Bools
from ragtrial.records import (
    CHOSEN_BY_STAKES,
    DRAWN_AT_RANDOM,
    NOT_REVIEWED,
    Judgment,
    Query,
    ReportWarning,
    Span,
)
from ragtrial.report.schema import Part

LEAST_PEOPLE = 15
"""With fewer queries judged by people, little is known about a judge's errors."""


@dataclass(frozen=True, eq=False)
class JudgeSide:
    """The judge's side of ``inputs``, whose ``people`` are the queries that people judged.

    ``covered`` marks the queries for which the judge judged all that counts, shape (queries,). ``drawn`` is true if the
    labels state that people's queries were drawn at random.
    """

    inputs: ComparisonInput
    judgments: ModelJudgments
    covered: Bools
    drawn: bool
    highest: int
    """People's highest grade, on whose scale the judge's are."""

    warnings: tuple[ReportWarning, ...]
    _scores: dict[str, PairedScores] = field(default_factory=dict)

    @property
    def people(self) -> Bools:
        """Which queries count for people, (queries,)."""
        known = self.inputs.people or frozenset()
        return np.array([query.id in known for query in self.inputs.queries], dtype=np.bool_)

    def scores(self, metric: str) -> PairedScores:
        """The scores of settings by the judge's grades; NaN for a query that the judge did not judge.

        If the judge finds nothing relevant for a query, all settings have 0. A metric that needs more than rankings is
        NaN throughout.
        """
        if metric not in self._scores:
            values = np.full((len(self.inputs.settings), len(self.inputs.queries)), np.nan)
            rows = np.flatnonzero(self.covered).tolist()
            try:
                for place in range(len(values)):
                    values[place, rows] = self.rankings.scores(place, parse_metric(metric), [(row, {}) for row in rows])
            except ReportError:
                values[:] = np.nan
            self._scores[metric] = PairedScores(metric, values)
        return self._scores[metric]

    def sample(self, people: PairedScores, pairs: Sequence[Pair]) -> TwoPhaseSample:
        """The differences of ``pairs`` as both have them."""
        return TwoPhaseSample(people.differences(pairs), self.scores(people.metric).differences(pairs))

    def means(self, people: PairedScores) -> Scores:
        """Each setting's mean over all queries, estimated from both; NaN where people judged none; (settings,)."""
        sample = TwoPhaseSample(people.values, self.scores(people.metric).values)
        return infer_two_phase([sample], Procedure(flips=100))[0].inference.mean

    def pairs_of_grades(self) -> list[tuple[int, int]]:
        """The grades of the texts that both judged: people's, and the judge's on their scale."""
        own = JudgedRankings(self.inputs)
        return [
            (theirs, on_scale(grade, self.highest))
            for row in np.flatnonzero(self.people).tolist()
            for found, grade in self.judgments.grades.get(self.inputs.queries[row].id, {}).items()
            if grade is not None and (theirs := own.grade(row, found)) is not None
        ]

    @cached_property
    def rankings(self) -> JudgedRankings:
        """The rankings, judged by the judge's grades alone."""
        return JudgedRankings(self.inputs, [
            _judged(query.id, query.text, self.judgments.grades.get(query.id, {}), self.highest)
            for query in self.inputs.queries
        ])  # fmt: skip


def judge_side(inputs: ComparisonInput, judgments: ModelJudgments) -> JudgeSide:
    """Both sides of ``inputs``. The ``inputs`` of the result are limited to the queries that count for people.

    Raises JudgmentsError if people's queries were chosen because settings disagree on them, or the judge judged no
    query completely; ReportError for rankings that cannot be read.
    """
    rankings = JudgedRankings(inputs)
    depth = rankings.usual_depth()
    labelled = [
        row for row, query in enumerate(inputs.queries) if query.relevant_docs and NOT_REVIEWED not in query.tags
    ]
    random = [row for row in labelled if DRAWN_AT_RANDOM in inputs.queries[row].tags]
    chosen = [row for row in labelled if CHOSEN_BY_STAKES in inputs.queries[row].tags]
    if chosen and not random:
        raise JudgmentsError(_by_stakes(inputs, chosen))
    found = [rankings.best_ranks(row, depth).keys() for row in range(len(inputs.queries))]
    graded = [judgments.grades.get(query.id, {}) for query in inputs.queries]
    covered = np.array([bool(texts) and texts <= own.keys() for texts, own in zip(found, graded, strict=True)])
    if not covered.any():
        raise JudgmentsError(_nothing_covered(judgments, inputs, depth))
    whole = [row for row in random if all(rankings.grade(row, hit) is not None for hit in found[row])]
    people = [row for row in (whole if random else labelled) if covered[row]]
    names = frozenset(inputs.queries[row].id for row in people)
    highest = max((judgment.relevance for row in people for judgment in inputs.queries[row].relevant_docs), default=1)
    judged = replace(inputs, people=names)
    warnings = [
        *_about_people(people, random, whole, labelled, int(covered.sum())),
        *_circular(inputs, judgments.model),
    ]
    return JudgeSide(judged, judgments, covered, bool(random), highest, tuple(warnings))


def _judged(name: str, text: str, grades: Mapping[Found, int | None], highest: int) -> Query:
    """A query with the judge's grades as its labels."""
    made = []
    for found, grade in grades.items():
        if grade is not None:
            doc, spans = (found, ()) if isinstance(found, str) else (found[0], (Span(*found[1:]),))
            made.append(Judgment(doc, on_scale(grade, highest), spans=spans))
    return Query(name, text, tuple(made))


def _by_stakes(inputs: ComparisonInput, rows: Sequence[int]) -> str:
    names = listed([inputs.queries[row].id for row in rows], 3)
    return (
        f"{counted(len(rows), 'query', 'queries')} that people judged ({names}) were chosen because the settings "
        "disagree on them. The judge's errors differ between such queries and others, so these labels cannot correct "
        "it. Draw queries at random, and label those: ragtrial pool REPORT --random-queries 40."
    )


def _nothing_covered(judgments: ModelJudgments, inputs: ComparisonInput, depth: int) -> Fault:
    known = {query.id for query in inputs.queries}
    if known.isdisjoint(judgments.grades):
        message = f"has no judgments of the compared queries ({listed(sorted(known), 3)}); it is for another report."
    else:
        message = (
            f"has no query with judgments of all texts in the top {depth} of the compared settings. Run ragtrial judge "
            "again: it goes on where it stopped."
        )
    return Fault(str(judgments.file), message=message)


def _about_people(
    people: Sequence[int], random: Sequence[int], whole: Sequence[int], labelled: Sequence[int], judged: int
) -> Iterator[ReportWarning]:
    """Warnings about people's side."""
    if not people:
        yield ReportWarning(
            "judge-alone",
            "people judged no question, so there is no verdict: a judge may favour a setting, and its grades cannot "
            "show that. Next: ragtrial pool REPORT --random-queries 40.",
        )
        return
    if not random and judged > len(people):
        yield ReportWarning(
            "not-drawn-at-random",
            f"the labels do not say that the {counted(len(people), 'question')} with people's labels were drawn at "
            f"random from the {judged:,} that the judge judged. If they were not, the intervals are not valid. "
            "`ragtrial pool REPORT --random-queries N` draws queries at random, and the labels then say so.",
        )
    if len(random) > len(whole):
        yield ReportWarning(
            "judged-in-part",
            f"{len(random) - len(whole):,} of {counted(len(random), 'question')} drawn at random have texts that "
            "people did not judge, and are left out. Label these texts, and rescore.",
        )
    if 0 < len(random) < len(labelled):
        yield ReportWarning(
            "not-drawn-at-random",
            f"{counted(len(labelled) - len(random), 'question')} with people's labels were not drawn at random; only "
            "the judge's grades count there.",
        )
    if len(people) < LEAST_PEOPLE:
        yield ReportWarning(
            "few-people",
            f"people judged only {counted(len(people), 'question')}; the intervals were validated from {LEAST_PEOPLE} "
            "questions on.",
        )


def _circular(inputs: ComparisonInput, model: str) -> Iterator[ReportWarning]:
    users = [setting.name for setting in inputs.settings if model in _strings(setting.part.parameters)]
    if users:
        yield ReportWarning(
            "judge-in-pipeline",
            f"the judge's model, {model}, is also used by settings that it judges ({listed(users, 4)}), and may favour "
            "them. The intervals stay valid, but another judge would narrow them more.",
        )


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, Sequence):
        for one in value:
            yield from _strings(one)


_MOST_PEOPLE = 2**20
_MOST_NAMED = 3

_FALLBACK = {
    Basis.NOT_JUDGED: "the judge judged no more questions than people",
    Basis.NO_SPREAD: "the judge sees almost no difference on the questions that people judged",
    Basis.TOO_FEW_ERRORS: "the judge agrees with people on almost all of their questions, which does not show how "
    "large its errors are on other questions",
}


class AgreementPart(Part):
    """The texts that both people and the judge graded, on people's scale."""

    n: int
    alike: int
    grades: list[int]
    confusion: list[list[int]]
    """The count of texts to which people gave the grade of the row and the judge the grade of the column."""

    kappa: float | None
    """Cohen's, weighted by the square of the distance; null where one of the two gave everything the same grade."""

    kappa_ci: tuple[float, float] | None
    """95%."""


class BiasPart(Part):
    """The judge's mean score of a setting minus people's, over the questions that both judged."""

    setting: str
    bias: float | None
    ci: tuple[float, float] | None
    """Not corrected for other settings, with the confidence of the comparison."""


class JudgedComparisonPart(Part):
    """A comparison by the primary metric, and the judge's share in it."""

    baseline: str
    setting: str
    basis: Basis
    """`both`, or why people's labels count alone."""

    people_difference: float | None
    """Over the questions that both judged."""

    judge_difference: float | None
    """Over all questions that the judge judged."""

    correlation: float | None
    """The correlation between people's and the judge's difference of a question."""

    bias: float | None
    """The judge's difference less people's, over the questions that both judged."""

    bias_ci: tuple[float, float] | None
    worth: float | None
    """How many more questions people would have to judge for an interval as narrow without the judge; below 0, none."""

    people_needed: int | None
    """How many questions people have to judge, with this judge, to detect the margin 80% of the time."""


class JudgePart(Part):
    """The judgments of a judge, and their worth."""

    file: str
    model: str
    prompt: str
    people: int
    """Questions that people judged, and the judge as well."""

    judged: int
    """Questions that the judge judged."""

    drawn_at_random: bool
    """True if the labels state that people's questions were drawn at random."""

    judgments: int
    unparsable: int
    """Judgments without a grade; they count as not judged."""

    cost: float | None
    agreement: AgreementPart
    comparisons: list[JudgedComparisonPart]
    bias: list[BiasPart]
    order_alike: float | None
    """Kendall's tau of the order of the settings according to people and according to the judge, on the same
    questions."""

    sentences: list[str]
    """The same in words."""


def judge_part(side: JudgeSide, scores: PairedScores, pairs: Sequence[Pair], two: TwoPhaseInference, margin: float,
               level: float) -> JudgePart:  # fmt: skip
    """The worth of ``side`` in the comparisons ``pairs`` by the primary metric; ``scores`` are people's."""
    names, judge = side.inputs.names, side.scores(scores.metric)
    needed = people_needed(two, margin)
    n = two.inference.n
    bias_ends = _ends(two.bias, two.bias_error, n, level)
    of_people, of_judge = side.sample(scores, pairs).people, judge.differences(pairs)
    comparisons = [
        JudgedComparisonPart(
            baseline=names[pair.baseline],
            setting=names[pair.setting],
            basis=two.basis[row],
            people_difference=mean_of(of_people[row][~np.isnan(of_judge[row])]),
            judge_difference=mean_of(of_judge[row]),
            correlation=finite(two.correlation[row]),
            bias=finite(two.bias[row]),
            bias_ci=bias_ends[row],
            worth=finite(two.worth[row]),
            people_needed=needed[row],
        )
        for row, pair in enumerate(pairs)
    ]
    made = JudgePart(
        file=str(side.judgments.file),
        model=side.judgments.model,
        prompt=side.judgments.prompt,
        people=int(side.people.sum()),
        judged=int(side.covered.sum()),
        drawn_at_random=side.drawn,
        judgments=len(side.judgments.rows),
        unparsable=side.judgments.unparsable,
        cost=side.judgments.cost,
        agreement=_agreement(side),
        comparisons=comparisons,
        bias=_bias(side, scores, judge, level),
        order_alike=_order(side, scores, judge),
        sentences=[],
    )
    return made.model_copy(update={"sentences": list(_sentences(made, margin))})


def people_needed(two: TwoPhaseInference, margin: float) -> list[int | None]:
    """How many questions people have to judge to detect ``margin`` with 80% power, with this judge.

    None if that is unknown, or no number is enough because the judge has to judge more questions, too.
    """
    level = level_of(two.inference.criticals, two.inference.n)
    rows = zip(two.residual.tolist(), two.fixed.tolist(), level.tolist(), strict=True)
    return [_needed(margin, *row) for row in rows]


def _needed(margin: float, residual: float, fixed: float, level: float) -> int | None:
    from scipy.special import stdtrit

    if not (margin > 0 and math.isfinite(level) and residual + fixed > 0):
        return None

    def is_enough(n: int) -> bool:
        deviation = np.array([math.sqrt(residual + fixed * n)])
        critical = np.array([-float(stdtrit(n - 2, level / 2))])
        return bool(detectable_difference(deviation, np.array([n]), critical)[0] <= margin)

    low, high = LEAST_DIFFERENCES - 1, LEAST_DIFFERENCES
    while not is_enough(high):
        low, high = high, 2 * high
        if high > _MOST_PEOPLE:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _agreement(side: JudgeSide) -> AgreementPart:
    pairs = side.pairs_of_grades()
    grades = sorted({grade for pair in pairs for grade in pair})
    table = confusion(pairs, grades)
    kappa = weighted_kappa(table, grades) if pairs else None
    return AgreementPart(
        n=len(pairs),
        alike=int(table.trace()),
        grades=grades,
        confusion=table.tolist(),
        kappa=None if kappa is None else kappa.value,
        kappa_ci=None if kappa is None else (kappa.low, kappa.high),
    )


def _bias(side: JudgeSide, scores: PairedScores, judge: PairedScores, level: float) -> list[BiasPart]:
    apart = judge.values - scores.values
    n = (~np.isnan(apart)).sum(axis=1)
    means = np.array(
        [mean_of(row) if count else math.nan for row, count in zip(apart, n, strict=True)], dtype=np.float64
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.where(np.isnan(apart), 0.0, np.square(apart - means[:, None])).sum(axis=1)
        error = np.sqrt(squares / (n - 1) / n)
    ends = _ends(means, error, n, level)
    rows = zip(side.inputs.names, means, ends, strict=True)
    return [BiasPart(setting=name, bias=finite(mean), ci=end) for name, mean, end in rows]


def _order(side: JudgeSide, scores: PairedScores, judge: PairedScores) -> float | None:
    from scipy.stats import kendalltau

    both = side.people & side.covered
    if both.sum() < 2 or len(scores.values) < 2:
        return None
    means = [np.nan_to_num(values[:, both]).mean(axis=1) for values in (scores.values, judge.values)]
    if any(np.ptp(one) == 0 for one in means):
        return None
    return finite(kendalltau(*means).statistic)


def _sentences(made: JudgePart, margin: float) -> Iterator[str]:
    if not made.people:
        yield f"No verdict: people judged no question. The judge, {made.model}, judged {made.judged:,}."
        return
    how = ", drawn at random" if made.drawn_at_random else ""
    yield f"People judged {counted(made.people, 'question')}{how}; the judge, {made.model}, judged {made.judged:,}."
    yield (
        "Means here are estimated from both for all questions, and one without a relevant text counts as 0; "
        "`ragtrial show` has the means of the scored questions."
    )
    used = [part for part in made.comparisons if part.basis is Basis.BOTH and part.worth is not None]
    if used:
        worth = median(one.worth or 0.0 for one in used)
        more = f"{counted(made.judged - made.people, 'question')} that only the judge judged"
        typical = "" if len(used) == 1 else " (median of the comparisons)"
        if worth >= 1:
            labels = counted(round(worth), "more question")
            yield f"The {more} narrow the intervals as much as {labels} judged by people would{typical}."
        else:
            yield f"The {more} do not narrow the intervals{typical}."
        correlation = median(one.correlation or 0.0 for one in used)
        yield f"The correlation between the judge's differences and people's is {correlation:.2f}{typical}."
    for basis, why in _FALLBACK.items():
        alone = [f"{one.setting} against {one.baseline}" for one in made.comparisons if one.basis is basis]
        if alone:
            all_of_them = len(alone) == len(made.comparisons)
            what = "all comparisons" if all_of_them else listed(alone, _MOST_NAMED)
            yield f"Based on people's labels alone: {what}, because {why}."
    yield from _of_agreement(made)
    favoured = max(made.bias, key=lambda one: one.bias if one.bias is not None else -math.inf)
    if favoured.bias is not None and favoured.ci is not None:
        ends = signed_interval(favoured.ci, between=" to ")
        yield f"The judge's largest bias in favour of a setting: {favoured.setting}, {signed(favoured.bias)} ({ends})."
    open_ = [one.people_needed for one in made.comparisons if (one.people_needed or 0) > made.people]
    if open_:
        least, most = min(one for one in open_ if one), max(one for one in open_ if one)
        number = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        yield f"With this judge, people need to judge {number} questions to detect a difference of {margin:g}."


def _of_agreement(made: JudgePart) -> Iterator[str]:
    one = made.agreement
    kappa = ""
    if one.kappa is not None and one.kappa_ci is not None:
        kappa = f"; weighted kappa {one.kappa:.2f} ({one.kappa_ci[0]:.2f} to {one.kappa_ci[1]:.2f})"
    if one.n:
        yield f"People and the judge graded {counted(one.n, 'text')}, {one.alike:,} of them alike{kappa}."
    if made.unparsable:
        yield f"{made.unparsable:,} of the judge's {counted(made.judgments, 'reply', 'replies')} have no grade."


def _ends(mean: Scores, error: Scores, n: npt.NDArray[np.int64], level: float) -> list[tuple[float, float] | None]:
    """Student's intervals, each by itself."""
    from scipy.special import stdtrit

    width = -stdtrit(np.maximum(n - 1, 1), level / 2) * error
    return [(float(low), float(high)) if math.isfinite(low) else None
            for low, high in zip(mean - width, mean + width, strict=True)]  # fmt: skip
