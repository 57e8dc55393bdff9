"""The report of tables of scores, in memory: pairing, means of repeats, and the direction of each metric."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain

import numpy as np

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.dataset.texts import normalised
from ragtrial.errors import Fault, ReportError, counted, did_you_mean, listed
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.evaluation.metrics import UnknownMetric, metric_called
from ragtrial.pipeline.scored_setting import ScoredSetting
from ragtrial.records import Direction, ReportWarning
from ragtrial.report import schema
from ragtrial.report.model import SCHEMA_VERSION, Report, environment
from ragtrial.scoring.tables.base import NO_VALUE, Key, Score, ScoreTable, direction_in

_LOWER_SOUNDS = re.compile(
    r"error|latency|duration|cost|price|toxic|loss|perplexity|hallucinat|bias|distance|seconds|_ms\b|\b[wc]er\b"
    r"|\b(r?mse|mae)\b|false_|violation|harm|refusal|tokens|rank\b",
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
    _check_directions(tables, directions)
    return [_report(group, key, directions, warnings) for group in groups]


def with_ids_of(report: Report, others: Sequence[Report]) -> Report:
    """The report of a table that knows questions by their texts, with the ids of questions of ``others``.

    Any other report stays as it is.
    """
    if report.has_rankings or report.config["scores"]["paired_by"] != "text":
        return report
    ids = {_one_line(query.text): query.id for other in others if other is not report for query in other.queries}
    queries = [query.model_copy(update={"id": ids.get(_one_line(query.text), query.id)}) for query in report.queries]
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


def _check_directions(tables: Sequence[ScoreTable], directions: Mapping[str, Direction]) -> None:
    """Raises ReportError for a given metric that no table has, and for metrics whose direction must be given."""
    metrics = dict.fromkeys(score.metric for table in tables for score in table.scores)
    faults = [
        Fault(message=f"no table has a metric {name!r}.{did_you_mean(name, metrics)} There are: {listed(metrics)}.")
        for name in directions
        if name not in metrics
    ]
    unclear = [
        name
        for name in metrics
        if _LOWER_SOUNDS.search(name) and name not in directions and _known_direction(name, tables) is None
    ]
    if unclear:
        flags = " ".join(f"--lower-is-better {name!r}" for name in unclear)
        message = f"are lower or higher values of {listed(map(repr, unclear))} better? Say so: {flags}"
        faults.append(Fault(message=f"{message} (or --higher-is-better)."))
    if faults:
        raise ReportError(*faults)


def _known_direction(name: str, tables: Sequence[ScoreTable]) -> Direction | None:
    metric = metric_called(name)
    if not isinstance(metric, UnknownMetric):
        return metric.definition.better
    shown = (score.better for table in tables for score in table.scores if score.better and score.metric == name)
    named = (direction_in(table.directions, name) for table in tables)
    return next(shown, None) or next(filter(None, named), None)


@dataclass
class _Cell:
    """The scores of one setting by one metric for one question, and reasons for missing scores."""

    values: list[float] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)


def _report(
    tables: Sequence[ScoreTable], key: Key, given: Mapping[str, Direction], warnings: Sequence[ReportWarning]
) -> Report:
    scores = [score for table in tables for score in table.scores]
    queries = _queries(tables, key)
    rows = {query.id: row for row, query in enumerate(queries)}
    cells: dict[tuple[str, str], dict[int, _Cell]] = defaultdict(lambda: defaultdict(_Cell))
    for score in scores:
        cell = cells[score.setting, score.metric][rows[_id(score, key)]]
        if (number := score.number) is None:
            cell.reasons.append(score.error)
        else:
            cell.values.append(number)
    settings = list(dict.fromkeys(score.setting for score in scores))
    metrics, noted = _metrics(tables, cells, settings, given)
    noted = [*warnings, *chain.from_iterable(table.warnings for table in tables), *noted]
    noted += _about_cells(", ".join(table.file for table in tables), cells, queries, list(metrics))
    parts = [_setting(name, list(metrics), cells, queries).to_part() for name in settings]
    return Report(
        schema_version=SCHEMA_VERSION,
        experiment=tables[0].name if len(tables) == 1 else "scores",
        run_id=f"scores-{fingerprint([part.fingerprint for part in parts])[:12]}",
        has_rankings=False,
        config={"scores": {"files": [table.file for table in tables], "better": dict(given), "paired_by": key}},
        dataset=schema.DatasetPart(
            documents=None, empty_documents=None, documents_fingerprint=None, queries=len(queries),
            labels_fingerprint=fingerprint([query.model_dump() for query in queries]),
        ),
        primary_metric=next(iter(metrics)),
        metrics=metrics,
        prompt=None,
        queries=queries,
        settings=parts,
        failures=[],
        warnings=[schema.WarningPart(**asdict(warning)) for warning in noted],
        environment=environment(),
    )  # fmt: skip


def _id(score: Score, key: Key) -> str:
    """The id of the question. A question without one is called by its text, cut if it is long, or by its row."""
    if key == "id":
        return score.id
    if key == "row":
        return f"row {score.row}"
    text = _one_line(score.text)
    return text if len(text) <= _LONGEST_ID else f"{text[: _LONGEST_ID - 9]}… {fingerprint(text)[:6]}"


def _one_line(text: str) -> str:
    return " ".join(normalised(text).split())


def _queries(tables: Sequence[ScoreTable], key: Key) -> list[schema.QueryPart]:
    """The questions in the order of their first score. Raises ReportError for an id with two texts or clusters."""
    queries: dict[str, Score] = {}
    faults: list[Fault] = []
    for table in tables:
        for score in table.scores:
            first = queries.setdefault(_id(score, key), score)
            for name in ("text", "cluster", "fingerprint"):
                one, other = getattr(first, name), getattr(score, name)
                if one and other and _one_line(one) != _one_line(other):
                    message = f"question {_id(score, key)!r} has the {name} {other!r}, and another one before: {one!r}."
                    why = " Its labels or its text changed in between." if name == "fingerprint" else ""
                    faults.append(Fault(table.file, message=message + why))
                elif other and not one:
                    first = queries[_id(score, key)] = replace(first, **{name: other})
    if faults:
        raise ReportError(*list(dict.fromkeys(faults))[:20])
    return [
        schema.QueryPart(
            id=name, text=score.text, tags=[], relevant_docs=[], cluster=score.cluster, fingerprint=score.fingerprint
        )
        for name, score in queries.items()
    ]


def _metrics(
    tables: Sequence[ScoreTable], cells: Iterable[tuple[str, str]], settings: Sequence[str],
    given: Mapping[str, Direction],
) -> tuple[dict[str, schema.MetricPart], list[ReportWarning]]:  # fmt: skip
    """The metrics that every setting has, and warnings about others, and about directions that are not known."""
    having: dict[str, set[str]] = defaultdict(set)
    for setting, metric in cells:
        having[metric].add(setting)
    names = [metric for metric, own in having.items() if len(own) == len(settings)]
    others = [metric for metric in having if metric not in names]
    files, form = listed(table.file for table in tables), " and ".join(dict.fromkeys(table.form for table in tables))
    if not names:
        raise ReportError(f"{files}: no metric has a score for every setting. There are: {listed(others)}.")
    warnings, parts, assumed = [], dict[str, schema.MetricPart](), list[str]()
    for name in names:
        better = given.get(name) or _known_direction(name, tables)
        if better is None:
            assumed.append(name)
        parts[name] = schema.MetricPart(
            formula=f"as read from a table ({form})", family="graded", counted="queries with a score",
            better=better or "higher", source=files,
        )  # fmt: skip
    if others:
        warnings.append(ReportWarning("metrics-left-out", f"left out, not for every setting: {listed(others)}."))
    if assumed:
        message = f"higher values of {listed(assumed)} are taken as better; --lower-is-better NAME changes that."
        warnings.append(ReportWarning.of_verdict("direction-assumed", message))
    return parts, warnings


def _about_cells(
    files: str, cells: Mapping[tuple[str, str], Mapping[int, _Cell]], queries: Sequence[schema.QueryPart],
    metrics: Sequence[str],
) -> Iterator[ReportWarning]:  # fmt: skip
    """Warnings about scores that are missing, and about means of repeats.

    A metric that no setting has for a question is not defined for it.
    """
    missing, most = list[str](), 1
    scored = {(metric, row) for (_, metric), column in cells.items() for row, cell in column.items() if cell.values}
    for (setting, metric), column in cells.items():
        for row, cell in column.items() if metric in metrics else ():
            most = max(most, len(cell.values) + len(cell.reasons))
            told = [reason for reason in cell.reasons if reason != NO_VALUE or (metric, row) in scored]
            missing += [f"{setting}, {metric}, {queries[row].id!r}: {reason}" for reason in told]
    if missing:
        message = f"{files}: {counted(len(missing), 'score')} without a value, left out of every mean"
        yield ReportWarning.of_verdict("scores-missing", f"{message} ({listed(missing, _MOST_NAMED)}).")
    if most > 1:
        message = f"{files}: up to {most} scores of one question are its mean first; questions count once."
        yield ReportWarning("repeats-averaged", message)


def _setting(
    name: str, metrics: Sequence[str], cells: Mapping[tuple[str, str], Mapping[int, _Cell]],
    queries: Sequence[schema.QueryPart],
) -> ScoredSetting:  # fmt: skip
    size = len(queries)
    evaluations = {}
    for metric in metrics:
        values = np.full(size, np.nan)
        for row, cell in cells[name, metric].items():
            if cell.values:
                values[row] = sum(cell.values) / len(cell.values)
        evaluations[metric] = Evaluation(metric_called(metric), values, ~np.isnan(values))
    return ScoredSetting(
        name=name,
        query_ids=tuple(query.id for query in queries),
        evaluations=evaluations,
        known={
            "fingerprint": fingerprint({metric: own.as_list() for metric, own in evaluations.items()}),
            "parameters": {}, "index": {}, "health": None, "timings": {}, "latency": None,
        },
        counts={},
        short=[False] * size,
        skipped=np.zeros(size, dtype=np.bool_),
        collapsed=[0] * size,
        top_scores=np.full(size, np.nan),
    )  # fmt: skip
