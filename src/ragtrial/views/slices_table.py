"""Differences by kind of query, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ragtrial.comparison.figures import signed
from ragtrial.comparison.queries.slices import SlicePart, SlicesPart


def slice_heading(slices: SlicesPart) -> str:
    """One line above the overview: what the differences are, and what their marks say."""
    if not slices.comparisons:
        return "No slices: by tag, relevant documents, length and word overlap all queries are of one kind."
    baselines = list(dict.fromkeys(part.baseline for part in slices.comparisons))
    shared = baselines[0] if len(baselines) == 1 else "the baseline of each"
    return (
        f"Differences in {slices.metric} from {shared}, by kind of query. ± half of the interval; * it leaves out 0; "
        "! and contradicts that of all queries"
    )


def slice_overview(slices: SlicesPart, width: int) -> list[list[str]]:
    """A header and one row per slice, with the differences of as many settings as ``width`` allows, as they come.

    Behind them stands half of the interval, if there is room for that of all, a * where it leaves out 0, and a ! where
    it contradicts the whole. Of one setting there are means and counts as well, if ``width`` allows. Nothing if there
    is no slice.
    """
    settings = list(dict.fromkeys(part.setting for part in slices.comparisons))
    if not settings:
        return []
    whole = slice_table(slices, settings[0]) if len(settings) == 1 else _differences(slices, settings, intervals=True)
    while _width(whole) > width:
        whole = _differences(slices, settings)
        if len(settings) == 1:
            break
        settings.pop()
    return whole


def _differences(slices: SlicesPart, settings: Sequence[str], *, intervals: bool = False) -> list[list[str]]:
    known = {(part.slicing, part.name, part.setting): part for part in slices.comparisons}
    sizes = {(part.slicing, part.name): part.queries for part in slices.comparisons}
    rows, before = [["queries by", "slice", "queries", *settings]], ""
    for (slicing, name), queries in sizes.items():
        cells = [_marked(known[slicing, name, setting], interval=intervals) for setting in settings]
        rows.append(["" if slicing == before else slicing, name, f"{queries:,}", *cells])
        before = slicing
    return rows


def slice_table(slices: SlicesPart, setting: str) -> list[list[str]]:
    """A header and one row per slice of one pair: means, difference, interval, won queries; or nothing."""
    parts = [part for part in slices.comparisons if part.setting == setting]
    if not parts:
        return []
    rows = [["queries by", "slice", "n", parts[0].baseline, setting, "difference", "interval", "won", "tied",
             "lost"]]  # fmt: skip
    before = ""
    for part in parts:
        means = ["-" if mean is None else f"{mean:.4f}" for mean in (part.mean_baseline, part.mean)]
        interval = "-" if part.ci is None else f"{signed(part.ci[0])} {signed(part.ci[1])}"
        counts = [f"{count:,}" for count in (part.wins, part.ties, part.losses)]
        named = ["" if part.slicing == before else part.slicing, part.name, f"{part.n:,}"]
        rows.append([*named, *means, _marked(part), interval, *counts])
        before = part.slicing
    return rows


def _marked(part: SlicePart, *, interval: bool = False) -> str:
    if part.difference is None:
        return "-"
    if part.ci is None:
        return f"{signed(part.difference)}{' ' * (9 if interval else 1)}"
    half = f" ±{(part.ci[1] - part.ci[0]) / 2:.4f}" if interval else ""
    is_told = part.ci[0] > 0 or part.ci[1] < 0
    return f"{signed(part.difference)}{half}{'!' if part.contradicts else '*' if is_told else ' '}"


def _width(rows: list[list[str]]) -> int:
    return sum(max(map(len, column)) + 2 for column in zip(*rows, strict=True)) - 2
