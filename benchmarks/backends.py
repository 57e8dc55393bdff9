"""How fast the backends and precisions of a local model embed, and how near their vectors are to torch's float32.

    python benchmarks/backends.py [--texts 200] [--rounds 3] [--corpus data/support]

Interleaved: in every round each embeds the same texts, so that other programs slow all of them alike; the fastest round
counts. A backend whose packages are not installed is left out. Prints a table in Markdown, and the load.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

import numpy as np
from embedding import chunk_texts
from quiet import refuse_if_busy

from ragtrial.components.embedders.backends import Backend, Precision
from ragtrial.components.embedders.base import Encode
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.engines.base import normalized
from ragtrial.errors import RagtrialError
from ragtrial.rankings import Floats

COMBINATIONS: tuple[tuple[Backend, Precision], ...] = (
    ("torch", "float32"),
    ("torch", "bfloat16"),
    ("openvino", "float32"),
    ("openvino", "bfloat16"),
)


def processor() -> str:
    lines = Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines()
    known = [line.partition(":")[2] for line in lines if line.startswith(("flags", "model name"))]
    model, flags = (known[0].strip(), known[1].split()) if len(known) > 1 else ("", [])
    return f"{model} ({', '.join(one for one in ('avx512_bf16', 'amx_bf16', 'avx512_vnni', 'avx2') if one in flags)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--corpus", type=Path, default=Path(__file__).parents[1] / "data" / "support")
    options = parser.parse_args()
    texts = chunk_texts(options.corpus, options.texts)
    tokenizer = SentenceTransformerEmbedder().tokenizer()
    tokens = 0 if tokenizer is None else int(np.minimum(tokenizer.counts(texts), 256).sum())

    models: dict[tuple[Backend, Precision], Encode] = {}
    for backend, precision in COMBINATIONS:
        embedder = SentenceTransformerEmbedder(device="cpu", backend=backend, precision=precision)
        try:
            embedder.check()
            models[backend, precision] = embedder.load()
        except RagtrialError as error:
            print(f"left out: {error}", flush=True)
            continue
        models[backend, precision](texts[:16])

    seconds: dict[tuple[Backend, Precision], list[float]] = {one: [] for one in models}
    vectors: dict[tuple[Backend, Precision], Floats] = {}
    for _ in range(options.rounds):
        for one, encode in models.items():
            start = time.perf_counter()
            made = encode(texts)
            seconds[one].append(time.perf_counter() - start)
            vectors[one] = normalized(np.asarray(made, dtype=np.float32))

    exact = COMBINATIONS[0]
    print("| backend | precision | tokens/s | times as fast | mean cosine | lowest |\n|---|---|--:|--:|--:|--:|")
    for one, times in seconds.items():
        cosines = np.einsum("ij,ij->i", vectors[one], vectors[exact])
        faster = min(seconds[exact]) / min(times)
        figures = f"{tokens / min(times):,.0f} | {faster:.1f} | {cosines.mean():.5f} | {cosines.min():.5f}"
        print(f"| {one[0]} | {one[1]} | {figures} |")
    print(f"{len(texts)} texts, {tokens:,} tokens, fastest of {options.rounds} rounds; {processor()},")
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")


if __name__ == "__main__":
    refuse_if_busy()
    main()
