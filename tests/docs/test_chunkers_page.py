"""The pages on chunkers and passages tell the truth: kinds and metrics, and the finding on the sample data."""

import re
from pathlib import Path

import pytest

from pages import fastest_precision, fenced
from ragtrial.config import load_config
from ragtrial.experiment import run_experiment


def rows(table: str) -> list[list[str]]:
    """The cells of each line; two spaces or more stand between them."""
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()]


def test_the_finding_on_the_sample_data_holds(root: Path, tmp_path: Path, shared_workspace: Path) -> None:
    """Of the first and the last setting.

    Machines differ in the last bits of vectors, so a passage may be found one rank earlier or later.
    """
    places = {"output.directory": tmp_path / "results", "workspace": shared_workspace, "latency": "false",
              "embedder.precision": fastest_precision()}  # fmt: skip
    config = load_config(root / "configs" / "chunking.yaml", [f"{key}={value}" for key, value in places.items()])
    retrievers = {name: config.retrievers[name] for name in ("whole-documents", "tokens-64")}
    report = run_experiment(config.model_copy(update={"retrievers": retrievers}))
    page = root / "docs" / "chunkers.md"
    (shown,) = [block for block in fenced(page, "text") if "within 1,000 tokens" in block]
    at_k, at_budget = (rows(table) for table in shown.strip().split("\n\n"))
    for head, *settings_shown in (at_k, at_budget):
        assert {name for name, *_ in settings_shown} == set(config.retrievers)
        for name, *cells in settings_shown:
            if name not in retrievers:
                continue
            setting = report.setting(name)
            assert setting.budget is not None
            scores = setting.scores if head[0] == "setting" else setting.budget.scores
            for metric, cell in zip(head[1:-1], cells[:-1], strict=True):
                assert scores[metric].mean == pytest.approx(float(cell), abs=0.02), (name, metric)
            if head[0] != "setting":
                assert setting.budget.hits == pytest.approx(float(cells[-1]), abs=0.3)
                assert setting.budget.queries_not_full == 0
