"""Scores in rows, as anyone can write them: a row per score, a column per setting, or a column per metric."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from ragtrial.cache.untrusted import from_csv
from ragtrial.dataset.foreign_files import Content
from ragtrial.errors import Fault, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.options import FieldPath
from ragtrial.records import ReportWarning
from ragtrial.scoring.tables.base import SCORE_FORMS, Score, Source, direction_in, is_blank, is_score, score_form

_ROLES = {
    "id": "id, query_id, question_id, qid, sample_id, example_id, item_id, case_id, test_id, doc_id",
    "text": "question, query, q, user_input, input, question_text, query_text, prompt, text",
    "setting": "system, setting, retriever, pipeline, model, model_name, variant, configuration, provider, run",
    "metric": "metric, metric_name, measure, scorer, evaluator, score_name",
    "score": "score, value, metric_value, score_value",
    "cluster": "cluster, cluster_id, conversation, conversation_id",
    "error": "error, error_message, exception",
    "fingerprint": "fingerprint",
}
"""Usual names of the columns of each role. The first one in a table counts."""
_OPTIONAL = ("cluster", "error", "fingerprint")
"""Roles in which a word such as ``none`` is an empty cell; a question or a system may be called so."""

_REPEATS = {"repeat", "repetition", "epoch", "seed", "trial", "attempt", "replicate", "iteration", "run", "sample"}
_INDICES = {"index", "row", "unnamed: 0", "order"}
_TEXTS = {
    "answer", "response", "reference", "expected", "expected_output", "expected_answer", "actual_output", "output",
    "ground_truth", "target", "prediction", "reason", "comment", "notes", "tags", "timestamp", "date", "time",
}  # fmt: skip
"""Columns whose numbers are no scores."""


_Rows = Sequence[tuple[FieldPath, Mapping[str, Any]]]
"""Rows with their places."""


def roles_of(columns: Iterable[str]) -> dict[str, str]:
    """The columns by role, as far as they have a usual name."""
    names = {column.strip().lower().replace(" ", "_").replace("-", "_"): column for column in columns}
    chosen = {role: [names[name] for name in usual.split(", ") if name in names] for role, usual in _ROLES.items()}
    return {role: matching[0] for role, matching in chosen.items() if matching}


def _is_long(content: Content) -> bool:
    return {"metric", "score"} <= roles_of(content.keys).keys()


@score_form("long", "rows with question, system, metric and score", _is_long, is_general=True)
def read_long(source: Source) -> Iterator[Score]:
    """One score per row. Without a column of systems, the setting is called like the file."""
    rows = _rows(source.content)
    roles = roles_of(dict.fromkeys(key for _, row in rows for key in row))
    for row, score in _without_values(rows, roles, source):
        metric = _text(row.get(roles["metric"]))
        if metric:
            yield replace(score, metric=metric, value=row.get(roles["score"]))
        else:
            source.content.fault(score.where, "has no name of a metric.")


def _is_wide(content: Content) -> bool:
    return bool(_score_columns([row for row in content.rows if isinstance(row, Mapping)]))


_LOWER = "latency, latency_ms, latency_s, duration, cost, total_cost, loss, perplexity, wer, cer, mse, rmse, mae"


@score_form("wide", "rows with a column of scores for each system or metric", _is_wide, lower=_LOWER, is_general=True)
def read_wide(source: Source) -> Iterator[Score]:
    """A column per metric where a column names systems, or the file is one system's; else a column per system.

    A file is of one system if any of its columns is a known metric, or if other tables are compared with it. The one
    metric of columns of systems is called like the file if that is a known metric, else ``score``.
    """
    rows = [row for row in source.content.rows if isinstance(row, Mapping)]
    columns, roles = _score_columns(rows), roles_of(dict.fromkeys(key for row in rows for key in row))
    metrics = {_text(row.get(roles.get("metric", ""))) for row in rows} - {""}
    if len(metrics) > 1 or (metrics and len(columns) == 1):
        message = f"{roles['metric']!r} names metrics, and no column is known to have their scores."
        message += f" Rename {' or '.join(map(repr, columns))} to `score`."
        source.content.faults.append(Fault(source.content.file, message=message))
    are_settings = source.is_alone and "setting" not in roles and not any(map(is_known, columns))
    metric = Path(source.content.file).stem
    metric = "" if not are_settings else metric if is_known(metric) else "score"
    if metric:
        message = f"the columns {listed(columns)} are read as settings with one metric, {metric}."
        message = f"{source.content.file}: {message} If they are metrics, add a column `system`."
        source.warnings.append(ReportWarning.of_verdict("columns-as-settings", message))
    yield from wide_scores(source, metric)


def wide_scores(source: Source, metric: str = "") -> Iterator[Score]:
    """The scores of rows with a column for each metric, or, for one ``metric``, for each setting."""
    rows = _rows(source.content)
    columns = _score_columns([row for _, row in rows])
    roles = roles_of(dict.fromkeys(key for _, row in rows for key in row))
    for row, score in _without_values(rows, roles, source):
        for column in columns:
            setting, name = (column, metric) if metric else (score.setting, column)
            yield replace(score, setting=setting, metric=name, value=row.get(column))


def is_known(metric: str) -> bool:
    """True if any tool, or ragtrial, has a metric of this name."""
    if any(direction_in(form.directions, metric) for _, form in SCORE_FORMS.registered()):
        return True
    try:
        return bool(parse_metric(metric))
    except MetricError:
        return False


def _rows(content: Content) -> _Rows:
    """The rows with their places; a row that is no object is a fault."""
    rows: list[tuple[FieldPath, Mapping[str, Any]]] = []
    for number, row in enumerate(content.rows):
        if isinstance(row, Mapping):
            rows.append(((number,), row))
        else:
            content.fault((number,), "must be an object with the columns of the others.")
    return rows


def _score_columns(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The columns that hold scores: most of their cells are numbers, or pass and fail."""
    columns = dict.fromkeys(str(key) for row in rows for key in row)
    roles = roles_of(columns)
    other = {column for role, column in roles.items() if role != "score"}
    named = {*_REPEATS, *_INDICES, *_TEXTS}
    chosen = []
    for column in columns:
        if column in other or column.strip().lower() in named:
            continue
        cells = [row.get(column) for row in rows]
        filled = [cell for cell in cells if not is_blank(cell)]
        if sum(map(is_score, filled)) * 2 > len(filled):
            chosen.append(column)
    return chosen


def _without_values(rows: _Rows, roles: Mapping[str, str], source: Source) -> Iterator[tuple[Mapping[str, Any], Score]]:
    """Each row with a score that lacks metric and value. A column of questions that has single words has ids."""
    texts = [_text(row.get(roles["text"])) for _, row in rows] if "text" in roles else [""] * len(rows)
    are_ids = "id" not in roles and not any(len(text.split()) > 1 or not text.isascii() for text in texts)
    ids = texts if "id" not in roles else [_text(row.get(roles["id"])) for _, row in rows]
    _note_empty_cells(rows, roles, source.content)
    _note_unnamed_columns(rows, ids, roles, source.content)
    seen: Counter[tuple[str, object]] = Counter()
    for (where, row), text in zip(rows, texts, strict=True):
        cells = {role: _text(row.get(column)) for role, column in roles.items() if role != "score"}
        cells |= {role: "" for role in _OPTIONAL if is_blank(cells.get(role))}
        setting, name_of = cells.get("setting") or source.name, text if are_ids else cells.get("id", "")
        series = setting, cells.get("metric")
        seen[series] += 1
        yield row, Score(
            where, setting, "", None, id=name_of, text="" if are_ids else text, row=seen[series],
            cluster=cells["cluster"] or None, error=cells["error"], fingerprint=cells["fingerprint"] or None,
        )  # fmt: skip


def _note_empty_cells(rows: _Rows, roles: Mapping[str, str], content: Content) -> None:
    """Note the rows without a question or a system in a table whose other rows have one."""
    for name, likely in (("question", ("id", "text")), ("system", ("setting",))):
        columns = [roles[role] for role in likely if role in roles]
        empty = [[where for where, row in rows if not _text(row.get(column))] for column in columns]
        fewest = min(empty, key=len, default=[])
        for where in fewest if len(fewest) < len(rows) else ():
            content.fault(where, f"has an empty cell for its {name}.")


def _note_unnamed_columns(rows: _Rows, ids: Sequence[str], roles: Mapping[str, str], content: Content) -> None:
    """Note a column without a usual name that may name questions, or the systems or metrics of repeated questions.

    The texts of systems and metrics differ for most repeated questions, and most are of several ones.
    """
    series = [tuple(_text(row.get(roles.get(role, ""))) for role in ("setting", "metric")) for _, row in rows]
    scored = list(zip(ids, series, strict=True))
    repeated = {pair for pair, count in Counter(scored).items() if count > 1 and pair[0]}
    missing = [_ROLES[role].split(", ") for role in ("setting", "metric") if role not in roles]
    has_questions = bool({"id", "text"} & roles.keys())
    if has_questions and not (repeated and missing):
        return
    used = {*roles.values(), *_score_columns([row for _, row in rows])}
    others = {str(key): key.strip().lower() for _, row in rows for key in row if key not in used}
    unknown = [name for name, word in others.items() if word not in {*_REPEATS, *_INDICES, *_TEXTS}]
    texts = {name: [cell if isinstance(cell := row.get(name), str) else "" for _, row in rows] for name in unknown}
    if not has_questions:
        likely = [
            (len({*cells}), name) for name, cells in texts.items() if _recur(cells, series) and _recur(series, cells)
        ]
        advice = f"Rename {max(likely)[1]!r} to `question`." if likely else "Add a column `question`."
        if likely or _REPEATS.intersection(others.values()):
            content.faults.append(Fault(content.file, message=f"no column names the questions. {advice}"))
    for column, cells in texts.items() if repeated else ():
        differing = Counter(pair for pair, cell in dict.fromkeys(zip(scored, cells, strict=True)) if cell)
        split = [pair for pair, count in differing.items() if count > 1]
        if 2 * len(split) > len(repeated) and _recur(cells, ids):
            names = " or ".join(f"`{usual[0]}`" for usual in missing)
            message = f"differs in {column!r} from other rows of its question.{did_you_mean(column, chain(*missing))}"
            message += f" Rename {column!r} to {names}, or to `repeat` if these are repeats."
            content.fault(rows[scored.index(split[0])][0], message)


def _recur(values: Sequence[object], keys: Sequence[object]) -> bool:
    """True if there are several values, and most occur with more than one key."""
    counts = Counter(value for value, key in {*zip(values, keys, strict=True)} if value and key)
    return len(counts) > 1 and 2 * sum(count for count in counts.values() if count > 1) > counts.total()


def _text(cell: object) -> str:
    """A cell as a text; a whole number that became a float is one again. Only an empty cell, or NaN, has none."""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return "" if not isinstance(cell, str) and is_blank(cell) else from_csv(str(cell).strip())
