"""A comparison, of one data set or of several, as tables and lines for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragtrial.cache.untrusted import visible
from ragtrial.comparison.across import AcrossComparison, DataSetPart
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart, ConclusionPart
from ragtrial.comparison.evidence import FEW_DIFFERENCES, could_be_labelled
from ragtrial.comparison.number_text import percent, probability, rounded, signed, signed_interval
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.errors import counted
from ragtrial.views.sections import all_views
from ragtrial.views.table import Column, Table, mean_number


def heading(comparison: Comparison) -> str:
    """One line that names the compared settings, questions and metric."""
    against = f"against {comparison.procedure.baseline}" if comparison.procedure.baseline else "all pairs"
    questions = comparison.conclusion.scored.sentence
    return f"{counted(len(comparison.settings), 'setting')}, {questions}, {comparison.primary_metric}, {against}"


def flat_sentences(conclusion: ConclusionPart) -> list[str]:
    """The sentences of a conclusion for where spaces do not align: ``inconclusive: dense (...)``."""
    lines = [re.sub(r"^ {2}(\S.*?) {2,}", r"\1: ", sentence) for sentence in conclusion.sentences]
    return [re.sub(r" {3}(?=with the current labels$)", ", ", line) for line in lines]


def comparison_blocks(
    comparison: Comparison, width: int, *, everything: bool, every_metric: bool
) -> Iterator[str | Table]:
    """The blocks of a comparison in the terminal: the verdicts first, then the other metrics.

    ``everything`` shows all pairs, ``every_metric`` all metrics, however wide the table is.
    """
    rows = close_comparisons(comparison, everything=everything)
    lines = [left_out_line(comparison, rows), *looked_into_lines(comparison)]
    yield from verdict_blocks(comparison, rows, width, lines)
    others = [name for name in comparison.metrics if name != comparison.primary_metric]
    differences = descriptive_table(comparison, others, rows, None if every_metric else width)
    if differences.rows:
        yield from ("", differences)


def verdict_blocks(
    comparison: Comparison, rows: Sequence[ComparisonPart], width: int, lines: Sequence[str]
) -> Iterator[str | Table]:
    """The conclusion, the verdicts, ``lines``, the notes of the table, and how it was tested."""
    table = verdict_table(comparison, rows, width)
    yield visible(heading(comparison)) + "\n"
    yield from map(visible, comparison.conclusion.sentences)
    yield ""
    yield replace(table, notes=())
    yield ""
    yield from map(visible, filter(None, [*lines, *table.notes, comparison.procedure.sentence]))


def verdict_table(comparison: Comparison, rows: Sequence[ComparisonPart], width: int | None = None) -> Table:
    """One row per comparison: means, interval, p, questions won and lost, questions needed, verdict.

    A baseline that all rows share is a row by itself; otherwise each row has its baseline and the mean of it. If the
    table is wider than ``width``, columns go in this order: won, tied and lost, n, p, means, detectable. Notes explain
    verdicts and columns, and name the columns that are left out; ~ and ? mark intervals that need care.
    """
    shared, margin = _have_one_baseline(rows), comparison.procedure.margin
    names = ["setting"] if shared else ["setting", "against", "baseline"]
    columns = [Column(title, is_text=title in ("setting", "against")) for title in names]
    columns[2:] = [replace(one, importance=4) for one in columns[2:]]
    columns += [Column("mean", importance=4), Column("difference")]
    columns += [Column(f"{percent(comparison.procedure.confidence)} interval"), Column("p", importance=3)]
    columns += [Column(title, importance=1) for title in ("won", "tied", "lost")] + [Column("n", importance=2)]
    # No number of queries finds a margin of 0.
    columns += [Column("detectable", importance=5), *([Column("questions needed")] if margin else [])]
    table, cautions = [], {part.caution for part in rows if part.caution}
    for part in rows:
        named = [part.setting] if shared else [part.setting, part.baseline, mean_number(part.mean_baseline, part.n)]
        mark = {"skewed": "~", "few differences": "?", None: " " * bool(cautions)}[part.caution]
        table.append([*[*named, *_cells(part, mark)][: len(columns)], part.verdict or ""])
    if shared:
        mean = mean_number(rows[0].mean_baseline, rows[0].n) if len({part.mean_baseline for part in rows}) == 1 else ""
        place = sum((part.gain or 0.0) > 0 for part in rows)
        table.insert(place, [rows[0].baseline, mean, *[""] * (len(columns) - 2), "(baseline)"])
    verdicts, notes = {part.verdict for part in rows}, []
    if verdicts & {"no worse", "worse within the margin"}:
        notes.append(f"no worse, or within the margin: the margin is {margin:g}.")
    if "too few differences" in verdicts:
        notes.append(
            f"too few differences: the two differ on fewer than {LEAST_DIFFERENCES} queries; no interval is given."
        )
    if "skewed" in cautions:
        notes.append("~ skewed differences: such 95% intervals cover 90 to 96% in simulations.")
    if "few differences" in cautions:
        notes.append(f"? few differences: {FEW_DIFFERENCES} queries or fewer differ, so this interval is rough.")
    whole = Table([*columns, Column("verdict", is_text=True)], table, notes)
    fitted = whole if width is None else whole.fitted(width, "--json has all")
    return replace(fitted, notes=[*fitted.notes, *_advice(comparison)])


def _have_one_baseline(rows: Sequence[ComparisonPart]) -> bool:
    return len({part.baseline for part in rows}) == 1


def _cells(part: ComparisonPart, mark: str) -> list[str]:
    return [
        mean_number(part.mean, part.n),
        signed(part.difference, part.n),
        signed_interval(part.ci, part.n) + (mark if part.ci else ""),
        "-" if part.p_corrected is None else probability(part.p_corrected),
        *(f"{count:,}" for count in (part.wins, part.ties, part.losses, part.n)),
        "-" if part.detectable is None else rounded(part.detectable),
        _needed(part),
    ]


def _needed(part: ComparisonPart) -> str:
    """The questions that detect the margin; a number only if a person could label as many."""
    if part.queries_needed is None:
        return "-"
    if part.queries_needed <= part.n:
        return "enough"
    return f"{part.queries_needed:,}" if could_be_labelled(part.queries_needed - part.n, part.n) else "too many"


def left_out_line(comparison: Comparison, shown: Sequence[ComparisonPart]) -> str:
    """A line about the pairs that are not ``shown``; nothing where all are."""
    pairs = comparison.procedure.comparisons
    if len(shown) == pairs:
        return ""
    best = shown[0].baseline
    return f"All {pairs:,} pairs were compared; shown are those with {best}, the highest mean. --full shows all."


def _advice(comparison: Comparison) -> list[str]:
    """The meaning of the columns about questions; empty if the columns are."""
    rows = [part for part in comparison.comparisons if part.metric == comparison.primary_metric]
    if all(part.detectable is None and part.queries_needed is None for part in rows):
        return []
    margin = comparison.procedure.margin
    detectable = "detectable: the difference that these questions detect 80% of the time."
    return [f"{detectable} questions needed: in all, to detect {margin:g} (the margin)." if margin else detectable]


def looked_into_lines(comparison: Comparison) -> list[str]:
    """The lines of views below the verdicts; empty if no view has any."""
    found = [(view, view.of(comparison)) for view in all_views()]
    return [line for view, part in found if part is not None for line in view.summary_lines(part)]


def descriptive_table(
    comparison: Comparison, metrics: Sequence[str], rows: Sequence[ComparisonPart], width: int | None = None
) -> Table:
    """For each pair in ``rows`` its differences by other metrics, as many as ``width`` allows; nothing is claimed.

    Behind one over another number of queries than the row's is that number; a dash for a pair that was not compared.
    """
    known = {(part.setting, part.baseline, part.metric): part for part in comparison.comparisons}
    shared = _have_one_baseline(rows)
    table = []
    for part in rows if metrics else ():
        others = [known.get((part.setting, part.baseline, metric)) for metric in metrics]
        cells = ["-" if one is None else signed(one.difference, one.n) + _other_count(one, part.n) for one in others]
        table.append([part.setting, *([] if shared else [part.baseline]), *cells])
    names = [Column("differences, descriptive", is_text=True), *([] if shared else [Column("against")])]
    columns = [Column(metric, importance=-place if place else None) for place, metric in enumerate(metrics)]
    made = Table([*names, *columns], table)
    return made if width is None else made.fitted(width, "--metrics all")


def _other_count(part: ComparisonPart, n: int) -> str:
    return f" ({part.n:,})" if part.n != n and part.difference is not None else ""


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
