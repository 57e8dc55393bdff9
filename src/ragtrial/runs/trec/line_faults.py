"""Faults of a run or qrels file: gathered over all its lines, then told at once."""

from __future__ import annotations

from collections.abc import Iterable

from ragtrial.errors import Fault, InputError
from ragtrial.runs.compiled.found import MOST_FAULTS, Form, LineFault, Wrong

_COLUMNS = {
    ("run", "trec"): "a TREC run has 6: query, Q0, document, rank, score, tag",
    ("run", "msmarco"): "an MS MARCO run has 3: query, document, rank",
    ("qrels", "trec"): "qrels have 4: query, iteration, document, grade",
    ("qrels", "msmarco"): "qrels have 4: query, 0, document, grade",
}
_RANK = {
    "trec": "must be a whole number; the fourth column of a TREC run is the rank",
    "msmarco": "must be a whole number from 1 on; the third column of an MS MARCO run is the rank",
}


class Faults:
    """The faults of one file: the first 20 are kept, all are counted."""

    def __init__(self, file: str, kind: str, form: Form) -> None:
        self._file, self._kind, self._form = file, kind, form
        self._kept: list[LineFault] = []
        self.count = 0

    def add(self, faults: Iterable[LineFault], count: int) -> None:
        """Faults whose lines count from 0 over the whole file; ``count`` says how many there are, listed or not."""
        self._kept = sorted([*self._kept, *faults])[:MOST_FAULTS]
        self.count += count

    def raise_any(self, error: type[InputError]) -> None:
        """Raises ``error`` with all that was found, if anything was."""
        if not self.count:
            return
        told = [Fault(self._file, fault.line + 1, 0, self._message(fault)) for fault in self._kept]
        rest = self.count - len(told)
        if rest:
            told.append(Fault(self._file, message=f"{rest:,} more lines are wrong."))
        raise error(*told)

    def _has_more(self, columns: int) -> bool:
        return self._kind == "run" and self._form == "trec" and columns > 6

    def _message(self, fault: LineFault) -> str:
        found, query = shown(fault.found), shown(fault.query)
        match fault.wrong:
            case Wrong.COLUMNS:
                columns = "1 column" if fault.other == 1 else f"{fault.other:,} columns"
                tag = " (trec_compat takes what is more for the tag)" if self._has_more(fault.other) else ""
                return f"has {columns}; {_COLUMNS[self._kind, self._form]}, with white space between{tag}."
            case Wrong.RANK:
                return f"the rank {found} {_RANK[self._form]}."
            case Wrong.SCORE:
                return f"the score {found} must be a decimal number, inf or -inf."
            case Wrong.NAN:
                return f"the score {found} is not a number, so it has no place in an order; give every hit a score."
            case Wrong.DUPLICATE:
                return (
                    f"retrieves document {found} for query {query}, as line {fault.other + 1} does; "
                    "a query may retrieve a document once (duplicates 'first' drops the later ones)."
                )
            case Wrong.RANK_TAKEN:
                return f"rank {found} of query {query} is taken by line {fault.other + 1}; give each document its own."
            case Wrong.GRADE:
                return (
                    f"the grade {found} must be a whole number of at most 32 bits, such as 1; "
                    "decimals such as 1.0 are none."
                )
            case Wrong.JUDGED_TWICE:
                return (
                    f"judges document {found} for query {query}, as line {fault.other + 1} does; "
                    "give each pair one grade."
                )


def shown(text: bytes) -> str:
    """An id or a field as messages show it: quoted, cut after 100 characters."""
    whole = text.decode("utf-8", "replace")
    return repr(whole if len(whole) <= 100 else whole[:100] + "...")
