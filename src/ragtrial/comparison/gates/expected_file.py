"""A file of expected scores:

tolerance: 0.001       # within it a score is OK
nearly: 0.01           # within it, it is nearly; beyond, it fails
settings:
  dense:
    ndcg@10: 0.6631
    recall@10: {value: 0.7254, tolerance: 0.005, nearly: 0.02}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Discriminator, Field, Tag

from ragtrial.comparison.gates.gate import NEARLY, TOLERANCE, ExpectedScore
from ragtrial.comparison.gates.gate_texts import known_metric
from ragtrial.config.strict_yaml import KeyPath, YamlText, parse_yaml
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, GateError, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.options import Options, validate

Off = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Value = Annotated[float, Field(allow_inf_nan=False)]


class ExpectedValue(Options):
    """A score with tolerances of its own."""

    value: Value
    tolerance: Off | None = None
    nearly: Off | None = None


def _shape(value: object) -> str:
    return "mapping" if isinstance(value, Mapping | ExpectedValue) else "score"


Expected = Annotated[Annotated[Value, Tag("score")] | Annotated[ExpectedValue, Tag("mapping")], Discriminator(_shape)]


class ExpectedFile(Options):
    """What a file of expected scores may say."""

    report: str | None = None
    """The run that it was written from."""

    tolerance: Off = TOLERANCE
    """Within it a score is OK."""

    nearly: Off = NEARLY
    """Within it a score is nearly what is expected, which is told and does not fail."""

    settings: dict[str, Annotated[dict[str, Expected], Field(min_length=1)]] = Field(min_length=1)
    """By setting, and by metric in any spelling."""


def read_expected(
    path: str | Path, settings: Sequence[str] | None = None, metrics: Sequence[str] | None = None
) -> list[ExpectedScore]:
    """The expected scores of a file, in its order, metrics in our spelling.

    Where ``settings`` and ``metrics`` are given they may be of no others. Raises ConfigError for what is no YAML,
    GateError for all else that is wrong, each with line and column.
    """
    content = parse_yaml(read_text(Path(path), GateError), str(path), Path(path).resolve().parent)
    faults: list[Fault] = []
    scores: list[ExpectedScore] = []
    try:
        scores = list(_scores(validate(ExpectedFile, content.value, GateError, content.fault_at)))
    except GateError as error:
        faults += error.faults
    faults += _name_faults(content, settings, metrics)
    faults += _order_faults(content, scores)
    if faults:
        raise GateError(*sorted(dict.fromkeys(faults)))
    return scores


def _scores(file: ExpectedFile) -> Iterator[ExpectedScore]:
    for setting, values in file.settings.items():
        for metric, given in values.items():
            one = given if isinstance(given, ExpectedValue) else ExpectedValue(value=given)
            tolerance = file.tolerance if one.tolerance is None else one.tolerance
            nearly = one.nearly
            if nearly is None:  # a wide tolerance of its own must not fall behind the file's
                nearly = file.nearly if one.tolerance is None else max(file.nearly, tolerance)
            yield ExpectedScore(setting, _spelled(metric), float(one.value), tolerance, nearly)


def _spelled(metric: str) -> str:
    try:
        return str(parse_metric(metric))
    except MetricError:
        return metric


def _name_faults(content: YamlText, settings: Sequence[str] | None, metrics: Sequence[str] | None) -> Iterator[Fault]:
    """Settings and metrics that there are not, and metrics that stand twice in two spellings."""
    named: Any = content.value.get("settings") if isinstance(content.value, Mapping) else None
    for setting, values in (named if isinstance(named, Mapping) else {}).items():
        where: KeyPath = ("settings", setting)
        if settings is not None and setting not in settings:
            near = did_you_mean(setting, settings)
            yield content.fault_at(where, f"there is no setting {setting!r}.{near} There are: {listed(settings)}.")
        first: dict[str, str] = {}
        for metric in values if isinstance(values, Mapping) else ():
            try:
                name = str(parse_metric(metric)) if metrics is None else known_metric(metric, metrics)
            except MetricError as error:
                yield content.fault_at((*where, metric), str(error))
                continue
            if name in first:
                message = f"{metric!r} is {name}, which stands here as {first[name]!r}; keep one of them."
                yield content.fault_at((*where, metric), message)
            first.setdefault(name, metric)


def _order_faults(content: YamlText, scores: Sequence[ExpectedScore]) -> Iterator[Fault]:
    """Where ``nearly`` is nearer than ``tolerance``: at the score that says so, else at the file's own."""
    for one in scores:
        if one.nearly < one.tolerance:
            values = content.value["settings"][one.setting]
            key = next(metric for metric in values if _spelled(metric) == one.metric)
            own: KeyPath = ("settings", one.setting, key) if isinstance(values[key], Mapping) else ("nearly",)
            message = f"nearly is {one.nearly:g}, below the tolerance of {one.tolerance:g}; it must be at least that."
            yield content.fault_at((*own, "nearly") if len(own) > 1 else own, message)
