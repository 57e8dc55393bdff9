"""Tables and wrapped lines: what each column is, how much it matters, and the text of the cells."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from ragtrial.cache.untrusted import for_terminal
from ragtrial.comparison.number_text import mean_number, number

if TYPE_CHECKING:
    from ragtrial.records import Mean
    from ragtrial.report.schema import MeanPart

_LABEL = re.compile(r"(?:  )?[^ ]+(?: [^ ]+)* {2,}")


def wrapped(text: str, width: int) -> str:
    """A line of prose wrapped to ``width``; lines after a label and two spaces are indented below the text.

    An indented line, such as a row of a table, is not wrapped, unless it is indented by two spaces and has a label,
    like the verdicts of a conclusion.
    """
    label = _LABEL.match(text)
    if len(text) <= width or (text.startswith(" ") and label is None):
        return text
    margin = " " * len(label[0]) if label else ""
    head, rest = (label[0], text[len(label[0]) :]) if label else ("", text)
    return head + textwrap.fill(rest, width, initial_indent=margin, subsequent_indent=margin, break_long_words=False,
                                break_on_hyphens=False).removeprefix(margin)  # fmt: skip


def duration(seconds: float) -> str:
    """``40 s``, ``12 min``, ``2.5 h``"""
    if seconds < 1:
        return "<1 s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{seconds / 3600:.1f} h"


_SHORTEST_TEXT = 20


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."


@dataclass(frozen=True)
class Column:
    """A column of a table: text at the left, numbers at the right. Prose is cut where the table is too wide."""

    title: str
    is_text: bool = False
    is_prose: bool = False
    best: Literal["highest", "lowest"] | None = None
    """Which of its numbers is the best one; None where none is."""

    importance: int | None = None
    """None for a column that is never left out. The lowest go first, equal columns together."""


@dataclass(frozen=True)
class Table:
    """Columns and rows; one without rows is not shown."""

    columns: Sequence[Column]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    """Lines below the table; one of them names the columns that are left out."""

    @classmethod
    def of(
        cls, titles: Sequence[str], rows: Sequence[Sequence[str]], texts: Sequence[int] = (0,), prose: int | None = None
    ) -> Table:
        """All columns matter alike; those at the places ``texts`` hold text, counted from the end if negative.

        The one at ``prose`` holds sentences.
        """
        left, cut = {place % len(titles) for place in texts}, None if prose is None else prose % len(titles)
        return cls([Column(title, place in left, place == cut) for place, title in enumerate(titles)], rows)

    @property
    def titles(self) -> list[str]:
        return [column.title for column in self.columns]

    @property
    def cells(self) -> list[list[str]]:
        """The titles and the rows; nothing if there are no rows."""
        return [self.titles, *map(list, self.rows)] if self.rows else []

    @property
    def width(self) -> int:
        """How many columns of the terminal it takes."""
        return sum(max(map(len, column)) + 2 for column in zip(*self.cells, strict=True)) - 2

    def fitted(self, width: int, elsewhere: str, most: int | None = None) -> Table:
        """The table without the least important columns, as many as do not fit; a note names them.

        ``elsewhere`` says where to see them. Columns without importance, or of more importance than ``most``, are kept
        even if the table stays too wide.
        """
        fitting, left_out = self, list[str]()
        for importance in sorted({column.importance for column in self.columns if column.importance is not None}):
            if fitting.width <= width or (most is not None and importance > most):
                break
            left_out += [column.title for column in fitting.columns if column.importance == importance]
            fitting = fitting.without(*(column.title for column in fitting.columns if column.importance == importance))
        if not left_out:
            return self
        left_out.sort(key=self.titles.index)
        note = f"Too wide for {width} columns: {', '.join(left_out)} ({elsewhere})."
        return replace(fitting, notes=[*self.notes, note])

    def without(self, *titles: str) -> Table:
        """The table without the columns that have one of these titles."""
        kept = [place for place, column in enumerate(self.columns) if column.title not in titles]
        rows = [[row[place] for place in kept] for row in self.rows]
        return replace(self, columns=[self.columns[place] for place in kept], rows=rows)

    def known(self) -> Table:
        """The table without the columns in which every cell is a dash or empty."""
        columns = zip(self.titles, *self.rows, strict=True) if self.rows else ()
        return self.without(*(title for title, *cells in columns if {"-"} <= set(cells) <= {"-", ""}))

    def squeezed(self, width: int) -> Table:
        """The table with its prose cut, as far as it is wider than ``width``."""
        over = self.width - width if self.rows else 0
        place = next((place for place, column in enumerate(self.columns) if column.is_prose and over > 0), None)
        if place is None:
            return self
        most = max(max(len(row[place]) for row in self.rows) - over, _SHORTEST_TEXT)
        rows = [[*row[:place], _cut(row[place], most), *row[place + 1 :]] for row in self.rows]
        return replace(self, rows=rows)

    def aligned(self) -> Iterator[list[str]]:
        """The titles and the rows, each cell as wide as its column."""
        widths = [max(map(len, column)) for column in zip(*self.cells, strict=True)]
        for row in self.cells:
            yield [
                cell.ljust(width) if column.is_text else cell.rjust(width)
                for cell, width, column in zip(row, widths, self.columns, strict=True)
            ]


def plain_text(blocks: Iterable[str | Table], width: int) -> str:
    """Lines, wrapped to ``width``, and tables without their notes; nothing in them steers a terminal."""
    texts: list[str] = []
    for block in blocks:
        lines = block.split("\n") if isinstance(block, str) else map(str.rstrip, map("  ".join, block.aligned()))
        texts += [wrapped(line, width) for line in lines] if isinstance(block, str) else lines
    return for_terminal("\n".join(texts))


def cell_kind(column: Column, cell: str) -> str:
    """``better``, ``worse`` or ``undecided`` for a verdict, else the content of its column: ``name`` or ``number``."""
    if not column.is_text:
        return "number"
    verdicts = {"better": "better", "worse": "worse", "inconclusive": "undecided", "too few differences": "undecided"}
    return next((kind for verdict, kind in verdicts.items() if cell.lstrip("+-? ").startswith(verdict)), "name")


def best_cells(table: Table) -> set[tuple[int, int]]:
    """Row and column of the best numbers of each column, where it has a best one, of at least two."""
    cells = set()
    for place, column in enumerate(table.columns):
        numbers = [number_in(row[place]) for row in table.rows] if column.best and len(table.rows) > 1 else []
        known, choose = [value for value in numbers if value is not None], min if column.best == "lowest" else max
        best = choose(known, default=None)
        cells |= {(row, place) for row, value in enumerate(numbers) if value is not None and value == best}
    return cells


def number_in(cell: str) -> float | None:
    with suppress(ValueError, IndexError):
        return float(cell.split()[0].replace(",", ""))
    return None


def money(value: float | None) -> str:
    """``12.50``; of less than 1 the first two digits that are not 0, like ``0.0013``; a dash where there is none."""
    if value is None or not 0 < value < 1:
        return number(value, 2)
    return f"{value:.{1 - math.floor(math.log10(value))}f}"


def mean_text(mean: Mean | MeanPart, n: int) -> str:
    """A mean; one over another number of queries than ``n`` has its own in brackets."""
    return mean_number(mean.mean, mean.n) + (f" ({mean.n:,})" if mean.mean is not None and mean.n != n else "")


def mean_row(name: str, means: Sequence[Mean | MeanPart]) -> list[str]:
    """A name, means, and over how many queries the first is."""
    return [name, *(mean_text(mean, means[0].n) for mean in means), f"{means[0].n:,}"]


def mean_table(title: str, metrics: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """A table of ``mean_row``: the first metric stays in any width, and of the others the last go first."""
    columns = []
    for place, metric in enumerate(metrics):
        importance = len(metrics) - place if place and not metric.startswith("judged@") else None
        name = re.sub("^judged@", "labelled@", metric)
        columns.append(Column(name, best=_best_of(metric), importance=importance))
    return Table([Column(title, is_text=True), *columns, Column("n")], rows)


def _best_of(metric: str) -> Literal["highest", "lowest"] | None:
    """The best values of a metric; None for counts of judged hits, which do not measure quality, and if unknown."""
    from ragtrial.evaluation.metrics import UnknownMetric, metric_called  # not for the help, which has tables too

    definition = metric_called(metric).definition
    if definition.prefers in ("judged", "unjudged") or isinstance(metric_called(metric), UnknownMetric):
        return None
    return "lowest" if definition.better == "lower" else "highest"
