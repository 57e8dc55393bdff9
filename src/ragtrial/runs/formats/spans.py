"""Spans of retrievers, as the instrumentations of OpenTelemetry and OpenInference record them, as runs.

A file has OTLP requests, the objects of the console exporter, or one span a line, in JSON; or the table of spans that
Phoenix exports. Attributes are flat, nested, key/value lists of OTLP, or JSON in a text. Conventions:
https://opentelemetry.io/docs/specs/semconv/gen-ai/, https://arize-ai.github.io/openinference/spec/.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from operator import attrgetter
from typing import Any, NamedTuple

from ragtrial.dataset.faults import Faults
from ragtrial.dataset.foreign_files import parquet_table
from ragtrial.dataset.json_places import id_of
from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageQuery, locate_all
from ragtrial.dataset.qrels_text import Columns
from ragtrial.dataset.texts import decoded, normalised, short, text_hash
from ragtrial.errors import counted, listed
from ragtrial.records import ExperimentResults, Hit, PromptQueries, QueryResult
from ragtrial.runs.formats.own_files import ids_by_text, results_run, words
from ragtrial.runs.formats.rows import number_problem
from ragtrial.runs.qrels import Run
from ragtrial.runs.streams import Source, content_of

_DOCUMENTS = ("gen_ai.retrieval.documents", "retrieval.documents")
_DOCUMENT = re.compile(r"(?:gen_ai\.)?retrieval\.documents\.(\d{1,6})\.(?:document\.)?(.+)")
_NESTED = ("resourceSpans", "resource_spans", "scopeSpans", "scope_spans", "spans", "data")
_TYPED = re.compile(r"(?:string|bool|int|double|bytes|array|kvlist)(?:Value|_value)")
_STARTS = ("startTimeUnixNano", "start_time_unix_nano", "start_time", "startTime")
_IDS, _PARENTS = ("spanId", "span_id", "context.span_id"), ("parentSpanId", "parent_span_id", "parent_id")
_QUESTION_IDS = [f"{begin}{name}" for begin in ("gen_ai.retrieval.", "retrieval.", "", "metadata.")
                 for name in ("query.id", "question.id", "query_id", "question_id")]  # fmt: skip
_ASKED_AS = ("query", "question", "query_str", "input", "text")
_HIDDEN = "__REDACTED__"
NEEDED = (
    "A retrieval needs the text of its question, and ids or texts of its documents, which instrumentations record with "
    "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=SPAN_ONLY, and without OPENINFERENCE_HIDE_INPUTS and _OUTPUTS."
)
"""The texts that a span must have, and how they are recorded."""
_DECODER, _BETWEEN, _NEXT_VALUE = json.JSONDecoder(), re.compile(r"[\s,]*"), re.compile(r"\n(?=[{\[])")


class Passage(NamedTuple):
    """A retrieved passage: its id, or that of its document, and its text; one of them may be empty."""

    id: str
    text: str
    score: float | None


@dataclass(frozen=True)
class Retrieval:
    """The span of one search.

    ``retriever`` is the name of the service, if it is recorded, and that of the span. ``question`` is the normalised
    text, and ``id`` its id; empty if not recorded. ``passages`` are best first; None if they are not recorded.
    OpenInference does not record an empty list, so that it ``may_be_empty``. ``start`` orders the spans of a file. A
    retrieval that ``is_inner`` is part of another one.
    """

    retriever: str
    question: str
    id: str
    passages: tuple[Passage, ...] | None
    has_failed: bool
    start: str
    may_be_empty: bool
    is_inner: bool = False

    @property
    def is_usable(self) -> bool:
        """True if it can be scored."""
        return bool(self.question or self.id) and self.passages is not None and not self.has_failed


@dataclass(frozen=True)
class Trace:
    """The retrievals in a file of ``spans`` spans."""

    retrievals: Sequence[Retrieval]
    spans: int


def read_trace(source: Source, faults: Faults, document: str | None = None) -> Trace:
    """The retrievals of a file of spans. ``document`` is the key in a document's metadata that has its id.

    Raises the error of ``faults`` with all values that are not JSON, and for a file without a span.
    """
    retrievals, parents = dict[str, Retrieval](), dict[str, str]()
    for value in _values(source, faults):
        try:
            for service, span in _spans(value):
                name = _first(span, _IDS) or str(len(parents))
                parents[name] = _first(span, _PARENTS)
                if retrieval := _retrieval(service, span, document):
                    retrievals[name] = retrieval
        except RecursionError:
            faults.add("has a span that is nested too deeply to be read.")
    faults.raise_any()
    if not parents:
        raise faults.fail("has no span.")
    recording = {one.retriever for one in retrievals.values() if one.passages}
    for name, one in retrievals.items():
        is_empty = one.passages is None and one.may_be_empty and one.retriever in recording
        passages = () if is_empty else one.passages
        retrievals[name] = replace(one, passages=passages, is_inner=parents[name] in retrievals)
    return Trace(list(retrievals.values()), len(parents))


def _values(source: Source, faults: Faults) -> Iterator[object]:
    """The JSON values of a file, one after the other, or the rows of a table in Parquet."""
    content = content_of(source, faults.error)
    if content.startswith(b"PAR1"):
        yield parquet_table(content, faults.file, faults.error).to_pylist()
        return
    text, at = decoded(content, faults.file, faults.error), 0
    while (start := at + len(_BETWEEN.match(text, at)[0])) < len(text):  # type: ignore[index]  # it matches nothing, too
        try:
            value, at = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError) as failure:
            reason = str(getattr(failure, "msg", "a number is too long, or it is nested too deeply"))
            line = text.count("\n", 0, getattr(failure, "pos", start)) + 1
            faults.add(f"is not JSON: {reason.removesuffix(' at')}.", line)
            following = _NEXT_VALUE.search(text, start)
            at = following.end() if following else len(text)
        else:
            yield value


def _spans(value: object, service: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The spans in a JSON value, each with its service: in lists, below their resource as OTLP has them, or one."""
    if isinstance(value, list):
        for part in value:
            yield from _spans(part, service)
    elif isinstance(value, Mapping):
        service = str(dict(_flat(value.get("resource"))).get("attributes.service.name") or service)
        parts = [value[key] for key in _NESTED if isinstance(value.get(key), list)]
        yield from _spans(parts, service) if parts else [(service, value)]


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The values below ``value`` by their paths, ``a.0.b``, without the types that OTLP writes around them.

    A list without objects in it is a value.
    """
    while isinstance(value, Mapping) and value and all(_TYPED.fullmatch(str(kind)) for kind in value):
        kind = next((kind for kind, typed in value.items() if typed is not None), "")
        value = value.get(kind)
        if kind.startswith(("array", "kvlist")):
            value = value.get("values") or [] if isinstance(value, Mapping) else value
    parts: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        parts = value.items()
    elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        are_pairs = all(isinstance(part, Mapping) and {"key", "value"} >= part.keys() for part in value)
        parts = ((part.get("key"), part.get("value")) for part in value) if are_pairs else enumerate(value)
    elif value is not None:
        yield path, value
    for key, part in parts:
        yield from _flat(part, f"{path}.{key}" if path else str(key))


def _parsed(value: Any) -> Any:
    """The value of a text of JSON, an object or a list; any other value as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        with suppress(ValueError, RecursionError):
            return json.loads(value)
    return value


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a span by their whole names; in tables they are columns."""
    flat = dict(_flat(_parsed(span.get("attributes"))))
    for key, part in span.items():
        if key.startswith("attributes."):
            flat |= dict(_flat(part, key.removeprefix("attributes.")))
    for key in (*_DOCUMENTS, "metadata"):
        if isinstance(flat.get(key), str):
            flat |= dict(_flat(_parsed(flat.pop(key)), key))
    return flat


def _first(values: Mapping[str, Any], keys: Iterable[str]) -> str:
    """The first value that is there under one of ``keys``, as text; also within ``context``."""
    context = values.get("context")
    places = (values, context if isinstance(context, Mapping) else {})
    return next((str(place[key]) for key in keys for place in places if place.get(key) not in (None, "")), "")


def _retrieval(service: str, span: Mapping[str, Any], document: str | None) -> Retrieval | None:
    """The retrieval that a span records; None for a span of another kind."""
    attributes = _attributes(span)
    rows: dict[int, dict[str, Any]] = {}
    for path, value in attributes.items():
        if match := _DOCUMENT.fullmatch(path):
            rows.setdefault(int(match[1]), {})[match[2]] = value
    is_recorded = bool(rows) or any(attributes.get(key) == [] for key in _DOCUMENTS)
    is_retriever = "RETRIEVER" in (attributes.get("openinference.span.kind"), span.get("span_kind"))
    if not is_recorded and not is_retriever and attributes.get("gen_ai.operation.name") != "retrieval":
        return None
    passages = tuple(_passage(rows[number], document) for number in sorted(rows))
    is_recorded = is_recorded and all(passage.id or passage.text for passage in passages)
    status = span.get("status")
    code = _first(status if isinstance(status, Mapping) else span, ("code", "status_code")).upper()
    return Retrieval(
        "/".join(filter(None, (service, _first(span, ("name",)) or "retrieval"))),
        _question(attributes),
        next(filter(None, (id_of(attributes.get(key)) for key in _QUESTION_IDS)), ""),
        passages if is_recorded else None,
        has_failed="error.type" in attributes or code in ("2", "ERROR", "STATUS_CODE_ERROR"),
        start=_first(span, _STARTS).zfill(24),
        may_be_empty=is_retriever,
    )


def _passage(row: Mapping[str, Any], document: str | None) -> Passage:
    text, score, metadata = row.get("content"), row.get("score"), dict(_flat(_parsed(row.get("metadata")), "metadata"))
    own = None if document else id_of(row.get("id"))
    name = id_of({**row, **metadata}.get(f"metadata.{document or 'doc'}")) or own
    return Passage(
        "" if name is None or name == _HIDDEN else name,
        normalised(text) if isinstance(text, str) and text != _HIDDEN else "",
        float(score) if score is not None and number_problem(score, "score") is None else None,
    )


def _question(attributes: Mapping[str, Any]) -> str:
    """The text of the question, also where the input is an object that has it under a usual key."""
    asked = attributes.get("gen_ai.retrieval.query.text") or _parsed(attributes.get("input.value"))
    if isinstance(asked, Mapping):
        texts = {path.rpartition(".")[2]: text for path, text in _flat(asked) if isinstance(text, str)}
        asked = next((texts[key] for key in _ASKED_AS if key in texts), None)
    return normalised(asked).strip() if isinstance(asked, str) and asked != _HIDDEN else ""


# --- runs


def trace_runs(
    source: Source,
    own: str,
    columns: Columns | None,
    labels: PromptQueries | None,
    library: Library | None,
    faults: Faults,
) -> list[Run]:
    """A run for each retriever, named as its spans; called ``own`` if there is one.

    The latest answer to a question counts; spans that failed or lack texts do not. ``note`` counts all that is left
    out, and without a library the questions with a hit that is longer than a labelled passage. A question has the id of
    the labelled query with its text, else the recorded id, else the hash of its text, for ids are printed, and texts
    are not. A document counts at its first passage. Raises RunFileError.
    """
    if columns and columns.keys() != {"document"}:
        raise faults.fail(f"has spans, which have no columns {listed(columns)}: only document=KEY, a key of metadata.")
    trace = read_trace(source, faults, (columns or {}).get("document"))
    usable = [retrieval for retrieval in trace.retrievals if retrieval.is_usable]
    if not usable:
        failed = sum(retrieval.has_failed for retrieval in trace.retrievals)
        counts = f"spans: {trace.spans:,}, of a retriever: {len(trace.retrievals):,}, failed: {failed:,}"
        raise faults.fail(f"has no retrieval that can be scored: {counts}. {NEEDED}")
    if labels is None and not any(retrieval.id for retrieval in usable):
        message = "has questions without ids, which need labels with their texts (prompt_queries.json) as qrels."
        raise faults.fail(message)
    texts, document_of = ids_by_text(labels), _documents_of(usable, labels, library)
    ids = set(chain.from_iterable(texts.values()))

    def result(retrieval: Retrieval) -> QueryResult:
        own = retrieval.id or text_hash(retrieval.question)
        hits: dict[str, float | None] = {}
        for passage in retrieval.passages or ():
            hits.setdefault(document_of(passage), passage.score)
        name = "" if own not in ids and retrieval.question in texts else own
        return QueryResult(name, tuple(map(Hit, hits, hits.values())), retrieval.question)

    by_name: dict[str, list[Retrieval]] = {retrieval.retriever: [] for retrieval in usable}
    for retrieval in sorted(trace.retrievals, key=attrgetter("start")):
        by_name.get(retrieval.retriever, []).append(retrieval)
    runs = []
    for name, retrievals in by_name.items():
        latest = {one.id or one.question: one for one in retrievals if one.is_usable}
        run = results_run(ExperimentResults(name, tuple(map(result, latest.values()))), labels)
        notes = [_note(trace, retrievals, len(latest)), "" if library else _longer(latest.values(), labels, texts)]
        runs.append(replace(run, note=" ".join(filter(None, notes))))
    return runs if len(runs) > 1 else [replace(runs[0], name=own)]


def _documents_of(
    retrievals: Sequence[Retrieval], labels: PromptQueries | None, library: Library | None
) -> Callable[[Passage], str]:
    """A function that gives the document that a passage is.

    This is the one that it names, else the first one of ``library`` that has its text; without a library the label
    with its text, else the document that it names.
    """
    if library is None:
        judgments = (judgment for query in (labels.queries if labels else ()) for judgment in query.relevant_docs)
        labelled = {words(judgment.doc): judgment.doc for judgment in judgments}
        return lambda passage: labelled.get(words(passage.text)) or passage.id or passage.text
    passages = {passage for retrieval in retrievals for passage in retrieval.passages or ()}
    positions = {passage: library.position_of_path(passage.id) for passage in passages}
    lost = [passage for passage, position in positions.items() if position is None]
    for passage, match in zip(lost, locate_all([PassageQuery(one.text) for one in lost], library), strict=True):
        positions[passage] = match.places[0].document if match.places else None

    def document_of(passage: Passage) -> str:
        position = positions[passage]
        return (passage.id or short(passage.text, 60)) if position is None else library.ids[position]

    return document_of


def _note(trace: Trace, retrievals: Sequence[Retrieval], count: int) -> str:
    """A sentence that counts the spans that are left out; empty if there are none."""
    usable, failed = (sum(getattr(one, name) for one in retrievals) for name in ("is_usable", "has_failed"))
    left_out = {
        "of another kind or retriever": trace.spans - len(retrievals),
        "that failed": failed,
        "without the text of the question or the documents": len(retrievals) - failed - usable,
        "answered again later": usable - count,
    }
    counts = [f"{number:,} {what}" for what, number in left_out.items() if number]
    return f"spans that count: {count:,} of {trace.spans:,}; left out: {listed(counts)}." if counts else ""


def _longer(retrievals: Iterable[Retrieval], labels: PromptQueries | None, ids: Mapping[str, Sequence[str]]) -> str:
    """A sentence that counts the questions for which a hit holds a labelled passage and more; empty if there are none.

    ``ids`` has the ids of the labelled queries by their texts.
    """
    queries, count = labels.queries if labels else (), 0
    documents = {query.id: [words(label.doc) for label in query.relevant_docs] for query in queries}
    for retrieval in retrievals:
        names = ids.get(retrieval.question, [retrieval.id])
        labelled = [text for name in names for text in documents.get(name, ()) if " " in text]
        hits = [words(passage.text) for passage in retrieval.passages or ()]
        count += any(text in hit and text != hit for text in labelled for hit in hits)
    message = f"for {counted(count, 'question')} a hit holds a labelled passage and more text, which is another text"
    return f"{message}; a config (kind: run_file) locates passages in documents." if count else ""
