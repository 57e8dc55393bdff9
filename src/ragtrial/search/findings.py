"""What may be said of a search: by which queries the winner was chosen, and by which it is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ragtrial.comparison.comparing import ComparisonOptions, primary_comparisons
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.contest import ComparisonSet
from ragtrial.comparison.statistics.inference import infer
from ragtrial.comparison.statistics.means import mean_interval
from ragtrial.comparison.statistics.samples import Family
from ragtrial.comparison.statistics.selection import select_winner
from ragtrial.comparison.tradeoffs import weigh_costs
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools
from ragtrial.search.parts import FinalistPart, ParetoPart, ScorePart, WinnerPart

_MOST_PAIRS = 20_000
"""Of more pairs of settings none is compared closely: it would take minutes."""


@dataclass(frozen=True, eq=False)
class Choice:
    """What was chosen, by scores on the queries to search by.

    ``contest`` has all settings that were tried on all queries; ``searched`` their means on the queries to search by,
    with the other sign where lower is better, -inf beyond the limits, in its order; ``held_out`` are the ids of queries
    that no choice looked at.
    """

    contest: ComparisonSet
    searched: Scores
    held_out: Sequence[str]
    baseline: str
    finalists: int

    @property
    def ranked(self) -> list[int]:
        """Places of the settings within the limits, best first; of equal ones the first."""
        order = np.argsort(-self.searched, kind="stable").tolist()
        return [place for place in order if self.searched[place] > -math.inf]

    @property
    def judging(self) -> ComparisonSet:
        """The contest over the queries that decide."""
        return self.contest.over(set(self.held_out)) if self.held_out else self.contest


@dataclass(frozen=True, eq=False)
class Judgement:
    """What comes of it: see ``SearchResult``."""

    winner: WinnerPart | None
    verdict: ComparisonPart | None
    compared_with: int
    finalists: list[FinalistPart]
    between_finalists: list[ComparisonPart]


def judge(choice: Choice, aim: ComparisonOptions) -> Judgement:
    """The winner, against the baseline and the other finalists.

    On queries that are held out the winner alone is compared with the baseline. Without any, the settings must have
    been chosen without looking at scores: all of them are, and the verdict is corrected for so many.
    """
    ranked, contest = choice.ranked, choice.judging
    if not ranked:
        return Judgement(None, None, 0, [], [])
    best = contest.names[ranked[0]]
    names = [contest.names[place] for place in ranked[: choice.finalists]]
    values = contest.scores(contest.primary).values
    verdict, others = None, 0
    if best != choice.baseline:
        compared = _of(contest, [choice.baseline, best]) if choice.held_out else contest
        parts = primary_comparisons(compared, replace(aim, baseline=choice.baseline))
        verdict = next(part for part in parts if part.setting == best)
        others = len(parts)
    is_shown = verdict is not None and verdict.ci is not None and not verdict.ci[0] <= 0 <= verdict.ci[1]
    return Judgement(
        winner=_winner(choice, contest, ranked[0], values, aim),
        verdict=verdict,
        compared_with=others,
        finalists=[
            FinalistPart(
                setting=contest.names[place],
                searched=contest.sign(contest.primary) * float(choice.searched[place]),
                judged=_mean(values[place]),
            )
            for place in ranked[: choice.finalists]
        ],
        between_finalists=_between(choice, contest, names, aim, is_shown=is_shown),
    )


def _winner(choice: Choice, contest: ComparisonSet, place: int, values: Scores, aim: ComparisonOptions) -> WinnerPart:
    expected, sign = None, contest.sign(contest.primary)
    searched = sign * float(choice.searched[place])
    if choice.held_out:
        known = values[place][~np.isnan(values[place])]
        expected = ScorePart(
            mean=float(known.mean()), ci=mean_interval(known, aim.procedure.level, contest.primary), n=len(known)
        )
    else:
        allowed = [contest.names[one] for one in choice.ranked]
        selected = select_winner(_of(contest, allowed), seed=aim.procedure.seed)
        if selected.corrected is not None and selected.setting == contest.names[place]:
            expected = ScorePart(mean=selected.corrected, ci=selected.ci, n=selected.n)
    optimism = None if expected is None else sign * (searched - expected.mean)
    return WinnerPart(setting=contest.names[place], searched=searched, expected=expected, optimism=optimism)


def _between(
    choice: Choice, contest: ComparisonSet, names: Sequence[str], aim: ComparisonOptions, *, is_shown: bool
) -> list[ComparisonPart]:
    """The comparisons of the finalists; nothing is claimed of them where the first one, the verdict, claims nothing.

    Without queries that are held out they are corrected for all pairs of which they might have been.
    """
    compared = _of(contest, names) if choice.held_out else contest
    count = len(compared.names)
    if len(names) < 2 or count * (count - 1) / 2 > _MOST_PAIRS:
        return []
    made = primary_comparisons(compared, replace(aim, baseline=None))
    parts = [part for part in made if part.setting in names and part.baseline in names]
    if is_shown:
        return parts
    said = "nothing is claimed: the winner is not shown to differ from the baseline"
    return [part.model_copy(update={"verdict": None, "sentence": said}) for part in parts]


def pareto_set(choice: Choice, aim: ComparisonOptions) -> list[ParetoPart]:
    """Quality and costs of all settings, best first; a setting is beaten only where that is shown."""
    contest = choice.judging
    weighed = weigh_costs(contest)
    rows = {one.setting: one for one in weighed.settings}
    parts = [rows[name] for name in contest.names]
    known = [[getattr(part, cost) for cost in weighed.costs] for part in parts]
    costs = np.array(known, dtype=np.float64).reshape(len(parts), len(weighed.costs))  # None becomes NaN
    shown = _shown_as_good(contest, costs, aim)
    beaten: dict[str, str | None] = {}
    for place, name in enumerate(contest.names):
        rivals = np.flatnonzero(shown[:, place]).tolist()
        sign = contest.sign(contest.primary)
        best = max(rivals, key=lambda one: sign * (parts[one].mean or 0.0), default=None)
        beaten[name] = None if best is None else contest.names[best]
    return [
        ParetoPart(
            setting=part.setting,
            mean=part.mean,
            latency=part.latency,
            context=part.context,
            index=part.index,
            beaten_by=beaten[part.setting],
        )
        for part in weighed.settings
    ]


def _shown_as_good(contest: ComparisonSet, costs: Scores, aim: ComparisonOptions) -> Bools:
    """Whether the setting of a row is shown to beat that of a column, shape (settings, settings)."""
    count = len(contest.names)
    beats = np.zeros((count, count), dtype=np.bool_)
    pairs = list(combinations(range(count), 2))
    if not pairs or len(pairs) > _MOST_PAIRS:
        return beats
    (found,) = infer([Family(contest.scores(contest.primary).values, np.array(pairs))], aim.procedure)
    with np.errstate(invalid="ignore"):
        low, high = found.low, found.high
        if contest.sign(contest.primary) < 0:
            low, high = -high, -low
        for row, (first, second) in enumerate(pairs):
            no_more = bool((costs[first] <= costs[second]).all()), bool((costs[second] <= costs[first]).all())
            less = bool((costs[first] < costs[second]).any()), bool((costs[second] < costs[first]).any())
            beats[first, second] = no_more[0] and (low[row] > 0 or (less[0] and low[row] > -aim.margin))
            beats[second, first] = no_more[1] and (high[row] < 0 or (less[1] and high[row] < aim.margin))
    return beats


def _of(contest: ComparisonSet, names: Sequence[str]) -> ComparisonSet:
    """The contest of these settings alone, the first of them first."""
    return replace(contest, contenders=tuple(contest.contenders[contest.place(name)] for name in names))


def _mean(values: Scores) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
