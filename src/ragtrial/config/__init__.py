"""The config: YAML with positions, models, overrides, and the JSON Schema that editors use."""

from ragtrial.config.load import load_config
from ragtrial.config.models import EvaluatorOptions, ExperimentConfig, FamilyOptions

__all__ = ["EvaluatorOptions", "ExperimentConfig", "FamilyOptions", "load_config"]
