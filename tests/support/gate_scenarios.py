"""Settings, comparisons and findings with numbers chosen by hand."""

from collections.abc import Sequence
from typing import Any

from contests import report_of
from ragtrial.comparison.commands import Commands
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.comparison_parts import Comparison, ComparisonPart, ProcedurePart
from ragtrial.comparison.conclusion import conclude
from ragtrial.comparison.gates import Findings, GateEvidence, GateOutcome, Subject, judge_gates, parse_gates
from ragtrial.report.schema import CostsPart, LatencyPart, MeanPart, QueryColumns, SettingPart

METRICS = ("ndcg@10", "recall@10", "rr@10", "dcg@10", "rbp(p=0.8)@10")
HOSTILE = ("=1+1|a`b\\|c", "<script>alert('x')</script>", "a\x07b\x1b[31m\ud800\nc", "**@someone** [l](u) ]]>&amp; _x_")
"""Names that Markdown, XML, spreadsheets or terminals would take for something else."""


def setting(name: str, *, p95: float | None = None, **scores: float | None) -> SettingPart:
    """A setting with means by metric, ``_`` for ``@``, and a latency where one is given."""
    means = {
        metric.replace("_", "@"): MeanPart(mean=mean, n=59 if mean is not None else 0)
        for metric, mean in scores.items()
    }
    latency = None if p95 is None else LatencyPart(p50=p95 / 2, p95=p95, n=50, machine="m", date="2026-01-01")
    costs = CostsPart(embedding_seconds=None, indexing_seconds=0.5, index_bytes=1_000)
    return SettingPart(name=name, fingerprint="", parameters={}, scores=means, counts={}, index={}, health=None,
                       audit=None, timings={}, costs=costs, latency=latency,
                       per_query=QueryColumns(evaluations={}, short=[], skipped=[], collapsed=[]))  # fmt: skip


def part(name: str, difference: float | None, ci: tuple[float, float] | None, **changes: Any) -> ComparisonPart:
    """``name`` compared with ``base``: 20 queries won, 20 lost, 19 tied. The verdict is what the interval says."""
    verdict = (
        "too few differences" if ci is None else "better" if ci[0] > 0 else "worse" if ci[1] < 0 else "inconclusive"
    )
    fields: dict[str, Any] = {
        "metric": "ndcg@10", "family": "primary", "baseline": "base", "setting": name, "mean_baseline": 0.6,
        "mean": None if difference is None else 0.6 + difference, "difference": difference, "ci": ci, "p": None,
        "p_corrected": None, "wins": 20, "ties": 19, "losses": 20, "effect_size": None, "skewness": 0.0, "n": 59,
        "verdict": verdict, "sentence": "so it is", "detectable": None, "queries_needed": None,
        "judged_baseline": None, "judged": None,
    }  # fmt: skip
    return ComparisonPart(**{**fields, **changes})


def comparison(*parts: ComparisonPart, metric: str = "ndcg@10") -> Comparison:
    """The comparison that they make, 95% sure."""
    procedure = ProcedurePart(name="max-t", confidence=0.95, margin=0.02, flips=100, seed=0, baseline="base",
                              comparisons=len(parts), sentence="Signs were flipped.")  # fmt: skip
    names = list(dict.fromkeys(["base", *(one.setting for one in parts)]))
    metrics = list(dict.fromkeys([metric, *(one.metric for one in parts)]))
    means = {"base": 0.6, **{one.setting: one.mean for one in parts}}
    report = report_of({name: [mean] * 59 for name, mean in means.items()}, metric)
    inputs = input_of([report], may_be_one=True, may_be_unlabelled=True)
    decisive = [one for one in parts if one.metric == metric]
    made = conclude(inputs, decisive, procedure, Commands(), lambda claims: [False] * len(claims), top=None)
    return Comparison(conclusion=made, comparisons=list(parts), procedure=procedure,
                      primary_metric=metric, metrics=metrics, settings=names, queries=59,
                      warnings=[])  # fmt: skip


def judged(
    text: str, *parts: ComparisonPart, settings: Sequence[SettingPart] = (), failed: Sequence[str] = ()
) -> GateOutcome:
    """What comes of one gate, by ``settings``, or by ``parts``, the comparisons with ``base``."""
    of_parts = [setting("base", ndcg_10=0.6), *(setting(one.setting, ndcg_10=one.mean) for one in parts)]
    known = {one.name: one for one in settings or of_parts}
    subject = Subject((*known, *failed), METRICS, baseline="base")
    compared = {metric: comparison(*parts, metric=metric) for metric in {one.metric for one in parts}}
    (outcome,) = judge_gates(parse_gates([text], subject), GateEvidence(known, "ndcg@10", failed, "base", compared))
    return outcome


def findings(**changes: Any) -> Findings:
    """Of ``base`` and ``new``, which is compared with it."""
    settings = {"new": setting("new", ndcg_10=0.65), "base": setting("base", ndcg_10=0.6)}
    fields: dict[str, Any] = {
        "subject": "kitchen", "primary_metric": "ndcg@10", "settings": settings,
        "comparison": comparison(part("new", 0.05, (0.01, 0.09), sentence="better")),
    }  # fmt: skip
    return Findings(**{**fields, **changes})
