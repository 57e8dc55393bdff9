"""Everything that makes a setting, for the report."""

from __future__ import annotations

from typing import Any

from ragtrial.components.retrievers.base import REACHING
from ragtrial.config.settings import Setting


def setting_parameters(setting: Setting) -> dict[str, Any]:
    """Everything that makes a setting, defaults too; texts (names, paths, variables) stand as they were written.

    Its own options, what reaches it, under ``parts`` the same of all that it is made of, and the sweep's ``values``,
    with the ``entry`` of the config that they are of.
    """
    written = setting.config.as_written
    own = (written.get("retrievers") or {}).get(setting.entry) or {}
    made = {"retriever": _as_written(setting.retriever.model_dump(mode="json", exclude={*REACHING, "score"}), own)}
    for what in REACHING:
        if what in setting.reached_by:
            options = getattr(setting, what).model_dump(mode="json")
            made[what] = _as_written(options, own.get(what) or written.get(what))
    if setting.parts:
        made["parts"] = {part.entry: setting_parameters(part) for part in setting.parts}
    if setting.values:
        made["values"] = dict(setting.values)
    if setting.name != setting.entry:
        made["entry"] = setting.entry
    return made


def _as_written(value: Any, written: Any) -> Any:
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _as_written(one, written.get(key)) for key, one in value.items()}
    return str(written) if isinstance(written, str) else value
