"""What a search takes beside running the settings that it tries: against the same settings as a plain sweep.

    python benchmarks/search_cost.py [CONFIG] [--pairs 5]

Searches with the command line, in a fresh workspace, then runs the sweep that the report of the search lists; pairs of
both in alternating order. Prints processor and wall seconds, the sum of seconds that the distinct stages took by their
seals, and at last the medians, the least processor time and the ratios. Without a CONFIG 30 settings of hybrid search
over the sample documents are searched at random, with an embedder that takes no model: less work than any real search,
so that what comes beside the work shows most.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ragtrial.cache.seals import SEAL
from ragtrial.report.model import load_report

HERE = Path(__file__).parents[1]
CONFIG = f"""
experiment: cost
dataset: {{corpus: "{HERE}/data/support", queries: "{HERE}/prompt_queries.json"}}
chunker: {{kind: recursive, size: 800, overlap: 100, unit: characters}}
embedder: {{kind: custom, function: "trigram_embedder:embed", batch_size: 256}}
store: {{kind: exact}}
retrievers:
  dense: {{kind: dense, score: false}}
  bm25: {{kind: bm25, score: false}}
  hybrid: {{kind: fusion, inputs: [dense, bm25]}}
sweep:
  matrix:
    chunker.size: [400, 800, 1600]
    retrievers.bm25.k1: {{between: [0.5, 2.0]}}
    retrievers.bm25.b: {{between: [0.0, 1.0]}}
search: {{settings: 30}}
latency: false
"""


@dataclass(frozen=True)
class Run:
    processor: float
    wall: float
    stages: float
    count: int


def run(config: Path, results: Path) -> Run:
    """One run in this folder's own results and a workspace of its own, which are removed first."""
    workspace = results / "workspace"
    shutil.rmtree(results, ignore_errors=True)
    command = [sys.executable, "-m", "ragtrial", "run", str(config), "--quiet", "--set", f"output.directory={results}"]
    before, start = os.times(), time.perf_counter()
    subprocess.run([*command, "--set", f"workspace={workspace}"], check=True, stdout=subprocess.DEVNULL)
    wall, after = time.perf_counter() - start, os.times()
    seconds = [json.loads(path.read_text())["seconds"] or 0.0 for path in workspace.rglob(SEAL)]
    processor = after.children_user + after.children_system - before.children_user - before.children_system
    return Run(processor, wall, sum(seconds), len(seconds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, results = options.config or folder / "search.yaml", folder / "results"
        if options.config is None:
            config.write_text(CONFIG, encoding="utf-8")
            shutil.copy(HERE / "configs" / "trigram_embedder.py", folder)
        run(config, results)
        (experiment,) = (path for path in results.iterdir() if path.name != "workspace")
        report = load_report(experiment / (experiment / "latest").read_text().strip())
        sweep = config.with_name("sweep.yaml") if options.config is None else folder / "sweep.yaml"
        listed = {key: one for key, one in report.config.items() if key not in ("output", "workspace")}
        sweep.write_text(json.dumps(listed), encoding="utf-8")
        print(f"{len(report.settings)} settings", flush=True)
        print("          search                       sweep", flush=True)
        print("processor    wall  stages   processor    wall  stages   ratio  load", flush=True)
        pairs = []
        for number in range(options.pairs):
            order = (config, sweep) if number % 2 else (sweep, config)
            made = {one: run(one, results) for one in order}
            pairs.append((made[config], made[sweep]))
            cells = (f"{one.processor:9.2f} {one.wall:7.2f} {one.stages:7.2f}" for one in pairs[-1])
            ratio = pairs[-1][0].processor / pairs[-1][1].processor
            print(f"{'   '.join(cells)}   {ratio:5.2f}  {os.getloadavg()[0]:.1f}", flush=True)
    for what in ("processor", "wall"):
        of_search, of_sweep = ([getattr(pair[side], what) for pair in pairs] for side in (0, 1))
        ratio = statistics.median(one / other for one, other in zip(of_search, of_sweep, strict=True))
        print(f"{what}: search {statistics.median(of_search):.2f} s, sweep {statistics.median(of_sweep):.2f} s, "
              f"ratio {ratio:.2f} (median of pairs); least {min(of_search):.2f} s and {min(of_sweep):.2f} s, ratio "
              f"{min(of_search) / min(of_sweep):.2f}")  # fmt: skip
    for side, what in enumerate(("search", "sweep")):
        ratio = statistics.median(pair[side].wall / pair[side].stages for pair in pairs)
        print(f"{what}: wall {ratio:.2f} times its {pairs[0][side].count} distinct stages (median)")


if __name__ == "__main__":
    main()
