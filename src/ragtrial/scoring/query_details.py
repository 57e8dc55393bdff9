"""One query of a report: what was found for it, with grades and texts, and the prompt that this fills."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragtrial.errors import Fault, InputError, ReportError, did_you_mean, listed
from ragtrial.records import FoundText, Unit, highest_grades
from ragtrial.report.model import Report, read_rows
from ragtrial.report.schema import PassagePart, QueryPart, SettingPart


@dataclass(frozen=True)
class QueryRanking:
    """What one setting found for one query, and how that was scored."""

    setting: SettingPart
    query: QueryPart
    evaluations: dict[str, float | None]
    hits: tuple[FoundText, ...]
    passages: tuple[PassagePart, ...] | None = None
    """What became of the passage of each label of the query, under unit: span."""

    query_terms: tuple[tuple[str, float], ...] = ()
    """The terms that weigh most in the query, for a sparse model."""

    wordings: tuple[str, ...] = ()
    """What was asked beside the query itself, or instead of it."""

    def as_json(self) -> dict[str, Any]:
        return {
            "setting": self.setting.name,
            "query": self.query.model_dump(mode="json"),
            "evaluations": self.evaluations,
            "hits": [asdict(hit) for hit in self.hits],
            **({"query_terms": self.query_terms} if self.query_terms else {}),
            **({"wordings": list(self.wordings)} if self.wordings else {}),
            **({} if self.passages is None else {"passages": [one.model_dump(mode="json") for one in self.passages]}),
        }


Weighted = tuple[str, float]
"""A term, or two tokens that match, and how much of a score it makes."""


@dataclass(frozen=True)
class Explanation:
    """What a row of a report's rankings says beside the hits; empty where the setting has none of it."""

    wordings: tuple[str, ...]
    query_terms: tuple[Weighted, ...]
    matches: tuple[tuple[Weighted, ...], ...]
    """Of the first hits, in their order, as ``terms``."""

    terms: tuple[tuple[Weighted, ...], ...]

    @classmethod
    def of(cls, row: dict[str, Any]) -> Explanation:
        """What ``row`` says."""
        matches, terms = (tuple(map(_pairs, row.get(name) or ())) for name in ("matches", "terms"))
        return cls(tuple(map(str, row.get("wordings") or ())), _pairs(row.get("query_terms")), matches, terms)

    def __bool__(self) -> bool:
        return bool(self.wordings or self.query_terms or any(self.matches) or any(self.terms))


@dataclass(frozen=True)
class FilledPrompt:
    """A prompt template filled with what a setting found."""

    setting: str
    query: str
    prompt: str


def load_query(report: Report, settings: Sequence[SettingPart], name: str) -> list[QueryRanking]:
    """All hits of one query with their texts, for each setting. Raises ReportError."""
    query = next((one for one in report.queries if one.id == name), None)
    if query is None:
        names = [one.id for one in report.queries]
        near = did_you_mean(name, names)
        raise ReportError(f"run {report.run_id} has no query {name!r}.{near} It has {len(names)}: {listed(names)}.")
    try:
        files = {setting.name: report.ranking_file(setting.name) for setting in settings}
        rows = {setting: read_rows(path, "query", [name])[name] for setting, path in files.items()}
        wanted = {chunk for row in rows.values() for chunk in row.get("chunks", ())}
        texts = read_rows(report.file("texts.jsonl.gz"), "chunk", wanted)
        rankings = []
        for setting in settings:
            scores = next(one for one in setting.queries if one.id == name)
            said = Explanation.of(rows[setting.name])
            hits = tuple(_hits(rows[setting.name], said, texts, query, report.unit))
            passages = None if scores.passages is None else tuple(scores.passages)
            rankings.append(
                QueryRanking(setting, query, scores.evaluations, hits, passages, said.query_terms, said.wordings)
            )
    except (LookupError, TypeError, ValueError) as error:
        message = "is damaged: rankings/ and texts.jsonl.gz lack what report.json names; run the experiment again."
        raise ReportError(Fault(str(report.folder), message=message)) from error
    return rankings


def filled_prompt(report: Report, ranking: QueryRanking) -> FilledPrompt:
    """The labels' prompt with the query and the found texts in it. Raises InputError if the labels have none."""
    if report.prompt is None:
        raise InputError(
            'the labels have no "prompt"; add a template with {query} and {contexts} to them, and run again.'
        )
    contexts = "\n\n".join(hit.text or "" for hit in ranking.hits)
    # Not str.format: a template may hold braces of its own, of JSON for example.
    prompt = report.prompt.replace("{query}", ranking.query.text).replace("{contexts}", contexts)
    return FilledPrompt(ranking.setting.name, ranking.query.id, prompt)


def _hits(
    row: dict[str, Any], said: Explanation, texts: dict[str, dict[str, Any]], query: QueryPart, unit: Unit
) -> Iterator[FoundText]:
    grades = highest_grades((one.doc, one.relevance) for one in query.relevant_docs)
    docs, why = row["docs"], (said.matches, said.terms)
    columns = (row.get(name) or [None] * len(docs) for name in ("chunks", "starts", "ends", "scores"))
    for rank, (doc, chunk, start, end, score) in enumerate(zip(docs, *columns, strict=True), 1):
        found: dict[str, Any] = {"title": "", "text": None} if chunk is None else texts[chunk]
        first, last = found.get("pages") or (None, None)
        pages = None if first is None or last is None else (first, last)
        grade = grades.get(doc) if unit == "document" else grade_of_chunk(query, doc, start, end)
        matches, terms = (column[rank - 1] if rank <= len(column) else () for column in why)
        yield FoundText(rank, doc, found["title"], start, end, score, found["text"], grade, pages, matches, terms)


def _pairs(rows: Sequence[Any] | None) -> tuple[Weighted, ...]:
    return tuple((str(term), float(worth)) for term, worth in rows or ())


def grade_of_chunk(query: QueryPart, doc: str, start: int, end: int) -> int | None:
    """The highest grade of the labelled passages that a chunk overlaps; a label without one speaks of the document.

    A chunk of a title alone overlaps nothing.
    """
    labels = [one for one in query.relevant_docs if one.doc == doc and start < end]
    met = [one for one in labels if not one.spans or any(span.start < end and start < span.end for span in one.spans)]
    return max((one.relevance for one in met), default=None)
