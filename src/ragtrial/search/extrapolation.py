"""Extrapolation: scores on growing parts of the documents, and the scores to expect with more documents."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ragtrial.comparison.statistics.estimates import interval_of
from ragtrial.config.models import searching_elsewhere
from ragtrial.dataset.library import document_samples
from ragtrial.errors import Fault, InputError, RunError
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.pipeline.outcome import report_of, score_all, score_settings, write_outcome
from ragtrial.pipeline.run import Run
from ragtrial.pipeline.scored_setting import ScoredSetting
from ragtrial.report.model import Report
from ragtrial.report.schema import Part

EXTRAPOLATION = "extrapolation.json"
"""The file next to the report."""

SHARES = (0.01, 0.1)
"""The shares of the documents without labels, in addition to all of them."""

_ROUNDING = 1e-9

LEAST_OTHERS = 1_000
"""With fewer documents without labels, a hundredth of them is too few."""


class ExtrapolatedPart(Part):
    """A setting on growing parts of the documents, with its extrapolated score."""

    setting: str
    scores: list[float]
    """Its mean on each of them."""

    expected: float
    """The extrapolated mean on the full corpus."""

    ci: tuple[float, float] | None
    """95% interval for other questions, widened by how far the scores are off the line; null for too few questions."""


class ExtrapolationPart(Part):
    """Scores on 1, 10 and 100% of the documents without labels, and extrapolated to a corpus of a stated size."""

    metric: str
    documents: list[int]
    """How many were searched, those with labels always among them."""

    full: int
    queries: int
    settings: list[ExtrapolatedPart]
    """Best first, as extrapolated."""

    sentences: list[str]


def run_and_extrapolate(run: Run, full: int) -> Report:
    """Run the settings on all documents and on parts of them, and write the report with extrapolation.json.

    Raises InputError before anything is run if an extrapolation to ``full`` documents makes no sense.
    """
    parts = document_parts(run, full)
    outcome = score_all(run)
    report = report_of(run, outcome)
    smaller = [score_settings(part).scored for part in parts]
    extrapolation_part = extrapolated(report.primary_metric, [*smaller, outcome.scored], full)
    return write_outcome(run, outcome, report, {EXTRAPOLATION: extrapolation_part.model_dump_json(indent=1) + "\n"})


def document_parts(run: Run, full: int) -> list[Run]:
    """``run`` over the smaller parts of its documents. Raises InputError if that makes no sense."""
    config, library, metric = run.config, run.corpus.library, run.metrics.primary
    samples = document_samples(library, run.resolved.labels.queries, config.seed)
    faults = [
        f"--extrapolate needs retrievers that search the documents of the config, and retrievers.{name} ({what}) does "
        "not; take it out."
        for name, what in searching_elsewhere(config).items()
    ]
    if full <= len(library):
        faults.append(f"--extrapolate is {full:,}, and the corpus has {len(library):,} documents; state a larger size.")
    if len(samples.others) < LEAST_OTHERS:
        faults.append(
            f"--extrapolate needs {LEAST_OTHERS:,} documents that are not judged, and there are "
            f"{len(samples.others):,}."
        )
    if metric.definition.highest != 1:
        faults.append(f"--extrapolate needs a primary metric from 0 to 1, and {metric} is not; set another.")
    if faults:
        raise InputError(*(Fault(message=message) for message in faults))
    positions = [samples.of(round(share * len(samples.others))) for share in SHARES]
    return [replace(run.for_documents(some), latency=False, keeps_models=True) for some in positions]


def extrapolated(metric: str, scored: Sequence[Mapping[str, ScoredSetting]], full: int) -> ExtrapolationPart:
    """The extrapolation of the settings that were ``scored`` on each part and on all documents, by their names.

    Raises RunError if there are none, or no query counts for any.
    """
    names = [name for name in scored[-1] if all(name in one for one in scored)]
    if not names:
        raise RunError("no setting ran on all parts of the documents, so nothing can be extrapolated.")
    sizes = [len(one[names[0]].found.chunks.library) for one in scored]
    values = {}
    for name in names:
        rows = [
            [math.nan if one is None else one for one in part[name].evaluations[metric].as_list()] for part in scored
        ]
        made = np.array(rows, dtype=np.float64)
        counts = ~np.isnan(made).any(axis=0)
        if counts.any():
            values[name] = made[:, counts]
    if not values:
        raise RunError(f"no query counts for {metric}, so nothing can be extrapolated. Label relevant documents.")
    return extrapolation(metric, sizes, values, full)


def load_extrapolation(report: Report) -> ExtrapolationPart | None:
    """The extrapolation in the run of ``report``; None without one."""
    path = report.file(EXTRAPOLATION)
    return ExtrapolationPart.model_validate_json(path.read_bytes()) if path.is_file() else None


def extrapolation(
    metric: str, documents: Sequence[int], values: Mapping[str, Scores], full: int, level: float = 0.05
) -> ExtrapolationPart:
    """The extrapolation of each setting; ``values`` has its scores, shape (documents, queries), without NaN."""
    made = [_extrapolated(name, documents, one, full, level) for name, one in values.items()]
    sign = -1 if parse_metric(metric).definition.better == "lower" else 1
    made.sort(key=lambda one: -sign * one.expected)
    found = ExtrapolationPart(
        metric=metric,
        documents=list(documents),
        full=full,
        queries=next(iter(values.values())).shape[1],
        settings=made,
        sentences=[],
    )
    return found.model_copy(update={"sentences": list(_sentences(found))})


def _extrapolated(name: str, documents: Sequence[int], values: Scores, full: int, level: float) -> ExtrapolatedPart:
    """The value on a line through the logits of the means over the logarithm of the number of documents.

    Suppose that each question has its own rate of documents that outrank its relevant documents, and the logarithms of
    these rates have a logistic distribution. Then the share of questions that still find their document falls along
    this line.
    """
    n = values.shape[1]
    means = values.mean(axis=1)
    held = np.clip(means, 0.5 / n, 1 - 0.5 / n)
    sizes = np.log10(documents)
    line, curve = (_weights(sizes, math.log10(full), degree) for degree in (1, 2))
    logits = np.log(held / (1 - held))
    at, misfit = float(line @ logits), abs(float((curve - line) @ logits))
    influences = line @ ((values - means[:, None]) / (held * (1 - held))[:, None])
    deviation = float(influences.std())
    ci = None
    if n > 1 and deviation > _ROUNDING:
        skewness = float((influences**3).mean()) / deviation**3
        low, high = interval_of(at, deviation / math.sqrt(n - 1), skewness, n, level)
        ci = _share(low - misfit), _share(high + misfit)
    return ExtrapolatedPart(setting=name, scores=means.tolist(), expected=_share(at), ci=ci)


def _weights(sizes: Scores, full: float, degree: int) -> Scores:
    """The weight of the value at each size in the fitted polynomial at ``full``."""
    powers = np.vander(sizes, degree + 1)
    weights: Scores = np.vander([full], degree + 1)[0] @ np.linalg.pinv(powers)
    return weights


def _share(logit: float) -> float:
    return (1 + math.tanh(logit / 2)) / 2


def _sentences(found: ExtrapolationPart) -> Iterator[str]:
    best, rivals = found.settings[0], found.settings[1:]
    interval = f" (95% interval {best.ci[0]:.3f} to {best.ci[1]:.3f})" if best.ci else ""
    now = found.documents[-1]
    yield (
        f"With {found.full:,} documents expect {found.metric} of about {best.expected:.3f} for {best.setting}"
        f"{interval}. With {now:,} it has {best.scores[-1]:.3f}."
    )
    sign = -1 if parse_metric(found.metric).definition.better == "lower" else 1
    leader = max(found.settings, key=lambda one: sign * one.scores[-1])
    if rivals and leader.setting != best.setting:
        yield f"{leader.setting}, the best with {now:,}, falls faster."
    yield (
        "This is an extrapolation. It assumes that further documents are like these, and answer none of the questions. "
        "In tests with two to four times the documents it was off by 0.01 to 0.03 on average, at most by 0.05."
    )
