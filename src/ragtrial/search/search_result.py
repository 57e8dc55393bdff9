"""The result of a search: the winner, the verdict on it, and all of it in words; search.json."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from pydantic import Field

from ragtrial.comparison.comparing import ComparisonOptions, primary_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.conclusion import labels_to_settle
from ragtrial.comparison.selection import select_winner
from ragtrial.comparison.statistics.estimates import mean_interval
from ragtrial.errors import counted, listed
from ragtrial.evaluation.clusters import linearised
from ragtrial.evaluation.grading import Scores
from ragtrial.report.schema import Part


class TrialPart(Part):
    """A setting that was tried, in the order of trying."""

    setting: str
    is_given: bool
    """True if it is in the config, false if the search chose it."""

    queries: int
    """The number of queries to search by for which it has a score."""

    score: float | None
    """The mean of the primary metric on these queries."""

    held_out: float | None
    """Its mean on the held-out queries; null without any."""

    best: float | None
    """The best score so far of a setting within the limits."""

    costs: dict[str, float | None]
    """The limited costs as measured; null if unknown."""

    is_within: bool
    seconds: float
    """The time from the beginning of the search until it was scored."""


class ScorePart(Part):
    """The expected score of the winner on new queries."""

    mean: float
    ci: tuple[float, float] | None
    """95% interval; null if there are too few queries."""

    n: int


class WinnerPart(Part):
    """The best setting within the limits, by the queries to search by."""

    setting: str
    searched: float
    """Its mean on the queries that chose it."""

    expected: ScorePart | None
    """Its expected mean on new queries: its mean on the held-out queries, or else its mean corrected for the choice."""

    optimism: float | None
    """``searched`` minus the mean of ``expected``."""


class Findings(Part):
    """The winner of a search, and the verdict on it."""

    winner: WinnerPart | None
    """Null if no setting meets the limits."""

    verdict: ComparisonPart | None
    """The winner against the baseline, on the deciding queries; null if it is the baseline."""

    compared_with: int
    """The number of comparisons with the baseline for which the verdict is corrected."""


class SearchResult(Findings):
    """The course of a search, its winner, and the verdict on it."""

    method: str
    seed: int
    metric: str
    settings: int
    """The number of settings tried, in addition to those in the config."""

    possible: int | None
    """The number of settings that the axes have; null for a continuous axis, or if there are very many."""

    refused: list[str]
    """Some of the reasons why combinations are not valid, and were left out."""

    ended: str
    """Why no other setting was tried."""

    failed: list[str] = Field(default=[])
    """The settings that failed; they have no scores."""

    searched: int
    """Queries to search by."""

    held_out: int
    baseline: str
    trials: list[TrialPart]
    sentences: list[str]
    """The result in words, the next step last."""


def sentences_of(result: SearchResult) -> Iterator[str]:
    """The result first, one next step last."""
    winner = result.winner
    if winner is None:
        yield f"None of {counted(len(result.trials), 'setting')} meets the limits of search.within."
        yield from _failed(result)
        yield "Next: raise the limits, or search along axes that lower the costs."
        return
    yield f"Best: {winner.setting} ({result.metric} {winner.searched:.3f} on the questions that chose it)."
    if winner.expected is not None:
        expected = winner.expected
        interval = f" (95% interval {expected.ci[0]:.3f} to {expected.ci[1]:.3f})" if expected.ci else ""
        on = f"On {result.held_out} held-out questions: " if result.held_out else "On new questions expect about "
        yield f"{on}{expected.mean:.3f}{interval}."
    yield from _failed(result)
    yield from _verdict(result)


def _verdict(result: SearchResult) -> Iterator[str]:
    verdict = result.verdict
    if verdict is None:
        yield f"No setting scored higher than {result.baseline}, the config as it is."
        yield "Next: search along other axes, or keep the config."
        return
    corrected = "" if result.held_out else f", corrected for {counted(result.compared_with, 'comparison')}"
    change = "" if verdict.difference is None else f" ({verdict.difference:+.3f}"
    if verdict.ci is not None:
        change += f", 95% interval {verdict.ci[0]:+.3f} to {verdict.ci[1]:+.3f}{corrected}"
    change += ")" if change else ""
    if verdict.verdict == "better":
        yield f"It is better than {result.baseline} with the current labels{change}."
        yield "Next: run the winner's config, winner.yaml of the report, and look at the questions that it loses."
        return
    if verdict.verdict in ("worse", "worse within the margin"):
        yield f"It is worse than {result.baseline} with the current labels{change}; it came first by chance."
        yield "Next: keep the config as it is."
        return
    yield f"No difference from {result.baseline} is shown{change}."
    if (more := labels_to_settle(verdict)) is not None:
        yield f"Next: label about {counted(more, 'more question')} to settle the two, or keep the config as it is."
    elif verdict.verdict == "no worse":
        yield "Next: keep the config as it is, or take the winner if it is cheaper."
    else:
        yield "Next: keep the config as it is."


def _failed(result: SearchResult) -> Iterator[str]:
    if result.failed:
        tried = counted(len({trial.setting for trial in result.trials} | set(result.failed)), "setting")
        have = "has" if len(result.failed) == 1 else "have"
        yield f"{len(result.failed)} of {tried} failed, and {have} no score: {listed(result.failed, 5)}."


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
    """The winner, compared with the baseline.

    On held-out queries only the winner is compared with the baseline. Without held-out queries the settings must have
    been chosen independently of scores; then all are compared, and the verdict is corrected for their number.
    """
    ranked, inputs = choice.ranked, choice.judging
    if not ranked:
        return Findings(winner=None, verdict=None, compared_with=0)
    best, sign = inputs.names[ranked[0]], inputs.sign(inputs.primary)
    verdict, parts = None, list[ComparisonPart]()
    if best != choice.baseline:
        compared = inputs.only([choice.baseline, best]) if choice.held_out else inputs
        parts = primary_comparisons(compared, replace(options, baseline=choice.baseline))
        verdict = next(part for part in parts if part.setting == best)
    expected = _expected(choice, inputs, ranked[0], options)
    searched = sign * float(choice.searched[ranked[0]])
    optimism = None if expected is None else sign * (searched - expected.mean)
    winner = WinnerPart(setting=best, searched=searched, expected=expected, optimism=optimism)
    return Findings(winner=winner, verdict=verdict, compared_with=len(parts))


def _expected(choice: Choice, inputs: ComparisonInput, best: int, options: ComparisonOptions) -> ScorePart | None:
    """The expected score of the best setting on new queries; None if it cannot be corrected for the choice."""
    scores = inputs.scores(inputs.primary).values
    if choice.held_out:
        known = scores[best][~np.isnan(scores[best])]
        (values,) = linearised(scores[[best]], inputs.clusters)
        interval = mean_interval(values, options.procedure.level, inputs.primary)
        return ScorePart(mean=float(known.mean()), ci=interval, n=len(known))
    allowed = [inputs.names[index] for index in choice.ranked]
    scores, sign = inputs.only(allowed).scores(inputs.primary).values, inputs.sign(inputs.primary)
    selected = select_winner(scores, allowed, inputs.primary, inputs.clusters, sign=sign, seed=options.procedure.seed)
    if selected.corrected is None or selected.setting != inputs.names[best]:
        return None
    return ScorePart(mean=selected.corrected, ci=selected.ci, n=selected.n)
