"""A comparison as tables and lines for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from ragtrial.comparison.analysis import Analysis
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart
from ragtrial.comparison.figures import probability, signed
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.comparison.unjudged.sensitivity import UnjudgedPart
from ragtrial.comparison.verdicts import percent, rounded
from ragtrial.errors import listed
from ragtrial.views.table import counted, narrowed, table_width

MOST_NAMED = 6
MOST_EQUAL = 20
"""Of more settings that cannot be told from the best only the number is given."""

MOST_UNJUDGED = 3


def heading(comparison: Comparison) -> str:
    """One line that says what was compared."""
    against = f"against {comparison.procedure.baseline}" if comparison.procedure.baseline else "all pairs"
    reports = {_parted(name)[0] for name in comparison.settings}
    if len(reports) == 2 and comparison.procedure.baseline in reports:
        (other,) = reports - {comparison.procedure.baseline}
        against = f"{other} {against}"
    settings, queries = len(comparison.settings), comparison.queries
    noun = "query" if queries == 1 else "queries"
    counts = {part.n for part in comparison.comparisons if part.metric == comparison.primary_metric}
    count = f" ({next(iter(counts)):,} of them count)" if len(counts) == 1 and counts != {queries} else ""
    return f"{counted(settings, 'setting')}, {queries:,} {noun}{count}, {comparison.primary_metric}, {against}"


def verdict_table(comparison: Comparison, rows: Sequence[ComparisonPart], *, in_brief: bool = False) -> list[list[str]]:
    """A header and one row per comparison: means, interval, p, won queries, what queries can show, verdict.

    Where all have one baseline it is a row of its own; else each row has what it is compared with, and its mean.
    """
    interval = f"{percent(comparison.procedure.confidence)} interval"
    layout = _layout(rows)
    first = {"one": ["setting"], "names": ["setting", "baseline"], "pairs": ["setting", "against", "baseline"]}[layout]
    counts = ["won", "tied", "lost", "n", *_advised(comparison)]
    table = [[*first, "mean", "difference", interval, "p", *counts, "verdict"]]
    for part in rows:
        before = [] if layout == "one" else [_score(part.mean_baseline)]
        cells = _cells(part)[: len(counts) + 4]
        table.append([*_named(part, layout), *before, *cells, _verdict(part, in_brief=in_brief)])
    if layout == "one":
        mean = _score(rows[0].mean_baseline) if len({part.mean_baseline for part in rows}) == 1 else ""
        place = 1 + sum((part.difference or 0.0) > 0 for part in rows)
        table.insert(place, [rows[0].baseline, mean, *[""] * (len(table[0]) - 3), "(baseline)"])
    return table


def fitted_verdicts(
    comparison: Comparison, rows: Sequence[ComparisonPart], width: int
) -> tuple[list[list[str]], list[str]]:
    """``verdict_table`` as far as ``width`` allows, and lines that say what its columns mean, or which it lacks.

    First sentences become the names of verdicts, then columns go: those about queries to ask, won and lost, n, p.
    """
    table = verdict_table(comparison, rows)
    if table_width(table) <= width:
        return table, list(filter(None, [_advice_line(comparison)]))
    spare = [_advised(comparison), ["won", "tied", "lost"], ["n"], ["p"]]
    table, lacking = narrowed(verdict_table(comparison, rows, in_brief=True), width, spare)
    few = {part.sentence for part in rows if part.verdict == "too few differences"}
    of_many = f"in fewer than {LEAST_DIFFERENCES} queries; no interval is given"
    margin = comparison.procedure.margin
    bounded = any(part.verdict in ("no worse", "worse within the margin") for part in rows)
    lines = [f"no worse, or within the margin: that is {margin:g}."] if bounded else []
    lines += [f"too few differences: {few.pop() if len(few) == 1 else of_many}."] if few else []
    lines += [f"Too wide for {width} columns: {', '.join(lacking)} (--json has all)."] if lacking else []
    return table, [*lines, *([] if lacking else filter(None, [_advice_line(comparison)]))]


def _advised(comparison: Comparison) -> list[str]:
    """The columns that say what queries can show. No number of them finds a margin of 0."""
    margin = comparison.procedure.margin
    return ["detectable", f"n for {margin:g}"] if margin else ["detectable"]


def _layout(rows: Sequence[ComparisonPart]) -> Literal["one", "names", "pairs"]:
    """Whether all rows have one baseline, are of settings of the same name in two reports, or of any pairs."""
    if len({part.baseline for part in rows}) == 1:
        return "one"
    reports = {(_parted(part.setting)[0], _parted(part.baseline)[0]) for part in rows}
    same = all(_parted(part.setting)[1] == _parted(part.baseline)[1] for part in rows)
    return "names" if same and len(reports) == 1 else "pairs"


def _named(part: ComparisonPart, layout: str) -> list[str]:
    if layout == "names":
        return [_parted(part.setting)[1]]
    return [part.setting] if layout == "one" else [part.setting, part.baseline]


def _parted(name: str) -> tuple[str, str]:
    report, _, setting = name.rpartition(":")
    return report, setting


def left_out_line(comparison: Comparison, shown: Sequence[ComparisonPart]) -> str:
    """A line about the pairs that are not ``shown``; nothing where all are."""
    pairs = comparison.procedure.comparisons
    if len(shown) == pairs:
        return ""
    best = shown[0].baseline
    return f"All {pairs:,} pairs were compared; shown are those with {best}, the highest mean. --full shows all."


def _advice_line(comparison: Comparison) -> str:
    """What the columns about queries mean; nothing where they are empty."""
    rows = [part for part in comparison.comparisons if part.metric == comparison.primary_metric]
    if all(part.detectable is None and part.queries_needed is None for part in rows):
        return ""
    margin = comparison.procedure.margin
    said = "detectable: a true difference of this size would be found 4 times of 5 with these n queries"
    if margin:
        said += (
            f"; n for {margin:g}: how many queries would find one of {margin:g}, the margin, as often (enough: n would)"
        )
    return f"{said}."


def unjudged_lines(parts: Sequence[UnjudgedPart]) -> list[str]:
    """Which verdicts might be others, had somebody judged more hits; of many the first and the number of the rest."""
    lines = [f"{part.setting} against {part.baseline}: {part.sentence}." for part in parts if part.hangs_on_unjudged]
    rest = len(lines) - MOST_UNJUDGED
    if rest > 0:
        verdicts = "1 more verdict hangs" if rest == 1 else f"{rest:,} more verdicts hang"
        lines[MOST_UNJUDGED:] = [f"{verdicts} on hits nobody judged (--json shows all)."]
    return lines


def looked_into_lines(comparison: Comparison) -> list[str]:
    """What the winner may be expected to score, and which verdicts hang on unjudged hits; none if not looked into."""
    if not isinstance(comparison, Analysis):
        return []
    expected = [f"{comparison.selection.sentence}."] if comparison.selection else []
    return [*expected, *unjudged_lines(comparison.unjudged)]


def best_line(comparison: Comparison) -> str:
    """Which settings cannot be told from the best; of many, which are shown to be worse than another."""
    names = comparison.not_worse_than_best[comparison.primary_metric]
    worse = [name for name in comparison.settings if name not in names]
    by = f"by {comparison.primary_metric}, all pairs compared"
    if not worse:
        return f"No setting is shown to be worse than another {by}."
    if len(names) == 1:
        return f"The best {by}: {names[0]}."
    if len(names) > max(MOST_NAMED, min(len(worse), MOST_EQUAL)):
        return (
            f"Shown to be worse than another {by}: {listed(worse, MOST_NAMED)}. "
            f"The other {len(names):,} cannot be told from the best."
        )
    return f"Cannot be told from the best {by}: {', '.join(names)}."


def fitted_differences(
    comparison: Comparison, metrics: Sequence[str], rows: Sequence[ComparisonPart], width: int
) -> tuple[list[list[str]], list[str]]:
    """``descriptive_table`` with as many of the metrics as ``width`` allows, and a line that names the others."""
    table = descriptive_table(comparison, metrics, rows)
    table, lacking = narrowed(table, width, [[metric] for metric in reversed(metrics[1:])])
    told = f"Too wide for {width} columns: {', '.join(reversed(lacking))} (--metrics all)."
    return table, [told] if lacking else []


def descriptive_table(
    comparison: Comparison, metrics: Sequence[str], rows: Sequence[ComparisonPart]
) -> list[list[str]]:
    """A header and, for each pair in ``rows``, its differences by other metrics, about which nothing is claimed.

    Behind one over another number of queries than the row's is that number.
    """
    if not metrics:
        return []
    known = {(part.setting, part.baseline, part.metric): part for part in comparison.comparisons}
    layout = _layout(rows)
    table = [["differences, descriptive", *(["against"] if layout == "pairs" else []), *metrics]]
    for part in rows:
        others = [known[part.setting, part.baseline, metric] for metric in metrics]
        counts = [f" ({one.n:,})" if one.n != part.n and one.difference is not None else "" for one in others]
        cells = [signed(one.difference) + count for one, count in zip(others, counts, strict=True)]
        table.append([*_named(part, layout), *cells])
    return table


def _cells(part: ComparisonPart) -> list[str]:
    interval = "-" if part.ci is None else f"{signed(part.ci[0])} {signed(part.ci[1])}"
    needed, enough = part.queries_needed, part.queries_needed is not None and part.queries_needed <= part.n
    return [
        _score(part.mean),
        signed(part.difference),
        interval,
        "-" if part.p_corrected is None else probability(part.p_corrected),
        f"{part.wins:,}",
        f"{part.ties:,}",
        f"{part.losses:,}",
        f"{part.n:,}",
        "-" if part.detectable is None else rounded(part.detectable),
        "-" if needed is None else "enough" if enough else f"{needed:,}",
    ]


def _verdict(part: ComparisonPart, *, in_brief: bool) -> str:
    return str(part.verdict) if in_brief or part.verdict == "cannot tell" else part.sentence


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
