"""Workers: how fast they embed beside bare processes, and what is left after thirty kills.

    python benchmarks/executors.py throughput [--texts 256] [--rounds 5] [--workers 2]
    python benchmarks/executors.py kills [--kills 30] [--run-kills 30] [--seed 0]

`throughput`: as many processes that do nothing but `SentenceTransformer.encode` get the same texts, shared out evenly.
Both have loaded their models; they take turns. Prints the median of the ratios; above 1 is faster than bare processes.
The same for processor time.

`kills`: a SIGKILL to a random worker at random moments; then to the run itself, with workers, until it is through.
Prints whether the bytes are those of an undisturbed run, how many texts were embedded again, and how long the last
process that a killed run had started took to end.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Event, Thread

import numpy as np
import psutil
from embedding import chunk_texts
from quiet import refuse_if_busy

from ragtrial.components.batching import TextList
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.custom import CustomEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.components.executors.processes import ProcessExecutor
from ragtrial.components.user_functions import FunctionReference
from ragtrial.rankings import Floats

WORKERS = 2
BATCH = 8
FUNCTION = """
import hashlib
import os
from pathlib import Path

ASKED = Path(__file__).parent / "asked"
ASKED.mkdir(exist_ok=True)


def embed(texts):
    with (ASKED / str(os.getpid())).open("a") as asked:
        asked.write(f"{len(texts)}\\n")
    made = [hashlib.pbkdf2_hmac("sha256", text.encode(), b"", 5_000) for text in texts]
    return [[1.0 + byte for byte in digest] for digest in made]
"""


def embedded(cached: CachedEmbedder, texts: Sequence[str]) -> Floats:
    source = TextList(texts)
    return np.concatenate(list(cached.embed(source, "", cached.lengths(source, "")).blocks()))


def bare(model: str, texts: Sequence[str], threads: int, end: Connection) -> None:
    """A process that loads the model, and embeds all of ``texts`` each time it is asked."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(threads)
    alone = SentenceTransformer(model, device="cpu")
    alone.encode(list(texts[:32]))
    end.send("loaded")
    while end.recv() == "go":
        alone.encode(list(texts), batch_size=32, normalize_embeddings=True)
        end.send("done")


class BareProcesses:
    """Processes that do nothing but encode, each its share of ``texts``."""

    def __init__(self, embedder: SentenceTransformerEmbedder, texts: Sequence[str], count: int, threads: int) -> None:
        from ragtrial.components.embedders.model_files import find_model

        context, model = get_context("spawn"), str(find_model(embedder.model))
        self.ends = []
        self.pids = set[int]()
        for number in range(count):
            mine, other = context.Pipe()
            arguments = (model, texts[number::count], threads, other)
            process = context.Process(target=bare, args=arguments, daemon=True)
            process.start()
            self.pids.add(process.pid or 0)
            self.ends.append(mine)
        self.wait()

    def wait(self) -> None:
        for end in self.ends:
            end.recv()

    def say(self, what: str) -> None:
        for end in self.ends:
            end.send(what)


def processor_seconds(bare_ones: set[int]) -> dict[bool, float]:
    """What the processes of the benchmark have used so far: bare ones (True), and all others together."""
    used = {True: 0.0, False: 0.0}
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        times = process.cpu_times()
        used[process.pid in bare_ones] += times.user + times.system
    return used


def throughput(options: argparse.Namespace) -> None:
    texts, embedder = chunk_texts(options.corpus, options.texts), SentenceTransformerEmbedder(device="cpu")
    executor = ProcessExecutor(workers=options.workers)
    threads = int(executor.environment(0)["OMP_NUM_THREADS"])
    processes = BareProcesses(embedder, texts, options.workers, threads)
    ours = CachedEmbedder(embedder, Path(), start=executor.start)

    def run_bare() -> None:
        processes.say("go")
        processes.wait()

    def run_ours() -> None:
        with tempfile.TemporaryDirectory() as folder:
            ours.path = Path(folder, ours.path.name)  # an empty cache, and the same workers
            embedded(ours, texts)

    run_ours()  # which loads the models
    ratios, processor_ratios = [], []
    for number in range(options.rounds):
        times, processor = {}, {}
        for function in (run_bare, run_ours) if number % 2 == 0 else (run_ours, run_bare):
            start, used = time.perf_counter(), processor_seconds(processes.pids)
            function()
            times[function] = time.perf_counter() - start
            is_bare = function is run_bare
            processor[function] = processor_seconds(processes.pids)[is_bare] - used[is_bare]
        ratios.append(times[run_bare] / times[run_ours])
        processor_ratios.append(processor[run_bare] / processor[run_ours])
        print(
            f"round {number + 1}: bare {times[run_bare]:.2f} s (processor {processor[run_bare]:.2f} s), "
            f"ragtrial {times[run_ours]:.2f} s (processor {processor[run_ours]:.2f} s)",
            flush=True,
        )
    processes.say("end")
    ours.release()
    print(f"{len(texts)} texts, {options.workers} workers of {threads} threads, load {os.getloadavg()[0]:.0f}")
    print(
        f"median of {options.rounds}: {statistics.median(ratios):.3f} times the throughput of bare "
        f"processes, {statistics.median(processor_ratios):.3f} times by processor time"
    )


def embed_in(folder: Path, texts: int) -> Floats:
    """What a run embeds in ``folder``, with workers, beside what is in the cache there."""
    (folder / "hashing.py").write_text(FUNCTION)
    embedder = CustomEmbedder(function=FunctionReference("hashing:embed", folder), batch_size=BATCH, version="1")
    cached = CachedEmbedder(embedder, folder / "vectors", start=ProcessExecutor(workers=WORKERS).start)
    made = embedded(cached, [f"text {number}" for number in range(texts)])
    cached.release()
    return made


def asked_in(folder: Path) -> int:
    """How many texts were embedded so far."""
    return sum(int(line) for file in (folder / "asked").glob("*") for line in file.read_text().splitlines())


def kill_workers(folder: Path, texts: int, kills: int, chance: random.Random) -> tuple[Floats, int]:
    """What is embedded while workers are killed, and how often one was."""
    over, done = Event(), list[int]()

    def kill() -> None:
        seen = 0
        while len(done) < kills and not over.wait(chance.uniform(0.05, 0.3)):
            names = [path.name for path in (folder / "asked").glob("*")]
            alive = [int(name) for name in names if Path("/proc", name).exists() and int(name) != os.getpid()]
            if alive and (asked := asked_in(folder)) >= seen + 4 * BATCH:  # more often, no batch would be finished
                os.kill(chance.choice(alive), signal.SIGKILL)
                done.append(1)
                seen = asked

    thread = Thread(target=kill)
    thread.start()
    made = embed_in(folder, texts)
    over.set()
    thread.join()
    return made, len(done)


def kill_runs(folder: Path, texts: int, kills: int, chance: random.Random) -> tuple[Floats, int]:
    """What is embedded by runs that are killed one after another, each a few batches after it began; and how many."""
    longest = 0.0
    for done in range(kills):
        enough = asked_in(folder) + chance.randint(1, 8) * BATCH
        run = subprocess.Popen([sys.executable, __file__, "embed", str(folder), str(texts)])
        while run.poll() is None and asked_in(folder) < enough:
            time.sleep(0.01)
        started = psutil.Process(run.pid).children(recursive=True) if run.poll() is None else []
        run.kill()
        start = time.perf_counter()
        if run.wait() == 0:
            return embed_in(folder, texts), done
        while any(one.is_running() for one in started):
            time.sleep(0.01)
        longest = max(longest, time.perf_counter() - start)
    print(f"the last process of a killed run ended {longest:.1f} s after it, at most")
    return embed_in(folder, texts), kills


def kills(options: argparse.Namespace) -> None:
    chance = random.Random(options.seed)
    with tempfile.TemporaryDirectory() as top:
        for place in ("undisturbed", "workers", "runs"):
            Path(top, place).mkdir()
        expected = embed_in(Path(top, "undisturbed"), options.texts)
        for place, killing, count in (("workers", kill_workers, options.kills), ("runs", kill_runs, options.run_kills)):
            made, done = killing(Path(top, place), options.texts, count, chance)
            again = asked_in(Path(top, place)) - options.texts
            same = "the same bytes" if made.tobytes() == expected.tobytes() else "OTHER BYTES"
            print(f"{done} kills of {place}: {same}; {again} of {options.texts} texts embedded again", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    modes = parser.add_subparsers(dest="mode", required=True)
    fast = modes.add_parser("throughput")
    fast.add_argument("--texts", type=int, default=256, help="more than 128: so few are embedded without workers")
    fast.add_argument("--rounds", type=int, default=5)
    fast.add_argument("--workers", type=int, default=WORKERS)
    fast.add_argument("--corpus", type=Path, default=Path(__file__).parents[1] / "data" / "support")
    killed = modes.add_parser("kills")
    killed.add_argument("--kills", type=int, default=30)
    killed.add_argument("--texts", type=int, default=8_000)
    killed.add_argument("--seed", type=int, default=0)
    killed.add_argument("--run-kills", type=int, default=30)
    inner = modes.add_parser("embed")
    inner.add_argument("folder", type=Path)
    inner.add_argument("texts", type=int)
    options = parser.parse_args()
    if options.mode == "embed":
        embed_in(options.folder, options.texts)
    else:
        {"throughput": throughput, "kills": kills}[options.mode](options)


if __name__ == "__main__":
    refuse_if_busy()
    main()
