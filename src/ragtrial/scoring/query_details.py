"""Parts of a report: the hits of one query with texts, the prompt that they fill, and scores over some queries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ragtrial.errors import Fault, InputError, ReportError, did_you_mean, listed
from ragtrial.records import FoundText
from ragtrial.report.model import Report, Row
from ragtrial.report.schema import JudgmentPart, MeanPart, PassagePart, QueryPart, SettingPart


@dataclass(frozen=True)
class QueryRanking:
    """The hits of one setting for one query, and their scores."""

    setting: SettingPart
    query: QueryPart
    evaluations: dict[str, float | None]
    hits: tuple[FoundText, ...]
    passages: tuple[PassagePart, ...] | None = None
    """The outcome for the passage of each label of the query, under unit: span."""

    wordings: tuple[str, ...] = ()
    """The texts that were asked in addition to the query or instead of it."""

    def as_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting.name,
            "query": self.query.model_dump(mode="json"),
            "evaluations": self.evaluations,
            "hits": [asdict(hit) for hit in self.hits],
            **({"wordings": list(self.wordings)} if self.wordings else {}),
            **({} if self.passages is None else {"passages": [one.model_dump(mode="json") for one in self.passages]}),
        }


@dataclass(frozen=True)
class FilledPrompt:
    """A prompt template filled with the texts of a setting's hits."""

    setting: str
    query: str
    prompt: str


def load_query(report: Report, settings: Sequence[SettingPart], name: str) -> list[QueryRanking]:
    """All hits of one query with their texts, for each setting. Raises ReportError."""
    names = [query.id for query in report.queries]
    if name not in names:
        near = did_you_mean(name, names)
        raise ReportError(f"run {report.run_id} has no query {name!r}.{near} It has {len(names)}: {listed(names)}.")
    index = names.index(name)
    query = report.queries[index]
    try:
        rows = {setting.name: next(report.rankings(setting.name, [name])) for setting in settings}
        texts = report.texts({chunk for row in rows.values() for chunk in row.get("chunks", ())})
        rankings = []
        for setting in settings:
            row, columns = rows[setting.name], setting.per_query
            values = {metric: column[index] for metric, column in columns.evaluations.items()}
            passages = None if columns.passages is None else tuple(columns.passages[index])
            wordings = tuple(map(str, row.get("wordings") or ()))
            rankings.append(QueryRanking(setting, query, values, tuple(_hits(row, texts)), passages, wordings))
    except (LookupError, TypeError, ValueError, OverflowError) as error:
        message = "is damaged: rankings/ and texts.jsonl.gz lack what report.json names; run the experiment again."
        raise ReportError(Fault(str(report.folder), message=message)) from error
    return rankings


def filled_prompt(report: Report, ranking: QueryRanking) -> FilledPrompt:
    """The labels' prompt with the query and the found texts in it. Raises InputError if the labels have none."""
    if report.prompt is None:
        message = 'the labels have no "prompt"; add a template with {query} and {contexts} to them, and run again.'
        raise InputError(message)
    contexts = "\n\n".join(hit.text or "" for hit in ranking.hits)
    # Not str.format: a template may contain other braces, for example of JSON.
    prompt = report.prompt.replace("{query}", ranking.query.text).replace("{contexts}", contexts)
    return FilledPrompt(ranking.setting.name, ranking.query.id, prompt)


def _hits(row: Row, texts: Mapping[str, Row]) -> Iterator[FoundText]:
    docs = row["docs"]
    columns = (row.get(name) or [None] * len(docs) for name in ("chunks", "starts", "ends", "scores", "grades"))
    for rank, (doc, chunk, start, end, score, grade) in enumerate(zip(docs, *columns, strict=True), 1):
        found: dict[str, Any] = {"title": "", "text": None} if chunk is None else texts[chunk]
        pages = tuple(found["pages"]) if found.get("pages") else None
        headings = tuple((int(place), str(words)) for place, words in found.get("headings", ()))
        yield FoundText(rank, doc, found["title"], start, end, score, found["text"], grade, pages, headings)


def grade_of_chunk(query: QueryPart, doc: str, start: int, end: int) -> int | None:
    """The highest grade of the labelled passages that a chunk overlaps; a label without one speaks of the document.

    A chunk of a title alone overlaps nothing.
    """

    def overlaps(label: JudgmentPart) -> bool:
        return not label.spans or any(span.start < end and start < span.end for span in label.spans)

    labels = [label for label in query.relevant_docs if label.doc == doc and start < end]
    return max((label.relevance for label in labels if overlaps(label)), default=None)


def of_tag(report: Report, tag: str) -> Report:
    """The report over the queries with ``tag``: their scores, and the means over them.

    Measurements over all queries are left out: context, budget, audit, latency and costs. Raises ReportError for a tag
    that no query has.
    """
    chosen = [index for index, query in enumerate(report.queries) if tag in query.tags]
    if not chosen:
        known = sorted({name for query in report.queries for name in query.tags})
        there = f"They have: {', '.join(known)}." if known else "None has a tag."
        raise ReportError(f"no query of run {report.run_id} has the tag {tag!r}.{did_you_mean(tag, known)} {there}")
    settings = []
    for setting in report.settings:
        left_out: dict[str, Any] = {"context": [], "budget": None, "audit": None, "latency": None, "costs": None}
        settings.append(over_queries(setting, chosen).model_copy(update=left_out))
    asked = [report.queries[index] for index in chosen]
    dataset = report.dataset.model_copy(update={"queries": len(asked)})
    return report.model_copy(update={"queries": asked, "settings": settings, "dataset": dataset})


def over_queries(setting: SettingPart, places: Sequence[int]) -> SettingPart:
    """The setting with its scores of the queries at these places alone, in this order, and the means over them."""
    if list(places) == list(range(len(setting.per_query.short))):
        return setting
    chosen = setting.per_query.at(places)
    scores = {name: _mean(values) for name, values in chosen.evaluations.items() if name in setting.scores}
    return setting.model_copy(update={"per_query": chosen, "scores": scores})


def _mean(values: list[float | None]) -> MeanPart:
    counted = [value for value in values if value is not None]
    return MeanPart(mean=float(np.mean(counted)) if counted else None, n=len(counted))
