"""Expected scores, as a file that is read again."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from ragtrial.comparison.gates.gate import NEARLY, TOLERANCE, ExpectedScore
from ragtrial.report.schema import SettingPart

_DIGITS = 6
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_@.()=+-]*")


def expected_text(
    run_id: str, settings: Sequence[SettingPart], metrics: Sequence[str], kept: Sequence[ExpectedScore] = ()
) -> str:
    """The scores of ``settings`` by ``metrics`` as YAML, in six digits; those over no queries are left out.

    Scores in ``kept`` keep their tolerances, where these are not the usual ones.
    """
    own = {(one.setting, one.metric): one for one in kept if (one.tolerance, one.nearly) != (TOLERANCE, NEARLY)}
    lines = [
        f"report: {_quoted(run_id)}",
        f"tolerance: {TOLERANCE:g}   # within it a score is OK",
        f"nearly: {NEARLY:g}   # within it, it is nearly; beyond, it fails",
        "settings:",
    ]
    for setting in settings:
        means = {name: setting.scores[name].mean for name in metrics if name in setting.scores}
        known = {name: mean for name, mean in means.items() if mean is not None}
        if known:
            lines.append(f"  {_key(setting.name)}:")
        lines += (f"    {_key(name)}: {_value(mean, own.get((setting.name, name)))}" for name, mean in known.items())
    return "\n".join(lines) + "\n"


def _value(value: float, kept: ExpectedScore | None) -> str:
    text = f"{value:.{_DIGITS}f}".rstrip("0")
    text = text + "0" if text.endswith(".") else text
    return text if kept is None else f"{{value: {text}, tolerance: {kept.tolerance!r}, nearly: {kept.nearly!r}}}"


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """In double quotes, with what YAML does not allow or would read otherwise escaped."""
    import yaml

    return str(yaml.safe_dump(text, default_style='"', width=math.inf)).rstrip("\n")
