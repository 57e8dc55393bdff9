"""prompt_queries.json: queries with their known good answers, as they are written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BeforeValidator, Field, JsonValue, model_validator

from ragtrial.dataset.json_places import fault_in, id_of, json_value
from ragtrial.dataset.texts import is_unicode, near_names, normalised, read_text
from ragtrial.errors import Fault, LabelsError
from ragtrial.options import FieldPath, Options, validate
from ragtrial.records import MOST_GRADE, Judgment, PromptQueries, Query, Span

NAMES = ("prompt_queries.json", "prompts_queries.json")
"""The file's name, and the older spelling that is accepted in its place."""

_FIRST_LABELS = (
    '`ragtrial search CONFIG "QUESTION" --label` labels a first question, `ragtrial labels convert FILE --corpus '
    "DOCUMENTS -o prompt_queries.json` reads a CSV with question and answer."
)
_OTHER_KEYS = ("question", "query", "prompt", "answer", "expected", "context")


def _whole(value: object) -> object:
    """A number without a fraction as an integer: tables of floats write 1 as 1.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _filled(value: Any) -> Any:
    if not str(value).strip():
        raise ValueError("it is empty.")
    return value


def _whole_characters(value: Any) -> Any:
    if not is_unicode(str(value)):
        raise ValueError("it has half of a surrogate pair.")
    return value


Filled = Annotated[str, AfterValidator(_filled)]
"""A text of more than white space."""
Doc = Annotated[str | int, Field(union_mode="left_to_right"), BeforeValidator(_whole), AfterValidator(_filled)]
Id = Annotated[Doc, AfterValidator(_whole_characters)]
Condition = Annotated[dict[str, JsonValue], Field(min_length=1)]


class LabelRow(Options):
    """One known good answer."""

    doc: Doc
    """The document's id, or under `match: content` a verbatim passage of the documents."""

    relevance: Annotated[int, Field(ge=-MOST_GRADE, le=MOST_GRADE), BeforeValidator(_whole)] = 1
    """The grade: 1 and above are relevant, 0 is judged and not relevant, below 0 must not be found (forbidden@k)."""

    quote: Filled | None = None
    """The passage of the document that answers, verbatim; other white space and other case are allowed."""

    start: Annotated[int, Field(ge=0)] | None = None
    """The first character of the passage in the document's normalised text (line feeds, Unicode NFC), from 0.
    With `end`, and with or without `quote`; it singles out one place of several. Not under `match: content`."""

    end: Annotated[int, Field(ge=1)] | None = None
    """The character after the last one of the passage."""

    text_hash: Annotated[str, Field(pattern="^[0-9a-f]{16}$")] | None = None
    """The document's normalised text when the label was made: the first 16 hexadecimal digits of the SHA-256 of its
    UTF-8. If the text has changed since, that is reported, and `start` and `end` without a `quote` are refused."""

    group: Id | None = None
    """A name that the labels of one question share if they are alternatives: any one of them answers this part of the
    question. Labels without one are each needed. Not for a grade below 0, nor where `ordered` is true."""

    @model_validator(mode="after")
    def _has_a_whole_place(self) -> Self:
        if self.group is not None and self.relevance < 0:
            raise ValueError("a label with a grade below 0 says what must not be found; it is in no group.")
        if (self.start is None) != (self.end is None):
            raise ValueError("start and end belong together; give both or neither.")
        if self.start is not None and self.end is not None and self.start >= self.end:
            raise ValueError(f"end is {self.end}; it must be above start, {self.start}.")
        return self


class QueryRow(Options):
    """One question."""

    id: Id
    """Unique among the queries; numbers become strings."""

    text: Filled
    """The text to search for."""

    relevant_docs: list[LabelRow]
    """The known good answers; empty for a question that the documents do not answer."""

    tags: list[Annotated[str, AfterValidator(_whole_characters)]] = Field(default=[])
    """Names of slices that the query belongs to."""

    cluster: Id | None = None
    """The conversation, document or author that the question belongs to. Questions of one cluster are not independent:
    tests and intervals take each cluster as a whole."""

    answers: list[Filled] = Field(default=[])
    """Answers in words of their own, as other tools have them; they are kept, and not scored."""

    ordered: bool = False
    """True if relevant_docs are listed in the order in which they should be found."""

    phrasings: list[Filled] = Field(default=[])
    """Other wordings of the text, for retrievers that ask in several ways."""

    where: Condition | None = None
    """A filter of metadata, written as Chroma writes it: `{"lang": "en"}`."""

    where_document: Condition | None = None
    """A filter of texts, written as Chroma writes it: `{"$contains": "hub"}`."""

    @model_validator(mode="after")
    def _asks_in_different_ways(self) -> Self:
        wordings = [normalised(wording).strip() for wording in (self.text, *self.phrasings)]
        if len(set(wordings)) < len(wordings):
            raise ValueError("a phrasing repeats the text or a phrasing; it must be another wording.")
        if self.ordered and any(label.group is not None for label in self.relevant_docs):
            raise ValueError("labels that are ordered have no group; remove `ordered` or `group`.")
        return self


class LabelsFile(Options):
    """The labels of an experiment: questions with known good answers."""

    prompt: str | None = None
    """A template with {query} and {contexts}, filled with the retrieved texts."""

    queries: list[QueryRow]
    """The questions."""


def labels_file(path: Path) -> Path:
    """``path``, or its neighbour of the other accepted spelling when only that is there."""
    if not path.exists() and path.name in NAMES:
        for name in NAMES:
            if path.with_name(name).exists():
                return path.with_name(name)
    return path


def load_prompt_queries(path: str | Path) -> PromptQueries:
    """The labels of a file as written, without a look at the documents.

    Raises LabelsError with every fault and its line: invalid JSON, wrong types, unknown keys, double ids, empty queries
    and passages, no query at all.
    """
    file = labels_file(Path(path))
    if not file.exists():
        message = f"there is no such file.{near_names(file)} {_FIRST_LABELS}"
        raise LabelsError(Fault(str(file), message=message))
    return prompt_queries(read_text(file, LabelsError), file)


def prompt_queries(text: str, file: Path, *, may_be_empty: bool = False) -> PromptQueries:
    """The labels of a text, as ``load_prompt_queries`` reads them from a file; ``file`` is for messages.

    Labels that the first queries are about to be added to ``may_be_empty``.
    """
    if not text.strip():
        raise LabelsError(Fault(str(file), message=f"is empty. {_FIRST_LABELS}"))
    if text.lstrip()[0] not in "{[" or file.suffix.lower() in (".csv", ".tsv", ".jsonl"):
        raise LabelsError(Fault(str(file), message=f"is not a labels file. {_converted(file)}"))
    value = json_value(text, str(file), LabelsError, "labels")
    fault_at = fault_in(text, str(file))
    try:
        rows = validate(LabelsFile, value, LabelsError, fault_at)
    except LabelsError as error:
        if not _is_foreign(value):
            raise
        raise LabelsError(*error.faults, Fault(str(file), message=_converted(file))) from None
    del value  # labels can be millions, and their rows hold all of it
    faults = [fault_at(where, message) for where, message in _faults(rows)]
    if not rows.queries and not may_be_empty:
        faults = [fault_at(("queries",), "there is no query; an experiment needs at least one.")]
    LabelsError.raise_any(faults)
    return PromptQueries(tuple(_query(row) for row in rows.queries), rows.prompt)


def label_places(file: Path) -> Mapping[tuple[str, int], Fault]:
    """The place of each label in a valid labels file, by query and number; empty for other files, such as qrels."""
    if file.suffix != ".json" or not file.is_file():
        return {}
    text = read_text(file, LabelsError)
    fault_at = fault_in(text, str(file))
    return {
        (str(id_of(query["id"])), number): fault_at(("queries", row, "relevant_docs", number), "")
        for row, query in enumerate(json.loads(text)["queries"])
        for number in range(len(query["relevant_docs"]))
    }


def _converted(file: Path) -> str:
    """The command that turns other labels into ours."""
    target = "labels.json" if file.name == "prompt_queries.json" else "prompt_queries.json"
    command = f"ragtrial labels convert {file.name} --corpus DOCUMENTS -o {target}"
    return f'Labels are {{"queries": [...]}}. `{command}` reads CSV and the labels of other tools.'


def _is_foreign(value: object) -> bool:
    """True if the file seems to have labels of another tool."""
    if not isinstance(value, Mapping) or "queries" not in value:
        return bool(value)
    rows = value["queries"] if isinstance(value["queries"], list) else []
    return any(isinstance(row, Mapping) and not row.keys().isdisjoint(_OTHER_KEYS) for row in rows)


def _faults(rows: LabelsFile) -> Iterator[tuple[FieldPath, str]]:
    """The faults of rows with valid types, each with its place."""
    first: dict[str, int] = {}
    for index, row in enumerate(rows.queries):
        where: FieldPath = ("queries", index)
        name = str(row.id)
        if name in first:
            yield (*where, "id"), f"query id {name!r} is taken already by queries[{first[name]}]."
        first.setdefault(name, index)


def _query(row: QueryRow) -> Query:
    judgments, phrasings = tuple(map(_judgment, row.relevant_docs)), tuple(map(normalised, row.phrasings))
    name, text, tags = str(row.id), normalised(row.text), tuple(row.tags)
    cluster = None if row.cluster is None else str(row.cluster)
    return Query(name, text, judgments, tags, row.ordered, phrasings, row.where, row.where_document, cluster)


def _judgment(label: LabelRow) -> Judgment:
    spans = (Span(label.start, label.end),) if label.start is not None and label.end is not None else ()
    group = None if label.group is None else str(label.group)
    return Judgment(str(label.doc), label.relevance, label.quote, spans, label.text_hash, group)
