"""The page on sparse and late models: its config runs, with tiny models of the real classes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial import load_config, run_experiment


def config_of(page: Path) -> dict[str, Any]:
    (block,) = re.findall(r"^```yaml\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    found: dict[str, Any] = yaml.safe_load(block)
    return found


def run_config(config: dict[str, Any], folder: Path, models: dict[str, Path]) -> Any:
    """The report of a page's config over a small corpus, each model replaced by that of its kind."""

    def local(value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        made = {name: local(one) for name, one in value.items()}
        return {**made, "model": str(models[made["kind"]])} if "model" in made else made

    write_experiment(folder, DOCUMENTS, QUERIES)
    plain = {
        "embedder": {"kind": "sentence-transformer", "model": "tiny"},
        "latency": False,
        "store": {"kind": "exact"},
    }
    (folder / "page.yaml").write_text(yaml.safe_dump(local(plain | config)))
    return run_experiment(load_config(folder / "page.yaml"))


def test_the_config_of_the_page_on_sparse_and_late_models_runs(
    root: Path, tmp_path: Path, tiny_model: Path, sparse_model: Path, late_model: Path
) -> None:
    models = {"sentence-transformer": tiny_model, "sparse": sparse_model, "late": late_model, "late_rerank": late_model}
    report = run_config(config_of(root / "docs" / "sparse-and-late.md"), tmp_path, models)
    assert {one.name for one in report.settings} == {"dense", "bm25", "splade", "colbert", "reranked", "hybrid"}
    assert not report.failures
