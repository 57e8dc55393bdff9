"""The same settings on several data sets, and whether the best setting wins everywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from types import MappingProxyType

import numpy as np

from ragtrial.comparison.commands import Commands
from ragtrial.comparison.comparing import ComparisonOptions, compare_settings, options_of
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.comparison_parts import ComparisonPart, Verdict
from ragtrial.comparison.conclusion import WORSE
from ragtrial.comparison.evidence import verdict_of_claim
from ragtrial.comparison.number_text import percent
from ragtrial.comparison.report_inputs import ComparedReport, read_entries
from ragtrial.comparison.statistics.estimates import combined_effect, finite
from ragtrial.errors import ComparisonError, counted, did_you_mean, listed
from ragtrial.evaluation.clusters import linearised
from ragtrial.records import Direction
from ragtrial.report.schema import Part

FEW = 5
"""With fewer data sets the interval over data sets is very wide."""


class DataSetPart(Part):
    """A report, and each setting on its questions."""

    name: str
    run_id: str
    queries: int
    means: dict[str, float | None]
    best: str
    comparisons: list[ComparisonPart]
    """With the baseline, simultaneous for this data set."""

    depends_on_unjudged: list[str]
    """Settings whose verdict, better or worse, could change if unjudged hits were labelled."""


class AcrossPart(Part):
    """The differences between a setting and the baseline, over data sets."""

    setting: str
    mean: float
    """The mean of its means on the data sets, each counting the same."""

    difference: float | None
    """The expected difference on similar data sets: the mean of random effects."""

    ci: tuple[float, float] | None
    """Simultaneous for all settings (Bonferroni); null if the two are identical on a data set."""

    spread: float | None
    """The standard deviation of true differences between data sets."""

    verdict: Verdict
    better_on: list[str]
    worse_on: list[str]
    identical_on: list[str]
    undecided_on: list[str]
    unclear_on: list[str]
    """The data sets of ``better_on`` and ``worse_on`` whose verdict could change if unjudged hits were labelled."""


class AcrossComparison(Part):
    """Settings of equal names in several reports of different documents and questions."""

    metric: str
    baseline: str
    confidence: float
    data_sets: list[DataSetPart]
    settings: list[AcrossPart]
    """All settings except the baseline, best mean over data sets first."""

    best: str
    """The setting or baseline with the best mean over data sets."""

    left_out: list[str]
    """Settings that are missing in some report."""

    sentences: list[str]


def compare_across(
    references: Sequence[str | Path],
    *,
    baseline: str | None = None,
    settings: Sequence[str] | None = None,
    metric: str | None = None,
    margin: float | None = None,
    confidence: float = 0.95,
    directory: str | Path = "results",
    better: Mapping[str, Direction] = MappingProxyType({}),
) -> AcrossComparison:
    """Compare the settings of equal names in several reports with ``baseline`` (default: the first setting).

    Each table of scores is a data set; ``better`` has directions of their metrics. Raises InputError for reports that
    cannot be read, or have too little in common.
    """
    entries, _ = read_entries(references, None, None, Path(directory), better, apart=True)
    names, left_out = _common(entries, settings, baseline)
    baseline, *others = names
    metric = metric or entries[0].report.primary_metric
    inputs = [input_of([entry.report], [metric], settings=names, baseline=baseline) for entry in entries]
    options = options_of(inputs[0], margin=margin, confidence=confidence)
    data_sets = [_data_set(entry, own, options) for entry, own in zip(entries, inputs, strict=True)]
    means, sign = {name: _mean_over(name, data_sets) for name in names}, inputs[0].sign(metric)
    others.sort(key=lambda name: -sign * means[name])
    each = replace(options, procedure=options.procedure.with_bonferroni(len(others)))
    comparison = AcrossComparison(
        metric=metric,
        baseline=baseline,
        confidence=confidence,
        data_sets=data_sets,
        settings=[_over(name, baseline, inputs, data_sets, each) for name in others],
        best=max(names, key=lambda name: sign * means[name]),
        left_out=left_out,
        sentences=[],
    )
    commands = {entry.name: options.commands(own) for entry, own in zip(entries, inputs, strict=True)}
    return comparison.model_copy(update={"sentences": list(_sentences(comparison, commands))})


def _common(
    entries: Sequence[ComparedReport], settings: Sequence[str] | None, baseline: str | None
) -> tuple[list[str], list[str]]:
    """The compared settings, which all reports have, the baseline first; and the settings that some report lacks."""
    if len(entries) < 2:
        raise ComparisonError("--across compares data sets; name two or more reports.")
    _check_data_sets(entries)
    every = list(dict.fromkeys(name for entry in entries for name in entry.names))
    common = [name for name in every if all(name in entry.names for entry in entries)]
    wanted = common if settings is None else list(settings)
    for name in [*wanted, *filter(None, [baseline])]:
        if name not in common:
            lacking = listed(entry.name for entry in entries if name not in entry.names)
            near, known = did_you_mean(name, common), listed(common) or "none"
            raise ComparisonError(f"no setting {name!r} in {lacking}.{near} All have: {known}.")
    baseline = baseline or next(iter(wanted), None)
    names = [name for name in common if name in wanted or name == baseline]
    if len(names) < 2:
        having = "; ".join(f"{entry.name} has {listed(entry.names, 5)}" for entry in entries)
        raise ComparisonError(
            f"there is nothing to compare: {counted(len(names), 'setting is', 'settings are')} in all reports "
            f"({having}). Run one config's settings on each data set, or give a system one name in all tables."
        )
    names.sort(key=lambda name: name != baseline)
    return names, [name for name in every if name not in common]


def _check_data_sets(entries: Sequence[ComparedReport]) -> None:
    """Raise ComparisonError if two reports have the same documents, and labels or questions in common."""
    for (first, own), (second, other) in combinations([(entry.name, entry.report) for entry in entries], 2):
        documents, labels = own.dataset.documents_fingerprint, own.dataset.labels_fingerprint
        if not documents or documents != other.dataset.documents_fingerprint:
            continue
        questions = set.intersection(*({query.text or query.id for query in run.queries} for run in (own, other)))
        shared = f"and share {counted(len(questions), 'question')}" if questions else ""
        shared = "and labels" if labels and labels == other.dataset.labels_fingerprint else shared
        if shared:
            raise ComparisonError(
                f"{first} and {second} are runs of the same documents {shared}; --across compares data sets, and takes "
                "them as independent. Compare the two without it."
            )


def _data_set(entry: ComparedReport, inputs: ComparisonInput, options: ComparisonOptions) -> DataSetPart:
    scores, sign = inputs.scores(inputs.primary), inputs.sign(inputs.primary)
    means = {name: finite(mean) for name, mean in zip(inputs.names, scores.means.tolist(), strict=True)}
    comparison = compare_settings(inputs, options)
    return DataSetPart(
        name=entry.name,
        run_id=entry.report.run_id,
        queries=len(inputs.queries),
        means=means,
        best=max(means, key=lambda name: -np.inf if means[name] is None else sign * (means[name] or 0.0)),
        comparisons=[part for part in comparison.comparisons if part.metric == inputs.primary],
        depends_on_unjudged=comparison.conclusion.depends_on_unjudged,
    )


def _mean_over(name: str, data_sets: Sequence[DataSetPart]) -> float:
    known = [mean for data_set in data_sets if (mean := data_set.means[name]) is not None]
    return float(np.mean(known)) if known else 0.0


def _over(
    name: str, baseline: str, inputs: Sequence[ComparisonInput], data_sets: Sequence[DataSetPart],
    options: ComparisonOptions,
) -> AcrossPart:  # fmt: skip
    """One setting over all data sets; ``options`` are corrected for the number of settings."""
    sign, effects, variances = inputs[0].sign(inputs[0].primary), [], []
    for own in inputs:
        (differences,) = own.scores(own.primary).differences([own.pair(baseline, name)])
        (known,) = linearised(differences[None], own.clusters)
        effects.append(sign * float(known.mean()) if len(known) else 0.0)
        variances.append(float(known.var(ddof=1)) / len(known) if len(known) > 1 else 0.0)
    verdict: Verdict = "inconclusive"
    combined = None
    if min(variances) > 0:
        combined = combined_effect(np.array(effects), np.array(variances), options.procedure.level)
        claim = int(combined.low > 0) - int(combined.high < 0)
        verdict = verdict_of_claim(claim, combined.low, options.margin)
    comparisons = ((own.name, part) for own in data_sets for part in own.comparisons)
    verdicts = {data_set: part.verdict for data_set, part in comparisons if part.setting == name}
    better = [data_set for data_set, own in verdicts.items() if own == "better"]
    worse = [data_set for data_set, own in verdicts.items() if own in WORSE]
    identical = [data_set for data_set, own in verdicts.items() if own == "identical"]
    if len(identical) == len(verdicts):
        verdict = "identical"
    claimed = {*better, *worse}
    return AcrossPart(
        setting=name,
        mean=_mean_over(name, data_sets),
        difference=None if combined is None else sign * combined.mean,
        ci=None if combined is None else (combined.low, combined.high) if sign > 0 else (-combined.high, -combined.low),
        spread=None if combined is None else combined.spread,
        verdict=verdict,
        better_on=better,
        worse_on=worse,
        identical_on=identical,
        undecided_on=[data_set for data_set in verdicts if data_set not in {*claimed, *identical}],
        unclear_on=[own.name for own in data_sets if own.name in claimed and name in own.depends_on_unjudged],
    )


def _sentences(across: AcrossComparison, commands: Mapping[str, Commands]) -> Iterator[str]:
    count, best = len(across.data_sets), across.best
    mean = _mean_over(best, across.data_sets)
    yield f"Best on average: {best} (mean {across.metric} of {counted(count, 'data set')} {mean:,.3f})."
    lost = [own for own in across.data_sets if (own.means[own.best] or 0.0) != (own.means[best] or 0.0)]
    elsewhere = listed(f"{data_set.best} on {data_set.name}" for data_set in lost)
    yield f"It does not score best everywhere: {elsewhere}." if lost else "It scores best on every data set."
    of_best = next((part for part in across.settings if part.setting == best), None)
    if of_best is None:
        yield from (_against(part, across, part.setting, "it") for part in across.settings)
    else:
        yield _against(of_best, across, "It", across.baseline)
        yield from _over_data_sets(of_best, across)
    if count < FEW:
        yield f"{count} data sets are few: they say little about how the settings compare on others."
    if lost:
        yield f"Next: look at the questions where {best} loses: {commands[lost[0].name].compare('--queries')}"
    else:
        yield f"Next: take {best}{', and add data sets if it is to serve others' if count < FEW else ''}."


def _against(part: AcrossPart, across: AcrossComparison, subject: str, rival: str) -> str:
    """``It is better than bm25 on one and two; inconclusive against bm25 on three.``"""
    groups: list[tuple[str, list[str]]] = []
    for word, names in (("better", part.better_on), ("worse", part.worse_on)):
        unclear = [name for name in names if name in part.unclear_on]
        groups.append((f"{word} than {rival}", [name for name in names if name not in unclear]))
        groups.append((f"{word} than {rival} with the current labels", unclear))
    groups += [(f"identical to {rival}", part.identical_on), (f"inconclusive against {rival}", part.undecided_on)]
    every = len(across.data_sets)
    places = [(what, "every data set" if len(names) == every else listed(names)) for what, names in groups if names]
    return f"{subject} is {'; '.join(f'{what} on {where}' for what, where in places)}."


def _over_data_sets(best: AcrossPart, across: AcrossComparison) -> Iterator[str]:
    if best.ci is None or best.difference is None:
        yield f"{best.setting} and {across.baseline} are identical on a data set: no interval over data sets."
        return
    interval = f"{percent(across.confidence)} interval {best.ci[0]:+,.3f} to {best.ci[1]:+,.3f}"
    claim: str = best.verdict if best.verdict in ("better", "worse") else "not shown to be better"
    if best.unclear_on and best.verdict in ("better", "worse"):
        claim += " with the current labels"
    yield f"Over data sets like these it is {claim}: {best.difference:+,.3f} ({interval}, random effects)."
