"""Objects in objects: ``{query: {document: number}}``, or ``{query: [document, ...]}`` best first; JSON or Python's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ragtrial.dataset.json_places import Place, json_value, places
from ragtrial.records import MOST_GRADE
from ragtrial.runs.faults import Faults, shown
from ragtrial.runs.formats.gathering import id_of, id_problem, packed
from ragtrial.runs.formats.numerals import are_numbers, are_whole, grade_problem, number_problem
from ragtrial.runs.qrels import Grades, Judgments, Qrels, Run
from ragtrial.runs.streams import Source, name_of, text_of

_OBJECT = "an object"
_LONGEST = 20_000_000
"""Longer JSON texts are not walked again for lines and columns: the ids in a message must do."""


@dataclass
class _Reader:
    """Gathers the queries of one mapping; ``text`` is its JSON, empty for what is in memory."""

    faults: Faults
    role: str
    text: str
    queries: dict[str, object] = field(default_factory=dict)
    documents: list[str] = field(default_factory=list)
    numbers: list[object] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    shape: str = ""

    def read(self, value: object) -> None:
        """Take every query of ``value``. Raises the error of the faults, if anything is wrong."""
        if not isinstance(value, Mapping):
            raise self.faults.fail(
                f"must be an object in objects, {{query: {{document: {self.role}}}}}; found {_kind(value)}."
            )
        if not value:
            raise self.faults.fail("has no queries.")
        for key, row in value.items():
            self._take(key, row)
        self.faults.raise_any()
        packed(self.queries, self.faults, "query")

    def _take(self, key: object, row: object) -> None:
        query = id_of(key)
        if query is None:
            self._fault((), id_problem("query", key))
        elif query in self.queries:
            self._fault((key,), f"query {query!r} comes twice: as {self.queries[query]!r} and as {key!r}.")
        else:
            self.queries[query] = key
            self._take_row(key, query, row)

    def _take_row(self, key: object, query: str, row: object) -> None:
        shape = _kind(row)
        if not isinstance(row, Mapping | list | tuple):
            self._fault((key,), f"query {query!r} must have documents, as an object or a list; found {shape}.")
        elif self.shape not in ("", shape):
            self._fault((key,), f"query {query!r} has {shape}; earlier ones have {self.shape}.")
        else:
            self.shape = shape
            names = self._documents(key, query, list(row))
            self.lengths.append(len(names))
            self.documents += names
            if isinstance(row, Mapping):
                self._take_numbers(key, query, row)

    def _documents(self, key: object, query: str, documents: list[object]) -> list[str]:
        if set(map(type, documents)) <= {str}:
            names: list[str] = documents  # type: ignore[assignment]
        else:
            names = []
            for place, document in enumerate(documents):
                name = id_of(document)
                if name is None:
                    self._fault((key, place), f"query {query!r}: {id_problem('document', document)}")
                names.append(name or "")
        # A document that a run retrieves twice is for those to judge who put it in order; here it cannot be told from
        # a slip only where one object has it twice.
        if (self.role == "grade" or self.shape == _OBJECT) and len(set(names)) < len(names):
            first: set[str] = set()
            for place, name in enumerate(names):
                if name in first:
                    where = documents[place] if self.shape == _OBJECT else place
                    self._fault((key, where), f"query {query!r} has document {name!r} twice.")
                first.add(name)
        return names

    def _take_numbers(self, key: object, query: str, row: Mapping[object, object]) -> None:
        values = list(row.values())
        if not self._are_plain(values):
            for document, value in row.items():
                wrong = grade_problem(value) if self.role == "grade" else number_problem("score", value)
                if wrong:
                    self._fault((key, document), f"query {query!r}, document {document!r}: {wrong}")
        self.numbers += values

    def _are_plain(self, values: list[object]) -> bool:
        """Whether these numbers need no second look."""
        if not (are_whole(values) if self.role == "grade" else are_numbers(values)):
            return False
        try:
            numbers = np.array(values, dtype=np.float64)
        except OverflowError:
            return False
        return bool((np.abs(numbers) <= MOST_GRADE).all()) if self.role == "grade" else not np.isnan(numbers).any()

    def _fault(self, path: tuple[object, ...], message: str) -> None:
        line, column = self._places.get(path, (0, 0)) if path else (0, 0)
        self.faults.add(message, line, column)

    @cached_property
    def _places(self) -> dict[tuple[object, ...], Place]:
        is_walked = 0 < len(self.text) < _LONGEST
        return {tuple(path): place for path, place in places(self.text).items()} if is_walked else {}

    @property
    def starts(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        return np.concatenate(([0], np.cumsum(self.lengths, dtype=np.int64))).astype(np.int64)


def json_text(source: Source, faults: Faults) -> tuple[object, str]:
    """The value of a JSON file, and its text."""
    text = text_of(source, faults.error)
    return json_value(text, name_of(source), faults.error, "qrels or a run"), text


def qrels_of_mapping(value: object, faults: Faults, text: str = "") -> Qrels:
    """Qrels of a mapping; documents in a list all have grade 1. ``text`` is the JSON that ``value`` came from."""
    reader = _Reader(faults, "grade", text)
    reader.read(value)
    documents = packed(reader.documents, faults)
    numbers: Grades
    if reader.shape == _OBJECT:
        numbers = np.array(reader.numbers, dtype=np.int32)
    else:
        numbers = np.ones(len(documents), dtype=np.int32)
    unordered = np.zeros(len(reader.queries), dtype=np.bool_)
    return Qrels(tuple(reader.queries), documents, Judgments(reader.starts, numbers, unordered))


def run_of_mapping(name: str, value: object, faults: Faults, text: str = "") -> Run:
    """A run of a mapping; documents in a list are in order. ``text`` is the JSON that ``value`` came from."""
    reader = _Reader(faults, "score", text)
    reader.read(value)
    documents = packed(reader.documents, faults)
    values = np.array(reader.numbers, dtype=np.float64) if reader.shape == _OBJECT else None
    return Run(name, tuple(reader.queries), reader.starts, documents, values)


def _kind(value: object) -> str:
    if isinstance(value, Mapping):
        return _OBJECT
    return "a list" if isinstance(value, list | tuple) else shown(value)
