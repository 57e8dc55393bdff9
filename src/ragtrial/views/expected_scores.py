"""Expected scores, as a file that is read again."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ragtrial.comparison.gates.gate import NEARLY, TOLERANCE, ExpectedScore
from ragtrial.report.schema import SettingPart

_DIGITS = 6
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_@.()=+-]*")
_TO_ESCAPE = re.compile(r'["\\]|[^\x20-\x7e]')


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
        known = {name: mean.mean for name, mean in setting.scores.items() if name in metrics and mean.mean is not None}
        if known:
            lines.append(f"  {_key(setting.name)}:")
        lines += (
            f"    {_key(name)}: {_value(known[name], own.get((setting.name, name)))}"
            for name in _in_order(known, metrics)
        )
    return "\n".join(lines) + "\n"


def _in_order(known: Mapping[str, float], metrics: Sequence[str]) -> list[str]:
    return [name for name in metrics if name in known]


def _value(value: float, kept: ExpectedScore | None) -> str:
    text = f"{value:.{_DIGITS}f}".rstrip("0")
    text = text + "0" if text.endswith(".") else text
    return text if kept is None else f"{{value: {text}, tolerance: {kept.tolerance!r}, nearly: {kept.nearly!r}}}"


def _key(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """In double quotes, with what YAML does not allow or would read otherwise escaped."""

    def escaped(match: re.Match[str]) -> str:
        code = ord(match[0])
        if match[0] in '"\\':
            return "\\" + match[0]
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"

    return f'"{_TO_ESCAPE.sub(escaped, text)}"'
