"""The JSON Schemas of the files that people write, for editors."""

from __future__ import annotations

from typing import Any

from ragtrial.config.models import ExperimentConfig
from ragtrial.dataset.labels import LabelsFile


def config_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a config; ``extends`` and ``${VARIABLES}`` are allowed as the loader allows them."""
    schema = ExperimentConfig.model_json_schema()
    schema["properties"]["extends"] = {
        "description": "Other configs that this one is laid upon; paths are relative to this file.",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def labels_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of a prompt_queries.json."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **LabelsFile.model_json_schema()}
