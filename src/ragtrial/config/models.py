"""The models of a config."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr

from ragtrial.components.chunkers.base import AnyChunker
from ragtrial.components.contextual_text import ContextOptions
from ragtrial.components.embedders.base import AnyEmbedder
from ragtrial.components.executors.base import AnyExecutor, SerialExecutor
from ragtrial.components.interfaces import RETRIEVERS, Ranker
from ragtrial.components.refiners.base import REFINERS
from ragtrial.config.strict_yaml import KeyPath, YamlText
from ragtrial.config.sweep import SearchOptions, SweepOptions
from ragtrial.dataset.datasets import DatasetOptions
from ragtrial.engines import AnyStore
from ragtrial.errors import ConfigError, Fault, MetricError
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.options import Options, PathText, validate
from ragtrial.records import ReportWarning, brief
from ragtrial.registry import AnyOf

T = TypeVar("T")
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$", max_length=100)]
Cutoff = Annotated[int, Field(ge=1)]


def _a_metric(text: str) -> str:
    try:
        parse_metric(text)
    except MetricError as error:
        raise ValueError(str(error)) from error
    return text


def _listed(value: object) -> object:
    return [value] if type(value) is int else value


if TYPE_CHECKING:
    AnyRanker = Ranker
else:
    AnyRanker = Annotated[Any, AnyOf(RETRIEVERS, REFINERS)]

MetricText = Annotated[str, AfterValidator(_a_metric)]


class FamilyOptions(Options):
    """Where the standard metrics of a family are cut, and which others are wanted."""

    k: Annotated[list[Cutoff] | None, BeforeValidator(_listed, json_schema_input_type=Cutoff | list[Cutoff])] = None
    """The cutoffs at which every metric of the family is reported, or one cutoff (default, up to top_k: 1, 3, 5
    and 10 for order_unaware, 10 for order_aware, 5 and 10 for graded)."""

    metrics: list[MetricText] = Field(default=[])
    """More metrics of the family, like `rbp(p=0.8)@10`, and under `graded` functions of yours, like
    `my_metrics:reward(high=5)@10`; without a cutoff they are cut at top_k."""


class EvaluatorOptions(Options):
    """The unit of scoring, relevance, and the metrics."""

    unit: Literal["document", "span"] = "document"
    """The scored unit: document (a ranking of chunks collapses to documents), or span (the passages that labels quote;
    the unit for comparing chunkers)."""

    span_coverage: Annotated[float, Field(gt=0, le=1)] = 0.5
    """The share of a passage's characters that the hits so far must have together for it to be found (unit: span)."""

    budget: Annotated[int, Field(ge=1)] | None = None
    """Score also the first hits that fit into this number of tokens together: equal context instead of equal k, which
    favours large chunks. Tokens are counted by the config's embedder, for all settings."""

    relevance_threshold: Annotated[int, Field(ge=1)] = 1
    """The lowest grade that counts as relevant, for metrics without grades."""

    no_relevant: Literal["skip", "zero"] = "skip"
    """Leave queries without relevant documents out of the means, or count them as 0."""

    clusters: Literal["document"] | None = None
    """Take questions that share relevant documents, directly or through other questions, as one cluster in tests and
    intervals, in addition to the clusters that the labels name. Scores stay as they are."""

    ties: Literal["first", "trec"] = "first"
    """Which of documents with equal scores is ranked higher: the first by id, or, as trec_eval and public leaderboards
    have it, the last by id."""

    unanswerable_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of unanswerable questions in use, for the threshold below which a system should abstain (default: their
    share of the labelled questions)."""

    primary_metric: MetricText | None = None
    """Sorts tables, decides verdicts and gates (default ndcg@10, or at top_k when that is lower)."""

    order_unaware: FamilyOptions = FamilyOptions()
    """Metrics that ignore the order: precision, recall, f1, hit_rate."""

    order_aware: FamilyOptions = FamilyOptions()
    """Metrics of the order: rr, ap, rbp, and rbo if labels are ordered."""

    graded: FamilyOptions = FamilyOptions()
    """Metrics of grades: dcg, ndcg, judged."""


MOST_TIMED = 10
"""Settings of a run whose latency is measured unless the config says otherwise: in a long sweep it decides nothing."""


class OutputOptions(Options):
    """Where reports go."""

    directory: PathText = "results"
    """Reports are written to `directory/experiment/run id/`."""


@dataclass(frozen=True)
class ConfigSource:
    """The origin of a config: its content with places, the file and its text, and the warnings of reading it."""

    content: YamlText | None = None
    file: str | None = None
    text: str | None = None
    warnings: Sequence[ReportWarning] = ()


class ExperimentConfig(Options):
    """A retrieval experiment: documents, labels, and the settings to compare."""

    experiment: Name
    """The experiment's name: the folder its reports are kept in."""

    dataset: DatasetOptions
    """Documents and labels."""

    chunker: AnyChunker = Field(default={"kind": "recursive"}, validate_default=True)
    """How documents are cut."""

    context: ContextOptions = ContextOptions()
    """Text that is indexed with each chunk."""

    embedder: AnyEmbedder = Field(default={"kind": "sentence-transformer"}, validate_default=True)
    """The embedding model."""

    store: AnyStore = Field(default={"kind": "chroma"}, validate_default=True)
    """Where vectors are searched."""

    retrievers: dict[Name, AnyRanker] = Field(min_length=1)
    """The settings, by name: retrievers, and refiners of their rankings. Each may have its own chunker, context,
    embedder and store, if it depends on these."""

    sweep: SweepOptions | None = None
    """Many settings from this one config: every combination of values along axes."""

    search: SearchOptions | None = None
    """Look for the best setting along the axes of the sweep instead of running all combinations."""

    evaluators: EvaluatorOptions = EvaluatorOptions()
    """Unit, relevance and metrics."""

    output: OutputOptions = OutputOptions()
    """The folder that reports are written to."""

    workspace: PathText | None = None
    """The cache of finished stages (default: RAGTRIAL_WORKSPACE, else .ragtrial in the folder of this file if it
    exists, else one for all your experiments, such as ~/.cache/ragtrial)."""

    executor: AnyExecutor = SerialExecutor()
    """The processes that embed document texts. They change the time of a run, not its results."""

    latency: bool | None = None
    """Measure how long single queries take, on at most 50 of them (default: in runs of at most ten settings)."""

    seed: int = 0
    """The random seed: for a search and its held-out queries, and the queries whose latency is measured."""

    _source: ConfigSource = PrivateAttr(default_factory=ConfigSource)
    _derived: dict[str, Any] = PrivateAttr(default_factory=dict)

    def __repr__(self) -> str:
        return brief(self, ("experiment", "retrievers"))

    __str__ = __repr__

    @classmethod
    def of(
        cls, content: YamlText, file: str | None, text: str | None = None, warnings: Sequence[ReportWarning] = ()
    ) -> Self:
        """The config with this content, which remembers its origin; ``warnings`` were found while it was read.

        Raises ConfigError with all faults.
        """
        config = validate(cls, content.value, ConfigError, content.fault_at)
        config._source = ConfigSource(content, file, text, warnings)  # noqa: SLF001 - its own
        return config

    def once(self, name: str, make: Callable[[], T]) -> T:
        """The value that ``make`` returned for ``name`` when it was first called for this config."""
        if name not in self._derived:
            self._derived[name] = make()
        value: T = self._derived[name]
        return value

    def fault_at(self, where: KeyPath, message: str) -> Fault:
        """A fault at a place of the config: file, line and column, where they are known."""
        return self.content.fault_at(where, message)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy; a changed copy no longer equals the file, and is reported as it is."""
        copy = super().model_copy(update=update, deep=deep)
        if update:
            copy._source = replace(self._source, content=None, text=None)  # noqa: SLF001 - its own
            copy._derived = {}  # noqa: SLF001 - its own
        return copy

    @property
    def file(self) -> str | None:
        """The file it was read from, None if it was made in Python."""
        return self._source.file

    @property
    def warnings(self) -> Sequence[ReportWarning]:
        """The warnings of reading it."""
        return self._source.warnings

    @property
    def content(self) -> YamlText:
        """Its content, with places if it was read from a file."""
        if self._source.content:
            return self._source.content
        written = self.model_dump(mode="json", exclude_unset=True)
        return YamlText(written, written)

    @property
    def as_written(self) -> dict[str, Any]:
        """The config as it was written, after ``extends`` and overrides, with variables unresolved."""
        return dict(self.content.written)

    @property
    def text(self) -> str | None:
        """The text of the file, None if it was made in Python."""
        return self._source.text


def effective(config: ExperimentConfig, ranker: Ranker, what: str) -> Any:
    """The chunker, context, embedder or store of an entry of ``retrievers``: its own, else the config's."""
    own = getattr(ranker, what, None)
    return getattr(config, what) if own is None else own


def scored(config: ExperimentConfig) -> Mapping[str, Ranker]:
    """The entries of ``retrievers`` that are settings."""
    return {name: ranker for name, ranker in config.retrievers.items() if ranker.score}
