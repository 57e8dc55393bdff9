"""What locating the passages of labels costs.

    python benchmarks/labels.py [--passages 100000] [--documents 10000] [--characters 2000] [--fuzzy 1000] [--rounds 3]

The documents are made: words of 1 to 10 letters, the n-th as frequent as 1/n. Passages are pieces of them, 60 to 300
characters from anywhere, inside words too; of a hundred, 10 have other white space, 10 are in upper case, and 5 have a
letter too many, which is nowhere. Medians of the rounds; `own` means that each passage comes with its document, as
quotes do under `match: id`; `fuzzy` is what finding so many of the lost ones by likeness costs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import random
import resource
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from quiet import refuse_if_busy

from ragtrial.dataset.library import Library
from ragtrial.dataset.locating import PassageMatch, PassageQuery, locate_all

LETTERS = "etaoinshrdlucmfwypvbgkjqxz"


def made_texts(rng: random.Random, documents: int, characters: int) -> list[str]:
    weights = [1 / (place + 1) for place in range(len(LETTERS))]
    words = ["".join(rng.choices(LETTERS, weights=weights, k=rng.randint(1, 10))) for _ in range(20_000)]
    totals: list[float] = []
    for place in range(len(words)):
        totals.append((totals[-1] if totals else 0.0) + 1 / (place + 1))
    return [" ".join(rng.choices(words, cum_weights=totals, k=characters // 2))[:characters] for _ in range(documents)]


def made_passages(rng: random.Random, texts: list[str], count: int) -> list[PassageQuery]:
    """Pieces of the texts, each with the document that it was cut from."""
    made = []
    for number in range(count):
        document, size = rng.randrange(len(texts)), rng.randint(60, 300)
        start = rng.randrange(len(texts[document]) - size)
        piece = texts[document][start : start + size]
        kind = number % 100
        if kind < 10:
            piece = piece.replace(" ", "\n")
        elif kind < 20:
            piece = piece.upper()
        elif kind < 25:
            piece = f"{piece[: size // 2]}@{piece[size // 2 :]}"
        made.append(PassageQuery(piece, document))
    return made


def median(rounds: int, work: Callable[[], list[PassageMatch]]) -> tuple[float, list[PassageMatch]]:
    times, found = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        found = work()
        times.append(time.perf_counter() - start)
    return statistics.median(times), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("passages", 100_000), ("documents", 10_000), ("characters", 2000), ("fuzzy", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {platform.machine()}, {os.cpu_count()} cores, Python", end=" ")
    print(platform.python_version())
    rng = random.Random(0)
    texts = made_texts(rng, options.documents, options.characters)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = (json.dumps({"_id": str(number), "text": text}) + "\n" for number, text in enumerate(texts))
        (folder / "corpus.jsonl").write_text("".join(rows))
        Library.write(folder / "corpus.jsonl", folder)
        library = Library(folder)
        own = made_passages(rng, texts, options.passages)
        del texts
        anywhere = [PassageQuery(one.text) for one in own]
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, found = median(options.rounds, lambda: locate_all(anywhere, library))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        print(f"anywhere  {seconds:8.2f} s  +{grown:.0f} MiB at most  {dict(Counter(one.how for one in found))}")
        lost = [one for one, where in zip(anywhere, found, strict=True) if where.how == "lost"][: options.fuzzy]
        seconds, found = median(options.rounds, lambda: locate_all(own, library))
        print(f"own       {seconds:8.2f} s  {dict(Counter(one.how for one in found))}")
        seconds, found = median(options.rounds, lambda: locate_all(lost, library, fuzzy=0.8))
        print(f"fuzzy     {seconds:8.2f} s  {len(lost):,} passages, {dict(Counter(one.how for one in found))}")


if __name__ == "__main__":
    refuse_if_busy()
    main()
