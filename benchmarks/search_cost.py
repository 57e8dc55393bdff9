"""What a search takes beside running the settings that it tries: against the same settings as a plain sweep.

    python benchmarks/search_cost.py [CONFIG] [--pairs 5]

Searches with the command line, then runs the sweep that the report of the search lists; then pairs of both side by
side, so that other work on the machine slows both alike, each in a fresh workspace. Prints processor and wall seconds,
and the seconds of the distinct stages by their seals (without indexes of terms, which rankings make meanwhile); at last
medians, the least of each and the ratios. Without a CONFIG 30 settings of hybrid search
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

from quiet import refuse_if_busy

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


_WITHIN = ("bm25", "terms")


@dataclass(frozen=True)
class Run:
    processor: float
    wall: float
    stages: float
    count: int


def run(*configs: Path) -> list[Run]:
    """Runs side by side, each with a folder beside its config for results and workspace, which is removed first."""
    started, made = dict[int, Path](), dict[Path, Run]()
    for config in configs:
        folder = config.with_suffix("")
        shutil.rmtree(folder, ignore_errors=True)
        places = ["--set", f"output.directory={folder}/results", "--set", f"workspace={folder}/workspace"]
        command = [sys.executable, "-m", "ragtrial", "run", str(config), "--quiet", *places]
        started[subprocess.Popen(command, stdout=subprocess.DEVNULL).pid] = config
    start = time.perf_counter()
    while started:
        pid, status, used = os.wait4(-1, 0)
        wall, config = time.perf_counter() - start, started.pop(pid)
        if status:
            raise SystemExit(f"{config} failed")
        folders = config.with_suffix("").joinpath("workspace").iterdir()
        seals = [path for one in folders if one.name not in _WITHIN for path in one.rglob(SEAL)]
        seconds = [json.loads(path.read_text())["seconds"] or 0.0 for path in seals]
        made[config] = Run(used.ru_utime + used.ru_stime, wall, sum(seconds), len(seconds))
    return [made[config] for config in configs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", type=Path)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        search, sweep = folder / "search.yaml", folder / "sweep.yaml"
        search.write_text(CONFIG, encoding="utf-8")
        if options.config is not None:
            search.write_text(f"extends: {json.dumps(str(options.config.resolve()))}\n", encoding="utf-8")
        shutil.copy(HERE / "configs" / "trigram_embedder.py", folder)
        run(search)
        (experiment,) = (folder / "search" / "results").iterdir()
        report = load_report(experiment / (experiment / "latest").read_text().strip())
        listed = {key: one for key, one in report.config.items() if key not in ("output", "workspace")}
        sweep.write_text(json.dumps(listed), encoding="utf-8")
        print(f"{len(report.settings)} settings", flush=True)
        print("          search                       sweep", flush=True)
        print("processor    wall  stages   processor    wall  stages   ratio  load", flush=True)
        pairs = []
        for number in range(options.pairs):
            order = (search, sweep) if number % 2 else (sweep, search)
            made = dict(zip(order, run(*order), strict=True))
            pairs.append((made[search], made[sweep]))
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
    refuse_if_busy()
    main()
