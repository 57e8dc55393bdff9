"""What scoring a run costs, from TREC files to six metrics per query and their means, against other tools.

    python benchmarks/scoring.py [--shape 6980x1000] [--shape 50x1000x1300] [--rounds 5] [--engines NAME,NAME]
                                 [--qrels FILE --run FILE] [--small-warm-up] [--warm-only] [--python PATH]
                                 [--json PATH]

A shape is queries x hits, or queries x hits x judgments per query (graded 0 to 3; 1 judgment otherwise); the data is
made, the same for every tool, with 1% of equal scores. Every measurement is a process of its own: `fresh` is the time
from its start to its end, `warm` the time of one more pass after a first one in the same process (on a small file with
--small-warm-up, for tools that take long), `memory` the most anonymous memory it held while it worked. `codes` is
scoring alone, of what is in memory already: integer codes for ragtrial, dicts for pytrec_eval. The rounds are
interleaved, in turning order; printed are medians, and the medians of the ratios to ragtrial within a round.

Other tools are used if they can be imported by --python (default: this Python); ragtrial always runs in this one. The
pandas recipe knows the reciprocal rank alone. `command` is `ragtrial score` as it is typed, all checks on.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from quiet import refuse_if_busy

METRICS = "precision@10,recall@100,f1@10,rr,ap,ndcg@10"
ENGINES = ("ragtrial", "command", "pytrec_eval", "ranx", "ir_measures", "pandas", "codes", "pytrec_codes")
HERE = Path(__file__).resolve()


def with_ragtrial(qrels: str, run: str) -> dict[str, float]:
    from ragtrial import score

    scored = score(qrels, run, METRICS)
    return {name: mean.mean or 0.0 for name, mean in scored.runs[0].scores.items()}


def with_pytrec_eval(qrels: str, run: str) -> dict[str, float]:
    judged, ranked = read_with_pytrec_eval(qrels, run)
    return evaluated_by_pytrec_eval(judged, ranked)


def read_with_pytrec_eval(qrels: str, run: str) -> tuple[Any, Any]:
    import pytrec_eval

    with Path(qrels).open() as file:
        judged = pytrec_eval.parse_qrel(file)
    with Path(run).open() as file:
        return judged, pytrec_eval.parse_run(file)


def evaluated_by_pytrec_eval(judged: Any, ranked: Any) -> dict[str, float]:
    import pytrec_eval

    wanted = {"P_10", "recall_10,100", "recip_rank", "map", "ndcg_cut_10"}
    rows = pytrec_eval.RelevanceEvaluator(judged, {name.replace("_1", ".1") for name in wanted}).evaluate(ranked)
    totals = dict.fromkeys(("precision@10", "recall@100", "f1@10", "rr", "ap", "ndcg@10"), 0.0)
    for row in rows.values():
        precision, recall = row["P_10"], row["recall_10"]
        totals["precision@10"] += precision
        totals["recall@100"] += row["recall_100"]
        totals["f1@10"] += 2 * precision * recall / (precision + recall) if precision else 0.0
        totals["rr"] += row["recip_rank"]
        totals["ap"] += row["map"]
        totals["ndcg@10"] += row["ndcg_cut_10"]
    return {name: total / len(rows) for name, total in totals.items()}


def with_ranx(qrels: str, run: str) -> dict[str, float]:
    from ranx import Qrels, Run, evaluate

    names = ["precision@10", "recall@100", "f1@10", "mrr", "map", "ndcg@10"]
    judged, ranked = Qrels.from_file(qrels, kind="trec"), Run.from_file(run, kind="trec")
    found = evaluate(judged, ranked, names, make_comparable=True)
    ours = {"mrr": "rr", "map": "ap"}
    return {ours.get(name, name): float(found[name]) for name in names}


def with_ir_measures(qrels: str, run: str) -> dict[str, float]:
    ir_measures: Any = importlib.import_module("ir_measures")
    from ir_measures import AP, RR, P, R, nDCG

    wanted = [P @ 10, R @ 10, R @ 100, RR, AP, nDCG @ 10]
    rows: dict[str, dict[str, float]] = {}
    judged, ranked = list(ir_measures.read_trec_qrels(qrels)), ir_measures.read_trec_run(run)
    for one in ir_measures.iter_calc(wanted, judged, ranked):
        rows.setdefault(one.query_id, {})[str(one.measure)] = one.value
    for row in rows.values():
        total = row["P@10"] + row["R@10"]
        row["f1@10"] = 2 * row["P@10"] * row["R@10"] / total if total else 0.0
    ours = {
        "precision@10": "P@10",
        "recall@100": "R@100",
        "f1@10": "f1@10",
        "rr": "RR",
        "ap": "AP",
        "ndcg@10": "nDCG@10",
    }
    return {name: statistics.fmean(row[theirs] for row in rows.values()) for name, theirs in ours.items()}


def with_pandas(qrels: str, run: str) -> dict[str, float]:
    import pandas as pd

    judged = pd.read_csv(qrels, sep=r"\s+", header=None, names=["qid", "iter", "docid", "label"])
    ranked = pd.read_csv(run, sep=" ", header=None, names=["qid", "q0", "docid", "rank", "score", "tag"])
    joined = judged[judged["label"] > 0].merge(ranked, on=["qid", "docid"])
    first = joined.groupby("qid")["rank"].min()
    return {"rr": float((1 / first).sum() / judged["qid"].nunique())}


def ragtrial_codes(qrels: str, run: str) -> Callable[[], dict[str, float]]:
    """Scoring of integer codes: what a run of an experiment does."""
    import numpy as np

    from ragtrial.evaluation.evaluators import Evaluation
    from ragtrial.evaluation.grading import DocumentLabels
    from ragtrial.evaluation.metrics import parse_metrics
    from ragtrial.rankings import from_rows
    from ragtrial.runs.qrels import Qrels
    from ragtrial.scoring.score_runs import evaluate

    judged, ranked = read_with_pytrec_eval(qrels, run)
    table = Qrels.of((query, tuple(row.items()), False) for query, row in judged.items())
    code_of = {doc: code for code, doc in enumerate(dict.fromkeys(doc for row in ranked.values() for doc in row))}
    codes = np.array([code_of.get(doc, -1) for doc in table.documents], dtype=np.int32)
    rows = []
    for query in table.queries:
        scores = ranked.get(query, {})
        rows.append([code_of[doc] for doc in sorted(scores, key=scores.__getitem__, reverse=True)])
    rankings = from_rows(rows)
    del judged, ranked, code_of, rows
    metrics = parse_metrics(METRICS)

    def work() -> dict[str, float]:
        graded = DocumentLabels(table.judgments, codes).grade(rankings, rankings.depth)
        made: dict[str, Evaluation] = evaluate([one.at(one.k or rankings.depth) for one in metrics], graded, "skip")
        return {name: one.mean.mean or 0.0 for name, one in made.items()}

    return work


def pytrec_codes(qrels: str, run: str) -> Callable[[], dict[str, float]]:
    judged, ranked = read_with_pytrec_eval(qrels, run)
    return lambda: evaluated_by_pytrec_eval(judged, ranked)


FILE_ENGINES: dict[str, Callable[[str, str], dict[str, float]]] = {
    "ragtrial": with_ragtrial,
    "pytrec_eval": with_pytrec_eval,
    "ranx": with_ranx,
    "ir_measures": with_ir_measures,
    "pandas": with_pandas,
}
MEMORY_ENGINES = {"codes": ragtrial_codes, "pytrec_codes": pytrec_codes}


class Memory:
    """The most anonymous memory of this process in MiB, looked at every few milliseconds."""

    def __init__(self) -> None:
        self.most = 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.005):
            self._look()

    def _look(self) -> None:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon"):
                self.most = max(self.most, int(line.split()[1]) / 1024)

    def stop(self) -> float:
        self._over.set()
        self._look()
        return self.most


def work_once(engine: str, qrels: str, run: str, warm_up: tuple[str, str] | None) -> dict[str, Any]:
    """In a process of its own: one pass, after a first one on ``warm_up`` if that is given."""
    if engine in MEMORY_ENGINES:
        work = MEMORY_ENGINES[engine](qrels, run)
    else:

        def work() -> dict[str, float]:
            return FILE_ENGINES[engine](qrels, run)

        if warm_up:
            FILE_ENGINES[engine](*warm_up)
    if engine in MEMORY_ENGINES:
        work()
    memory = Memory()
    start = time.perf_counter()
    means = work()
    return {"seconds": time.perf_counter() - start, "memory": memory.stop(), "means": means}


def measured(engine: str, python: str, files: tuple[str, str], warm_up: tuple[str, str] | None) -> dict[str, Any]:
    """One measurement; ``fresh`` is the whole process, ``seconds`` the pass itself."""
    if engine == "command":
        command = [sys.executable, "-m", "ragtrial", "score", *files, "--metrics", METRICS, "--json"]
    else:
        command = [python, str(HERE), "--busy", "--work", engine, *files, *(warm_up or ())]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    fresh = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-2000:]}")
    answer = json.loads(done.stdout)
    if engine == "command":
        means = {name: one["mean"] for name, one in answer["runs"][0]["scores"].items()}
        answer = {"seconds": fresh, "memory": 0.0, "means": means}
    return {**answer, "fresh": fresh}


def make_data(folder: Path, shape: tuple[int, ...], seed: int) -> tuple[str, str]:
    """A run and qrels of ``shape`` as TREC files, unless they are there already."""
    import numpy as np

    queries, depth, judged = (*shape, 1)[:3]
    name = "x".join(map(str, shape))
    qrels, run = folder / f"{name}.qrels", folder / f"{name}.run"
    if run.exists():
        return str(qrels), str(run)
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(seed)
    pool = 3_200_000
    with qrels.open("w") as judgments, (folder / f"{name}.part").open("w") as ranking:
        for index in range(queries):
            query = 1_000_000 + index
            documents = np.unique(random.integers(0, pool, 2 * depth + 50))
            random.shuffle(documents)
            documents = documents[:depth]
            scores = np.sort(random.random(depth) * 20)[::-1]
            same = np.flatnonzero(random.random(depth) < 0.01)
            scores[same[same > 0]] = scores[same[same > 0] - 1]
            ranking.writelines(
                f"{query} Q0 D{document:07d} {rank} {value:.6f} tag\n"
                for rank, (document, value) in enumerate(zip(documents.tolist(), scores.tolist(), strict=True), 1)
            )
            found = (
                documents[random.permutation(depth)[: max(1, judged // 3)]] if random.random() < 0.8 else documents[:0]
            )
            others = np.setdiff1d(random.integers(0, pool, judged + 20), documents)[: judged - len(found)]
            for document in [*found.tolist(), *others.tolist()]:
                grade = 1 if judged == 1 else int(random.integers(0, 4))
                judgments.write(f"{query} 0 D{document:07d} {grade}\n")
    (folder / f"{name}.part").rename(run)
    return str(qrels), str(run)


def importable(engine: str, python: str) -> bool:
    module = {"ragtrial": "", "command": "", "codes": "", "pytrec_codes": "pytrec_eval"}.get(engine, engine)
    return (
        not module
        or subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0
    )


@dataclass(frozen=True)
class Trial:
    """What is measured: on which files, after which warm-up, with which Python for the other tools."""

    engines: list[str]
    files: tuple[str, str]
    warm_up: tuple[str, str]
    python: str
    is_warm_only: bool

    def rounds(self, count: int) -> Iterator[dict[str, dict[str, Any]]]:
        """One dict per round: what was measured of each engine, warm and fresh."""
        for number in range(count):
            order = self.engines if number % 2 == 0 else self.engines[::-1]
            found = {engine: self._measured(engine) for engine in order}
            told = ", ".join(f"{name} {found[name]['seconds']:.2f}" for name in self.engines)
            print(f"  round {number + 1}: {told}", file=sys.stderr, flush=True)
            yield found

    def _measured(self, engine: str) -> dict[str, Any]:
        python = sys.executable if engine in ("ragtrial", "codes", "pytrec_codes") else self.python
        if self.is_warm_only:
            return {**measured(engine, python, self.files, self.warm_up), "fresh": float("nan")}
        fresh = measured(engine, python, self.files, None)
        if engine == "command" or engine in MEMORY_ENGINES:
            return fresh
        return {**measured(engine, python, self.files, self.warm_up), "fresh": fresh["fresh"]}


def summary(engine: str, base: str, rounds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    def median(key: str) -> float:
        return statistics.median(float(one[engine][key]) for one in rounds)

    def ratio(key: str) -> float:
        return statistics.median(float(one[engine][key]) / float(one[base][key]) for one in rounds)

    return {
        "warm_s": median("seconds"), "fresh_s": median("fresh"), "memory_mib": median("memory"),
        "warm_ratio": ratio("seconds"), "fresh_ratio": ratio("fresh"), "means": rounds[0][engine]["means"],
    }  # fmt: skip


def report(title: str, found: dict[str, dict[str, Any]]) -> None:
    print(f"\n{title}\n{'':14}{'warm s':>9}{'ratio':>8}{'fresh s':>9}{'ratio':>8}{'MiB':>8}  {METRICS}")
    for engine, one in found.items():
        means = " ".join(f"{value:.6f}" for value in one["means"].values())
        print(f"{engine:14}{one['warm_s']:9.3f}{one['warm_ratio']:8.2f}{one['fresh_s']:9.3f}{one['fresh_ratio']:8.2f}"
              f"{one['memory_mib']:8.0f}  {means}")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--engines", default=",".join(ENGINES))
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "ragtrial-scoring")
    parser.add_argument("--qrels")
    parser.add_argument("--run")
    parser.add_argument("--small-warm-up", action="store_true")
    parser.add_argument("--warm-only", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        engine, qrels, run, *warm_up = options.work
        print(json.dumps(work_once(engine, qrels, run, (warm_up[0], warm_up[1]) if warm_up else None)))
        return
    chosen = [name for name in options.engines.split(",") if importable(name, options.python)]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, {dt.date.today()}")
    everything: dict[str, Any] = {}
    shapes = options.shape or (["6980x1000", "50x1000x1300"] if not options.run else [])
    works = [(shape, make_data(options.folder, tuple(map(int, shape.split("x"))), options.seed)) for shape in shapes]
    works += [(options.run, (options.qrels, options.run))] if options.run else []
    small = make_data(options.folder, (50, 100), options.seed)
    for title, files in works:
        warm_up = small if options.small_warm_up else files
        rounds = list(Trial(chosen, files, warm_up, options.python, options.warm_only).rounds(options.rounds))
        bases = {name: "codes" if name == "pytrec_codes" else "ragtrial" for name in chosen}
        found = {name: summary(name, base if base in chosen else name, rounds) for name, base in bases.items()}
        report(f"{title}: medians of {options.rounds} rounds; ratios to ragtrial", found)
        everything[title] = found
    if options.json:
        options.json.write_text(json.dumps(everything, indent=1) + "\n")


if __name__ == "__main__":
    refuse_if_busy()
    main()
