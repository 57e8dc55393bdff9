"""The findings of a search: the winner, and the verdict on it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ragtrial.comparison.comparing import ComparisonOptions, primary_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.selection import select_winner
from ragtrial.comparison.statistics.estimates import mean_interval, mean_of
from ragtrial.evaluation.grading import Scores
from ragtrial.search.search_result import FinalistPart, Findings, ScorePart, WinnerPart

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


def decide(choice: Choice, options: ComparisonOptions) -> Findings:
    """The winner, compared with the baseline and with the other finalists.

    On held-out queries only the winner is compared with the baseline. Without held-out queries the settings must have
    been chosen independently of scores; then all are compared, and the verdict is corrected for their number.
    """
    ranked, inputs = choice.ranked, choice.judging
    if not ranked:
        return Findings(winner=None, verdict=None, compared_with=0, finalists=[], between_finalists=[])
    best, values, sign = inputs.names[ranked[0]], inputs.scores(inputs.primary).values, inputs.sign(inputs.primary)
    verdict, parts = None, list[ComparisonPart]()
    if best != choice.baseline:
        compared = inputs.only([choice.baseline, best]) if choice.held_out else inputs
        parts = primary_comparisons(compared, replace(options, baseline=choice.baseline))
        verdict = next(part for part in parts if part.setting == best)
    finalists = [
        FinalistPart(
            setting=inputs.names[index], searched=sign * float(choice.searched[index]), judged=mean_of(values[index])
        )
        for index in ranked[: choice.finalists]
    ]
    expected = _expected(choice, inputs, ranked[0], options)
    searched = finalists[0].searched
    optimism = None if expected is None else sign * (searched - expected.mean)
    is_shown = verdict is not None and verdict.ci is not None and not verdict.ci[0] <= 0 <= verdict.ci[1]
    return Findings(
        winner=WinnerPart(setting=best, searched=searched, expected=expected, optimism=optimism),
        verdict=verdict,
        compared_with=len(parts),
        finalists=finalists,
        between_finalists=_between(choice, inputs, [part.setting for part in finalists], options, is_shown=is_shown),
    )


def _expected(choice: Choice, inputs: ComparisonInput, best: int, options: ComparisonOptions) -> ScorePart | None:
    """The expected score of the best setting on new queries; None if it cannot be corrected for the choice."""
    scores = inputs.scores(inputs.primary).values
    if choice.held_out:
        known = scores[best][~np.isnan(scores[best])]
        interval = mean_interval(known, options.procedure.level, inputs.primary)
        return ScorePart(mean=float(known.mean()), ci=interval, n=len(known))
    allowed = [inputs.names[index] for index in choice.ranked]
    scores, sign = inputs.only(allowed).scores(inputs.primary).values, inputs.sign(inputs.primary)
    selected = select_winner(scores, allowed, inputs.primary, sign=sign, seed=options.procedure.seed)
    if selected.corrected is None or selected.setting != inputs.names[best]:
        return None
    return ScorePart(mean=selected.corrected, ci=selected.ci, n=selected.n)


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
