"""The first ten labels of the pool do twice what ten random ones do: the small version of benchmarks/pool.py."""

from __future__ import annotations

import importlib.util
import statistics
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ragtrial.config import load_config
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report

SETTINGS = """\
experiment: sample
dataset: {{corpus: {root}/data/support, queries: {root}/prompt_queries.json}}
workspace: {folder}/workspace
chunker: {{kind: document}}
retrievers:
  bm25: {{kind: bm25}}
  flat: {{kind: bm25, k1: 0.2, b: 0.2}}
  long: {{kind: bm25, k1: 3.0, b: 1.0}}
evaluators: {{primary_metric: ndcg@10}}
latency: false
output: {{directory: {folder}/results}}
"""


@pytest.fixture(scope="module")
def benchmark(root: Path) -> ModuleType:
    path = root / "benchmarks" / "pool.py"
    if not path.exists():
        pytest.skip("the benchmarks are not part of this distribution")
    spec = importlib.util.spec_from_file_location("pool_benchmark", path)
    assert spec
    assert spec.loader
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(path.parent)
        spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def sample(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """Three ways of BM25 on the sample data, which needs no model."""
    folder = tmp_path_factory.mktemp("sample")
    config = folder / "config.yaml"
    config.write_text(SETTINGS.format(root=root, folder=folder))
    return run_experiment(load_config(config))


@pytest.mark.parametrize("baseline", [None, "bm25"])
def test_ten_labels_of_the_pool_do_at_least_twice_what_ten_random_ones_do(
    benchmark: ModuleType, sample: Report, tmp_path: Path, baseline: str | None
) -> None:
    found = []
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found.append(benchmark.narrowed(sample, seed, folder, hide=0.5, budget=10, baseline=baseline))
    assert statistics.median(one.times for one in found) >= 2
    assert all(one.pool > one.random for one in found)
