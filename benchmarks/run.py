"""What a run costs: each stage, each situation (cold, warm, ...), and against plain code that does the same.

    python benchmarks/run.py [--beir PATH] [--documents N] [--rounds 3] [--part situations|overhead] [--json PATH]

Every run is a fresh process with a Chroma index. ``--documents`` takes the first N documents and the judged ones.

Situations, one after another in one workspace: cold without 1% of the documents; warm, the same command again; other
cutoffs of the metrics; another top_k; the 1% added.

Overhead: in every round benchmarks/plain.py (sentence-transformers and chromadb alone), ragtrial without latency and
ragtrial with all it does, in rotating order, each cold. Prints the medians, and the median of the ratios of each round;
above 1 is slower than plain code. Processor seconds (``cpu``) suffer less from other work on the machine than ``wall``.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import re
import resource
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from quiet import refuse_if_busy

from ragtrial.components.embedders.model_files import find_model
from ragtrial.report.model import environment, load_report

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
CONFIG = """\
experiment: benchmark
dataset: {{beir: {beir}, split: test}}
chunker: {{kind: document}}
embedder: {{kind: sentence-transformer, model: {model}}}
store: {{kind: chroma}}
retrievers:
  dense: {{kind: dense, top_k: 10}}
output: {{directory: {folder}/results}}
workspace: {folder}/workspace
"""
HELD_BACK = 0.01
OTHER_CUTOFFS = [f"--set=evaluators.{family}.k=[2, 4, 8]" for family in ("order_unaware", "order_aware", "graded")]
OTHER_DEPTH = "--set=retrievers.dense.top_k=20"
STAGES = ("imports", "documents", "chunks", "model", "embeddings", "index", "retrieval", "latency", "audit")
FINISHED = re.compile(r"^(\w+): (?:.*, )?([\d.]+) s$", re.MULTILINE)


@dataclass(frozen=True)
class Cost:
    """What a process took: seconds, seconds per stage, and bytes of memory at most. ``rest`` is in no stage."""

    wall: float
    cpu: float
    peak: int
    stages: dict[str, float]
    embedded: int
    hits: dict[str, list[str]]
    """The ranked documents of each query."""

    @property
    def rest(self) -> float:
        return self.wall - sum(self.stages.values())

    def row(self) -> dict[str, float]:
        """Everything in seconds, by name."""
        return {"wall": self.wall, "cpu": self.cpu, **self.stages, "rest": self.rest}


def timed(command: Sequence[str]) -> tuple[float, resource.struct_rusage, str, str]:
    """Wall seconds, resource usage, stdout and stderr of a process. Ends the benchmark if it fails."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        process = subprocess.Popen([sys.executable, *command], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        said, told = out.read(), err.read()
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{told}")
    return wall, usage, said, told


def peak(usage: resource.struct_rusage) -> int:
    """Bytes of memory at most; the unit of what the system tells is the system's own."""
    return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def kept_vectors(workspace: Path) -> int:
    """How many texts have a vector in the cache."""
    count = 0
    for path in (workspace / "vectors").glob("*.sqlite"):
        with closing(sqlite3.connect(path)) as database:
            count += int(database.execute("SELECT count(*) FROM vectors").fetchone()[0])
    return count


def ours(beir: Path, folder: Path, *options: str) -> Cost:
    """What ``ragtrial run`` costs with the workspace and the results in ``folder``."""
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(beir=json.dumps(str(beir)), model=MODEL, folder=folder))
    before = kept_vectors(folder / "workspace")
    wall, usage, said, told = timed(["-m", "ragtrial", "run", str(config), "--json", *options])
    path = Path(json.loads(said)["report"])
    (setting,) = json.loads(path.read_text(encoding="utf-8"))["settings"]
    rankings = gzip.decompress(load_report(path).ranking_file(setting["name"]).read_bytes()).splitlines()
    told_seconds = {name: float(seconds) for name, seconds in FINISHED.findall(told) if name == "documents"}
    return Cost(
        wall=wall,
        cpu=usage.ru_utime + usage.ru_stime,
        peak=peak(usage),
        stages={**told_seconds, **setting["timings"]},
        embedded=kept_vectors(folder / "workspace") - before,
        hits={row["query"]: row["docs"] for row in map(json.loads, rankings)},
    )


def plain(beir: Path, folder: Path) -> Cost:
    """What the same costs without ragtrial."""
    script = Path(__file__).with_name("plain.py")
    wall, usage, _, _ = timed([str(script), str(beir), str(find_model(MODEL)), str(folder)])
    run = json.loads((folder / "run.json").read_text())
    return Cost(
        wall=wall,
        cpu=usage.ru_utime + usage.ru_stime,
        peak=peak(usage),
        stages=json.loads((folder / "timings.json").read_text()),
        embedded=0,
        hits={query: sorted(scores, key=scores.__getitem__, reverse=True) for query, scores in run.items()},
    )


def judged_documents(beir: Path) -> set[str]:
    rows = (beir / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    return {row.split("\t")[1] for row in rows}


def lines_of(beir: Path) -> dict[str, str]:
    """The lines of the corpus by the id of their document."""
    lines = (beir / "corpus.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    return {json.loads(line)["_id"]: line for line in lines}


def copy_beir(beir: Path, target: Path, documents: int | None) -> None:
    """Copy a data set, of its documents only the first and the judged ones."""
    (target / "qrels").mkdir(parents=True)
    shutil.copyfile(beir / "queries.jsonl", target / "queries.jsonl")
    shutil.copyfile(beir / "qrels" / "test.tsv", target / "qrels" / "test.tsv")
    lines = lines_of(beir)
    kept = set(list(lines)[:documents]) | judged_documents(beir)
    (target / "corpus.jsonl").write_text(
        "".join(line for name, line in lines.items() if name in kept), encoding="utf-8"
    )


def situations(beir: Path) -> dict[str, Cost]:
    """The costs of runs one after another, by situation."""
    corpus, lines, judged = beir / "corpus.jsonl", lines_of(beir), judged_documents(beir)
    unjudged = [name for name in lines if name not in judged]
    held = set(unjudged[:: round(len(unjudged) / (HELD_BACK * len(lines)))])
    with tempfile.TemporaryDirectory() as folder:
        run = partial(ours, beir, Path(folder))
        corpus.write_text("".join(line for name, line in lines.items() if name not in held), encoding="utf-8")
        costs = {}
        for name, options in (("cold", ()), ("warm", ()), ("other k", OTHER_CUTOFFS), ("other top_k", (OTHER_DEPTH,))):
            costs[name] = run(*options)
            print(f"{name}: {costs[name].wall:.1f} s", flush=True)
        corpus.write_text("".join(lines.values()), encoding="utf-8")
        costs[f"{len(held)} documents added"] = run()
    return costs


def overhead(beir: Path, rounds: int) -> dict[str, list[Cost]]:
    """The costs of cold runs, by what ran, one for each round."""
    runs: dict[str, Callable[[Path, Path], Cost]] = {
        "plain code": plain,
        "without latency": lambda beir, folder: ours(beir, folder, "--no-latency"),
        "everything": ours,
    }
    costs: dict[str, list[Cost]] = {name: [] for name in runs}
    names = list(runs)
    for number in range(rounds):
        for name in names[number % len(names) :] + names[: number % len(names)]:
            with tempfile.TemporaryDirectory() as folder:
                costs[name].append(runs[name](beir, Path(folder)))
            now = costs[name][-1]
            print(f"round {number + 1}, {name}: {now.wall:.1f} s ({now.cpu:.1f} s cpu)", flush=True)
    return costs


def table(rows: Sequence[Sequence[str]]) -> None:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = zip(row, widths, strict=True)
        print("  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)]).rstrip())
    print()


def columns(costs: dict[str, list[Cost]]) -> list[list[str]]:
    """A header, and one row for each part with the median seconds of every column."""
    parts = ["wall", "cpu", *STAGES, "rest"]
    made = [["seconds", *costs]]
    for part in parts:
        cells = [[cost.row()[part] for cost in column if part in cost.row()] for column in costs.values()]
        if any(cells):
            made.append([part, *(f"{statistics.median(seconds):.2f}" if seconds else "-" for seconds in cells)])
    made.append(["peak MB", *(f"{max(cost.peak for cost in column) / 1e6:,.0f}" for column in costs.values())])
    return made


def print_situations(costs: dict[str, Cost]) -> None:
    rows = columns({name: [cost] for name, cost in costs.items()})
    table([*rows, ["texts embedded", *(f"{cost.embedded:,}" for cost in costs.values())]])


def print_overhead(costs: dict[str, list[Cost]]) -> None:
    base = costs["plain code"]
    rows = columns(costs)
    for part in ("wall", "cpu"):
        ratios = [
            statistics.median(one.row()[part] / alone.row()[part] for one, alone in zip(column, base, strict=True))
            for column in costs.values()
        ]
        rows.append([f"ratio, {part}", *(f"{ratio:.3f}" for ratio in ratios)])
    # Of ragtrial alone: its embeddings begin with the import of the model's library, which plain code times apart.
    apart = [
        f"{statistics.median(cost.wall - cost.stages['embeddings'] for cost in costs[name]):.2f}"
        for name in ("without latency", "everything")
    ]
    rows.append(["wall less embeddings", "-", *apart])
    table(rows)
    print(f"ragtrial finds the documents that plain code finds: {agreement(base[0], costs['everything'][0]):.2%}\n")


def agreement(one: Cost, other: Cost) -> float:
    """The share of the documents of ``one`` that ``other`` found, too, mean over queries."""
    return statistics.mean(len(set(hits) & set(other.hits[name])) / len(hits) for name, hits in one.hits.items())


def processor() -> str:
    try:
        named = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        named = None
    return named.group(1) if named else platform.processor() or platform.machine()


def as_json(cost: Cost) -> dict[str, Any]:
    return {key: value for key, value in asdict(cost).items() if key != "hits"} | {"rest": cost.rest}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    data = os.environ.get("RAGTRIAL_TEST_DATA")
    parser.add_argument("--beir", type=Path, default=Path(data) / "scifact" if data else None, required=not data)
    parser.add_argument("--documents", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--part", choices=("situations", "overhead"))
    parser.add_argument("--json", type=Path, metavar="PATH")
    options = parser.parse_args()
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "load": os.getloadavg()[0],
        **environment(),
    }
    made: dict[str, Any] = {"about": about}
    with tempfile.TemporaryDirectory() as folder:
        beir = Path(folder) / "beir"
        copy_beir(options.beir, beir, options.documents)
        made["documents"] = len((beir / "corpus.jsonl").read_bytes().splitlines())
        if options.part != "overhead":
            in_turn = situations(beir)
            made["situations"] = {name: as_json(cost) for name, cost in in_turn.items()}
            print_situations(in_turn)
        if options.part != "situations":
            side_by_side = overhead(beir, options.rounds)
            made["overhead"] = {name: [as_json(cost) for cost in column] for name, column in side_by_side.items()}
            print_overhead(side_by_side)
    print(f"{made['documents']:,} documents of {options.beir.name}; load at the start {about['load']:.1f}")
    print(f"{about['date']}, {about['processor']}, {about['cpus']} CPUs, {about['system']}, Python {about['python']}")
    print(", ".join(f"{name} {version}" for name, version in environment()["packages"].items()))
    if options.json:
        options.json.write_text(json.dumps(made, indent=1) + "\n")


if __name__ == "__main__":
    refuse_if_busy()
    main()
