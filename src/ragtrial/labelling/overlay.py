"""Labels for a BEIR folder, which stays as it is: qrels of one's own, in a file that the config names (overlay)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ragtrial.dataset.qrels_text import graded_rows, truncate_faults
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, LabelsError
from ragtrial.labelling.changes import Change, Done, Grade
from ragtrial.records import MOST_GRADE

HEADER = "query-id\tcorpus-id\tscore"

Judged = dict[tuple[str, str], int]
"""The grade of each document of a query, by both."""


@dataclass(frozen=True)
class OverlayText:
    """An overlay as it was read; an empty ``content`` where there is no file yet. Lines are added, none is touched."""

    file: Path
    content: str
    labels: None = None

    @cached_property
    def judged(self) -> Judged:
        faults: list[Fault] = []
        judged = {(row.query, row.document): row.grade for row in graded_rows(self.content, str(self.file), faults)}
        if faults:
            raise LabelsError(*truncate_faults(faults, self.content, str(self.file)))
        return judged

    def read_again(self) -> OverlayText:
        return read_overlay_text(self.file)

    def of_query(self, query: str) -> Mapping[str, Any]:
        own = sorted((doc, grade) for (name, doc), grade in self.judged.items() if name == query)
        return {"text": "", "relevant_docs": [{"doc": doc, "relevance": grade} for doc, grade in own]}

    def edited(self, changes: Sequence[Change]) -> tuple[OverlayText, list[Done]]:
        """The overlay with a line for each new grade. Raises LabelsError for changes that qrels cannot express."""
        grades = [change for change in changes if isinstance(change, Grade)]
        _refuse(self.file, grades)
        judged, done = dict(self.judged), []
        end = "\r\n" if "\r\n" in self.content else "\n"
        text = self.content or HEADER + end
        text += "" if text.endswith("\n") else end
        for one in grades:
            before = judged.get((one.query, one.doc))
            if one.relevance is not None and before != one.relevance:
                was = None if before is None else {"doc": one.doc, "relevance": before}
                done.append(Done(one, was, one.as_label()))
                judged[one.query, one.doc] = one.relevance
                text += f"{one.query}\t{one.doc}\t{one.relevance}{end}"
        return (OverlayText(self.file, text), done) if done else (self, done)


def read_overlay(path: str | Path) -> Judged:
    """The judgments of an overlay, none where there is no file yet. Raises LabelsError."""
    return read_overlay_text(path).judged


def read_overlay_text(path: str | Path) -> OverlayText:
    """The overlay at ``path``, which need not be there yet. Raises LabelsError if it is invalid."""
    file = Path(path).resolve()
    read = OverlayText(file, read_text(file, LabelsError) if file.exists() else "")
    _ = read.judged
    return read


def _refuse(file: Path, grades: Sequence[Grade]) -> None:
    faults = []
    for one in grades:
        if one.relevance is None:
            faults.append(f"the judgment of {one.doc!r} for query {one.query!r} cannot be taken back: qrels only add; "
                          "give it another grade, or take the line out yourself.")  # fmt: skip
        elif abs(one.relevance) > MOST_GRADE:
            faults.append(f"the grade {one.relevance} is beyond {MOST_GRADE:,}; is it one?")
        if one.quote is not None or one.start is not None:
            faults.append(f"a passage of {one.doc!r} cannot be judged in qrels; judge the document, or keep the labels "
                          "in a prompt_queries.json.")  # fmt: skip
        if any(not name or name != name.strip() or any(mark in name for mark in "\t\r\n")
               for name in (one.query, one.doc)):  # fmt: skip
            faults.append(f"{one.query!r} and {one.doc!r} cannot both be in qrels: they are set apart by tabs.")
    if faults:
        raise LabelsError(*(Fault(str(file), message=fault) for fault in faults))
