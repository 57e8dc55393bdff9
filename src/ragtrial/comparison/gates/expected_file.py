"""A file of expected scores:

tolerance: 0.001       # within it a score is OK
nearly: 0.01           # within it, it is nearly; beyond, it fails
settings:
  dense:
    ndcg@10: 0.6631
    recall@10: {value: 0.7254, tolerance: 0.005, nearly: 0.02}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Discriminator, Field, Tag

from ragtrial.comparison.gates.gate import NEARLY, TOLERANCE, ExpectedScore
from ragtrial.comparison.gates.gate_texts import known_metric
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, GateError, MetricError, did_you_mean, listed
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.options import Options, validate
from ragtrial.report.schema import SettingPart

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
    """Within it a score is nearly what is expected, which is reported and does not fail; at least the tolerance."""

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
    file = validate(ExpectedFile, content.value, GateError, content.fault_at)
    faults: list[Fault] = []
    scores: dict[tuple[str, str], ExpectedScore] = {}
    for setting, values in file.settings.items():
        if settings is not None and setting not in settings:
            near = did_you_mean(setting, settings)
            message = f"there is no setting {setting!r}.{near} There are: {listed(settings)}."
            faults.append(content.fault_at(("settings", setting), message))
        for metric, given in values.items():
            one = given if isinstance(given, ExpectedValue) else ExpectedValue(value=given)
            try:
                name = str(parse_metric(metric)) if metrics is None else known_metric(metric, metrics)
                if (setting, name) in scores:
                    raise MetricError(f"{metric!r} is {name}, which has a score already; keep one of them.")
            except MetricError as error:
                faults.append(content.fault_at(("settings", setting, metric), str(error)))
                continue
            tolerance = file.tolerance if one.tolerance is None else one.tolerance
            nearly = max(tolerance, file.nearly if one.nearly is None else one.nearly)
            scores[setting, name] = ExpectedScore(setting, name, one.value, tolerance, nearly)
    if faults:
        raise GateError(*faults)
    return list(scores.values())


def expected_text(
    run_id: str, settings: Sequence[SettingPart], metrics: Sequence[str], kept: Sequence[ExpectedScore] = ()
) -> str:
    """The scores of ``settings`` by ``metrics`` as YAML, in six digits; those over no queries are left out.

    Scores in ``kept`` keep their tolerances, where these are not the usual ones.
    """
    import yaml

    own = {(one.setting, one.metric): one for one in kept if (one.tolerance, one.nearly) != (TOLERANCE, NEARLY)}
    written: dict[str, dict[str, object]] = {}
    for setting in settings:
        for metric in metrics:
            mean = setting.scores[metric].mean if metric in setting.scores else None
            if mean is not None:
                value: float | Mapping[str, float] = round(mean, 6)
                if one := own.get((setting.name, metric)):
                    value = {"value": round(mean, 6), "tolerance": one.tolerance, "nearly": one.nearly}
                written.setdefault(setting.name, {})[metric] = value
    file = {"report": run_id, "tolerance": TOLERANCE, "nearly": NEARLY, "settings": written}
    return str(yaml.safe_dump(file, sort_keys=False, allow_unicode=True, width=10_000))
