"""A comparison, of one data set or of several, as tables and lines for the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ragtrial.cache.untrusted import visible
from ragtrial.comparison.across import AcrossComparison, DataSetPart
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart, ConclusionPart
from ragtrial.comparison.conclusion import WORSE
from ragtrial.comparison.evidence import FEW_DIFFERENCES, could_be_labelled
from ragtrial.comparison.number_text import mean_number, percent, probability, rounded, signed, signed_interval
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.errors import counted
from ragtrial.views.sections import all_views
from ragtrial.views.table import Column, Table, plain_text

ALL_PAIRS = " --all-pairs shows all."


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
    """The blocks of a comparison in the terminal: the verdicts, and with ``every_metric`` the differences by others.

    ``everything`` shows all pairs.
    """
    rows = close_comparisons(comparison, everything=everything)
    lines = [left_out_line(comparison, rows, ALL_PAIRS), *looked_into_lines(comparison)]
    yield from verdict_blocks(comparison, rows, width, lines)
    others = [name for name in comparison.metrics if name != comparison.primary_metric]
    if every_metric and others:
        yield from ("", descriptive_table(comparison, others, rows))


def comparison_text(comparison: Comparison, width: int) -> str:
    """The conclusion and the verdicts by the primary metric as plain text, for Python."""
    rows = close_comparisons(comparison)
    lines = [left_out_line(comparison, rows), *looked_into_lines(comparison)]
    lines += [f"Warning: {warning.message}" for warning in comparison.warnings]
    return plain_text(verdict_blocks(comparison, rows, width, lines, "to_frame() has all"), width)


def verdict_blocks(
    comparison: Comparison,
    rows: Sequence[ComparisonPart],
    width: int,
    lines: Sequence[str],
    elsewhere: str = "--json has all",
) -> Iterator[str | Table]:
    """The conclusion, the verdicts, the notes of the table, ``lines``, and how it was tested."""
    table = verdict_table(comparison, rows, width, elsewhere)
    yield visible(heading(comparison)) + "\n"
    yield from map(visible, comparison.conclusion.sentences)
    yield ""
    yield replace(table, notes=())
    yield ""
    yield from map(visible, filter(None, [*table.notes, *lines, comparison.procedure.sentence]))


def verdict_table(
    comparison: Comparison, rows: Sequence[ComparisonPart], width: int | None = None, elsewhere: str = "--json has all"
) -> Table:
    """One row per comparison: means, interval, p, questions won and lost, questions needed, verdict.

    A baseline that all rows share is a row by itself; otherwise each row has its baseline and the mean of it. ``n`` is
    there if it differs. If the table is wider than ``width``, columns go in this order: questions, n, won, tied and
    lost, p, means. Notes explain verdicts and columns, and name the columns that are left out, which are
    ``elsewhere``; ~ and ? mark intervals that need care, and * verdicts that labels could change.
    """
    shared, margin, conclusion = _have_one_baseline(rows), comparison.procedure.margin, comparison.conclusion
    titles = [*(["setting"] if shared else ["setting", "against", "baseline"]), "mean", "difference"]
    titles += [f"{percent(comparison.procedure.confidence)} interval", "p", "won", "tied", "lost", "n", "detectable"]
    titles += ["questions needed"] if margin else []  # no number of queries finds a margin of 0
    cautions, verdicts = {part.caution for part in rows if part.caution}, {part.verdict for part in rows}
    table = []
    for part in rows:
        names = [part.setting] if shared else [part.setting, part.baseline, mean_number(part.mean_baseline, part.n)]
        mark = {"skewed": "~", "few differences": "?", None: " " * bool(cautions)}[part.caution]
        star = "*" if shared and part.setting in conclusion.depends_on_unjudged else ""
        table.append([*[*names, *_cells(part, mark)][: len(titles)], (part.verdict or "") + star])
    if shared:
        mean = mean_number(rows[0].mean_baseline, rows[0].n) if len({part.mean_baseline for part in rows}) == 1 else ""
        place = sum((part.gain or 0.0) > 0 for part in rows)
        table.insert(place, [rows[0].baseline, mean, *[""] * (len(titles) - 2), f"({word_on_top(conclusion)})"])
    unit = "questions" if all(part.clusters is None for part in rows) else "clusters of questions"
    few = f"the two differ on fewer than {LEAST_DIFFERENCES} {unit}; no interval is given."
    rough = f"{FEW_DIFFERENCES} {unit} or fewer differ, so this interval is rough."
    is_starred, of_margin = any(row[-1].endswith("*") for row in table), {"no worse", "worse within the margin"}
    have_all = {part.n for part in rows} <= {conclusion.scored.scored}
    notes = {
        "* with the current labels: labels of hits that have none could change the verdict.": is_starred,
        f"no worse, or within the margin: the margin is {margin:g}.": verdicts & of_margin,
        f"too few differences: {few}": "too few differences" in verdicts,
        "~ skewed differences: such 95% intervals cover 90 to 96% in simulations.": "skewed" in cautions,
        f"? few differences: {rough}": "few differences" in cautions,
        "means here: over the n questions that count for both settings, not all that count for one.": not have_all,
        "no margin is set: --margin is a difference that would not matter.": rows and not margin,
    }
    columns = [Column(title, title in ("setting", "against"), importance=_IMPORTANCE.get(title)) for title in titles]
    whole = Table([*columns, Column("verdict", is_text=True)], table, [note for note, holds in notes.items() if holds])
    if have_all:
        whole = whole.without("n")
    whole = whole.known()
    fitted = whole if width is None else whole.fitted(width, elsewhere)
    return replace(fitted, notes=[*fitted.notes, *(_advice(comparison, rows) if "detectable" in fitted.titles else ())])


_IMPORTANCE = {"detectable": 1, "questions needed": 1, "n": 2, "won": 3, "tied": 3, "lost": 3, "p": 4, "baseline": 5,
               "mean": 5}  # fmt: skip
"""The importance of columns of verdicts: a narrow terminal leaves out the lowest first."""

_MARKS: dict[str, str] = {"better": "+", "worse": "-", "no worse": "=", "identical": "="}


def verdict_cells(comparison: Comparison) -> dict[str, str]:
    """For each setting a mark and its verdict, or how it stands on top; empty where settings are not ranked."""
    conclusion, margin = comparison.conclusion, f"within {comparison.procedure.margin:g}"
    cells: dict[str, str] = {}
    for verdict, names in conclusion.verdicts.items():
        mark = _MARKS.get(verdict.split(" within")[0], "?")
        cells |= dict.fromkeys(names, f"{mark} {verdict.replace('within the margin', margin)}")
    top = [conclusion.baseline] if conclusion.baseline else conclusion.top
    return cells | {str(name): f"> {word_on_top(conclusion)}" for name in top} if cells else {}


def word_on_top(conclusion: ConclusionPart) -> str:
    """How the setting stands with which the others are compared."""
    if set(conclusion.verdicts) == {"identical"} and not conclusion.baseline:
        return "identical"
    extreme = "highest" if conclusion.better == "higher" else "lowest"
    return conclusion.kind if conclusion.kind in ("best", "leading", "baseline") else extreme


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


def left_out_line(comparison: Comparison, shown: Sequence[ComparisonPart], advice: str = "") -> str:
    """A line about the pairs that are not ``shown``, and the ``advice`` where all are; empty if all are shown."""
    pairs = comparison.procedure.comparisons
    if len(shown) == pairs:
        return ""
    best = shown[0].baseline
    return f"All {pairs:,} pairs were compared; shown are those with {best}, the best mean.{advice}"


def _advice(comparison: Comparison, rows: Sequence[ComparisonPart]) -> list[str]:
    """The meaning of the columns about questions in the table of ``rows``; empty if the columns are."""
    if all(part.detectable is None and part.queries_needed is None for part in rows):
        return []
    margin = comparison.procedure.margin
    lines = ["detectable: the difference that these questions detect 80% of the time."]
    if margin:
        lines.append(f"questions needed: in all, to detect {margin:g} (the margin).")
        if comparison.conclusion.next_step.questions and any(_needed(part) == "too many" for part in rows):
            lines.append("The next step asks for fewer: they detect a difference as large as the one here.")
    return [" ".join(lines)]


def looked_into_lines(comparison: Comparison) -> list[str]:
    """The lines of views below the verdicts; empty if no view has any."""
    parts = [(view, view.of(comparison)) for view in all_views()]
    return [line for view, part in parts if part is not None for line in view.summary_lines(part)]


def descriptive_table(comparison: Comparison, metrics: Sequence[str], rows: Sequence[ComparisonPart]) -> Table:
    """For each pair in ``rows`` its differences by other metrics; nothing is claimed.

    Behind one over another number of queries than the row's is that number; a dash for a pair that was not compared.
    """
    known = {(part.setting, part.baseline, part.metric): part for part in comparison.comparisons}
    shared = _have_one_baseline(rows)
    table = []
    for part in rows if metrics else ():
        others = [known.get((part.setting, part.baseline, metric)) for metric in metrics]
        cells = ["-" if other is None else _difference(other, part.n) for other in others]
        table.append([part.setting, *([] if shared else [part.baseline]), *cells])
    names = [Column("differences, descriptive", is_text=True), *([] if shared else [Column("against")])]
    return Table([*names, *map(Column, metrics)], table)


def _difference(part: ComparisonPart, n: int) -> str:
    count = f" ({part.n:,})" if part.n != n and part.difference is not None else ""
    return signed(part.difference, part.n) + count


def across_blocks(comparison: AcrossComparison, width: int) -> Iterator[str | Table]:
    """The result in words, the table of settings, and how it was tested."""
    settings = counted(len(comparison.settings) + 1, "setting")
    data_sets = counted(len(comparison.data_sets), "data set")
    yield visible(f"{settings}, {data_sets}, {comparison.metric}, against {comparison.baseline}") + "\n"
    yield from map(visible, comparison.sentences)
    yield ""
    yield across_table(comparison).fitted(width, "--json has all")
    yield ""
    yield "* better or worse on that data set by its labels, simultaneous for its settings (max-t)."
    yield (
        "Over data sets: random effects (DerSimonian-Laird), Hartung-Knapp intervals, simultaneous for "
        f"{counted(len(comparison.settings), 'comparison')} (Bonferroni)."
    )
    if comparison.left_out:
        yield visible(f"Not in every report, and left out: {', '.join(comparison.left_out)}.")


def across_table(comparison: AcrossComparison) -> Table:
    """One row per setting: its difference from the baseline on each data set, and over all."""
    data_sets = [Column(data.name, importance=-place) for place, data in enumerate(comparison.data_sets, 1)]
    columns = [
        Column("difference", is_text=True), *data_sets, Column("together"),
        Column(f"{percent(comparison.confidence)} interval"), Column("verdict", is_text=True),
    ]  # fmt: skip
    fewest = min(data.queries for data in comparison.data_sets)
    means = [f"{mean_number(data.means[comparison.baseline], data.queries)} " for data in comparison.data_sets]
    rows = [[comparison.baseline, *means, "", "", "(baseline: mean)"]]
    for part in comparison.settings:
        own = [_on_data_set(data, part.setting) for data in comparison.data_sets]
        interval = signed_interval(part.ci, fewest)
        rows.append([part.setting, *own, signed(part.difference, fewest), interval, part.verdict])
    return Table(columns, rows)


def _on_data_set(data: DataSetPart, setting: str) -> str:
    part = next(part for part in data.comparisons if part.setting == setting)
    is_claim = part.verdict == "better" or part.verdict in WORSE
    return signed(part.difference, data.queries) + ("" if part.difference is None else "*" if is_claim else " ")
