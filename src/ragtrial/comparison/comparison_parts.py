"""What a comparison is made of; as JSON, what ``ragtrial compare --json`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from ragtrial.comparison.drafted import DraftedPart
from ragtrial.comparison.judge.judge_part import JudgePart
from ragtrial.comparison.statistics.samples import queries_for_skewness
from ragtrial.comparison.statistics.selection import SelectionPart
from ragtrial.errors import counted
from ragtrial.report.notebooks import data_frame, html_table
from ragtrial.report.schema import Part, WarningPart

if TYPE_CHECKING:
    from pandas import DataFrame

FamilyKind = Literal["primary", "descriptive"]
Verdict = Literal[
    "better", "worse", "worse within the margin", "no worse", "cannot tell", "too few differences", "identical"
]


class ComparisonPart(Part):
    """Two settings by one metric, over the queries that count for both: ``setting`` less ``baseline``."""

    metric: str
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
    """Of this comparison by itself."""

    p_corrected: float | None
    """For the family; at most 1 less the confidence exactly where ``ci`` leaves out 0."""

    wins: int
    """Queries for which the setting has the higher value."""

    ties: int
    losses: int
    effect_size: float | None
    """The mean difference over the standard deviation of the differences (Cohen's d of pairs)."""

    skewness: float | None
    """Of the differences: far from 0 where a few queries make most of the difference. Null over no queries."""

    n: int
    verdict: Verdict | None
    """Null for a metric that is descriptive."""

    sentence: str
    """The verdict in words."""

    detectable: float | None
    """The difference that would be found with a probability of 80%, with as many queries."""

    queries_needed: int | None
    """How many queries would find a difference as large as the margin with a probability of 80%."""

    judged_baseline: float | None
    """The share of judged hits at the metric's cutoff; null where it is not known."""

    judged: float | None

    @property
    def is_too_skewed(self) -> bool:
        """Whether its interval, and its claim, are wrong more often than said."""
        return self.ci is not None and self.skewness is not None and self.n < queries_for_skewness(self.skewness)

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

    sentence: str
    """The procedure in words."""


class ConclusionPart(Part):
    """What the comparisons by the primary metric come to."""

    metric: str
    best: str | None
    """The setting with the highest mean; null where reports are compared name by name, or no query counts for all."""

    score: float | None
    """Its mean on the queries that it was chosen by."""

    expected: float | None
    """Its mean on new queries, as far as can be said: less what it owes to having been chosen."""

    against: str | None
    """The baseline that others are better or worse than; null where all pairs are compared."""

    better: list[str]
    worse: list[str]
    """Worse than the baseline, or else than the best or another."""

    depends_on_unjudged: list[str]
    """Those of ``better`` and ``worse`` that labels of hits without one could take back: all others are clear."""

    not_distinguishable: list[str]
    """From the baseline, or else from the best."""

    next_step: str
    sentences: list[str]
    """The same in words, the next step last."""


class Comparison(Part):
    """Which settings are better, by how much, and how sure one can be."""

    conclusion: ConclusionPart

    comparisons: list[ComparisonPart]
    not_worse_than_best: dict[str, list[str]]
    """For each metric the settings not distinguishable from the best of all: none is shown to be better."""

    procedure: ProcedurePart
    primary_metric: str
    metrics: list[str]
    settings: list[str]
    queries: int
    warnings: list[WarningPart]
    selection: SelectionPart | None = Field(default=None, exclude=True)
    """How the best setting was chosen; None where reports are compared name by name."""

    judge: JudgePart | None = Field(default=None, exclude=True)
    """What a model's judgments are worth; None without them."""

    drafted: DraftedPart | None = Field(default=None, exclude=True)
    """Questions that a model drafted; None where there are none."""

    def __repr__(self) -> str:
        size = f"{counted(len(self.settings), 'setting')}, {counted(self.queries, 'query', 'queries')}"
        return f"Comparison({size}, {self.primary_metric}. {self.conclusion.sentences[0]})"

    def _repr_html_(self) -> str:
        rows = [
            {
                "setting": part.setting,
                "against": part.baseline,
                "difference": part.difference,
                "from": part.ci and part.ci[0],
                "to": part.ci and part.ci[1],
                "verdict": part.verdict,
            }
            for part in self.comparisons
            if part.metric == self.primary_metric
        ]
        return html_table(f"{self.primary_metric}. {self.procedure.sentence}", rows)

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
