"""What a sweep costs: against its stages run alone, and beside the loop that one would write with LangChain's parts.

    python benchmarks/sweep.py [--beir PATH] [--documents 150] [--rounds 3] [--loops 1] [--json PATH]

The sweep: 3 sizes of chunks x 2 values of store.hnsw.ef_search x 4 retrievers: dense (Chroma), bm25, hybrid (fusion of
both by rrf) and mmr (of dense). That is 21 settings: bm25 has no index of vectors, so each of its three is run once.

run: ``ragtrial run --no-latency`` in a fresh process and an empty workspace, to the written report.

stages: every distinct stage of the same sweep, each once: the documents, each chunking, each embedding (the first one
loads the model), each index, the questions' vectors, each base ranking, each refinement, each audit (of an index
against exact search, which a run always makes of indexes this small). They run in one other fresh process and an empty
workspace, one after another, through the very functions that a run calls (``Ground``, ``Plan``); a clock runs from the
call to the return of each, when all that it needs is there. Imports are warm: before, in the same process, all of it is
run over a dozen documents in another workspace. Not in their sum: imports, config, labels, scores, report.

imports: a fresh process that only imports what a run imports, since run has to and stages do not.

loop: benchmarks/sweep_loop.py over the same grid, where each setting cuts and embeds again; kept: the same with the
vectors and the BM25 index of each chunking kept.

``--documents`` takes judged documents, and the questions whose judged documents are all among them. Medians of rounds;
ratios are of single rounds, whose parts run in turn. ``cpu`` is processor time of all threads: it suffers less from
other work on the machine than ``wall``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from quiet import refuse_if_busy
from run import lines_of, processor, table, timed

from ragtrial import load_config
from ragtrial.components.embedders.model_files import find_model
from ragtrial.config.settings import Setting
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.run import Run
from ragtrial.pipeline.stage import Stage, all_needs
from ragtrial.report.model import environment

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
SIZES, OPTIONS = [100, 150, 200], [50, 100]
CONFIG = """\
experiment: sweep
dataset: {{beir: {beir}, split: test}}
chunker: {{kind: recursive, size: 200, overlap: 0, unit: tokens}}
embedder: {{kind: sentence-transformer, model: {model}}}
store: {{kind: chroma}}
retrievers:
  dense: {{kind: dense, top_k: 10}}
  bm25: {{kind: bm25, top_k: 10}}
  hybrid: {{kind: fusion, inputs: [dense, bm25], top_k: 10}}
  mmr: {{kind: mmr, inputs: dense, top_k: 10}}
sweep:
  matrix:
    chunker.size: {sizes}
    store.hnsw.ef_search: {options}
latency: false
output: {{directory: {folder}/results}}
workspace: {folder}/workspace
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of a process, by the clock and of its processors, and of its parts."""

    wall: float
    cpu: float
    parts: dict[str, float]


def written(beir: Path, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    config = folder / "config.yaml"
    text = CONFIG.format(beir=json.dumps(str(beir)), model=MODEL, sizes=SIZES, options=OPTIONS, folder=folder)
    config.write_text(text, encoding="utf-8")
    return config


def cost_of(command: list[str], result: Path | None = None) -> Cost:
    wall, usage, _, _ = timed(command)
    parts = json.loads(result.read_text())["parts"] if result else {}
    return Cost(wall, usage.ru_utime + usage.ru_stime, parts)


def ours(beir: Path, folder: Path, *options: str) -> Cost:
    return cost_of(["-m", "ragtrial", "run", str(written(beir, folder)), "--json", *options])


def loop(beir: Path, folder: Path, *options: str) -> Cost:
    script = str(Path(__file__).with_name("sweep_loop.py"))
    given = [str(beir), str(find_model(MODEL)), str(folder), json.dumps(SIZES), json.dumps(OPTIONS), *options]
    return cost_of([script, *given], folder / "loop.json")


def stages(beir: Path, folder: Path) -> Cost:
    """The cost of the stages; ``wall`` and ``cpu`` are of these alone, not of the process."""
    timed([__file__, "--work", str(beir), str(folder)])
    found = json.loads((folder / "stages.json").read_text())
    return Cost(sum(found["parts"].values()), found["cpu"], found["parts"])


def imports(_beir: Path, _folder: Path) -> Cost:
    code = "import chromadb, sentence_transformers, bm25s, Stemmer, ragtrial.cli.run_command, ragtrial.experiment"
    return cost_of(["-c", code])


def each_stage(beir: Path, folder: Path) -> dict[str, float]:
    """Seconds of every distinct stage of the sweep, by its kind, each made when all that it needs is there."""
    seconds: dict[str, float] = defaultdict(float)

    def clocked(name: str, make: Callable[[], Any]) -> Any:
        start = time.perf_counter()
        made = make()
        seconds[name] += time.perf_counter() - start
        return made

    evaluator = Run.of(load_config(written(beir, folder)))
    corpus = clocked("documents", lambda: evaluator.corpus)
    texts = [question.text for question in evaluator.questions]
    for stage in dict.fromkeys(one for setting in evaluator.settings for one in stages_of(evaluator, setting)):
        if isinstance(stage, RankingStage) and stage.setting.has_index:
            embedder = corpus.resources.embedder(stage.setting.embedder)
            clocked("questions", partial(embedder.embed_queries, texts))
        clocked(name_of(stage), partial(corpus.runner.artefact, stage))
    for setting in evaluator.settings:
        seconds["audit"] += audited(evaluator, setting)
    corpus.resources.workspace.finish()
    return dict(seconds)


def stages_of(evaluator: Run, setting: Setting) -> list[Stage[Any]]:
    """The stages up to the rankings of a setting, each behind what it needs."""
    return all_needs(evaluator.graph.ranking_stage(setting))


def name_of(stage: Stage[Any]) -> str:
    if isinstance(stage, RankingStage):
        return "refinements" if stage.parts else "base rankings"
    return stage.shown_as or stage.kind


def audited(evaluator: Run, setting: Setting) -> float:
    return evaluator.graph.result(setting).timings.get("audit", 0.0)


def work(beir: Path, folder: Path) -> None:
    """What the process of ``stages`` does."""
    few = folder / "few"
    part_of(beir, few / "beir", 12)
    each_stage(few / "beir", few)
    before = time.process_time()
    parts = each_stage(beir, folder / "all")
    (folder / "stages.json").write_text(json.dumps({"parts": parts, "cpu": time.process_time() - before}))


def part_of(beir: Path, target: Path, documents: int | None) -> tuple[int, int]:
    """Copy a data set, or the first ``documents`` judged ones of it; how many documents and questions that has."""
    lines = lines_of(beir)
    qrels = (beir / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()
    judged = list(dict.fromkeys(row.split("\t")[1] for row in qrels[1:]))
    kept = set(lines) if documents is None else set(islice([*judged, *lines], documents))
    dropped = {row.split("\t")[0] for row in qrels[1:] if row.split("\t")[1] not in kept}
    rows = [row for row in qrels[1:] if row.split("\t")[0] not in dropped]
    (target / "qrels").mkdir(parents=True)
    (target / "qrels" / "test.tsv").write_text("\n".join([qrels[0], *rows]) + "\n", encoding="utf-8")
    (target / "queries.jsonl").write_bytes((beir / "queries.jsonl").read_bytes())
    (target / "corpus.jsonl").write_text("".join(lines[name] for name in lines if name in kept), encoding="utf-8")
    return len(kept), len({row.split("\t")[0] for row in rows})


def rounds_of(beir: Path, options: argparse.Namespace) -> Iterator[tuple[int, str, Cost]]:
    """Every cost, as it comes: the round, what ran, what it took."""
    runs: dict[str, Callable[[Path, Path], Cost]] = {"run": ours, "stages": stages, "imports": imports}
    loops: dict[str, Callable[[Path, Path], Cost]] = {
        "loop, kept": lambda beir, folder: loop(beir, folder, "--keep"),
        "loop": loop,
    }
    for number in range(options.rounds):
        names = list(runs)[number % len(runs) :] + list(runs)[: number % len(runs)]
        for name in [*names, *(loops if number < options.loops else ())]:
            with tempfile.TemporaryDirectory() as folder:
                cost = (runs | loops)[name](beir, Path(folder))
            print(f"round {number + 1}, {name}: {cost.wall:.1f} s ({cost.cpu:.1f} s cpu)", flush=True)
            yield number, name, cost


def print_costs(costs: dict[str, list[Cost]]) -> None:
    rows = [["seconds", "wall", "cpu", "rounds"]]
    for name, column in costs.items():
        wall, cpu = (statistics.median(getattr(cost, what) for cost in column) for what in ("wall", "cpu"))
        rows.append([name, f"{wall:.1f}", f"{cpu:.1f}", f"{len(column)}"])
        if name in ("stages", "loop", "loop, kept"):
            parts = {part: statistics.median(cost.parts[part] for cost in column) for part in column[0].parts}
            rows += [[f"  {part}", f"{seconds:.1f}", "", ""] for part, seconds in parts.items()]
    table(rows)
    for what in ("wall", "cpu"):
        for name, against in (("stages", ["stages"]), ("stages and imports", ["stages", "imports"])):
            ratios = ratio_of(costs, what, against)
            print(f"run over {name}, {what}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")


def ratio_of(costs: dict[str, list[Cost]], what: str, against: list[str]) -> list[float]:
    """A run over the sum of others, round by round."""
    columns = zip(costs["run"], *(costs[name] for name in against), strict=True)
    return [getattr(one, what) / sum(getattr(other, what) for other in others) for one, *others in columns]


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        work(Path(sys.argv[2]), Path(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    data = os.environ.get("RAGTRIAL_TEST_DATA")
    parser.add_argument("--beir", type=Path, default=Path(data) / "scifact" if data else None, required=not data)
    parser.add_argument("--documents", type=int, help="the first judged ones (default: all documents)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--loops", type=int, default=1, help="in how many rounds the loops run, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    about = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "load": os.getloadavg()[0],
        **environment(),
    }
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        beir = Path(folder) / "beir"
        documents, questions = part_of(options.beir, beir, options.documents)
        for _, name, cost in rounds_of(beir, options):
            costs.setdefault(name, []).append(cost)
    print_costs(costs)
    print(f"{documents:,} documents and {questions:,} questions of {options.beir.name}; load {about['load']:.1f}")
    print(f"{about['date']}, {about['processor']}, {about['cpus']} CPUs, {about['system']}, Python {about['python']}")
    if options.json:
        made = {name: [vars(cost) for cost in column] for name, column in costs.items()}
        options.json.write_text(json.dumps({"about": about, "documents": documents, "costs": made}, indent=1) + "\n")


if __name__ == "__main__":
    refuse_if_busy()
    main()
