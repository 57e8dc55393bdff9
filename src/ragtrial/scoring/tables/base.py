"""Scores of other tools: one value of a metric for a question and a setting, and the registry of the forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ragtrial.dataset.foreign_files import Content, FileForm
from ragtrial.options import FieldPath, shown
from ragtrial.records import Direction, ReportWarning
from ragtrial.registry import Registry

Key = Literal["id", "text", "row"]
"""The property that is equal where two tables are about the same question."""


@dataclass(frozen=True, slots=True)
class Score:
    """A score as a file has it. ``value`` is the cell, ``error`` the reason why there is no value,
    ``better`` the direction of the metric if the file shows it.

    ``row`` counts the questions of a setting from 1 on, for files that have neither ids nor texts.
    """

    where: FieldPath
    setting: str
    metric: str
    value: Any
    id: str = ""
    text: str = ""
    row: int = 0
    cluster: str | None = None
    error: str = ""
    fingerprint: str | None = None
    better: Direction | None = None
    tag: str = ""


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The converted scores of one source. ``name`` is the stem of its file, ``file`` the file as messages name it."""

    name: str
    file: str
    form: str
    scores: Sequence[Score]
    directions: Mapping[str, Direction]
    warnings: Sequence[ReportWarning] = ()

    @cached_property
    def keys(self) -> frozenset[Key]:
        """The keys that every score has."""
        keys: set[Key] = {"row"}
        keys |= {"id"} if all(score.id for score in self.scores) else set()
        return frozenset(keys | ({"text"} if all(score.text for score in self.scores) else set()))

    @cached_property
    def settings(self) -> Sequence[str]:
        return list(dict.fromkeys(score.setting for score in self.scores))


@dataclass(frozen=True)
class Source:
    """A file to read, and the ``name`` of a setting that it does not name.

    ``is_alone`` says that no other table is read with it. Readers add ``warnings``.
    """

    content: Content
    name: str
    is_alone: bool
    warnings: list[ReportWarning] = field(default_factory=list)


Reader = Callable[[Source], Iterable[Score]]


@dataclass(frozen=True)
class ScoreForm(FileForm[Reader]):
    """The reader of one form, with the directions of the metrics of that tool, by their names in small letters."""

    directions: Mapping[str, Direction] = field(default_factory=dict)


SCORE_FORMS: Registry[ScoreForm] = Registry("form of scores", "ragtrial.scoring.tables", ScoreForm)
"""The forms by name, in the modules of this folder."""


def score_form(
    name: str, recognised_by: str, can_read: Callable[[Content], object], *, lower: str = "", higher: str = "",
    is_general: bool = False,
) -> Callable[[Reader], Reader]:  # fmt: skip
    """A decorator that registers the reader of a form.

    ``lower`` and ``higher`` name metrics, with commas between, whose lower or higher values are better.
    """
    directions: dict[str, Direction] = {metric: "lower" for metric in lower.split(", ") if metric}
    directions |= {metric: "higher" for metric in higher.split(", ") if metric}

    def add(read: Reader) -> Reader:
        SCORE_FORMS.register(name)(ScoreForm(name, recognised_by, can_read, read, is_general, directions))
        return read

    return add


def direction_in(directions: Mapping[str, Direction], metric: str) -> Direction | None:
    """The direction of a metric by its name, with or without what tools add: ``(mode=f1)``, ``,none``, ``/key``."""
    name = metric.strip().lower()
    return directions.get(name) or directions.get(re.split(r"[(,/]", name)[0].strip())


# --- values

NO_VALUE = "no value"
_EMPTY = {"", "nan", "null", "none", "n/a", "na", "-", "missing", "<na>"}
_ERRORS = {"error", "errored", "timeout", "exception", "failed to score"}
_PASSED = {"true", "pass", "passed", "yes", "correct", "success"}
_FAILED = {"false", "fail", "failed", "no", "incorrect", "failure"}
_MOST = 1e100


def number_in(cell: object) -> float | None:
    """The number that a cell is or spells, ``85%`` as 85; None for any other cell."""
    if isinstance(cell, int | float | np.number | Decimal) and not isinstance(cell, bool):
        return float(cell)
    if isinstance(cell, str):
        try:
            return float(cell.strip().removesuffix("%"))
        except ValueError:
            return None
    return None


def is_score(cell: object) -> bool:
    """True for a number, or a word that passes or fails."""
    return number_in(cell) is not None or _word(cell) in _PASSED | _FAILED


def is_blank(cell: object) -> bool:
    """True if there is no value, or one of the usual words for none."""
    return _word(cell) in _EMPTY


def _word(cell: object) -> str:
    return "" if cell is None else str(cell).strip().lower()


def converted(scores: Iterable[Score], content: Content) -> Iterator[Score]:
    """The scores with numbers for cells; the fault of each other cell is added to ``content``.

    Words that pass or fail are 1 and 0. Next to numbers of the same metric, ``failed`` is no value.
    """
    given = list(scores)
    numbers = [None if is_blank(score.value) else number_in(score.value) for score in given]
    numeric = {score.metric for score, number in zip(given, numbers, strict=True) if number is not None}
    for score, number in zip(given, numbers, strict=True):
        word = _word(score.value)
        if score.error or word in _EMPTY:
            yield replace(score, value=None, error=score.error or NO_VALUE)
        elif number is not None and abs(number) <= _MOST:
            yield replace(score, value=number)
        elif word in _PASSED | _FAILED and (isinstance(score.value, bool) or score.metric not in numeric):
            yield replace(score, value=float(word in _PASSED))
        elif word in _ERRORS | _FAILED:
            yield replace(score, value=None, error=word)
        else:
            content.fault(score.where, f"has {shown(score.value)} as {score.metric}, which is no number.")
