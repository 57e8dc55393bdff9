"""The JSON Schemas of the files that people write, for editors."""

from __future__ import annotations

from typing import Any

from ragtrial.config.models import ExperimentConfig
from ragtrial.dataset.labels import LabelsFile

EXTENDS = {
    "description": "A config, or several, that this one extends and overrides; paths are relative to this file.",
    "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
}
"""The key that the loader resolves before a config is read."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def config_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a config.

    As in the loader, a config with ``extends`` may leave out what its base has, and numbers, true and false may come
    from ``${VARIABLES}``.
    """
    schema: dict[str, Any] = _as_loaded(ExperimentConfig.model_json_schema())
    schema["properties"]["extends"] = EXTENDS
    schema["anyOf"] = [{"required": schema.pop("required")}, {"required": ["extends"]}]
    return {"$schema": _DRAFT, **schema}


def labels_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a prompt_queries.json."""
    return {"$schema": _DRAFT, **LabelsFile.model_json_schema()}


def _as_loaded(schema: Any) -> Any:
    """``schema`` as strict as the loader with names, and with variables where it wants a number, true or false."""
    if isinstance(schema, list):
        return [_as_loaded(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {key: _as_loaded(value) for key, value in schema.items()}
    if made.get("type") in ("integer", "number", "boolean"):
        made |= {"type": [made["type"], "string"], "pattern": r"\$\{[A-Za-z_]"}
    if "patternProperties" in made:
        made.setdefault("additionalProperties", False)  # names that do not fit are refused, not passed over
    return made
