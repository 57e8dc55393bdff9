"""What may be said of a search: by which queries the winner was chosen, and by which it is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ragtrial.comparison.comparing import ComparisonOptions, primary_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.statistics.estimates import mean_interval
from ragtrial.comparison.statistics.procedures import infer
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

    ``inputs`` has all settings that were tried on all queries; ``searched`` their means on the queries to search by,
    with the other sign where lower is better, -inf beyond the limits, in its order; ``held_out`` are the ids of queries
    that no choice looked at.
    """

    inputs: ComparisonInput
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
    def judging(self) -> ComparisonInput:
        """The inputs over the queries that decide."""
        return self.inputs.over(set(self.held_out)) if self.held_out else self.inputs


@dataclass(frozen=True, eq=False)
class SearchVerdict:
    """What comes of it: see ``SearchResult``."""

    winner: WinnerPart | None
    verdict: ComparisonPart | None
    compared_with: int
    finalists: list[FinalistPart]
    between_finalists: list[ComparisonPart]


def judge(choice: Choice, options: ComparisonOptions) -> SearchVerdict:
    """The winner, against the baseline and the other finalists.

    On queries that are held out the winner alone is compared with the baseline. Without any, the settings must have
    been chosen without looking at scores: all of them are, and the verdict is corrected for so many.
    """
    ranked, inputs = choice.ranked, choice.judging
    if not ranked:
        return SearchVerdict(None, None, 0, [], [])
    best = inputs.names[ranked[0]]
    names = [inputs.names[place] for place in ranked[: choice.finalists]]
    values = inputs.scores(inputs.primary).values
    verdict, others = None, 0
    if best != choice.baseline:
        compared = _of(inputs, [choice.baseline, best]) if choice.held_out else inputs
        parts = primary_comparisons(compared, replace(options, baseline=choice.baseline))
        verdict = next(part for part in parts if part.setting == best)
        others = len(parts)
    is_shown = verdict is not None and verdict.ci is not None and not verdict.ci[0] <= 0 <= verdict.ci[1]
    return SearchVerdict(
        winner=_winner(choice, inputs, ranked[0], values, options),
        verdict=verdict,
        compared_with=others,
        finalists=[
            FinalistPart(
                setting=inputs.names[place],
                searched=inputs.sign(inputs.primary) * float(choice.searched[place]),
                judged=_mean(values[place]),
            )
            for place in ranked[: choice.finalists]
        ],
        between_finalists=_between(choice, inputs, names, options, is_shown=is_shown),
    )


def _winner(
    choice: Choice, inputs: ComparisonInput, place: int, values: Scores, options: ComparisonOptions
) -> WinnerPart:
    expected, sign = None, inputs.sign(inputs.primary)
    searched = sign * float(choice.searched[place])
    if choice.held_out:
        known = values[place][~np.isnan(values[place])]
        expected = ScorePart(
            mean=float(known.mean()), ci=mean_interval(known, options.procedure.level, inputs.primary), n=len(known)
        )
    else:
        allowed = [inputs.names[one] for one in choice.ranked]
        selected = select_winner(_of(inputs, allowed), seed=options.procedure.seed)
        if selected.corrected is not None and selected.setting == inputs.names[place]:
            expected = ScorePart(mean=selected.corrected, ci=selected.ci, n=selected.n)
    optimism = None if expected is None else sign * (searched - expected.mean)
    return WinnerPart(setting=inputs.names[place], searched=searched, expected=expected, optimism=optimism)


def _between(
    choice: Choice, inputs: ComparisonInput, names: Sequence[str], options: ComparisonOptions, *, is_shown: bool
) -> list[ComparisonPart]:
    """The comparisons of the finalists; nothing is claimed of them where the first one, the verdict, claims nothing.

    Without queries that are held out they are corrected for all pairs of which they might have been.
    """
    compared = _of(inputs, names) if choice.held_out else inputs
    count = len(compared.names)
    if len(names) < 2 or count * (count - 1) / 2 > _MOST_PAIRS:
        return []
    made = primary_comparisons(compared, replace(options, baseline=None))
    parts = [part for part in made if part.setting in names and part.baseline in names]
    if is_shown:
        return parts
    said = "nothing is claimed: the winner is not shown to differ from the baseline"
    return [part.model_copy(update={"verdict": None, "sentence": said}) for part in parts]


def pareto_set(choice: Choice, options: ComparisonOptions) -> list[ParetoPart]:
    """Quality and costs of all settings, best first; a setting is beaten only where that is shown."""
    inputs = choice.judging
    weighed = weigh_costs(inputs)
    rows = {one.setting: one for one in weighed.settings}
    parts = [rows[name] for name in inputs.names]
    known = [[getattr(part, cost) for cost in weighed.costs] for part in parts]
    costs = np.array(known, dtype=np.float64).reshape(len(parts), len(weighed.costs))  # None becomes NaN
    shown = _shown_as_good(inputs, costs, options)
    beaten: dict[str, str | None] = {}
    for place, name in enumerate(inputs.names):
        rivals = np.flatnonzero(shown[:, place]).tolist()
        sign = inputs.sign(inputs.primary)
        best = max(rivals, key=lambda one: sign * (parts[one].mean or 0.0), default=None)
        beaten[name] = None if best is None else inputs.names[best]
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


def _shown_as_good(inputs: ComparisonInput, costs: Scores, options: ComparisonOptions) -> Bools:
    """Whether the setting of a row is shown to beat that of a column, shape (settings, settings)."""
    count = len(inputs.names)
    beats = np.zeros((count, count), dtype=np.bool_)
    pairs = list(combinations(range(count), 2))
    if not pairs or len(pairs) > _MOST_PAIRS:
        return beats
    (found,) = infer([Family(inputs.scores(inputs.primary).values, np.array(pairs))], options.procedure)
    with np.errstate(invalid="ignore"):
        low, high = found.low, found.high
        if inputs.sign(inputs.primary) < 0:
            low, high = -high, -low
        for row, (first, second) in enumerate(pairs):
            no_more = bool((costs[first] <= costs[second]).all()), bool((costs[second] <= costs[first]).all())
            less = bool((costs[first] < costs[second]).any()), bool((costs[second] < costs[first]).any())
            beats[first, second] = no_more[0] and (low[row] > 0 or (less[0] and low[row] > -options.margin))
            beats[second, first] = no_more[1] and (high[row] < 0 or (less[1] and high[row] < options.margin))
    return beats


def _of(inputs: ComparisonInput, names: Sequence[str]) -> ComparisonInput:
    """The inputs of these settings alone, the first of them first."""
    return replace(inputs, settings=tuple(inputs.settings[inputs.place(name)] for name in names))


def _mean(values: Scores) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
