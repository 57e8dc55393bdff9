"""The report of tables of scores, in memory: pairing, means of repeats, and the direction of each metric."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.errors import Fault, ReportError, counted, did_you_mean, listed
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import UnknownMetric, metric_called
from ragtrial.pipeline.scored_setting import means
from ragtrial.records import Direction, ReportWarning
from ragtrial.report import schema
from ragtrial.report.model import SCHEMA_VERSION, Report, environment
from ragtrial.runs.formats.own_files import words
from ragtrial.scoring.tables.base import NO_VALUE, Key, Score, ScoreTable, direction_in

AMOUNT = re.compile(r"latency|delay|duration|(^|_)time(_|$)|seconds|_ms\b|cost|price|tokens", re.IGNORECASE)
"""Names of metrics that have a unit, such as milliseconds or money."""

_LOWER_SOUNDS = re.compile(
    rf"{AMOUNT.pattern}|error|toxic|bias|harm|hallucinat|violation|refusal|loss|perplexity|distance|brier|penalty|false"
    r"|fail|miss(es|ed|ing|_)|risk|rank\b|\b([wc]er|r?mse|mae)\b",
    re.IGNORECASE,
)
"""Names of which lower values may be better: one without a known direction is asked for."""

_MOST_NAMED = 3
_LONGEST_ID = 80


def table_reports(tables: Sequence[ScoreTable], directions: Mapping[str, Direction]) -> list[Report]:
    """The tables as one report of all their settings; as a report for each if two have a setting of the same name.

    The user gives ``directions``. Raises ReportError with all faults.
    """
    key, warnings = _common_key(tables)
    names = list(chain.from_iterable(table.settings for table in tables))
    groups = [list(tables)] if len(set(names)) == len(names) else [[table] for table in tables]
    metrics = dict.fromkeys(score.metric for table in tables for score in table.scores)
    if unknown := [name for name in directions if name not in metrics]:
        near = did_you_mean(unknown[0], metrics)
        raise ReportError(f"no table has a metric {unknown[0]!r}.{near} There are: {listed(metrics)}.")
    return [_report(group, key, directions, warnings) for group in groups]


def with_ids_of(report: Report, others: Sequence[Report]) -> Report:
    """The report of a table that knows questions by their texts, with the ids of questions of ``others``.

    Any other report stays as it is.
    """
    if report.has_rankings or report.config["scores"]["paired_by"] != "text":
        return report
    ids = {words(query.text): query.id for other in others if other is not report for query in other.queries}
    queries = [query.model_copy(update={"id": ids.get(words(query.text), query.id)}) for query in report.queries]
    return report.model_copy(update={"queries": queries})


def _common_key(tables: Sequence[ScoreTable]) -> tuple[Key, list[ReportWarning]]:
    """The key by which questions are paired: ids, else texts, else the order of rows of tables of one length."""
    for key in ("id", "text"):
        if all(key in table.keys for table in tables):
            return key, []
    if any(table.keys != {"row"} for table in tables):
        having = [f"{table.file} has {' and '.join(sorted(table.keys - {'row'})) or 'neither'}" for table in tables]
        message = f"questions are paired by id or by text, and the tables share neither: {'; '.join(having)}."
        raise ReportError(f"{message} Add a column `question` to each.")
    lengths = {table.file: max(score.row for score in table.scores) for table in tables}
    if len(set(lengths.values())) > 1:
        shown = listed(f"{file} has {counted(rows, 'row')}" for file, rows in lengths.items())
        raise ReportError(f"there is no column of questions, and the tables differ in length: {shown}.")
    message = f"{listed(lengths)}: questions have neither id nor text, so rows are paired by their order."
    return "row", [ReportWarning.of_verdict("paired-by-order", message)]


def _report(
    tables: Sequence[ScoreTable], key: Key, given: Mapping[str, Direction], warnings: Sequence[ReportWarning]
) -> Report:
    queries, sums = _queries(tables, key), _Sums(tables)
    rows = {query.id: row for row, query in enumerate(queries)}
    questions: dict[str, dict[str, None]] = {}
    for score in chain.from_iterable(table.scores for table in tables):
        name = _id(score, key)
        questions.setdefault(score.setting, {})[name] = None
        sums.add(score, rows[name], len(rows))
    _check_shared(questions, sums.files)
    metrics, noted = _metrics(tables, sums, given)
    noted = [*warnings, *chain.from_iterable(table.warnings for table in tables), *noted, *sums.warnings(metrics)]
    settings = [sums.setting(name, list(metrics), len(rows)) for name in sums.settings]
    decisive = [name for name, part in metrics.items() if part.better == "higher" or not AMOUNT.search(name)]
    return Report(
        schema_version=SCHEMA_VERSION,
        experiment=tables[0].name if len(tables) == 1 else "scores",
        run_id=f"scores-{fingerprint([setting.fingerprint for setting in settings])[:12]}",
        has_rankings=False,
        config={"scores": {"files": [table.file for table in tables], "better": dict(given), "paired_by": key}},
        dataset=schema.DatasetPart(
            documents=None, empty_documents=None, documents_fingerprint=None, queries=len(queries),
            labels_fingerprint=fingerprint([query.model_dump() for query in queries]),
        ),
        primary_metric=next(iter(decisive or metrics)),
        metrics=metrics,
        prompt=None,
        queries=queries,
        settings=settings,
        failures=[],
        warnings=[schema.WarningPart(**asdict(warning)) for warning in noted],
        environment=environment(),
    )  # fmt: skip


def _check_shared(questions: Mapping[str, Mapping[str, None]], files: str) -> None:
    """Raise ReportError if a setting has no question in common with any other, given the questions of each."""
    counts = Counter(chain.from_iterable(questions.values()))
    for setting, own in questions.items():
        others = [name for name in questions if name != setting]
        if others and all(counts[name] == 1 for name in own):
            message = f"{setting!r} has no question in common with {listed(map(repr, others))}. Are questions spelled"
            message += f" differently? The first ones are {next(iter(own))!r} and {next(iter(questions[others[0]]))!r}."
            raise ReportError(Fault(files, message=message))


class _Sums:
    """For each metric and setting the sums and the numbers of values by question, and the scores without a value."""

    def __init__(self, tables: Sequence[ScoreTable]) -> None:
        self.files = listed(table.file for table in tables)
        self._cells: dict[tuple[str, str], Scores] = {}
        self._missing: list[tuple[int, Score]] = []

    def add(self, score: Score, row: int, size: int) -> None:
        named = score.metric, score.setting
        if named not in self._cells:
            self._cells[named] = np.zeros((2, size))
        if score.error:
            self._missing.append((row, score))
        else:
            self._cells[named][:, row] += score.value, 1

    @property
    def settings(self) -> list[str]:
        return list(dict.fromkeys(setting for _, setting in self._cells))

    @property
    def metrics(self) -> dict[str, bool]:
        """All metrics; True for those that every setting has."""
        names = dict.fromkeys(metric for metric, _ in self._cells)
        return {name: all((name, setting) in self._cells for setting in self.settings) for name in names}

    def warnings(self, metrics: Collection[str]) -> Iterator[ReportWarning]:
        """Warnings about scores that other settings have for the same question, or that failed, and about repeats."""
        scored = {metric: sum(self._cells[metric, setting][1] for setting in self.settings) for metric in metrics}
        missing = [
            f"{score.setting}, {score.metric}, {score.id or score.text or score.row!r}: {score.error}"
            for row, score in self._missing
            if score.metric in metrics and (score.error != NO_VALUE or scored[score.metric][row])
        ]
        if missing:
            message = f"{self.files}: {counted(len(missing), 'score')} without a value, left out of every mean"
            yield ReportWarning.of_verdict("scores-missing", f"{message} ({listed(missing, _MOST_NAMED)}).")
        if (most := int(max(cells[1].max() for cells in self._cells.values()))) > 1:
            message = f"{self.files}: up to {most} scores of one question are its mean first; questions count once."
            yield ReportWarning("repeats-averaged", message)

    def setting(self, name: str, metrics: Sequence[str], size: int) -> schema.SettingPart:
        evaluations = {}
        for metric in metrics:
            totals, counts = self._cells[metric, name]
            evaluations[metric] = Evaluation(metric_called(metric), totals / np.maximum(counts, 1), counts > 0)
        values = {metric: own.as_list() for metric, own in evaluations.items()}
        no = [False] * size
        return schema.SettingPart(
            name=name, fingerprint=fingerprint(values), parameters={}, scores=means(evaluations), counts={}, index={},
            health=None, audit=None, timings={}, latency=None,
            per_query=schema.QueryColumns(evaluations=values, short=no, skipped=no, collapsed=[0] * size),
        )  # fmt: skip


def _metrics(
    tables: Sequence[ScoreTable], sums: _Sums, given: Mapping[str, Direction]
) -> tuple[dict[str, schema.MetricPart], list[ReportWarning]]:
    """The metrics that every setting has, with their directions, and warnings about others and assumed directions.

    Raises ReportError if there is none, and for metrics whose direction must be given.
    """
    others = [metric for metric, is_everywhere in sums.metrics.items() if not is_everywhere]
    better = {name: given.get(name) or _direction(name, tables) for name in sums.metrics if name not in others}
    if not better:
        raise ReportError(f"{sums.files}: no metric has a score for every setting. There are: {listed(others)}.")
    assumed = [name for name, direction in better.items() if direction is None]
    if unclear := list(filter(_LOWER_SOUNDS.search, assumed)):
        flags = " ".join(f"--lower-is-better {name!r}" for name in unclear)
        message = f"are lower or higher values of {listed(map(repr, unclear))} better? Say so: {flags}"
        raise ReportError(Fault(sums.files, message=f"{message} (or --higher-is-better)."))
    form = " and ".join(dict.fromkeys(table.form for table in tables))
    parts = {
        name: schema.MetricPart(
            formula=f"as read from a table ({form})", family="graded", counted="queries with a score",
            better=direction or "higher", source=sums.files,
        )
        for name, direction in better.items()
    }  # fmt: skip
    warnings = []
    if others:
        warnings.append(ReportWarning("metrics-left-out", f"left out, not for every setting: {listed(others)}."))
    if assumed:
        message = f"higher values of {listed(assumed)} are taken as better; --lower-is-better NAME changes that."
        warnings.append(ReportWarning.of_verdict("direction-assumed", message))
    return parts, warnings


def _direction(name: str, tables: Sequence[ScoreTable]) -> Direction | None:
    """The direction of a metric of ours, or that a file shows, or that its tool is known for."""
    metric = metric_called(name)
    if not isinstance(metric, UnknownMetric):
        return metric.definition.better
    shown = (score.better for table in tables for score in table.scores if score.better and score.metric == name)
    return next(shown, None) or next(filter(None, (direction_in(table.directions, name) for table in tables)), None)


def _id(score: Score, key: Key) -> str:
    """The id of the question. A question without one is called by its text, cut if it is long, or by its row."""
    if key == "id":
        return score.id
    if key == "row":
        return f"row {score.row}"
    text = words(score.text)
    return text if len(text) <= _LONGEST_ID else f"{text[: _LONGEST_ID - 9]}… {fingerprint(text)[:6]}"


def _queries(tables: Sequence[ScoreTable], key: Key) -> list[schema.QueryPart]:
    """The questions in the order of their first score. Raises ReportError for an id with two texts or clusters."""
    queries: dict[str, Score] = {}
    faults: list[Fault] = []
    for table in tables:
        for score in table.scores:
            first = queries.setdefault(_id(score, key), score)
            for name in ("text", "cluster", "fingerprint"):
                one, other = getattr(first, name), getattr(score, name)
                if one and other and words(one) != words(other):
                    message = f"question {_id(score, key)!r} has the {name} {other!r}, and another one before: {one!r}."
                    why = " Its labels or its text changed in between." if name == "fingerprint" else ""
                    faults.append(Fault(table.file, message=message + why))
                elif other and not one:
                    first = queries[_id(score, key)] = replace(first, **{name: other})
    ReportError.raise_any(list(dict.fromkeys(faults))[:20])
    return [
        schema.QueryPart(
            id=name, text=score.text, tags=[score.tag] if score.tag else [], relevant_docs=[], cluster=score.cluster,
            fingerprint=score.fingerprint,
        )
        for name, score in queries.items()
    ]  # fmt: skip
