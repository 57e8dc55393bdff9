"""The schema of report.json: its parts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, TypeVar

from pydantic import ConfigDict, Field

from ragtrial.errors import counted
from ragtrial.options import Described
from ragtrial.records import UNANSWERABLE, Direction, brief

T = TypeVar("T")

Value = Annotated[float, Field(ge=-1e100, le=1e100, allow_inf_nan=False)]
"""A value of a metric, whose square a float can hold."""

Small = Annotated[int, Field(gt=-(2**31), lt=2**31)]
"""An integer that arrays hold."""

PAID = ("embedding_cost", "query_cost")
COSTS = (*("latency.p50", "latency.p95", "latency.p99", "embedding_seconds", "indexing_seconds", "index_bytes"), *PAID)
"""The costs of a setting, by name; ``SettingPart.cost`` also knows ``tokens@K`` and ``characters@K``."""

_CONTEXT = re.compile(r"(tokens|characters)@([1-9][0-9]*)")


class Part(Described):
    """Strict, frozen, with descriptions in the schema."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    def __repr__(self) -> str:
        return brief(self, type(self).model_fields)

    def __str__(self) -> str:
        return repr(self)


class SpanPart(Part):
    """Characters start (included) to end (excluded) of a document's normalised text."""

    start: Small
    end: Small


class JudgmentPart(Part):
    """A judged document of a query."""

    doc: str
    relevance: Small
    spans: list[SpanPart] = Field(default=[])
    """The position of the label's quote."""

    group: str | None = Field(default=None, exclude_if=lambda group: group is None)
    """The name of the labels that are alternatives: any one of them answers. Not there without one."""


class QueryPart(Part):
    """A query and its judgments, as they were when it was scored."""

    id: str
    text: str
    tags: list[str]
    relevant_docs: list[JudgmentPart]
    ordered: bool = False
    cluster: str | None = Field(default=None, exclude_if=lambda cluster: cluster is None)
    """The queries of one cluster belong together; left out for a query that stands alone."""

    fingerprint: str | None = Field(default=None, exclude_if=lambda fingerprint: fingerprint is None)
    """In a table of scores: the fingerprint of its labels and text when it was scored. Not there otherwise."""


class CoveredPart(Part):
    """How much of a label's passage the first hits have together."""

    rank: int
    share: float
    """The share in (0, 1] of the passage's characters, down to this rank; it stays until the next named rank."""


class PassagePart(Part):
    """A label's passage in a ranking of chunks."""

    found: int | None
    """The rank at which enough of it is covered; null if it is not found."""

    covered: list[CoveredPart]
    """Each rank that covers more of it. A passage with several places has the place that was found first, or covered
    most.
    """


class QueryColumns(Part):
    """The results of a setting for each query: columns in the order of the report's queries.

    The hits themselves are in ``rankings/``, in the same order.
    """

    evaluations: dict[str, list[Value | None]]
    """For each metric its values; null where it is not defined for a query, which is then not in its mean."""

    short: list[bool]
    """True if fewer hits than top_k were found."""

    skipped: list[bool]
    """True if a query could not be answered; it is in none of the means."""

    collapsed: list[int]
    """Chunks read that belong to a document already ranked higher."""

    passages: list[list[PassagePart]] | None = None
    """Under unit: span, for each query one for each of its relevant_docs; null where documents are found."""

    def __repr__(self) -> str:
        return f"<{len(self.short):,}>"

    def at(self, places: Sequence[int]) -> QueryColumns:
        """The columns for the queries at these positions."""

        def chosen(column: Sequence[T]) -> list[T]:
            return [column[place] for place in places]

        return QueryColumns(
            evaluations={name: chosen(values) for name, values in self.evaluations.items()},
            short=chosen(self.short),
            skipped=chosen(self.skipped),
            collapsed=chosen(self.collapsed),
            passages=None if self.passages is None else chosen(self.passages),
        )


class MeanPart(Part):
    """A mean, and over how many queries."""

    mean: Value | None
    n: int


class LatencyPart(Part):
    """Seconds per query, one at a time, warm, embedding included, nothing from a cache."""

    p50: float
    p95: float
    p99: float | None = None
    """The 99th percentile; the slowest query if there are fewer than 100. Null in an older report."""

    n: int
    machine: str
    date: str


class AuditPart(Part):
    """The loss of an approximate index against exact search over the same vectors, with the same top_k."""

    overlap: float | None
    """The share of the documents of exact search that the index found, mean over queries; equal scores count."""

    lowest_overlap: float | None
    """That share for the query where it is lowest."""

    queries: int
    """Queries that were compared: those for which exact search finds a document."""

    queries_that_differ: int
    """Queries for which the index misses a document."""

    repeats: bool | None = None
    """True if another build of the index returns the same hits; null for an existing collection."""

    short_queries: int = 0
    """Queries for which the index returned fewer documents than exact search did."""

    used: bool | None = None
    """True if the engine answers from its index; null if unknown. If false, it scans: exact search."""

    use: str = ""
    """How that is known, in a sentence."""

    lost: dict[str, float | None]
    """For each metric its mean with exact search less its mean with the index: above 0, the index loses."""


class HealthPart(Part):
    """Statistics of the vectors."""

    vectors: int
    distinct_texts: int
    dimension: int
    zeros: int
    """Vectors of zeros."""

    shortest: float
    """The length of the shortest vector that is not one of zeros."""

    longest: float
    """The length of the longest vector."""


class ContextPart(Part):
    """How much text the first k hits are, mean over queries."""

    k: int
    characters: float
    tokens: float | None
    """Null where there is no tokenizer."""


class CostsPart(Part):
    """The costs of a setting, as measured when its stages were built; null if unknown.

    A setting with parts has the costs of all parts together, each shared cost counted once.
    """

    embedding_seconds: float | None
    """Seconds to embed all of its texts: the sum of the times of all texts, in this run or an earlier one."""

    indexing_seconds: float | None
    """To build its index from the vectors, or from the words; of exact search next to nothing."""

    index_bytes: int | None
    """The bytes of its index on the disk; for exact search the bytes of the vectors."""

    vector_bytes: int | None = None
    """How many bytes of a vector are searched; null without vectors, or for a run that was made elsewhere."""
    embedding_cost: float | None = None
    """The price of the tokens that endpoints billed when its texts were embedded, at the config's prices."""

    query_cost: float | None = None
    """The price of a thousand queries at endpoints: to embed, expand and rerank them."""


class BudgetPart(Part):
    """The scores of the first hits that fit into a context of a number of tokens together."""

    tokens: int
    hits: float
    """How many hits fit, mean over queries."""

    queries_not_full: int
    """Queries whose whole ranking of top_k hits fits: more could have been taken."""

    top_k_needed: int | None = None
    """The top_k with which about no ranking ends too early; null if none does, or if unknown."""

    scores: dict[str, MeanPart]
    """Scores by the metric without a cutoff, since the budget cuts; metrics that divide by their cutoff are left out.
    """


class SeparationPart(Part):
    """How well the score of the first hit separates answerable labelled questions from unanswerable ones.

    The difference and its interval are null for the setting that it is measured against, and with fewer than 30
    questions of each kind, or 10 clusters of them.
    """

    area: float
    """The area under the ROC curve: 1 is perfect, 0.5 is chance. Equal scores count half, nothing found is lowest."""

    answerable: int
    """Answerable questions with a label that counts."""

    unanswerable: int
    clusters: int | None = Field(default=None, exclude_if=lambda clusters: clusters is None)
    """The clusters with questions of a kind, of the kind that has fewer; left out if each question stands alone."""

    against: str | None
    """The setting with the highest mean of the primary metric."""

    difference: float | None = None
    """Its area less the area of that setting, for the same questions."""

    ci: tuple[float, float] | None = None
    """The interval of the difference at 95% confidence, for this setting alone."""

    share: float
    """The share of unanswerable questions in use that the threshold is for."""

    threshold: float
    """Answer a question if the score of its first hit is at least this: fitted on all questions."""

    false_answers: float
    """The share of unanswerable questions that are answered, by thresholds that were fitted without them."""

    false_refusals: float
    """The share of answerable questions that are not answered, by thresholds that were fitted without them."""

    coverage: float
    """The share of questions that are answered in use."""


class SettingPart(Part):
    """A setting, its scores, and all that was found."""

    name: str
    fingerprint: str
    parameters: dict[str, Any]
    comparable: bool = True
    """False if scores of hits cannot be compared between questions, as after rank fusion."""

    scores: dict[str, MeanPart]
    counts: dict[str, int | None]
    facts: dict[str, int | float | str | bool | None] = Field(default={})
    """Facts that the retriever or the refiner reports."""

    index: dict[str, Any]
    """The description of its own index; empty without one."""

    health: HealthPart | None
    """The health of its own vectors; null without any."""

    audit: AuditPart | None
    """Null where the index is exact, or too large to be compared unasked."""

    timings: dict[str, float]
    """Seconds per stage in this run; nearly nothing for a stage that was finished before."""

    costs: CostsPart | None = None

    latency: LatencyPart | None
    context: list[ContextPart] = Field(default=[])
    """At each cutoff of a metric; empty for a run that was made elsewhere."""

    budget: BudgetPart | None = None
    """Null where no budget was given."""

    separation: SeparationPart | None = None
    """Null with fewer than 10 unanswerable or 10 answerable questions, and without comparable scores."""

    per_query: QueryColumns

    def cost(self, name: str) -> float | None:
        """One of COSTS, or ``tokens@10``, ``characters@10``: the text of the first 10 hits; None where it is not known.

        Without an endpoint nothing is paid; what an endpoint without a price is paid is not known.
        """
        if (context := context_cost(name)) is not None:
            unit, k = context
            return next((getattr(context_part, unit) for context_part in self.context if context_part.k == k), None)
        head, _, rest = name.partition(".")
        if head == "latency":
            return getattr(self.latency, rest, None)
        value: float | None = getattr(self.costs, name, None)
        if value is None and self.costs is not None and name in PAID:
            asked = _embedders(self.parameters) if name == "embedding_cost" else [self.parameters]
            return None if any(map(_has_endpoint, asked)) else 0.0
        return value


def context_cost(name: str) -> tuple[str, int] | None:
    """The unit and the cutoff of ``tokens@10`` or ``characters@10``; None for another name."""
    match = _CONTEXT.fullmatch(name)
    return (match[1], int(match[2])) if match else None


def _embedders(parameters: Mapping[str, Any]) -> Iterator[object]:
    """The embedders of a setting and of its parts."""
    yield parameters.get("embedder")
    for part in parameters.get("parts", {}).values():
        yield from _embedders(part)


def _has_endpoint(options: object) -> bool:
    if not isinstance(options, Mapping):
        return False
    return "base_url" in options or any(map(_has_endpoint, options.values()))


class MetricPart(Part):
    """The meaning of a metric."""

    formula: str
    family: str
    counted: str
    """Which queries are in the mean."""

    better: Direction = "higher"
    """Which values are better."""

    source: str


class WarningPart(Part):
    """Something that its reader should know."""

    code: str
    message: str
    may_change_verdict: bool = False


class FailurePart(Part):
    """A setting that could not be run."""

    name: str
    error: str
    details: str | None = None
    """The traceback of an unexpected error."""


class DatasetPart(Part):
    """The searched documents and the labels."""

    documents: int | None
    """Null where runs that were made elsewhere were scored, as is the rest about documents."""

    empty_documents: int | None
    queries: int
    documents_fingerprint: str | None
    labels_fingerprint: str
    judged_whole: dict[str, SpanPart] = Field(default={})
    """Under unit: span, the documents that are judged without a quote, and where the text of each begins and ends."""


class SearchedPart(Part):
    """The search that chose the settings of the report; search.json has its result."""

    method: str
    is_adaptive: bool
    """True if settings were chosen by scores on the queries that are not held out, which voids any test on these."""

    baseline: str
    winner: str | None
    """The winning setting; null if no setting meets the limits of the search."""

    held_out: list[str]
    """The ids of queries that no choice has looked at; without any, all queries count for the choice."""


class ScoredPart(Part):
    """The questions behind the means of the primary metric, and why the others are not in them."""

    scored: int
    questions: int
    unanswerable: int
    """Not scored: tagged as without an answer in the documents."""

    unlabelled: int
    """Not scored: without a label that counts as relevant."""

    failed: int
    """Not scored: no setting could answer them."""

    missing: int = Field(default=0, exclude_if=lambda missing: not missing)
    """Not scored: without a score in a table, which has no labels."""

    @property
    def sentence(self) -> str:
        """``62 questions (59 scored; 3 have no answer in the documents)``; without brackets if all are scored."""
        reasons = "; ".join([f"{self.scored:,} scored", *self._reasons()])
        return counted(self.questions, "question") + (f" ({reasons})" if self.scored < self.questions else "")

    def _reasons(self) -> Iterator[str]:
        reasons = {"have no answer in the documents": self.unanswerable, "have no label that counts": self.unlabelled,
                   "could not be searched": self.failed, "have no score": self.missing}  # fmt: skip
        for reason, count in reasons.items():
            if count:
                yield f"{count:,} {reason.replace('have', 'has') if count == 1 else reason}"


def scored_part(
    queries: Sequence[QueryPart], is_scored: Sequence[bool], has_failed: Sequence[bool], *, have_labels: bool = True
) -> ScoredPart:
    """Counts over ``queries``; each that is not scored has one reason, the first of those above that holds."""
    rows = zip(queries, is_scored, has_failed, strict=True)
    missing = [(query, failed) for query, known, failed in rows if not known]
    unanswerable = sum(UNANSWERABLE in query.tags for query, _ in missing)
    failed = sum(failed for query, failed in missing if UNANSWERABLE not in query.tags)
    others = len(missing) - unanswerable - failed
    return ScoredPart(
        scored=len(queries) - len(missing),
        questions=len(queries),
        unanswerable=unanswerable,
        unlabelled=others if have_labels else 0,
        failed=failed,
        missing=0 if have_labels else others,
    )
