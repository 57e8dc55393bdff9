"""Situations that a comparison may meet, each as real reports: small made score tables, runs with gaps, a judge."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from contests import changed_queries, report_of
from judged_world import judged, world
from ragtrial import compare
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.report.model import Report, write_folder
from ragtrial.report.schema import ContextPart, LatencyPart, QueryColumns, SettingPart
from scored_runs import scored_report

Scores = Sequence[float | None]


@dataclass(frozen=True)
class Situation:
    """Settings by name with their scores, in one report or in ``earlier`` and a later one; how they are compared."""

    title: str
    scores: Mapping[str, Scores] = field(default_factory=dict)
    baseline: str | None = None
    earlier: Mapping[str, Scores] = field(default_factory=dict)
    metric: str = "ndcg@10"
    unanswerable: int = 0
    """So many of the questions without a score have no answer; the others have no label."""

    tokens: Mapping[str, float] = field(default_factory=dict)
    latency: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds per query."""

    threshold: int = 1
    config: Mapping[str, Any] = field(default_factory=dict)
    margin: float = 0.02
    made: Callable[[Path], Comparison] | None = None
    """What makes the comparison, where it is not a table of scores."""

    def compared(self, folder: Path) -> Comparison:
        """Its comparison; ``folder`` is new, and is where commands look from."""
        if self.made is not None:
            return self.made(folder)
        tables = [("before", self.earlier)] if self.earlier else []
        reports = [self._report(folder, name, scores) for name, scores in [*tables, ("report", self.scores)]]
        if len(self.scores) == 1 and len(reports) == 1:
            return compare_settings(input_of(reports, may_be_one=True), ComparisonOptions())
        return compare(*reports, baseline=self.baseline, margin=self.margin)

    def _report(self, folder: Path, name: str, scores: Mapping[str, Scores]) -> Report:
        made = report_of(scores, self.metric, relevance_threshold=self.threshold)
        settings = [self._setting(one) for one in made.settings]
        made = made.model_copy(update={"settings": settings, "config": {**made.config, **self.config}})
        missing = [
            query.id for row, query in enumerate(made.queries) if all(values[row] is None for values in scores.values())
        ]
        tags = {one: ["unanswerable"] if place < self.unanswerable else [] for place, one in enumerate(missing)}
        bare: dict[str, dict[str, Any]] = {one: {"relevant_docs": [], "tags": tags[one]} for one in missing}
        return write_folder(changed_queries(made, **bare), folder / name, {}, [], {})

    def _setting(self, setting: SettingPart) -> SettingPart:
        """With its hits: a question is answered in the first 10 where its score is above 0.15."""
        columns = setting.per_query
        hits = [None if value is None else float(value > 0.15) for value in columns.evaluations[self.metric]]
        more = QueryColumns(**{**dict(columns), "evaluations": {**columns.evaluations, "hit_rate@10": hits}})
        tokens = self.tokens.get(setting.name)
        context = [] if tokens is None else [ContextPart(k=10, characters=5 * tokens, tokens=tokens)]
        seconds = self.latency.get(setting.name, 0.0) / 1000
        latency = LatencyPart(p50=seconds, p95=seconds, n=50, machine="m", date="d") if seconds else None
        return setting.model_copy(update={"per_query": more, "context": context, "latency": latency})


def spread(n: int) -> list[float]:
    """``n`` scores from 0.1 to 0.7."""
    return [round(0.1 + 0.6 * (7 * place % n) / n, 4) for place in range(n)]


def shifted(n: int, by: float, noise: float = 0.0, seed: int = 1) -> list[float]:
    """``spread`` with ``by`` added to each score, and noise of this standard deviation whose mean is 0."""
    drawn = np.random.default_rng(seed).normal(0, 1, n)
    drawn = noise * (drawn - drawn.mean()) / (drawn.std() or 1.0)
    return [
        round(min(1.0, max(0.0, float(value + by + more))), 4) for value, more in zip(spread(n), drawn, strict=True)
    ]


def changed(n: int, changes: Sequence[float]) -> list[float]:
    """``spread`` of which the first scores are changed."""
    scores = spread(n)
    return [round(scores[place] + more, 4) for place, more in enumerate(changes)] + scores[len(changes) :]


def family(count: int, n: int, step: float, noise: float) -> dict[str, Scores]:
    """Settings s01, s02, ..., each worse than the one before by ``step``."""
    return {f"s{place + 1:02}": shifted(n, 0.25 - step * place, noise, place + 1) for place in range(count)}


def of_hits(runs: Mapping[str, Sequence[str]], k: int = 2, baseline: str | None = None) -> Callable[[Path], Comparison]:
    """Runs with the hits of each question; only ``a`` has a label, and it is relevant."""

    def made(folder: Path) -> Comparison:
        ranked = {name: {f"q{number}": row for number, row in enumerate(rows)} for name, rows in runs.items()}
        labels = {name: {"a": 1} for name in next(iter(ranked.values()))}
        report = scored_report(folder, labels, ranked, "--metrics", f"ndcg@{k},hit_rate@{k},judged@{k}")
        return compare(report, baseline=baseline)

    return made


GAPS = {"plain": ["x z a"] * 12, "better": ["a y"] * 12}
"""The first hits of the worse run have no label."""

RANKS = ("a x y", "x a y", "x y a")
EVEN = {
    "better": [RANKS[0]] * 14 + [RANKS[1]] * 10,
    "open": [RANKS[1]] * 6 + [RANKS[0]] * 12 + [RANKS[2]] * 6,
    "plain": [RANKS[2]] * 24,
}
"""One hit in three has a label, for each run and each question."""


def of_a_table(columns: Mapping[str, Mapping[str, Scores]], **options: Any) -> Callable[[Path], Comparison]:
    """A CSV of scores, with a column per metric; the metrics of each system are in ``columns``."""

    def made(folder: Path) -> Comparison:
        rows = ["question,system," + ",".join(next(iter(columns.values())))]
        for system, metrics in columns.items():
            for number, values in enumerate(zip(*metrics.values(), strict=True)):
                rows.append(f"q{number},{system}," + ",".join(map(str, values)))
        (folder / "scores.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        return compare("scores.csv", **options)

    return made


def with_a_judge(people: int) -> Callable[[Path], Comparison]:
    """Sixty questions, as many judged by people, all by a model that is right for most texts."""

    def made(folder: Path) -> Comparison:
        return compare(world(folder, people), judge=judged(folder))

    return made


def _lower(scores: Mapping[str, Scores]) -> dict[str, Scores]:
    return {name: [None if one is None else round(1 - one, 4) for one in values] for name, values in scores.items()}


def _without(scores: Mapping[str, Scores], last: int) -> dict[str, Scores]:
    return {name: [*values[:-last], *[None] * last] for name, values in scores.items()}


TWO: dict[str, Any] = {"a": shifted(60, 0.25, 0.05), "b": shifted(60, 0.0, 0.05, 2)}
CLOSE = {"a": shifted(60, 0.06, 0.1), "b": spread(60)}
NEAR = {"a": shifted(60, 0.003, 0.1), "b": spread(60)}
NO_WORSE = {"a": shifted(60, 0.004, 0.03), "b": spread(60)}
EVERY = {
    "top": shifted(60, 0.25), "twin": shifted(60, 0.25), "near": shifted(60, 0.246, 0.03, 3),
    "open": shifted(60, 0.22, 0.15, 4), "thin": [*shifted(60, 0.25)[:-4], *shifted(60, 0.2)[-4:]],
    "little": shifted(60, 0.24, 0.01, 5), "low": shifted(60, 0.0, 0.1, 6),
}  # fmt: skip
TIMED: dict[str, dict[str, Any]] = {
    "v1": {"score": TWO["b"], "latency_ms": [100 + value for value in spread(60)], "cost": [0.001] * 60},
    "v2": {"score": TWO["a"], "latency_ms": [1300 + value for value in shifted(60, 64, 5)], "cost": [0.0012] * 60},
}

SITUATIONS = [
    # How many questions.
    Situation("two settings, one better on both of two questions", {"a": [1.0, 1.0], "b": [0.5, 0.4]}),
    Situation("two settings, identical on both of two questions", {"a": [1.0, 0.5], "b": [1.0, 0.5]}),
    Situation("two settings, nine questions, one better on each", {"a": shifted(9, 0.3, 0.02), "b": spread(9)}),
    Situation("two settings, ten questions, one better on each", {"a": shifted(10, 0.25, 0.02), "b": spread(10)}),
    Situation("two settings that differ on 4 of 20 questions", {"a": changed(20, [0.2] * 4), "b": spread(20)}),
    Situation("two settings that differ on 1 of 60 questions", {"a": changed(60, [0.2]), "b": spread(60)}),
    Situation("two settings, 30 questions, one far better", {"a": shifted(30, 0.25, 0.1), "b": spread(30)}),
    Situation("two settings, 60 questions, one better", TWO),
    Situation("two settings that few more questions would settle", {"a": shifted(60, 0.024, 0.1), "b": spread(60)}),
    Situation("two settings that nobody could settle", NEAR),
    Situation("two settings, ten questions, open: ten times as many are the most", {
        "a": shifted(10, 0.03, 0.12), "b": spread(10)}),
    Situation("two settings, the other no worse within the margin", NO_WORSE),
    Situation("two settings, the other worse by less than the margin", {"a": shifted(60, 0.01, 0.02), "b": spread(60)}),
    Situation("two settings, identical on 60 questions", {"a": spread(60), "b": spread(60)}),
    Situation("two settings of one mean that differ on many questions", {"a": shifted(60, 0.0, 0.1), "b": spread(60)}),
    Situation("two settings, 500 questions, a small difference is shown", {
        "a": shifted(500, 0.03, 0.1), "b": spread(500)}),
    Situation("two settings, 500 questions, open", {"a": shifted(500, 0.01, 0.3), "b": spread(500)}),
    Situation("two settings, 1,200 questions: four decimals", {"a": shifted(1200, 0.02, 0.1), "b": spread(1200)}),
    Situation("a margin of 0.1, within which a loss does not matter", CLOSE, margin=0.1),
    # One setting.
    Situation("one setting", {"a": shifted(60, 0.1)}),
    Situation("one setting, three of the questions have no answer", _without({"a": shifted(62, 0.1)}, 3),
              unanswerable=3),
    Situation("one setting of three, three questions", {"a": [0.5, 0.1, 0.9]},
              config={"retrievers": {"a": {}, "b": {}, "c": {"score": False}}}),
    # Several settings.
    Situation("three settings, one better than both others", {**TWO, "c": shifted(60, -0.05, 0.05, 3)}),
    Situation("five settings, better than three, open with one", {
        **CLOSE, "b": shifted(60, 0.045, 0.12, 2), "c": shifted(60, -0.05, 0.05, 3), "d": shifted(60, -0.06, 0.05, 4),
        "e": shifted(60, -0.07, 0.05, 5)}),
    Situation("five settings, none shown to be better", family(5, 60, 0.005, 0.1)),
    Situation("three settings, all identical", {"a": spread(60), "b": spread(60), "c": spread(60)}),
    Situation("two identical settings on top, the third worse", {"a": TWO["a"], "b": TWO["a"], "c": TWO["b"]}),
    Situation("two identical settings on top, the third open", {
        "a": shifted(60, 0.024, 0.1), "b": shifted(60, 0.024, 0.1), "c": spread(60)}),
    Situation("seven identical settings on top, the eighth worse", {
        **{f"same{place}": TWO["a"] for place in range(7)}, "worse": TWO["b"]}),
    Situation("every verdict against the top at once", EVERY),
    Situation("a third setting is worse than the second, all open with the top", {
        "top": shifted(60, 0.06, 0.3, 7), "second": shifted(60, 0.05, 0.01, 8), "third": spread(60)}),
    Situation("24 settings, the first better than all", {
        **family(24, 60, 0.0, 0.05), "s01": shifted(60, 0.5, 0.05)}),
    Situation("24 settings, the first better than most", family(24, 60, 0.01, 0.05)),
    Situation("24 settings, none shown to be better", family(24, 60, 0.0005, 0.1)),
    Situation("24 settings, five questions", family(24, 5, 0.01, 0.05)),
    # Scored and not.
    Situation("three of 62 questions have no answer in the documents", _without(TWO, 3), unanswerable=3),
    Situation("two questions have no label, one no answer", _without(TWO, 3), unanswerable=1),
    Situation("ten questions, four of them without a label", _without(
        {"a": shifted(10, 0.3, 0.02), "b": spread(10)}, 4)),
    # Costs.
    Situation("no worse, and cheaper", NO_WORSE, tokens={"a": 2622, "b": 870}),
    Situation("no worse, and dearer", NO_WORSE, tokens={"a": 870, "b": 2622}),
    Situation("no worse, at the same cost", NO_WORSE, tokens={"a": 870, "b": 870}),
    Situation("open, and cheaper: nothing is advised for its price", NEAR, tokens={"a": 2622, "b": 870}),
    Situation("identical, and cheaper", {"a": spread(60), "b": spread(60)}, tokens={"a": 2622, "b": 870}),
    # A baseline.
    Situation("a baseline that loses to one of three", {
        **TWO, "c": shifted(60, 0.003, 0.1, 3), "d": shifted(60, 0.002, 0.01, 4)}, baseline="b"),
    Situation("a baseline that all others beat", {
        "old": spread(60), "new": shifted(60, 0.2, 0.05), "newer": shifted(60, 0.25, 0.05, 2)}, baseline="old"),
    Situation("a baseline that beats all others", {
        "old": spread(60), "new": shifted(60, -0.09, 0.02), "newer": shifted(60, -0.08, 0.02, 2)}, baseline="old"),
    Situation("a baseline, the other open: few more questions would settle it", {
        "old": spread(60), "new": shifted(60, 0.04, 0.3)}, baseline="old"),
    Situation("a baseline, the other no worse, costs not known", {
        "old": spread(60), "new": shifted(60, 0.024, 0.1)}, baseline="old"),
    Situation("a baseline, the other no worse and cheaper", NO_WORSE, baseline="a", tokens={"a": 2622, "b": 870}),
    Situation("a baseline, the other no worse and dearer", NO_WORSE, baseline="a", tokens={"a": 870, "b": 2622}),
    Situation("a baseline that is identical to all others", {"a": spread(60), "b": spread(60)}, baseline="a"),
    Situation("a baseline, few differences", {"a": spread(20), "b": changed(20, [-0.05] * 4)}, baseline="a"),
    Situation("a baseline, every verdict at once", {**EVERY, "best": shifted(60, 0.4, 0.02, 9)}, baseline="top"),
    Situation("a baseline among 24 settings", family(24, 60, 0.01, 0.05), baseline="s12"),
    Situation("a baseline, eight questions", {"a": spread(8), "b": shifted(8, 0.2)}, baseline="a"),
    # Two runs.
    Situation("two runs, the later better", {"a": shifted(60, 0.2, 0.05)}, earlier={"a": spread(60)}),
    Situation("two runs, the later worse", {"a": spread(60)}, earlier={"a": shifted(60, 0.2, 0.05)}),
    Situation("two runs, open, few more questions settle it", {
        "a": shifted(60, -0.04, 0.2)}, earlier={"a": spread(60)}),
    Situation("two runs, identical", {"a": spread(60)}, earlier={"a": spread(60)}),
    Situation("two runs of three settings, one without a partner", {
        "a": shifted(60, 0.2, 0.05), "b": spread(60), "new": spread(60)}, earlier={"a": spread(60), "b": spread(60)}),
    Situation("two runs of seven settings, six of them identical", {
        "a": shifted(60, 0.2, 0.05), **{name: spread(60) for name in "bcdefg"}},
        earlier={name: spread(60) for name in "abcdefg"}),
    Situation("two runs of four questions", {"a": shifted(4, 0.2)}, earlier={"a": spread(4)}),
    # Metrics.
    Situation("lower is better: the lower setting is best", _lower(TWO), metric="unjudged@10"),
    Situation("lower is better, with a baseline", _lower(TWO), baseline="a", metric="unjudged@10"),
    Situation("a metric without a cutoff counts no answers", TWO, metric="ap"),
    Situation("grades of 2 are relevant: no answers are counted", TWO, threshold=2),
    # Labels that are missing, and a judge.
    Situation("hits without a label could take the verdict back", made=of_hits(GAPS)),
    Situation("hits without a label, with a baseline", made=of_hits(GAPS, baseline="plain")),
    Situation("a judge of 60 questions that people judged, too", made=with_a_judge(60)),
    Situation("a judge, people judged 30 of 60 questions", made=with_a_judge(30)),
    # Latencies that differ no more than repeated measurements, and scores that leave no room.
    Situation("no worse, with less text, as fast up to noise", NO_WORSE, tokens={"a": 2622, "b": 870},
              latency={"a": 10.0, "b": 14.0}),
    Situation("no worse, with less text, and slower", NO_WORSE, tokens={"a": 2622, "b": 870},
              latency={"a": 10.0, "b": 30.0}),
    Situation("no worse, as fast up to noise, by a millisecond", NO_WORSE, latency={"a": 0.2, "b": 1.1}),
    Situation("three identical settings, two of them as fast up to noise", dict.fromkeys("abc", spread(60)),
              tokens={"a": 900, "b": 800, "c": 100}, latency={"a": 10.0, "b": 12.0, "c": 40.0}),
    Situation("every setting has the highest possible score", {"a": [1.0] * 60, "b": [1.0] * 60}),
    Situation("both find every answer, and few questions differ", {"a": [0.8] * 23, "b": [0.5] * 2 + [0.8] * 21}),
    Situation("both find every answer but one, and few questions differ", {
        "a": [0.1] + [0.8] * 22, "b": [0.1] + [0.5] * 2 + [0.8] * 20}),
    # Several open comparisons.
    Situation("three settings, as many questions settle both", {
        "a": shifted(60, 0.08, 0.1), "b": spread(60), "c": shifted(60, -0.01, 0.1, 4)}),
    Situation("three settings, each of two differs on few questions", {
        "a": spread(20), "b": changed(20, [-0.05] * 4), "c": changed(20, [-0.1] * 6)}),
    # A winner that costs more, a sweep, and tables.
    Situation("the best at a higher cost", TWO, tokens={"a": 2622, "b": 870}, latency={"a": 30.0, "b": 10.0}),
    Situation("the best at a cost about as high", TWO, tokens={"a": 1200, "b": 870}, latency={"a": 1.1, "b": 0.2}),
    Situation("a baseline that is replaced at a higher cost", TWO, baseline="b", tokens={"a": 2622, "b": 870}),
    Situation("a sweep in which nothing is shown", family(5, 60, 0.001, 0.2), config={"sweep": {"chunker.size": [1]}}),
    Situation("a sweep with a best setting", TWO, config={"sweep": {"chunker.size": [1]}}),
    Situation("a table, the best system takes more time", made=of_a_table(TIMED)),
    Situation("a table, equal scores", made=of_a_table({name: {"score": spread(20)} for name in ("old", "new")})),
    Situation("a table, 55 of 60 scores are missing", made=of_a_table({
        "old": {"score": spread(60)}, "new": {"score": [*shifted(5, 0.1), *[math.nan] * 55]}})),
    Situation("a table, the baseline is replaced by a system that takes more time",
              made=of_a_table(TIMED, baseline="v1")),
    Situation("a table, no worse, and faster", made=of_a_table({
        "v1": {"score": NO_WORSE["b"], "latency_ms": TIMED["v2"]["latency_ms"]},
        "v2": {"score": NO_WORSE["a"], "latency_ms": TIMED["v1"]["latency_ms"]}})),
    Situation("a table of times alone has no margin", made=of_a_table(
        {name: {"latency_ms": metrics["latency_ms"]} for name, metrics in TIMED.items()})),
    # One answer for each question: no run has more hits without a label than another one.
    Situation("as many hits without a label everywhere, and one comparison is open", made=of_hits(EVEN, 3)),
    Situation("more hits without a label in the worse run, and one comparison is open",
              made=of_hits({**EVEN, "plain": [RANKS[0]] * 12 + ["x y z"] * 12}, 3)),
]  # fmt: skip
