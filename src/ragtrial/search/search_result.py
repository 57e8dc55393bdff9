"""The result of a search in numbers and in words: search.json, and a part of ``ragtrial run --json``."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.comparison.conclusion import labels_to_settle
from ragtrial.errors import counted, listed
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


class FinalistPart(Part):
    """One of the best settings, by the queries to search by."""

    setting: str
    searched: float
    judged: float | None
    """Its mean on the deciding queries: the held-out queries, or else all."""


class Findings(Part):
    """The winner of a search, and the verdict on it."""

    winner: WinnerPart | None
    """Null if no setting meets the limits."""

    verdict: ComparisonPart | None
    """The winner against the baseline, on the deciding queries; null if it is the baseline."""

    compared_with: int
    """The number of comparisons with the baseline for which the verdict is corrected."""

    finalists: list[FinalistPart]
    between_finalists: list[ComparisonPart]
    """Their comparisons with one another. They claim nothing unless the winner is shown to differ from the baseline, so
    the claims of verdict and finalists together are wrong in at most 5% of searches."""


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
    yield from _verdict(result, winner.setting)


def _verdict(result: SearchResult, winner: str) -> Iterator[str]:
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
        near = [
            finalist.setting
            for finalist in result.finalists
            if finalist.setting != winner and _is_open(result, finalist.setting)
        ]
        if near:
            yield f"Inconclusive against it: {listed(near)}."
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


def _is_open(result: SearchResult, name: str) -> bool:
    """A finalist is open if it is not shown to be worse than the winner."""
    winner = result.winner.setting if result.winner else ""
    for part in result.between_finalists:
        if {part.setting, part.baseline} == {winner, name}:
            return part.verdict not in ("better", "worse")
    return True
