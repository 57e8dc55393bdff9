"""Scoring runs of other systems: qrels and runs in, scores, counts and warnings out."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import islice
from typing import Any, Literal, get_args

import numpy as np

from ragtrial.dataset.qrels_text import repeated_rows
from ragtrial.dataset.texts import short
from ragtrial.errors import Fault, InputError, RunFileError, counted, did_you_mean, listed
from ragtrial.evaluation import evaluators
from ragtrial.evaluation.bounds import Bounds, attainable, tie_range, ties_that_matter
from ragtrial.evaluation.evaluators import Evaluation, NoRelevant
from ragtrial.evaluation.grading import GradedRankings, graded_hits, retrieving
from ragtrial.evaluation.metrics import Metric, parse_metrics
from ragtrial.records import Mean, ReportWarning
from ragtrial.runs.formats.rows import distinct
from ragtrial.runs.inputs import RunInput
from ragtrial.runs.qrels import Duplicates, Order, Qrels, RunHits

MOST_NAMED = 10
_LONGEST_PREFIX = 24


@dataclass(frozen=True)
class RunCounts:
    """Counts of the rows that were read, and of the queries of the run and of its qrels.

    ``rows`` counts the lines of the run, ``duplicates`` the dropped lines, whose document has a higher rank already.
    ``tied`` counts the queries with equal scores, ``ties_that_matter`` the queries in which another order of equal
    scores could change a score, ``contradicted`` the queries whose rank column contradicts their scores.

    ``judged`` counts the queries of the qrels, ``retrieved`` and ``missing`` those that are in the run and those that
    are not: they score 0 and are counted; ``missing_names`` has up to ten of them. ``unknown`` counts the run's queries
    without a judgment, which are left out; ``unknown_names`` has up to ten of them.
    """

    rows: int
    duplicates: int
    tied: int
    ties_that_matter: int
    contradicted: int
    judged: int
    retrieved: int
    missing: int
    missing_names: tuple[str, ...]
    unknown: int
    unknown_names: tuple[str, ...]


def _warnings(name: str, hits: RunHits, qrels: Qrels, counts: RunCounts) -> Iterator[ReportWarning]:
    yield from mismatch_warnings(name, counts, qrels.queries)
    if hits.note:
        yield ReportWarning("spans-left-out", f"{name}: {hits.note}")
    if qrels.repeated:
        yield repeated_rows(qrels.repeated, "with the same grades")
    if counts.retrieved and not len(hits.ranks):
        yield document_warning(name, list(qrels.documents), hits.some_documents)
    if counts.contradicted:
        first = qrels.queries[int(np.flatnonzero(hits.contradicted)[0])]
        yield ReportWarning(
            "ranks-contradict-scores",
            f"{name}: the rank column says another order than the scores, in queries: {counts.contradicted:,} "
            f"({first!r} first); the scores were followed.",
        )
    if counts.ties_that_matter:
        yield ReportWarning.of_verdict(
            "ties",
            f"{name}: queries with equal scores of documents that are judged unlike: {counts.ties_that_matter:,}; "
            f"their order may change values ({counts.tied:,} have equal scores at all); --ties shows by how much.",
        )
    if counts.duplicates:
        message = f"{name}: rows dropped, whose document stands higher in the same ranking: {counts.duplicates:,}."
        yield ReportWarning("duplicates-dropped", message)


def mismatch_warnings(run: str, counts: RunCounts, judged: Collection[str]) -> Iterator[ReportWarning]:
    """Warnings about queries that only one of the two has; ``judged`` has the ids of the qrels."""
    if counts.missing:
        yield ReportWarning.of_verdict(
            "queries-not-retrieved",
            f"{run}: {counts.missing:,} of {counts.judged:,} judged queries are missing in the run; they score 0 and "
            f"are counted: {_some(counts.missing_names, counts.missing)}.",
        )
    if counts.unknown:
        yield ReportWarning(
            "queries-not-judged",
            f"{run}: queries of the run without judgments are left out, {counts.unknown:,} in number: "
            f"{_some(counts.unknown_names, counts.unknown)}.",
        )
    both, in_run = counts.retrieved, counts.retrieved + counts.unknown
    if 2 * both < max(counts.judged, in_run) and min(counts.judged, in_run):
        guess = guessed_reason(judged, counts.unknown_names)
        yield ReportWarning.of_verdict(
            "few-queries-match",
            f"{run}: FEWER THAN HALF OF THE QUERIES MATCH: {counts.judged:,} are judged, {in_run:,} are in the run, "
            f"{both:,} in both. {guess or 'Do the two belong together?'}",
        )


def document_warning(run: str, judged: Collection[str], found: Sequence[str]) -> ReportWarning:
    """A warning if no hit of a run is judged; ``found`` has some of its documents."""
    some, known = ((short(name, 60) for name in names) for names in (found, islice(judged, 3)))  # they may be passages
    names = f"The run has {listed(some, 3)}; the qrels have {listed(known, 3)}."
    return ReportWarning.of_verdict(
        "no-documents-match",
        f"{run}: NOT ONE HIT IS JUDGED: no document of the run is in the qrels of its query, so all is 0. "
        f"{guessed_reason(judged, found) or names}",
    )


_RULES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("white space around them", str.strip),
    ("upper and lower case", str.lower),
    ("zeros before the number", lambda name: re.sub(r"0*(\d+)$", r"\1", name)),
    ("numbers that were written as decimals, like 7.0 for 7", lambda name: re.sub(r"(?<=.)\.0*$", "", name)),
)
"""Rules that make equal ids out of ids that differ."""


def guessed_reason(judged: Collection[str], unknown: Sequence[str]) -> str:
    """A sentence that says how ids of ``unknown`` would be ids of ``judged``; nothing if no rule is found."""
    names = dict.fromkeys(judged)
    for what, rule in _RULES:
        plain = {rule(name): name for name in names}
        pairs = [(name, plain[rule(name)]) for name in unknown if rule(name) in plain]
        if 2 * len(pairs) >= len(unknown) and pairs:
            return f"The ids differ by {what}: {pairs[0][0]!r} in the run, {pairs[0][1]!r} in the qrels."
    for whose, longer, shorter in (("run", unknown, names), ("qrels", names, dict.fromkeys(unknown))):
        cuts = ((name[:cut], name[cut:]) for name in longer for cut in range(1, min(len(name), _LONGEST_PREFIX)))
        ends = [(prefix, end) for prefix, end in cuts if end in shorter]
        for prefix, count in Counter(prefix for prefix, _ in ends).most_common(1):
            if 2 * count >= len(unknown):
                plain_id = next(end for start, end in ends if start == prefix)
                return f"The ids of the {whose} have {prefix!r} before them: {prefix + plain_id!r} for {plain_id!r}."
    return ""


def _some(names: Sequence[str], count: int) -> str:
    rest = count - len(names)
    return listed(names, MOST_NAMED) + (f", and {rest:,} more" if rest > 0 else "")


STANDARD_METRICS = ("ndcg@10", "recall@100", "ap", "rr", "precision@10", "judged@10")


_BLOCK = 2**17
"""The number of queries that are evaluated at a time."""


@dataclass(frozen=True)
class Protocol:
    """The rules by which runs are scored.

    ``relevance_threshold`` is the grade from which a document is relevant. ``no_relevant`` decides about queries for
    which a metric is not defined: ``skip`` leaves them out of its mean, ``zero`` counts them. ``depth`` cuts every
    ranking, None keeps all. ``judged_only`` drops unjudged hits before anything is counted. ``duplicates`` decides
    about a document that occurs twice in a ranking: an error, or only its first occurrence counts. ``trec_compat``
    follows trec_eval: equal scores by document id, descending; ``no_relevant`` is zero; grades below 0 are pooled
    documents without a judgment; more than six columns in a run are its tag. ``ties`` asks for the range of
    every metric over the orders of equal scores. ``clusters`` is for comparisons of a report of the scores: with
    ``document``, queries with a common relevant document are one cluster there.

    Raises InputError for a threshold or a depth below 1.
    """

    metrics: tuple[Metric, ...]
    relevance_threshold: int = 1
    no_relevant: NoRelevant = "skip"
    depth: int | None = None
    judged_only: bool = False
    duplicates: Duplicates = "error"
    trec_compat: bool = False
    ties: bool = False
    clusters: Literal["document"] | None = None

    def __post_init__(self) -> None:
        depth = 1 if self.depth is None else self.depth
        numbers: tuple[tuple[str, object], ...] = (("relevance threshold", self.relevance_threshold), ("depth", depth))
        for name, value in numbers:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise InputError(f"the {name} is {value!r}; it must be a whole number of at least 1.")
        known = {"no_relevant": get_args(NoRelevant), "duplicates": get_args(Duplicates)}
        for name, choices in {**known, "clusters": (None, "document")}.items():
            if getattr(self, name) not in choices:
                valid = ", ".join(map(str, choices))
                raise InputError(f"{name} is {getattr(self, name)!r}; it must be one of: {valid}.")
        if self.trec_compat:
            object.__setattr__(self, "no_relevant", "zero")

    @property
    def order(self) -> Order:
        """How runs with scores are put in order."""
        return "trec" if self.trec_compat else "score"

    def as_json(self) -> dict[str, Any]:
        """The rules as JSON values."""
        rules = {**asdict(self), "metrics": [str(metric) for metric in self.metrics], "order": self.order}
        return rules if self.clusters else {name: rule for name, rule in rules.items() if name != "clusters"}

    def prepared(self, graded: GradedRankings) -> GradedRankings:
        """Rankings as they are scored: without unjudged hits if so asked, then cut."""
        graded = graded.condensed if self.judged_only else graded
        return graded if self.depth is None else graded.cut(self.depth)


@dataclass(frozen=True, eq=False, repr=False)
class RunScores:
    """The scores of one run.

    ``evaluations`` has for each metric its value for every query of ``queries``. ``tie_ranges`` are there if they
    were asked for, None for metrics for which they are not defined. ``seconds`` says where the time went.
    """

    name: str
    queries: tuple[str, ...]
    evaluations: Mapping[str, Evaluation]
    counts: RunCounts
    warnings: tuple[ReportWarning, ...]
    seconds: Mapping[str, float] = field(default_factory=dict)
    tie_ranges: Mapping[str, Bounds | None] = field(default_factory=dict)

    def __repr__(self) -> str:
        name, several = next(iter(self.evaluations)), counted(len(self.queries), "query", "queries")
        return f"RunScores({self.name!r}, {several}, {name}: {_shown(self.scores[name])})"

    @property
    def scores(self) -> dict[str, Mean]:
        """The mean of each metric, and over how many queries."""
        return {name: one.mean for name, one in self.evaluations.items()}

    def as_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """The scores as JSON values; of every query with ``per_query``."""
        ranges = {
            name: None if values is None else dict(zip(("low", "high"), self.mean_range(name, values), strict=True))
            for name, values in self.tie_ranges.items()
        }
        return {
            "name": self.name,
            "scores": {name: asdict(one.mean) for name, one in self.evaluations.items()},
            **({"queries": self.per_query()} if per_query else {}),
            **({"ties": ranges} if ranges else {}),
            "counts": asdict(self.counts),
            "warnings": [asdict(warning) for warning in self.warnings],
            "seconds": dict(self.seconds),
        }

    def mean_range(self, metric: str, values: Bounds) -> tuple[float | None, float | None]:
        """The means of the lowest and the highest values of a metric, over the queries that count in its mean."""
        evaluation = self.evaluations[metric]
        low, high = (replace(evaluation, values=one).mean.mean for one in (values.low, values.high))
        return low, high

    def per_query(self) -> dict[str, dict[str, float | None]]:
        """The values of each query; None where a metric is not defined and the query not in its mean."""
        columns = {name: one.as_list() for name, one in self.evaluations.items()}
        rows = zip(self.queries, zip(*columns.values(), strict=True), strict=True)
        return {query: dict(zip(columns, values, strict=True)) for query, values in rows}


def _shown(mean: Mean) -> str:
    return "no value" if mean.mean is None else f"{mean.mean:.3f}"


def score_joined(name: str, hits: RunHits, qrels: Qrels, protocol: Protocol, seconds: Mapping[str, float]) -> RunScores:
    """The scores of a run that was joined with its qrels; ``seconds`` has the time of each earlier stage."""
    start = time.perf_counter()
    whole = graded_hits(qrels.judgments, hits, protocol.relevance_threshold, skips_negatives=protocol.trec_compat)
    graded = protocol.prepared(whole)
    evaluations = evaluate(protocol.metrics, graded, protocol.no_relevant)
    absent = np.flatnonzero(hits.lengths == 0)
    counts = RunCounts(
        rows=hits.rows,
        duplicates=hits.duplicates,
        tied=int(hits.tied.sum()),
        ties_that_matter=sum(int(np.count_nonzero(ties_that_matter(part))) for part in whole.parts(_BLOCK)),
        contradicted=int(hits.contradicted.sum()),
        judged=len(qrels),
        retrieved=len(qrels) - len(absent),
        missing=len(absent),
        missing_names=tuple(qrels.queries[index] for index in absent[:MOST_NAMED].tolist()),
        unknown=hits.unknown,
        unknown_names=hits.unknown_names,
    )
    tied = evaluations if protocol.ties else {}
    ranges = {metric: tie_range(one.metric, whole, protocol.prepared) for metric, one in tied.items()}
    warnings = tuple(_warnings(name, hits, qrels, counts))
    times = {**seconds, "metrics": time.perf_counter() - start}
    return RunScores(name, qrels.queries, evaluations, counts, warnings, tie_ranges=ranges, seconds=times)


def evaluate(metrics: Sequence[Metric], graded: GradedRankings, no_relevant: NoRelevant) -> dict[str, Evaluation]:
    """The evaluations of ``metrics`` of all families, in their order."""
    parts: dict[str, list[Evaluation]] = {str(metric): [] for metric in metrics}
    for part in graded.parts(_BLOCK):
        for name, evaluation in evaluators.evaluate(metrics, part, no_relevant).items():
            parts[name].append(evaluation)
    return {name: _joined(own) for name, own in parts.items()}


def _joined(parts: Sequence[Evaluation]) -> Evaluation:
    values, counted = (np.concatenate([getattr(one, name) for one in parts]) for name in ("values", "counted"))
    return replace(parts[0], values=values, counted=counted)


def best_possible(qrels: Qrels, protocol: Protocol) -> dict[str, Mean]:
    """The mean of each metric that an ideal run would have; empty for labels in groups: no best order is known."""
    if qrels.judgments.groups is not None:
        return {}
    threshold, skips = protocol.relevance_threshold, protocol.trec_compat
    nothing = retrieving(qrels.judgments, np.zeros(0, dtype=np.int64), threshold, skips_negatives=skips)
    known: dict[str, list[Evaluation]] = {str(metric): [] for metric in protocol.metrics}
    for part in nothing.parts(_BLOCK):
        for name, one in evaluate(protocol.metrics, part, protocol.no_relevant).items():
            best = attainable(one.metric, part.judgments, threshold, skips_negatives=skips, depth=protocol.depth)
            known[name].append(replace(one, values=best))
    return {name: _joined(own).mean for name, own in known.items()}


@dataclass(frozen=True, eq=False, repr=False)
class Scoring:
    """Runs that were scored by the same qrels and the same rules; ``scoring[name]`` has the scores of a run.

    ``attainable`` has the scores of an ideal run, and is empty for labels in groups. ``given`` has the runs and qrels
    themselves. ``compare`` takes it as a report.
    """

    protocol: Protocol
    runs: tuple[RunScores, ...]
    attainable: Mapping[str, Mean]
    given: RunInput

    def __repr__(self) -> str:
        name, several = str(self.protocol.metrics[0]), counted(len(self.runs), "run")
        shown = listed((f"{run.name} {_shown(run.scores[name])}" for run in self.runs), 5)
        return f"Scoring({several}, {counted(len(self.runs[0].queries), 'query', 'queries')}, {name}: {shown})"

    def __getitem__(self, name: str) -> RunScores:
        return {run.name: run for run in self.runs}[name]

    def long_table(self) -> Mapping[str, Sequence[Any]]:
        """One row per run, query and metric, as columns: ``setting``, ``query``, ``metric``, ``value``.

        A value is None where the metric is not defined for the query, which is then not in the mean.
        """
        metrics = [str(metric) for metric in self.protocol.metrics]
        columns: dict[str, list[Any]] = {"setting": [], "query": [], "metric": [], "value": []}
        for run in self.runs:
            values = zip(*(run.evaluations[name].as_list() for name in metrics), strict=True)
            columns["setting"] += [run.name] * (len(run.queries) * len(metrics))
            columns["query"] += [query for query in run.queries for _ in metrics]
            columns["metric"] += metrics * len(run.queries)
            columns["value"] += [value for row in values for value in row]
        return columns

    def as_json(self, *, per_query: bool = False) -> dict[str, Any]:
        """The scores as JSON values: ``{"runs": [{"name", "scores": {metric: {"mean", "n"}}, ...}]}``."""
        return {
            "protocol": self.protocol.as_json(),
            "runs": [run.as_json(per_query=per_query) for run in self.runs],
            "attainable": {name: asdict(mean) for name, mean in self.attainable.items()},
        }


def score(
    qrels: Any,
    runs: Any,
    metrics: str | Sequence[str | Metric] = STANDARD_METRICS,
    *,
    qrels_columns: Mapping[str, str] | None = None,
    run_columns: Mapping[str, str] | None = None,
    **rules: Any,
) -> Scoring:
    """Score ``runs`` by ``qrels``.

    Both may be files (TREC, MS MARCO, BEIR, JSON, JSONL, Parquet, our labels and reports; plain or .gz; ``-`` for
    standard input), dicts (``{query: {document: grade or score}}``), or tables of pandas, polars or Arrow, whose
    columns are guessed by their usual names or given: ``run_columns={"query": "q", "document": "d", "score": "s"}``.
    ``runs`` is one of these, several by name, ``{"bm25": run, "dense": run}``, or a list of them. ``rules`` are fields
    of ``Protocol``: ``relevance_threshold``, ``no_relevant``, ``depth``, ``judged_only``, ``duplicates``,
    ``trec_compat``, ``ties``, ``clusters``. Raises LabelsError for invalid qrels, RunFileError for an invalid run,
    MetricError.
    """
    known = [one.name for one in fields(Protocol)][1:]
    for rule in rules:
        if rule not in known:
            raise InputError(f"there is no rule {rule!r}.{did_you_mean(rule, known)} Rules: {', '.join(known)}.")
    protocol = Protocol(tuple(parse_metrics(metrics, trec=bool(rules.get("trec_compat")))), **rules)
    are_named = isinstance(runs, Mapping) and bool(runs) and not any(map(_is_ranking, runs.values()))
    several = are_named or (isinstance(runs, list) and not (runs and isinstance(runs[0], tuple)))
    qrels, *sources = [
        list(one) if isinstance(one, Iterator) else one  # it is read again for a report
        for one in (qrels, *(runs.values() if are_named else runs if several else [runs]))
    ]
    if not sources:
        raise InputError("there are no runs to score: the list is empty.")
    names = tuple(map(str, runs)) if are_named else ()
    return score_given(RunInput(qrels, tuple(sources), names, None, None, qrels_columns, run_columns), protocol)


def _is_ranking(value: Any) -> bool:
    """True for documents of one query, with scores or without; not for a whole run."""
    if not isinstance(value, Mapping | list | tuple):
        return False
    parts = value.values() if isinstance(value, Mapping) else value
    return not any(isinstance(part, Mapping | list | tuple) for part in parts)


def score_given(given: RunInput, protocol: Protocol) -> Scoring:
    """Score the ``given`` runs. Raises the errors of ``score``, for all runs at once."""
    start = time.perf_counter()
    qrels = given.judgments()
    reading = time.perf_counter() - start
    order, duplicates, lenient = protocol.order, protocol.duplicates, protocol.trec_compat
    scored: list[RunScores] = []
    faults: list[Fault] = []
    for source, name in given.named_runs():
        start = time.perf_counter()
        try:
            for own, hits in given.joined(source, name, qrels, order, duplicates, lenient=lenient):
                seconds = {"qrels": reading, "read": time.perf_counter() - start}
                scored.append(score_joined(own, hits, qrels, protocol, seconds))
                start = time.perf_counter()
        except RunFileError as error:
            faults += error.faults
    RunFileError.raise_any(faults)
    names = distinct([run.name for run in scored])
    renamed = tuple(replace(run, name=name) for run, name in zip(scored, names, strict=True))
    return Scoring(protocol, renamed, best_possible(qrels, protocol), given)
