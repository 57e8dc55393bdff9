"""The parts of a comparison; as JSON, the output of ``ragtrial compare --json``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ragtrial.comparison.selection import SelectionPart
from ragtrial.comparison.statistics.procedures import Basis
from ragtrial.errors import counted
from ragtrial.records import Direction
from ragtrial.registry import late
from ragtrial.report.model import data_frame
from ragtrial.report.schema import Part, ScoredPart, WarningPart

if TYPE_CHECKING:
    from pandas import DataFrame

FamilyKind = Literal["primary", "descriptive"]
Verdict = Literal[
    "better", "worse", "worse within the margin", "no worse", "inconclusive", "too few differences", "identical"
]


Caution = Literal["skewed", "few differences"]
"""Why an interval is rougher than others: a few questions make most of the difference, or few questions differ."""


class ComparisonPart(Part):
    """Two settings by one metric, over the queries that count for both: ``setting`` less ``baseline``."""

    metric: str
    better: Direction = "higher"
    """Which values of the metric are better: wins, losses and the verdict follow it, means and differences are as they
    are."""

    family: FamilyKind
    """Claims are made, and errors limited, within the primary metric; all else is descriptive."""

    baseline: str
    setting: str
    mean_baseline: float | None
    mean: float | None
    difference: float | None
    """Null over no queries, as the means are."""

    ci: tuple[float, float] | None
    """Simultaneous for all comparisons of the family; null where too few queries differ."""

    p: float | None
    """Not corrected for other comparisons."""

    p_corrected: float | None
    """For the family; at most 1 less the confidence exactly where ``ci`` leaves out 0."""

    wins: int
    """Queries for which the setting has the better value."""

    ties: int
    losses: int
    effect_size: float | None
    """The mean difference over the standard deviation of the differences (Cohen's d of pairs)."""

    skewness: float | None
    """The skewness of the differences, far from 0 if a few queries make most of the difference. Null over no
    queries."""

    n: int
    clusters: int | None = None
    """How many clusters these queries are in, each of which counts as one observation; null where each query stands
    alone."""

    differing_clusters: int | None = None
    """The clusters whose sum of differences is not 0; null as ``clusters`` is."""

    caution: Caution | None = None
    """Null where the interval holds as often as others, or there is none."""

    verdict: Verdict | None
    """Null for a metric that is descriptive."""

    sentence: str
    """The verdict in words."""

    detectable: float | None
    """The difference that would be found with a probability of 80%, with as many queries."""

    queries_needed: int | None
    """How many queries in all would find a difference as large as the margin with a probability of 80%."""

    queries_to_settle: int | None = None
    """How many queries in all would find a difference as large as the observed one with a probability of 80%."""

    judged_baseline: float | None
    """The share of judged hits at the metric's cutoff; null where it is not known."""

    judged: float | None

    @property
    def units(self) -> int:
        """The number of observations: of clusters, or of queries that stand alone."""
        return self.n if self.clusters is None else self.clusters

    @property
    def differing(self) -> int:
        """The number of observations that are not the same for both."""
        return self.wins + self.losses if self.differing_clusters is None else self.differing_clusters

    @property
    def differing_text(self) -> str:
        """``9 of 60 questions``, or ``9 of 12 clusters of questions``."""
        noun = "questions" if self.clusters is None else "clusters of questions"
        return f"{self.differing:,} of {self.units:,} {noun}"

    @property
    def gain(self) -> float | None:
        """The difference, above 0 where the setting is better."""
        sign = -1 if self.better == "lower" else 1
        return None if self.difference is None else sign * self.difference + 0.0

    @property
    def gain_ci(self) -> tuple[float, float] | None:
        """The interval of ``gain``."""
        return self.ci if self.ci is None or self.better == "higher" else (-self.ci[1], -self.ci[0])

    def __repr__(self) -> str:
        change = "no difference" if self.difference is None else f"{self.difference:+.4f}"
        verdict = f", {self.verdict}" if self.verdict else ""
        return f"ComparisonPart({self.setting!r} against {self.baseline!r}, {self.metric}: {change}{verdict})"


class ProcedurePart(Part):
    """How it was tested."""

    name: str
    confidence: float
    margin: float
    flips: int
    seed: int
    baseline: str | None
    """Null where all pairs are compared."""

    comparisons: int
    """How many make up the family of a metric."""

    clusters: int | None = None
    """How many clusters the compared queries are in; null where each query stands alone."""

    largest_cluster: int | None = None
    """How many queries the largest one has."""

    sentence: str
    """The procedure in words."""


ConclusionKind = Literal[
    "best", "leading", "nothing shown", "no ranking yet", "one setting", "baseline", "two runs"
]  # fmt: skip
"""The grammar of a conclusion; ``nothing shown``: no setting is shown to be better than another."""


class FoundPart(Part):
    """For how many questions each setting finds an answer: its hit_rate at the cutoff of the metric that decides."""

    k: int
    questions: int
    by_setting: dict[str, int]


class NextStepPart(Part):
    """One thing to do next, and the command for it."""

    action: str
    command: str
    """Empty for scores in memory, which no command can read."""

    questions: int | None = None
    """How many more questions it asks to label, to settle two settings."""

    @property
    def sentence(self) -> str:
        return f"Next: {self.action}: {self.command}" if self.command else f"Next: {self.action}"


class VerdictLinePart(Part):
    """Settings with one verdict, best mean first. ``label`` and ``detail`` are the words around their names."""

    label: str
    settings: list[str]
    detail: str
    """The difference and its interval; empty for several settings, and where all scores are equal. Of the line *shown*
    the settings that the named one is better than."""

    depends_on_unjudged: bool


class ConclusionPart(Part):
    """The conclusion from the comparisons by the primary metric."""

    kind: ConclusionKind
    metric: str
    better: Direction
    """Which values of the metric are better."""

    top: list[str]
    """The setting with the best mean, and those identical to it; empty without a ranking."""

    score: float | None
    """The mean of ``top``."""

    expected: float | None
    """The expected mean of ``top`` on new questions, corrected for having been chosen; null if that is unknown."""

    baseline: str | None
    """The setting, or the report, that the others are compared with; null where all pairs are compared."""

    scored: ScoredPart
    found: FoundPart | None
    """Null where the metric has no cutoff, or grades of 1 are not relevant."""

    verdicts: dict[Verdict, list[str]]
    """For each verdict the settings that have it, compared with the baseline or else with ``top``, best mean first."""

    lines: list[VerdictLinePart]
    """The lines of the verdicts, as they are among ``sentences``."""

    depends_on_unjudged: list[str]
    """Settings whose verdict, better, worse or no worse, holds with the current labels: labels of hits that have none
    could take it back."""

    next_step: NextStepPart
    sentences: list[str]
    """The same in words: the headline, a line for each verdict, the next step."""


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
    sentences: list[str]
    """The same in words."""


class Comparison(Part):
    """Which settings are better, by how much, and how sure one can be."""

    conclusion: ConclusionPart

    comparisons: list[ComparisonPart]
    procedure: ProcedurePart
    primary_metric: str
    metrics: list[str]
    settings: list[str]
    queries: int
    warnings: list[WarningPart]
    selection: SelectionPart | None = Field(default=None, exclude=True)
    """How the best setting was chosen; None where reports are compared name by name, or where it is the baseline."""

    judge: JudgePart | None = Field(default=None, exclude=True)
    """The worth of a model's judgments; None without them."""

    def __repr__(self) -> str:
        size = f"{counted(len(self.settings), 'setting')}, {counted(self.queries, 'question')}"
        return f"Comparison({size}, {self.primary_metric}. {self.conclusion.sentences[0]})"

    def __str__(self) -> str:
        """The conclusion and the table of verdicts, in 100 columns."""
        return str(late("views.comparison_tables:comparison_text")(self, 100))

    def to_frame(self) -> DataFrame:
        """A pandas DataFrame with a row per comparison and metric: the fields of each, the interval as two columns.

        Raises ReportError where pandas is not installed.
        """
        rows = []
        for part in self.comparisons:
            row = part.model_dump()
            row["ci_low"], row["ci_high"] = row.pop("ci") or (None, None)
            rows.append(row)
        return data_frame(rows)
