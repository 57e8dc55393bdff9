"""The findings of a search: the winner, the verdict on it, and quality against costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from ragtrial.comparison.comparing import ComparisonOptions, primary_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.selection import select_winner
from ragtrial.comparison.statistics.estimates import mean_interval, mean_of
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.samples import Family
from ragtrial.comparison.tradeoffs import weigh_costs
from ragtrial.evaluation.grading import Scores
from ragtrial.rankings import Bools
from ragtrial.search.search_result import FinalistPart, ParetoPart, ScorePart, WinnerPart

_MOST_PAIRS = 20_000
"""With more pairs of settings none is compared: it would take minutes."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The settings to choose from, by their scores on the queries to search by.

    ``inputs`` has all settings over all queries. ``searched`` has their means on the queries to search by, negated if
    lower is better, -inf beyond the limits, shape (settings,). ``held_out`` are the ids of the held-out queries.
    """

    inputs: ComparisonInput
    searched: Scores
    held_out: Sequence[str]
    baseline: str
    finalists: int

    @property
    def ranked(self) -> list[int]:
        """The indices of the settings within the limits, best first, equal settings in their order."""
        order = np.argsort(-self.searched, kind="stable").tolist()
        return [index for index in order if self.searched[index] > -math.inf]

    @property
    def judging(self) -> ComparisonInput:
        """The settings over the deciding queries."""
        return self.inputs.over(set(self.held_out)) if self.held_out else self.inputs


@dataclass(frozen=True, eq=False)
class SearchVerdict:
    """The winner and the verdict on it: see ``SearchResult``."""

    winner: WinnerPart | None
    verdict: ComparisonPart | None
    compared_with: int
    finalists: list[FinalistPart]
    between_finalists: list[ComparisonPart]


def decide(choice: Choice, options: ComparisonOptions) -> SearchVerdict:
    """The winner, compared with the baseline and with the other finalists.

    On held-out queries only the winner is compared with the baseline. Without held-out queries the settings must have
    been chosen independently of scores; then all are compared, and the verdict is corrected for their number.
    """
    ranked, inputs = choice.ranked, choice.judging
    if not ranked:
        return SearchVerdict(None, None, 0, [], [])
    best = inputs.names[ranked[0]]
    names = [inputs.names[index] for index in ranked[: choice.finalists]]
    values = inputs.scores(inputs.primary).values
    verdict, others = None, 0
    if best != choice.baseline:
        compared = inputs.only([choice.baseline, best]) if choice.held_out else inputs
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
                setting=inputs.names[index],
                searched=inputs.sign(inputs.primary) * float(choice.searched[index]),
                judged=mean_of(values[index]),
            )
            for index in ranked[: choice.finalists]
        ],
        between_finalists=_between(choice, inputs, names, options, is_shown=is_shown),
    )


def _winner(
    choice: Choice, inputs: ComparisonInput, index: int, values: Scores, options: ComparisonOptions
) -> WinnerPart:
    expected, sign = None, inputs.sign(inputs.primary)
    searched = sign * float(choice.searched[index])
    if choice.held_out:
        known = values[index][~np.isnan(values[index])]
        expected = ScorePart(
            mean=float(known.mean()), ci=mean_interval(known, options.procedure.level, inputs.primary), n=len(known)
        )
    else:
        allowed = [inputs.names[index] for index in choice.ranked]
        scores = inputs.only(allowed).scores(inputs.primary).values
        selected = select_winner(scores, allowed, inputs.primary, sign=sign, seed=options.procedure.seed)
        if selected.corrected is not None and selected.setting == inputs.names[index]:
            expected = ScorePart(mean=selected.corrected, ci=selected.ci, n=selected.n)
    optimism = None if expected is None else sign * (searched - expected.mean)
    return WinnerPart(setting=inputs.names[index], searched=searched, expected=expected, optimism=optimism)


def _between(
    choice: Choice, inputs: ComparisonInput, names: Sequence[str], options: ComparisonOptions, *, is_shown: bool
) -> list[ComparisonPart]:
    """The comparisons of the finalists. They claim nothing if the verdict claims nothing.

    Without held-out queries they are corrected for all pairs of settings.
    """
    compared = inputs.only(names) if choice.held_out else inputs
    count = len(compared.names)
    if len(names) < 2 or count * (count - 1) / 2 > _MOST_PAIRS:
        return []
    comparisons = primary_comparisons(compared, replace(options, baseline=None))
    parts = [part for part in comparisons if part.setting in names and part.baseline in names]
    if is_shown:
        return parts
    sentence = "nothing is claimed: the winner is not shown to differ from the baseline"
    return [part.model_copy(update={"verdict": None, "sentence": sentence}) for part in parts]


def pareto_set(choice: Choice, options: ComparisonOptions) -> list[ParetoPart]:
    """Quality and costs of all settings, best first. A setting is beaten only if that is shown."""
    inputs = choice.judging
    weighed = weigh_costs(inputs)
    rows = {part.setting: part for part in weighed.settings}
    parts = [rows[name] for name in inputs.names]
    known = [[getattr(part, cost) for cost in weighed.costs] for part in parts]
    costs = np.array(known, dtype=np.float64).reshape(len(parts), len(weighed.costs))  # None becomes NaN
    shown = _shown_as_good(inputs, costs, options)
    beaten: dict[str, str | None] = {}
    for index, name in enumerate(inputs.names):
        rivals = np.flatnonzero(shown[:, index]).tolist()
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
    """Which setting (row) is shown to beat which other setting (column), shape (settings, settings)."""
    count = len(inputs.names)
    beats = np.zeros((count, count), dtype=np.bool_)
    pairs = list(combinations(range(count), 2))
    if not pairs or len(pairs) > _MOST_PAIRS:
        return beats
    (inference,) = infer([Family(inputs.scores(inputs.primary).values, np.array(pairs))], options.procedure)
    with np.errstate(invalid="ignore"):
        low, high = inference.low, inference.high
        if inputs.sign(inputs.primary) < 0:
            low, high = -high, -low
        for row, (first, second) in enumerate(pairs):
            no_more = bool((costs[first] <= costs[second]).all()), bool((costs[second] <= costs[first]).all())
            less = bool((costs[first] < costs[second]).any()), bool((costs[second] < costs[first]).any())
            beats[first, second] = no_more[0] and (low[row] > 0 or (less[0] and low[row] > -options.margin))
            beats[second, first] = no_more[1] and (high[row] < 0 or (less[1] and high[row] < options.margin))
    return beats
