"""A corpus larger than memory: texts and vectors pass through every stage in parts."""

import json
import random
import resource
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limit on memory is one of Linux")

MEGABYTE = 10**6
SPARE = 50 * MEGABYTE
"""How much more memory a large run is allowed than what a tiny one takes, most of which are the libraries."""

FUNCTION = """
import zlib
import numpy as np

def embed(texts):
    made = np.empty((len(texts), DIMENSION), dtype=np.float32)
    for row, text in enumerate(texts):
        drawn = np.random.Generator(np.random.SFC64(zlib.crc32(text[:80].encode())))
        made[row] = drawn.random(DIMENSION, dtype=np.float32)
    return made
"""


def write_corpus(folder: Path, documents: int, words: int, dimension: int, kind: str) -> Path:
    """An experiment over so many documents of so many words; the path of its config."""
    folder.mkdir()
    drawn = random.Random(0)
    vocabulary = [f"word{number}" for number in range(3_000)]
    passages = [" ".join(drawn.choices(vocabulary, k=words // 10)) for _ in range(50)]
    with (folder / "corpus.jsonl").open("w") as corpus:
        for number in range(documents):
            text = f"Number {number} begins here. " + " ".join(drawn.choices(passages, k=10))
            corpus.write(json.dumps({"_id": f"d{number}", "text": text}) + "\n")
    # Several, so that the tiny run multiplies matrices, too: that takes memory of its own.
    queries = [{"id": f"q{n}", "text": f"Number {n} begins", "relevant_docs": [{"doc": f"d{n}"}]} for n in range(40)]
    (folder / "queries.json").write_text(json.dumps({"queries": queries}))
    (folder / "large.py").write_text(FUNCTION.replace("DIMENSION", str(dimension)))
    config = {
        "experiment": "large",
        "dataset": {"corpus": "corpus.jsonl", "queries": "queries.json"},
        "chunker": {"kind": "document"},
        "embedder": {"kind": "custom", "function": "large:embed", "batch_size": 256},
        "retrievers": {"dense": {"kind": "dense", "store": {"kind": kind}}},
        "latency": False,
    }
    (folder / "config.yaml").write_text(json.dumps(config))
    return folder / "config.yaml"


def run(config: Path, limit: int | None = None) -> tuple[subprocess.CompletedProcess[str], int]:
    """What a run says that may take so many bytes of data memory (not counting mapped files); the most it took."""

    def restrict() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

    command = [sys.executable, "-m", "ragtrial", "run", str(config), "--json"]
    # The threads that come with more cores would each take some of it.
    environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "HF_HUB_OFFLINE"), "1")
    environment |= {"XDG_CACHE_HOME": str(config.parent / "cache"), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=restrict, env=environment
    )
    most = 0

    def watch() -> None:
        nonlocal most
        while process.poll() is None:
            try:
                status = Path(f"/proc/{process.pid}/status").read_text()
            except OSError:
                return
            taken = [int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmData")]
            most = max(most, *taken, 0)
            time.sleep(0.01)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = process.communicate(timeout=300)
    watcher.join()
    return subprocess.CompletedProcess(command, process.returncode, out, err), most


@pytest.mark.parametrize(
    ("kind", "documents", "words", "dimension"),
    [
        pytest.param("exact", 11_500, 900, 1_600, id="vectors of 74 MB and texts of 93 MB, exact"),
        pytest.param("chroma", 2_000, 9_000, 64, id="texts of 156 MB, Chroma"),
    ],
)
def test_a_corpus_several_times_larger_than_memory_goes_through(
    tmp_path: Path, kind: str, documents: int, words: int, dimension: int
) -> None:
    tiny, base = run(write_corpus(tmp_path / "tiny", 50, 100, dimension, kind))
    assert tiny.returncode == 0, tiny.stderr
    config = write_corpus(tmp_path / "large", documents, words, dimension, kind)
    size = (config.parent / "corpus.jsonl").stat().st_size + documents * dimension * 4
    assert size > 3 * SPARE
    large, most = run(config, base + SPARE)
    assert large.returncode == 0, large.stderr
    assert most <= base + SPARE
    (setting,) = json.loads(large.stdout)["settings"]
    assert setting["scores"]["hit_rate@10"]["n"] == 40
    assert len(list((config.parent / "cache" / "ragtrial" / "embeddings").glob("*/vectors.npy"))) == 1
