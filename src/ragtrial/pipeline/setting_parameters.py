"""Everything that makes a setting, for the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ragtrial.components.interfaces import REACHING
from ragtrial.config.settings import Setting
from ragtrial.dataset.library import Library
from ragtrial.dataset.pdf import PACKAGE as PDF_PACKAGE


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


def packages_of(settings: Sequence[Setting], library: Library) -> set[str]:
    """The packages that ``settings`` and their documents are worked on with, as pip names them."""
    parts = {part for setting in settings for part in setting.tree()}
    options = [getattr(part, what) for part in parts for what in ("retriever", *part.reached_by)]
    reader = {PDF_PACKAGE} if library.has_pages else set()
    return reader.union(*(one.packages for one in options))


def _as_written(value: Any, written: Any) -> Any:
    if isinstance(value, dict) and isinstance(written, dict):
        return {key: _as_written(one, written.get(key)) for key, one in value.items()}
    return str(written) if isinstance(written, str) else value
