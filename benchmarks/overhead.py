"""What ragtrial does around a retriever, as a share of the retriever's own time, at 1,000 queries.

    python benchmarks/overhead.py [--vectors 100000] [--chroma 20000] [--passages 100000] [--queries 1000] [--rounds 5]
                                  [--beir PATH] [--json PATH] [--case dense|chroma|bm25|passages|custom] [--profile]

Each case is a setting of a real config, with chunks, vectors and index made before. In every round its rankings go,
and ``Run.score`` makes them again, in a new run: from questions to rankings,
kept on the disk, and scores for each query. First it makes those of another setting, BM25 with other options, which
are not measured: what settings of a run have in common (chunks opened, labels read and graded) is not around each one
of them. What is measured is

- own: the time inside the retriever. For ``dense`` in ``Index.search`` of the exact store; for ``chroma`` in Chroma's
  own ``query``, without what reads its answer; for ``bm25`` and ``passages`` in its whole search, from the words of
  the question to the best chunks: bm25s's work, of which ours is to read the words and to choose the best; for
  ``custom`` in the user's function, which expands each query by the titles of what bm25s finds for it: a few
  milliseconds' work.
- opening: every byte of vectors and index is checked before they are searched, once in a run, and the index is loaded;
  afterwards it is closed: Chroma stops its threads, and the memory of BM25's words and lists is given back.
- around: all else, which is ragtrial's: names and fingerprints, vectors of queries from the cache (that a model makes
  them is not measured, which would be own), collapse to documents, asking again, the answers of ``custom`` checked,
  placed and written into the journal one by one, the stage on the disk, waited for (fsync).
  The share is this over own.
- scoring: labels joined and all usual metrics, which is ragtrial's work after a retriever's. The second share has it,
  too.

Not measured: documents and labels read, once in a run; latency and audit; the tokens of what was found, a
stage of its own that counts once for equal rankings (the embedder here has no tokenizer); the report.

CPU time is of all threads, and hardly changes when others load the machine; waits for the disk are in wall time
alone. Medians of rounds; the first warms up.

Dense vectors are like those of models (see search.py), of 384 numbers, one for each document; documents and queries of
the other cases are those of a folder in the BEIR layout, queries repeated with a word more until there are enough.
For ``passages`` sentences of those documents are drawn at random, six to a passage.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import pstats
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from quiet import refuse_if_busy

from ragtrial import load_config
from ragtrial.components.interfaces import Candidates, OpenRetriever, Ranker, RetrieverContext
from ragtrial.components.retrievers.bm25 import Bm25Retriever
from ragtrial.components.retrievers.custom import CustomRetriever
from ragtrial.components.retrievers.dense import DenseRetriever
from ragtrial.config.settings import Setting
from ragtrial.engines import Index
from ragtrial.engines.chroma import ChromaEngine
from ragtrial.pipeline import results
from ragtrial.pipeline.corpus_stages import IndexStage
from ragtrial.pipeline.run import Run, RunOutcome
from ragtrial.rankings import Floats, Rankings
from ragtrial.records import Question
from ragtrial.report.model import environment

sys.path.insert(0, str(Path(__file__).parent))

DIMENSION = 384
PARTS = ("own", "opening", "around", "scoring")
REMADE = ("rankings", "sizes", "answers")
CONFIG = """\
experiment: overhead
dataset: {{corpus: corpus.jsonl, queries: prompt_queries.json}}
chunker: {{kind: document}}
embedder: {{kind: custom, function: "overhead:vectors_of"}}
store: {{kind: {store}}}
retrievers:
  before: {{kind: bm25, k1: 1.3, top_k: 10}}
  {retriever}
latency: false
output: {{directory: results}}
workspace: workspace
"""
RETRIEVERS = {
    "dense": "dense: {kind: dense, top_k: 10}",
    "chroma": "dense: {kind: dense, top_k: 10}",
    "bm25": "bm25: {kind: bm25, top_k: 10}",
    "passages": "bm25: {kind: bm25, top_k: 10}",
    "custom": 'custom: {kind: custom, function: "overhead:one_by_one", top_k: 10}',
}


@dataclass(frozen=True)
class Seconds:
    """By the clock on the wall, and of all of this process's threads together on the cores."""

    wall: float = 0.0
    cpu: float = 0.0

    @classmethod
    def now(cls) -> Seconds:
        return cls(time.perf_counter(), time.process_time())

    def __add__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall + other.wall, self.cpu + other.cpu)

    def __sub__(self, other: Seconds) -> Seconds:
        return Seconds(self.wall - other.wall, self.cpu - other.cpu)


class Clock:
    """The time that is spent in some blocks; a profiler, if there is one, looks away meanwhile."""

    profiler: cProfile.Profile | None = None

    def __init__(self) -> None:
        self.spent = Seconds()

    @contextmanager
    def runs(self) -> Iterator[None]:
        if Clock.profiler:
            Clock.profiler.disable()
        start = Seconds.now()
        yield
        self.spent += Seconds.now() - start
        if Clock.profiler:
            Clock.profiler.enable()


own, opening = Clock(), Clock()


@dataclass(frozen=True)
class ClockedIndex:
    index: Index

    def search(self, queries: Floats, depth: int) -> Rankings:
        with own.runs():
            return self.index.search(queries, depth)


@dataclass(frozen=True)
class ClockedCollection:
    collection: Any

    def query(self, **asked: Any) -> Any:
        with own.runs():
            return self.collection.query(**asked)


def clocked_index(index: Any) -> Any:
    """``index`` with the clock in it; in Chroma's the clock is in Chroma."""
    if not isinstance(getattr(index, "engine", None), ChromaEngine):
        return ClockedIndex(index)
    engine: Any = index.engine
    if not isinstance(engine.collection, ClockedCollection):
        vars(engine)["collection"] = ClockedCollection(engine.collection)
    return index


class ClockedMaterials:
    """The materials of a setting, with a clock at its index."""

    def __init__(self, materials: RetrieverContext) -> None:
        self._materials = materials

    def __getattr__(self, name: str) -> Any:
        return getattr(self._materials, name)

    def index(self) -> Any:
        return clocked_index(self._materials.index())


@dataclass(frozen=True)
class ClockedRetriever:
    retriever: OpenRetriever

    def search(self, questions: Sequence[Question], depth: int) -> Candidates:
        with own.runs():
            return self.retriever.search(questions, depth)

    def __del__(self) -> None:
        with opening.runs():
            vars(self).clear()  # its index goes


class ClockedDense(DenseRetriever):
    def open(self, materials: RetrieverContext) -> OpenRetriever:  # type: ignore[override]  # wrapped
        return super().open(ClockedMaterials(materials))


class ClockedBm25(Bm25Retriever):
    def open(self, materials: RetrieverContext) -> OpenRetriever:  # type: ignore[override]  # wrapped
        made = super().open(materials)
        with opening.runs():
            made.search([], 1)  # reads its index
        return ClockedRetriever(made)


CLOCKED: dict[type[Ranker], type[Ranker]] = {DenseRetriever: ClockedDense, Bm25Retriever: ClockedBm25}


class Shelf:
    """What the functions of the configs look things up in."""

    def __init__(self) -> None:
        self.vectors: dict[str, Floats] = {}
        self.beir = Path()

    @cached_property
    def documents(self) -> list[dict[str, str]]:
        lines = (self.beir / "corpus.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def passages(self, count: int) -> list[dict[str, str]]:
        """Texts of six sentences, which are drawn from all documents."""
        sentences = [part for one in self.documents for part in one["text"].split(". ")]
        drawn = random.Random(3).choices(sentences, k=6 * count)
        texts = [". ".join(drawn[start : start + 6]) for start in range(0, 6 * count, 6)]
        return [{"_id": f"p{number}", "title": "", "text": text} for number, text in enumerate(texts)]

    @cached_property
    def queries(self) -> list[str]:
        lines = (self.beir / "queries.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line)["text"] for line in lines]

    @cached_property
    def bm25(self) -> Any:
        import bm25s

        model = bm25s.BM25()
        texts = [f"{one['title']} {one['text']}" for one in self.documents]
        model.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
        return model


shelf = Shelf()


def vectors_of(texts: list[str]) -> list[Floats]:
    """The vector of each text, made before."""
    return [shelf.vectors[text] for text in texts]


def one_by_one(queries: list[str], top_k: int) -> list[list[tuple[str, float]]]:
    """What bm25s finds for each query and for the ten best texts: ranks of all these rankings together (rrf)."""
    import bm25s

    model, documents = shelf.bm25, shelf.documents
    with own.runs():
        answers = []
        for query in queries:
            first, _ = found_by(bm25s, model, [query], top_k)
            titles = [documents[number]["title"] for number in first[0].tolist()]
            rankings = [first[0].tolist(), *found_by(bm25s, model, titles, top_k)[0].tolist()]
            sums: dict[int, float] = {}
            for ranking in rankings:
                for rank, number in enumerate(ranking, 1):
                    sums[number] = sums.get(number, 0.0) + 1 / (60 + rank)
            best = sorted(sums, key=sums.__getitem__, reverse=True)[:top_k]
            answers.append([(documents[number]["_id"], sums[number]) for number in best])
        return answers


def found_by(bm25s: Any, model: Any, texts: list[str], top_k: int) -> Any:
    """The places and scores of what bm25s finds for ``texts``."""
    tokens = bm25s.tokenize(texts, show_progress=False)
    return model.retrieve(tokens, k=top_k, show_progress=False, backend_selection="numpy")


@dataclass(frozen=True)
class Round:
    """The times of one round."""

    whole: Seconds
    scoring: Seconds
    own: Seconds
    opening: Seconds

    @property
    def around(self) -> Seconds:
        """What is neither the retriever's own nor opening."""
        return self.whole - self.own - self.opening


def write_case(folder: Path, name: str, count: int, queries: int) -> None:
    """The config of a case, its documents and its labels: two documents for each query, of any."""
    if name in ("dense", "chroma"):
        from search import like_embeddings

        documents = [{"_id": f"d{number}", "title": "", "text": f"document {number}"} for number in range(count)]
        texts = [f"query {number}" for number in range(queries)]
        given = [one["text"] for one in documents]
        shelf.vectors = dict(zip(given, like_embeddings(count, DIMENSION, seed=1), strict=True))
        shelf.vectors |= dict(zip(texts, like_embeddings(queries, DIMENSION, seed=2), strict=True))
    else:
        documents = shelf.passages(count) if name == "passages" else shelf.documents
        repeated = shelf.queries * (queries // len(shelf.queries) + 1)
        texts = [f"{text} {number}" for number, text in enumerate(repeated[:queries])]
    rows = [json.dumps(one) for one in documents]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    labelled = []
    for number, text in enumerate(texts):
        judged = [documents[place % len(documents)]["_id"] for place in (7 * number, 7 * number + 3)]
        labelled.append({"id": str(number), "text": text, "relevant_docs": [{"doc": one} for one in judged]})
    (folder / "prompt_queries.json").write_text(json.dumps({"queries": labelled}), encoding="utf-8")
    store = "chroma" if name == "chroma" else "exact"
    (folder / "config.yaml").write_text(CONFIG.format(store=store, retriever=RETRIEVERS[name]), encoding="utf-8")


def clocked(setting: Setting) -> Setting:
    """The same setting with clocks in its retriever; of a function of the user's that has its own."""
    if isinstance(setting.retriever, CustomRetriever):
        return setting
    kind = CLOCKED[type(setting.retriever)]
    return replace(setting, retriever=kind.model_validate(setting.retriever.model_dump(exclude_unset=True)))


def one_round(folder: Path, profiler: cProfile.Profile | None = None) -> Round:
    """The rankings and scores of the case in ``folder``, computed in a new run."""
    for kind in REMADE:
        shutil.rmtree(folder / "workspace" / kind, ignore_errors=True)
    run = Run.of(load_config(folder / "config.yaml"))
    run = replace(run, settings=[clocked(one) for one in run.settings])
    run.check()
    before, setting = run.settings
    if setting.has_index:
        index = run.corpus.stages(setting).index
        assert index is not None
        run.corpus.runner.artefact(index)
    run.score(before, RunOutcome())
    own.spent = opening.spent = Seconds()
    Clock.profiler = profiler
    with profiler or nullcontext():
        start = Seconds.now()
        ranked = run.graph.result(setting)
        whole = Seconds.now() - start
        run.scorer.score(ranked)
        scoring = Seconds.now() - start - whole
    Clock.profiler = None
    return Round(whole, scoring, own.spent, opening.spent)


def clocked_opening(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, which opens something, with the clock of opening."""

    def timed(*given: Any, **named: Any) -> Any:
        with opening.runs():
            return function(*given, **named)

    return timed


def measured(name: str, count: int, queries: int, rounds: int, *, profile: bool) -> list[Round]:
    """The rounds of one case, without the first, which makes what is searched."""
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        write_case(folder, name, count, queries)
        one_round(folder)
        if profile:
            profiler = cProfile.Profile(time.process_time)
            for _ in range(rounds):
                one_round(folder, profiler)
            for order in ("cumulative", "tottime"):
                pstats.Stats(profiler).sort_stats(order).print_stats(50)
        return [one_round(folder) for _ in range(rounds)]


def row(name: str, rounds: Sequence[Round], queries: int) -> dict[str, Any]:
    """One line of the table for each clock, printed at once. Shares are medians of those of single rounds."""
    made: dict[str, Any] = {"case": name, "rounds": len(rounds)}
    for clock in ("cpu", "wall"):
        times = {part: [getattr(getattr(one, part), clock) for one in rounds] for part in PARTS}
        shares = [around / its for around, its in zip(times["around"], times["own"], strict=True)]
        whole = [
            (one + two) / its for one, two, its in zip(*(times[part] for part in PARTS[2:]), times["own"], strict=True)
        ]
        medians = {part: statistics.median(given) for part, given in times.items()}
        made[clock] = {
            **medians,
            "microseconds_per_query": medians["around"] / queries * 1e6,
            "share": statistics.median(shares),
            "share_with_scoring": statistics.median(whole),
            "lowest": min(shares),
            "highest": max(shares),
        }
        print(
            f"{name:<24} {clock:<5} {medians['own']:>8.3f} s {medians['opening']:>8.3f} s "
            f"{medians['around'] * 1000:>8.1f} ms {made[clock]['microseconds_per_query']:>8.1f} us "
            f"{made[clock]['share']:>7.1%}  ({min(shares):.1%} to {max(shares):.1%}) "
            f"{medians['scoring'] * 1000:>8.1f} ms {statistics.median(whole):>7.1%}",
            flush=True,
        )
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    data = os.environ.get("RAGTRIAL_TEST_DATA")
    parser.add_argument("--beir", type=Path, default=Path(data) / "scifact" if data else None, required=not data)
    parser.add_argument("--vectors", type=int, default=100_000)
    parser.add_argument("--chroma", type=int, default=20_000, help="vectors of the index that Chroma searches")
    parser.add_argument("--passages", type=int, default=100_000, help="texts of the larger index of bm25")
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", choices=list(RETRIEVERS), action="append", help="only this one; may be repeated")
    parser.add_argument("--profile", action="store_true", help="print where the time of a round goes, too")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    shelf.beir = options.beir
    sys.modules["overhead"] = sys.modules["__main__"]  # whose clocks and shelf the functions of the configs use
    results.AUDITED_BELOW = 0  # type: ignore[attr-defined]  # what it imports, set for this measurement
    IndexStage.open = clocked_opening(IndexStage.open)  # type: ignore[method-assign]  # what opens the indexes
    ChromaEngine.close = clocked_opening(ChromaEngine.close)  # type: ignore[method-assign]  # Chroma stops its threads
    about = {"date": datetime.now(UTC).isoformat(timespec="seconds"), "load": os.getloadavg()[0], **environment()}
    print(f"{options.queries:,} queries; load {about['load']:.1f}, {about['cpus']} CPUs, {about['system']}")
    print(
        f"{'':<30} {'own':>10} {'opening':>10} {'around':>11} {'a query':>11} {'share':>7}  (of single rounds)", end=""
    )
    print(f"{'scoring':>11} {'both':>7}")
    counts = {"dense": options.vectors, "chroma": options.chroma, "bm25": 0, "passages": options.passages, "custom": 0}
    rows = []
    for name in options.case or counts:
        rounds = measured(name, counts[name], options.queries, options.rounds, profile=options.profile)
        rows.append(row(f"{name}, {counts[name] or len(shelf.documents):,} texts", rounds, options.queries))
    if options.json:
        options.json.write_text(json.dumps({"about": about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    refuse_if_busy()
    main()
