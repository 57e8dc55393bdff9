"""What a search comes to; search.json beside report.json, and a part of what ``ragtrial run --json`` prints."""

from __future__ import annotations

from pydantic import Field, JsonValue

from ragtrial.comparison.comparison_parts import ComparisonPart
from ragtrial.report.schema import Part


class TrialPart(Part):
    """A setting that was tried, in the order of trying."""

    setting: str
    is_given: bool
    """Whether it is in the config, and was not chosen by the search."""

    queries: int
    """The number of queries to search by that it has a score for."""

    documents: int
    """How many documents were searched: fewer than all while settings were screened."""

    score: float | None
    """The mean of the primary metric on these."""

    held_out: float | None
    """Its mean on the queries that are held out; null where none are, or on some of the documents."""

    best: float | None
    """The highest score so far of a setting within the limits, on as many documents."""

    costs: dict[str, float | None]
    """What the search limits, as measured; null where that is not known."""

    is_within: bool
    seconds: float
    """Since the search began, when it was scored."""


class ScorePart(Part):
    """What may be expected of the winner on new queries."""

    mean: float
    ci: tuple[float, float] | None
    """95% interval; null where there are too few queries."""

    n: int


class WinnerPart(Part):
    """The best setting within the limits, by the queries to search by."""

    setting: str
    searched: float
    """Its mean on the queries that it was chosen by."""

    expected: ScorePart | None
    """On new queries: its mean on those that are held out or, without any, corrected for the choice."""

    optimism: float | None
    """``searched`` less the mean of ``expected``."""


class FinalistPart(Part):
    """One of the best, by the queries to search by."""

    setting: str
    searched: float
    judged: float | None
    """Its mean on the queries that decide: those that are held out, or all."""


class ParetoPart(Part):
    """A setting in the table of quality and costs."""

    setting: str
    mean: float | None
    latency: float | None
    """Seconds per query, the median."""

    context: float | None
    """Tokens, or where these are not known characters, of the first hits down to the cutoff of the metric."""

    index: int | None
    """Bytes of its index."""

    beaten_by: str | None
    """A setting that costs no more in anything, and is shown to be better; or costs less in something, and is shown to
    be no worse than the margin. Null: no such setting is known."""


class ImportancePart(Part):
    """How much an axis moves the score: the difference between two of its levels that is largest."""

    axis: str
    level: JsonValue
    """The better level: a value, or ``[lowest, highest]`` of a third of the values."""

    reference: JsonValue
    difference: float
    ci: tuple[float, float] | None
    """Simultaneous for all pairs of levels of all axes; null where too few queries differ."""


class ScreenedPart(Part):
    """A setting that was tried on some of the documents and on all."""

    setting: str
    screened: float | None
    """Its mean on the queries to search by, on some of the documents."""

    whole: float | None
    """The same on all documents."""


class ScreenPart(Part):
    """How far settings on some of the documents agree with the same on all: of the baseline and the finalists."""

    documents: int
    of: int
    settings: list[ScreenedPart]
    tau: float | None
    """Kendall's tau of the two rankings of these settings, from -1 to 1; null for fewer than two settings."""

    difference: float | None
    """The mean of the score on some documents less that on all."""

    lowest: float | None
    highest: float | None


class SearchResult(Part):
    """How the search went, and what may be said of its winner."""

    method: str
    seed: int
    metric: str
    settings: int
    """How many were tried, beside those that are in the config."""

    possible: int | None
    """How many settings the axes have; null for a continuous axis, or very many."""

    refused: list[str]
    """Why combinations were left out that the config refuses, a few of the reasons."""

    ended: str
    """Why no other setting was tried."""

    failed: list[str] = Field(default=[])
    """The settings that were tried and failed; they have no scores."""

    searched: int
    """Queries to search by."""

    held_out: int
    baseline: str
    winner: WinnerPart | None
    """Null where no setting meets the limits."""

    verdict: ComparisonPart | None
    """The winner against the baseline, on the queries that decide; null where it is the baseline."""

    compared_with: int
    """How many comparisons with the baseline the verdict is corrected for."""

    finalists: list[FinalistPart]
    between_finalists: list[ComparisonPart]
    """Their comparisons with one another. Nothing is claimed of them unless the winner is shown to differ from the
    baseline: so the claims of verdict and finalists together are wrong in at most 5% of searches."""

    pareto: list[ParetoPart]
    """Best first, on the queries that decide; a family of its own."""

    importance: list[ImportancePart]
    """Most important axis first; empty where too few settings were tried. All else is taken to add up."""

    screen: ScreenPart | None = None
    """Null where all settings were tried on all documents."""

    trials: list[TrialPart]
    sentences: list[str]
    """The result in words, the next step last."""
