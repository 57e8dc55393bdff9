"""Labels for a BEIR folder, which stays as it is: qrels of one's own, in a file that the config names (overlay)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from ragtrial.cache.atomic import write_bytes
from ragtrial.cache.presence import only_writer
from ragtrial.dataset.beir import few, graded_rows
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, LabelsError, RunError
from ragtrial.labelling.changes import Grade
from ragtrial.labelling.history import note
from ragtrial.labelling.label_edits import Done
from ragtrial.labelling.write_back import MEANWHILE, LabelsConflictError, differences, told
from ragtrial.records import MOST_GRADE

HEADER = "query-id\tcorpus-id\tscore"

Judged = dict[tuple[str, str], int]
"""The grade of each document of a query, by both."""


def read_overlay(path: str | Path) -> Judged:
    """What an overlay says, nothing where there is no file yet. Raises LabelsError."""
    file = Path(path)
    return _judged(_text(file), file)


def write_overlay(
    path: str | Path, base: Judged, grades: Sequence[Grade], who: str, when: datetime | None = None
) -> tuple[Judged, list[Done]]:
    """Add ``grades`` to the overlay at ``path``; what it says then, and what was changed.

    Lines are added, none is touched; the file is made if it is not there. ``base`` is what it said when it was read:
    other queries may have other judgments since. Raises LabelsConflictError where those of the same query were
    changed, LabelsError for what qrels cannot say, before anything is written; RunError if it cannot be written.
    """
    file = Path(path).resolve()
    _refuse(file, grades)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with only_writer(file.parent, file.name):
            text = _text(file)
            now = _judged(text, file)
            _refuse_conflicts(file, base, now, grades)
            new = dict(now)
            done = []
            for one in grades:
                before = new.get((one.query, one.doc))
                if one.relevance is not None and before != one.relevance:
                    was = None if before is None else {"doc": one.doc, "relevance": before}
                    done.append(Done(one, was, one.as_label()))
                    new[one.query, one.doc] = one.relevance
            if done:
                _write(file, text, [one.change for one in done if isinstance(one.change, Grade)])
                note(file, done, who, when or datetime.now(UTC))
            return new, done
    except OSError as error:
        raise RunError(Fault(str(file), message=f"cannot be written: {error.strerror or error}.")) from error


def _write(file: Path, text: str, grades: Sequence[Grade]) -> None:
    end = "\r\n" if "\r\n" in text else "\n"
    text = text or HEADER + end
    text += "" if text.endswith("\n") else end
    lines = (f"{one.query}\t{one.doc}\t{one.relevance}{end}" for one in grades)
    write_bytes(file, (text + "".join(lines)).encode("utf-8"))


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
            faults.append(f"{one.query!r} and {one.doc!r} cannot both stand in qrels: they are set apart by tabs.")
    if faults:
        raise LabelsError(*(Fault(str(file), message=fault) for fault in faults))


def _refuse_conflicts(file: Path, base: Judged, now: Judged, grades: Sequence[Grade]) -> None:
    faults = []
    for query in dict.fromkeys(one.query for one in grades):
        was, stands = ([{"doc": doc, "relevance": grade} for (name, doc), grade in judged.items() if name == query]
                       for judged in (base, now))  # fmt: skip
        if theirs := differences(was, stands):
            ours = [one for one in grades if one.query == query]
            faults.append(Fault(str(file), message=told(query, theirs, ours)))
    if faults:
        raise LabelsConflictError(*faults, Fault(str(file), message=MEANWHILE))


def _text(file: Path) -> str:
    return read_text(file, LabelsError) if file.exists() else ""


def _judged(text: str, file: Path) -> Judged:
    faults: list[Fault] = []
    judged = {(row.query, row.document): row.grade for row in graded_rows(text, str(file), faults)}
    if faults:
        raise LabelsError(*few(faults, text, str(file)))
    return judged
