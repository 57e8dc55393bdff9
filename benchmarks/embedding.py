"""What caching costs: embedding through ragtrial against sentence-transformers alone, on the same sorted texts.

    python benchmarks/embedding.py [--texts 200] [--rounds 9] [--corpus data/support]

Paired and interleaved: in every round both embed the same texts, in alternating order, each with an empty cache.
Prints the median of the ratios; above 1 is slower than sentence-transformers alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from quiet import refuse_if_busy

from ragtrial.components.batching import TextList
from ragtrial.components.chunkers import base as cutting
from ragtrial.components.chunkers.plain import RecursiveChunker
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.rankings import Floats


def no_vectors(texts: Sequence[str]) -> Floats:
    raise AssertionError(f"a chunker by size embeds nothing, and was to embed {len(texts)} texts")


def chunk_texts(corpus: Path, count: int) -> list[str]:
    """The first chunks of a corpus, longest first: the order that sentence-transformers sorts into."""
    tokenizer = SentenceTransformerEmbedder().tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        Library.write(corpus, Path(folder))
        library = Library(Path(folder))
        cutting.cut(library, RecursiveChunker(), tokenizer, lambda _: None, no_vectors).write(Path(folder))
        texts = list(IndexedTexts(Chunks(library, Path(folder))).indexed_texts())[:count]
    return sorted(texts, key=len, reverse=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--texts", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--corpus", type=Path, default=Path(__file__).parents[1] / "data" / "support")
    options = parser.parse_args()
    texts = chunk_texts(options.corpus, options.texts)

    from sentence_transformers import SentenceTransformer

    from ragtrial.components.embedders.model_files import find_model

    alone = SentenceTransformer(str(find_model(SentenceTransformerEmbedder().model)), device="cpu")
    with tempfile.TemporaryDirectory() as warm:
        ours = CachedEmbedder(SentenceTransformerEmbedder(device="cpu"), Path(warm))
        encode = ours.embed_now
        encode(texts[:32])
    alone.encode(texts[:32], batch_size=32)

    def run_alone() -> Floats:
        vectors: Floats = alone.encode(texts, batch_size=32, normalize_embeddings=True)
        return vectors

    def run_ours() -> Floats:
        with tempfile.TemporaryDirectory() as folder:
            ours.path = Path(folder) / ours.path.name
            embedded = ours.embed(TextList(texts), "", ours.lengths(TextList(texts), ""))
            return np.concatenate(list(embedded.blocks()))

    ratios, seconds = [], []
    for number in range(options.rounds):
        order = (run_alone, run_ours) if number % 2 == 0 else (run_ours, run_alone)
        times = {}
        for function in order:
            start = time.perf_counter()
            function()
            times[function] = time.perf_counter() - start
        ratios.append(times[run_ours] / times[run_alone])
        seconds.append(times[run_alone])
        print(f"round {number + 1}: alone {times[run_alone]:.2f} s, ragtrial {times[run_ours]:.2f} s", flush=True)
    difference = float(np.abs(run_alone() - run_ours()).max())
    print(f"{len(texts)} texts, median of {options.rounds}: {statistics.median(ratios):.4f} times the time of")
    print(f"sentence-transformers alone ({statistics.median(seconds):.2f} s); largest difference {difference:.1e}")
    print(f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}")


if __name__ == "__main__":
    refuse_if_busy()
    main()
