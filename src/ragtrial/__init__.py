"""ragtrial runs retrieval experiments for RAG from a config file, and says which setting is really better.

from ragtrial import compare, run_experiment

report = run_experiment("experiment.yaml")
print(report, compare(report), report.folder)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ragtrial.comparison.comparing import compare
    from ragtrial.config.load import load_config
    from ragtrial.dataset.labels import load_prompt_queries
    from ragtrial.errors import RagtrialError
    from ragtrial.evaluator import RetrievalEvaluator
    from ragtrial.experiment import run_experiment
    from ragtrial.pipeline.run import RunOptions
    from ragtrial.records import ExperimentResults, Hit, Judgment, PromptQueries, Query, QueryResult
    from ragtrial.report.model import Report, load_report
    from ragtrial.scoring.score_runs import score

__all__ = [
    "ExperimentResults", "Hit", "Judgment", "PromptQueries", "Query", "QueryResult", "RagtrialError", "Report",
    "RetrievalEvaluator", "RunOptions", "compare", "load_config", "load_prompt_queries", "load_report",
    "run_experiment", "score",
]  # fmt: skip

_MODULES = {
    "ragtrial.comparison.comparing": ("compare",),
    "ragtrial.config.load": ("load_config",),
    "ragtrial.dataset.labels": ("load_prompt_queries",),
    "ragtrial.errors": ("RagtrialError",),
    "ragtrial.experiment": ("run_experiment",),
    "ragtrial.evaluator": ("RetrievalEvaluator",),
    "ragtrial.pipeline.run": ("RunOptions",),
    "ragtrial.records": ("ExperimentResults", "Hit", "Judgment", "PromptQueries", "Query", "QueryResult"),
    "ragtrial.report.model": ("Report", "load_report"),
    "ragtrial.scoring.score_runs": ("score",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first asked for, so that ``import ragtrial`` stays instant."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
