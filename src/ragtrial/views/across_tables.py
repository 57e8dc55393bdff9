"""The comparison of settings over several data sets, as blocks for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from ragtrial.cache.untrusted import visible
from ragtrial.comparison.across import AcrossComparison, DataSetPart
from ragtrial.comparison.number_text import percent, signed, signed_interval
from ragtrial.errors import counted
from ragtrial.views.table import Column, Table, mean_number

_MARKS = {"better": "*", "worse": "*", "worse within the margin": "*"}


def across_blocks(found: AcrossComparison, width: int) -> Iterator[str | Table]:
    """The result in words, the table of settings, and how it was tested."""
    settings = counted(len(found.settings) + 1, "setting")
    yield (
        visible(f"{settings}, {counted(len(found.data_sets), 'data set')}, {found.metric}, against {found.baseline}")
        + "\n"
    )
    yield from map(visible, found.sentences)
    yield ""
    yield across_table(found).fitted(width, "--json has all")
    yield ""
    yield "* better or worse on that data set by its labels, simultaneous for its settings (max-t)."
    yield (
        "Over data sets: random effects (DerSimonian-Laird), Hartung-Knapp intervals, simultaneous for "
        f"{counted(len(found.settings), 'comparison')} (Bonferroni)."
    )
    if found.left_out:
        yield visible(f"Not in every report, and left out: {', '.join(found.left_out)}.")


def across_table(found: AcrossComparison) -> Table:
    """One row per setting: its difference from the baseline on each data set, and over all."""
    of_data = [Column(one.name, importance=-place - 1) for place, one in enumerate(found.data_sets)]
    columns = [
        Column("difference", is_text=True), *of_data, Column("together"),
        Column(f"{percent(found.confidence)} interval"), Column("verdict", is_text=True),
    ]  # fmt: skip
    fewest = min(data.queries for data in found.data_sets)
    rows = [
        [
            one.setting,
            *(_difference(data, one.setting) for data in found.data_sets),
            signed(one.difference, fewest),
            signed_interval(one.ci, fewest),
            one.verdict,
        ]
        for one in found.settings
    ]
    means = [f"{mean_number(data.means[found.baseline], data.queries)} " for data in found.data_sets]
    return Table(columns, [[found.baseline, *means, "", "", "(baseline: mean)"], *rows])


def _difference(data: DataSetPart, setting: str) -> str:
    part = next(one for one in data.comparisons if one.setting == setting)
    mark = "" if part.difference is None else _MARKS.get(part.verdict or "", " ")
    return signed(part.difference, data.queries) + mark
