"""How fast the number formats of a local model embed, and how near their vectors are to those of float32.

    python benchmarks/precision.py [--texts 200] [--rounds 3] [--corpus data/support]

Interleaved: in every round each embeds the same texts, so that other programs slow all of them alike; the fastest round
counts. Prints a table in Markdown, and the load.
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

from ragtrial.components.embedders.base import Encode
from ragtrial.components.embedders.model_files import Precision
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.engines.base import normalized
from ragtrial.rankings import Floats

PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")


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

    models: dict[Precision, Encode] = {}
    for precision in PRECISIONS:
        models[precision] = SentenceTransformerEmbedder(device="cpu", precision=precision).load()
        models[precision](texts[:16])

    seconds: dict[Precision, list[float]] = {precision: [] for precision in models}
    vectors: dict[Precision, Floats] = {}
    for _ in range(options.rounds):
        for precision, encode in models.items():
            start = time.perf_counter()
            encoded = encode(texts)
            seconds[precision].append(time.perf_counter() - start)
            vectors[precision] = normalized(np.asarray(encoded, dtype=np.float32))

    print("| precision | tokens/s | times as fast | mean cosine | lowest |\n|---|--:|--:|--:|--:|")
    for precision, times in seconds.items():
        cosines = np.einsum("ij,ij->i", vectors[precision], vectors["float32"])
        faster = min(seconds["float32"]) / min(times)
        figures = f"{tokens / min(times):,.0f} | {faster:.1f} | {cosines.mean():.5f} | {cosines.min():.5f}"
        print(f"| {precision} | {figures} |")
    print(f"{len(texts)} texts, {tokens:,} tokens, fastest of {options.rounds} rounds; {processor()},")
    print(f"{os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}, Python {platform.python_version()}")


if __name__ == "__main__":
    refuse_if_busy()
    main()
