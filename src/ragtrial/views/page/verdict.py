"""The top of the page: the verdict in counts, and a plot of each setting against its baseline or the best."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ragtrial.comparison.comparing import judged_share
from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.comparison_parts import ComparisonPart, ConclusionKind, VerdictLinePart
from ragtrial.comparison.conclusion import ALL_IDENTICAL, MOST_NAMED, SHOWN
from ragtrial.comparison.evidence import verdict_of_claim
from ragtrial.comparison.number_text import digits_of, number, percent, signed
from ragtrial.comparison.statistics.estimates import mean_interval
from ragtrial.comparison.sweep_effects import EffectPart, EffectsPart
from ragtrial.errors import counted, listed
from ragtrial.evaluation.clusters import linearised
from ragtrial.evaluation.metrics import metric_called
from ragtrial.report.schema import SettingPart
from ragtrial.views.analysis import Analysis
from ragtrial.views.comparison_tables import word_on_top
from ragtrial.views.sections.details import level_text

MOST_NAMED_ROWS = 12
"""With more settings, rows are low and have a column for each option instead of a name."""

MOST_ROWS = 40
"""With more settings, the first rows and those with a verdict are shown."""

_FIRST_ROWS = 20
_MOST_TICKS = 8
_FEW_TICKS = 6
WORTH_A_COLUMN = 1.2
"""A cost is shown if the largest is at least this factor times the smallest."""
_STEPS = (1, 2, 4, 5)
_BADGES: Mapping[ConclusionKind, tuple[str, str]] = {
    "best": ("Best", "best"),
    "leading": ("Leading", "leading"),
    "nothing shown": ("Nothing shown", "nothing"),
    "no ranking yet": ("Too few questions", "few"),
    "baseline": ("Against {baseline}", "few"),
    "two runs": ("Two runs", "few"),
}
"""The badge of a conclusion and the class of its look."""

_UNCOMPARED: tuple[ConclusionKind, ...] = ("one setting", "no ranking yet")
"""Conclusions without a comparison: the plot shows means."""

_MARKS = {
    "better": "good", "worse": "worse", "worse within the margin": "worse", "no worse": "same", "inconclusive": "open",
}  # fmt: skip
_OF_MARGIN = ("no worse", "worse within the margin")
KEY = {
    "top": "the setting that the others are compared with",
    "worse": "CI on the worse side of 0: worse",
    "good": "CI on the better side of 0: better",
    "same": "no worse within the margin",
    "open": "CI across 0: inconclusive",
    "none": "too few differences for an interval",
}
"""The meaning of the marks."""


@dataclass(frozen=True)
class Verdict:
    """The badge with its look, the headlines with the muted rest of the first one, and a line for each verdict."""

    badge: str
    look: str
    headlines: Sequence[str]
    rivals: str
    lines: Sequence[tuple[str, str]]
    action: str
    command: str


def verdict_of(analysis: Analysis, effects: Plot | None) -> Verdict:
    """The conclusion in the words of the terminal, and the options of a sweep that ``effects`` shows to be better.

    Many settings with one verdict are counted, with the range of their differences, instead of named.
    """
    conclusion = analysis.conclusion
    badge, look = _BADGES.get(conclusion.kind, ("", ""))
    badge = badge.format(baseline=conclusion.baseline)
    better = [row for row in effects.rows if row.mark in ("good", "worse")] if effects else []
    if conclusion.kind == "nothing shown" and better:
        badge = "No best setting"
    heads = conclusion.sentences[: -1 - len(conclusion.lines)]
    if heads[0].startswith(f"{ALL_IDENTICAL}: "):
        badge = ALL_IDENTICAL
    if not conclusion.scored.scored:
        searched = counted(analysis.queries, "question")
        badge, heads = "", [f"{searched} searched, none scored: no question has a label that counts"]
    heads[0] = heads[0].removeprefix(f"{badge}: ").removeprefix("Baseline: ")
    said, rivals = [_line(analysis, line) for line in conclusion.lines], ""
    if conclusion.kind == "two runs":
        said = [(name, text) for name, _, text in (head.partition(": ") for head in heads)]
        heads = [f"Compared with {conclusion.baseline}"]
    elif conclusion.found:
        heads[0], _, rivals = heads[0].partition(" (")
    if better:
        better.sort(key=lambda row: -abs(row.difference or 0.0))
        said.insert(0, ("options with an effect", "; ".join(f"{row.name} {row.verdict} {row.text}" for row in better)))
    step, rivals = conclusion.next_step, f"({rivals}" if rivals else ""
    action = f"{step.action[:1].upper()}{step.action[1:]}"
    return Verdict(badge, look, heads, rivals, said, action, step.command)


def _line(analysis: Analysis, line: VerdictLinePart) -> tuple[str, str]:
    """The label of a line, and its settings; of many settings their number, and the range of their differences.

    A difference is the top setting less the other one; with a baseline, the setting less the baseline.
    """
    ending = " with the current labels" if line.depends_on_unjudged else ""
    if len(analysis.settings) <= MOST_NAMED_ROWS or line.label == SHOWN:
        return line.label, f"{listed(line.settings, MOST_NAMED)}{line.detail}{ending}"
    sign = 1 if analysis.procedure.baseline else -1
    n, parts = analysis.conclusion.scored.scored, {part.setting: part for part in _parts(analysis)}
    known = [parts[name].difference for name in line.settings]
    differences = sorted(difference for difference in known if difference is not None)
    ends = (differences[-1], differences[0]) if differences else ()
    spread = dict.fromkeys(signed(sign * end, n) for end in ends)
    count = len(line.settings)
    which = f"all {count:,} others" if count == len(parts) else counted(count, "setting")
    return line.label, f"{which} ({' to '.join(spread)}){ending}" if spread else f"{which}{ending}"


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high`` with its ticks."""

    low: float
    high: float
    ticks: Sequence[float]

    def at(self, value: float) -> str:
        """The position of ``value``, in per cent of the width."""
        return f"{100 * (value - self.low) / (self.high - self.low):.1f}%"

    def band(self, margin: float) -> tuple[str, str]:
        """Where the band of a margin around 0 begins, and its length, as far as the axis goes."""
        low, high = max(self.low, -margin), min(self.high, margin)
        return self.at(low), f"{100 * (high - low) / (self.high - self.low):.1f}%"

    def label(self, tick: float) -> str:
        step = self.ticks[1] - self.ticks[0]
        digits = max(0, -math.floor(math.log10(step) + 1e-9))
        return "0" if abs(tick) < step / 2 else f"{tick:{'+' if self.low < 0 else ''},.{digits}f}"


def axis_over(values: Sequence[float], most: int = _MOST_TICKS, *, has_zero: bool = True) -> Axis:
    """The axis over ``values`` and 0, outwards to at most ``most`` ticks of 1, 2, 4 or 5 times a power of ten.

    Without ``has_zero`` 0 is on it only if values reach that far.
    """
    values = [*values, 0.0] if has_zero else values
    low, high = min(values), max(values)
    exponent = math.floor(math.log10((high - low) or 0.1)) - 1
    steps = (digit * 10.0**power for power in range(exponent, exponent + 4) for digit in _STEPS)
    for step in steps:
        first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
        if last - first < most:
            last = max(last, first + 1)
            return Axis(first * step, last * step, [tick * step for tick in range(first, last + 1)])
    raise AssertionError(f"no axis from {low} to {high}")


@dataclass(frozen=True)
class Row:
    """A setting in the plot: words, counts and mean, its difference with interval and scenario, and the verdict."""

    name: str
    words: str = ""
    options: Sequence[str] = ()
    counts: str = ""
    mean: str = ""
    cost: str = ""
    mark: str = "none"
    difference: float | None = None
    interval: tuple[float, float] | None = None
    scenario: tuple[float, float] | None = None
    verdict: str = ""
    text: str = ""
    judged: int | None = None
    said: str = ""
    """The strip in words."""


@dataclass(frozen=True)
class Plot:
    """All settings on one axis of differences; without a verdict, of the mean of a single setting."""

    heading: str
    metric: str
    about: str
    axis: Axis
    margin: float
    rows: Sequence[Row]
    shared: str = ""
    options: Sequence[str] = ()
    counts: str = ""
    cost: str = ""
    left_out: int = 0
    notes: Sequence[str] = ()

    @property
    def marks(self) -> list[str]:
        """The marks that occur, in the order of the key; means have none."""
        return [mark for mark in KEY if self.has_verdict and any(row.mark == mark for row in self.rows)]

    @property
    def has_verdict(self) -> bool:
        return any(row.verdict for row in self.rows)

    @property
    def is_low(self) -> bool:
        return len(self.rows) > MOST_NAMED_ROWS


def plot_of(inputs: ComparisonInput, analysis: Analysis, ranked: Sequence[str]) -> Plot | None:
    """The plot of the settings in the order of ``ranked``; None where no question is scored."""
    conclusion, digits = analysis.conclusion, digits_of(analysis.conclusion.scored.scored)
    if not conclusion.scored.scored:
        return None
    parts = {part.setting: part for part in _parts(analysis)}
    names = [name for name in ranked if not inputs.are_pairs_by_name or name in parts]
    settings = [inputs.settings[inputs.setting_index(name)] for name in names]
    options, shared = _options(settings)
    unit, costs = _context_costs(settings, metric_called(conclusion.metric).k)
    has_cost = bool(costs) and (inputs.report.unit == "span" or max(costs) >= WORTH_A_COLUMN * min(costs))
    shown_costs = [f"{cost:,.0f}" for cost in costs] if has_cost else [""] * len(settings)
    rows = [
        replace(
            _row(inputs, analysis, setting, parts.get(setting.name), digits), words=words, options=values, cost=cost
        )
        for setting, (words, values), cost in zip(settings, _words(settings, options), shown_costs, strict=True)
    ]
    shown = [row for place, row in enumerate(rows) if place < _FIRST_ROWS or row.mark in ("good", "worse", "same")]
    shown = rows if len(rows) <= MOST_ROWS else shown
    ends = [end for row in shown for ends in (row.interval, row.scenario) for end in ends or ()]
    ends += [row.difference for row in shown if row.difference is not None]
    k = conclusion.found.k if conclusion.found else None
    reference = analysis.procedure.baseline or (conclusion.top[0] if conclusion.top else "")
    selection = None if analysis.procedure.baseline else analysis.selection
    is_of_means = conclusion.kind in _UNCOMPARED
    is_low = len(shown) > MOST_NAMED_ROWS
    extreme = "highest" if inputs.sign(conclusion.metric) > 0 else "lowest"
    called = f"the {'baseline' if analysis.procedure.baseline else extreme}" if is_low and reference else reference
    about = f"mean {conclusion.metric}" if is_of_means else f"difference in {conclusion.metric}"
    about += f" from {called}" if called and not (is_of_means or inputs.are_pairs_by_name) else ""
    axis = axis_over(ends or [0.1, -0.1], _FEW_TICKS if is_low else _MOST_TICKS)
    if is_of_means and max(ends, default=0.0) <= 1:
        axis = Axis(0.0, 1.0, [0.0, 0.2, 0.4, 0.6, 0.8, 1.0])
    return Plot(
        heading=f"Each setting against {called}" if reference and not is_of_means else "The means",
        shared=shared,
        options=[option_name(name) for name in options] if is_low else [],
        counts=f"finds an answer in the first {k}" if k else "",
        metric=conclusion.metric,
        cost=f"{unit} in the first {k or metric_called(conclusion.metric).k}" if has_cost else "",
        about=about,
        axis=axis,
        margin=0.0 if is_of_means else analysis.procedure.margin,
        rows=shown,
        left_out=len(rows) - len(shown),
        notes=[f"{selection.sentence}."] if selection and selection.corrected is not None else [],
    )


def _context_costs(settings: Sequence[ComparedSetting], k: int | None) -> tuple[str, list[float]]:
    """The length of the first ``k`` hits of each setting, in tokens or else in characters; empty where it is not known
    of all.
    """
    for unit in ("tokens", "characters"):
        costs = [setting.part.cost(f"{unit}@{k}") for setting in settings]
        if known := [cost for cost in costs if cost is not None]:
            return unit, known if len(known) == len(costs) else []
    return "", []


def _parts(analysis: Analysis) -> Iterator[ComparisonPart]:
    """The comparisons that the conclusion is about: with its reference, or name by name."""
    top = analysis.conclusion.top[:1]
    for part in analysis.comparisons:
        is_primary = part.metric == analysis.primary_metric
        if is_primary and (analysis.procedure.baseline or not top or part.baseline == top[0]):
            yield part


def _row(
    inputs: ComparisonInput, analysis: Analysis, setting: ComparedSetting, part: ComparisonPart | None, digits: int
) -> Row:
    conclusion = analysis.conclusion
    mean = setting.part.scores.get(conclusion.metric)
    estimates: dict[str, float | None] = {}
    if analysis.judge:
        for own in _parts(analysis):
            estimates |= {own.setting: own.mean, own.baseline: own.mean_baseline}
    value = estimates.get(setting.name, mean.mean if mean else None)
    judged = judged_share(setting, conclusion.metric) if inputs.report.unit == "document" else None
    counts = conclusion.found.by_setting.get(setting.name) if conclusion.found else None
    row = Row(
        setting.name,
        counts="" if counts is None or not conclusion.found else f"{counts:,} of {conclusion.found.questions:,}",
        mean=number(value, digits),
        judged=None if judged is None else round(100 * judged),
    )
    if conclusion.kind in _UNCOMPARED:
        values = inputs.scores(conclusion.metric).values[inputs.setting_index(setting.name)]
        is_known = conclusion.kind == "one setting"
        (known,) = linearised(values[None], inputs.clusters)
        ends = mean_interval(known, 0.05, conclusion.metric) if is_known else None
        said = f"mean {row.mean}" + (f", 95% CI {number(ends[0], digits)} to {number(ends[1], digits)}" if ends else "")
        return replace(row, difference=value, interval=ends, said=said)
    if part is not None:
        return _compared(row, analysis, part)
    if setting.name not in (*conclusion.top, analysis.procedure.baseline):
        return replace(row, mark="", said="no comparison")
    return replace(row, mark="top", difference=0.0, verdict=word_on_top(conclusion), said=KEY["top"])


def _compared(row: Row, analysis: Analysis, part: ComparisonPart) -> Row:
    """The row of a setting with its comparison."""
    n = analysis.conclusion.scored.scored
    change = "no difference" if part.difference is None else minus(signed(part.difference, n))
    said, scenario = change, None
    if part.ci:
        low, high = (minus(signed(end, n)) for end in part.ci)
        said += f", {percent(analysis.procedure.confidence)} CI {low} to {high}"
    depends = part.setting in analysis.conclusion.depends_on_unjudged
    for unjudged in (analysis.found.get("unjudged") or ()) if depends else ():
        if (unjudged.setting, unjudged.baseline) == (part.setting, part.baseline) and unjudged.low is not None:
            scenario = (unjudged.low, unjudged.high)
            said += f"; with labels, scenarios {minus(signed(unjudged.low, n))} to {minus(signed(unjudged.high, n))}"
    mark, verdict = _MARKS.get(str(part.verdict), "none"), _within(str(part.verdict), analysis.procedure.margin)
    text = change if part.difference and part.verdict != "identical" else ""
    row = replace(row, difference=part.difference, interval=part.ci, scenario=scenario)
    return replace(row, mark=mark, verdict=verdict, text=text, said=said)


def _within(verdict: str, margin: float) -> str:
    """The verdict with its margin, if it depends on that."""
    return f"{verdict.split(' within')[0]} within {margin:g}" if verdict in _OF_MARGIN else verdict


def minus(text: str) -> str:
    """``text`` with minus signs where numbers are negative."""
    return re.sub(r"(?<![\w.])-(?=\d)", "\u2212", text)


def _options(settings: Sequence[ComparedSetting]) -> tuple[list[str], str]:
    """The options of a sweep that differ between ``settings``, and the words of all that they share."""
    swept = [setting.part.parameters.get("values") or {} for setting in settings]
    names = list(dict.fromkeys(name for values in swept for name in values))
    names = [name for name in names if len({repr(values.get(name)) for values in swept}) > 1]
    words = [list(setting_words(setting.part)) for setting in settings]
    shared = [word for word in words[0] if all(word in other for other in words[1:])] if len(words) > 1 else []
    return names, listed(shared)


def option_name(parameter: str) -> str:
    """``title weight`` for ``retrievers.bm25.title_weight``, ``chunker`` for ``chunker.kind``."""
    names = [part.strip().removesuffix(".kind").rpartition(".")[2] for part in parameter.split(",")]
    return ", ".join(names).replace("_", " ")


def _words(settings: Sequence[ComparedSetting], options: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """For each setting the words that not all share, and its values of ``options``."""
    words = [list(setting_words(setting.part)) for setting in settings]
    for setting, own in zip(settings, words, strict=True):
        values = setting.part.parameters.get("values") or {}
        rest = [word for word in own if len(words) == 1 or any(word not in other for other in words)]
        yield ", ".join(rest), [level_text(values[name]) if name in values else "" for name in options]


def setting_words(setting: SettingPart) -> Iterator[str]:
    """A setting in words: how it searches, and its chunks, store and number of hits."""
    parameters = setting.parameters
    retriever = parameters.get("retriever") or {}
    if not parameters:  # of a table of scores
        return
    yield _retriever_words(retriever, parameters)
    chunker = parameters.get("chunker") or {}
    if chunker:
        yield _chunk_words(chunker)
    store = parameters.get("store") or {}
    if store:
        yield "exact search" if store.get("kind") == "exact" else f"index: {store.get('kind')}"
    if retriever.get("top_k"):
        yield f"first {counted(retriever['top_k'], 'hit')} kept"


def _retriever_words(retriever: Mapping[str, Any], parameters: Mapping[str, Any]) -> str:
    kind, inputs = str(retriever.get("kind", "run")), retriever.get("inputs")
    model = retriever.get("model") or (parameters.get("embedder") or {}).get("model") or ""
    model, weight = str(model).rpartition("/")[2], retriever.get("title_weight", 1)
    named = {
        "dense": f"by meaning: {model}" if model else "by meaning",
        "bm25": "by words: BM25" + ("" if weight == 1 else f", titles weigh {weight:g}"),
        "run_file": f"stored results: {retriever.get('path')}",
        "custom": f"function {retriever.get('function')}",
    }
    if not inputs:
        return named.get(kind, f"{kind}: {model}" if model else kind)
    joined = " + ".join([inputs] if isinstance(inputs, str) else map(str, inputs))
    if kind == "fusion":
        by = "rank" if retriever.get("method") == "rrf" else "score"
        weights = ", ".join(f"{weight:g}" for weight in retriever.get("weights") or ())
        return f"{joined}, fused by {by}" + (f" ({weights})" if weights else "")
    return f"{joined}, then {kind.replace('_', ' ')}" + (f": {model}" if model else "")


def _chunk_words(chunker: Mapping[str, Any]) -> str:
    kind = str(chunker.get("kind"))
    if kind == "document":
        return "whole documents"
    size, overlap = chunker.get("size"), chunker.get("overlap")
    text = f"{kind} chunks" + (f" of {size:,} {chunker.get('unit', 'tokens')}" if size else "")
    return text + (f", overlap {overlap:,}" if overlap else "")


def effects_of(effects: EffectsPart, sign: int, margin: float, level: float) -> Plot:
    """The effects of the options of a sweep: a row for each level, compared with its reference."""
    rows = [_effect_row(effect, sign, margin, level) for effect in effects.effects]
    ends = [end for row in rows for end in (*(row.interval or ()), row.difference) if end is not None]
    about = f"difference in {effects.metric}"
    return Plot("Effects of options", effects.metric, about, axis_over(ends or [0.1, -0.1]), margin, rows)


def _effect_row(effect: EffectPart, sign: int, margin: float, level: float) -> Row:
    levels = effect.levels
    name = f"{option_name(levels.parameter)}: {level_text(levels.level)} instead of {level_text(levels.reference)}"
    row = Row(name, counts=f"{effect.matched:,}", difference=effect.difference, interval=effect.ci)
    if effect.difference is None:
        return replace(row, said="no difference is known")
    text = minus(signed(effect.difference, effect.n))
    if effect.ci is None:
        return replace(row, verdict="too few differences", text=text, said=text)
    low, high = sorted(sign * end for end in effect.ci)
    verdict = verdict_of_claim(1 if low > 0 else -1 if high < 0 else 0, low, margin)
    text += f" ({minus(signed(effect.ci[0], effect.n))} to {minus(signed(effect.ci[1], effect.n))})"
    said = f"{text}, {percent(level)} CI"
    return replace(row, mark=_MARKS[verdict], verdict=_within(verdict, margin), text=text, said=said)
