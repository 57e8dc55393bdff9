"""What the retriever `bm25` costs around bm25s: the same terms, the same rankings, and the time of both.

    python benchmarks/bm25.py [--chunks 20000] [--queries 1000] [--depth 10] [--rounds 7]
                              [--data BEIR_FOLDER] [--json PATH]

Texts are random, of words as frequent as Zipf's law has them; with ``--data`` they are the documents and questions of a
folder in the BEIR layout, repeated or cut to ``--queries``. bm25s is used directly: ``BM25.index`` over the same terms,
``BM25.retrieve`` with ``backend_selection="numpy"`` for all questions at once. Its rankings are compared with ours:
scores must be equal to the last bit, and so must the chunks wherever a score is not that of several chunks (of these
bm25s returns any). Paired and interleaved, in alternating order; the first round warms up.

Prints medians and the median of the ratios of single rounds: our search from term codes against ``retrieve`` from term
codes (what is around the library), and our whole search from texts against it (with the terms of the questions).
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from quiet import refuse_if_busy

from ragtrial.components.terms import Analyzer, TermIndex, TermLists, Weighting, stop_words_of
from ragtrial.rankings import PADDING, Rankings

WEIGHTING = Weighting("lucene", 1.2, 0.75, 0.0)
VOCABULARY = 50_000


def random_texts(count: int, length: int, seed: int) -> Iterator[str]:
    """Texts of about ``length`` words; the word of rank r comes with a frequency of about 1 / r."""
    random = np.random.default_rng(seed)
    weights = 1 / np.arange(1, VOCABULARY + 1)
    bounds = np.cumsum(weights / weights.sum())
    for size in random.poisson(length, count).tolist():
        yield " ".join(f"w{rank}x" for rank in np.searchsorted(bounds, random.random(size)).tolist())


def rows_of(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def compared(ours: Callable[[], object], theirs: Callable[[], object], rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of every round of both, without the first."""
    seconds: dict[Callable[[], object], list[float]] = {ours: [], theirs: []}
    for number in range(rounds + 1):
        for function in (ours, theirs) if number % 2 else (theirs, ours):
            start = time.perf_counter()
            function()
            seconds[function].append(time.perf_counter() - start)
    return seconds[ours][1:], seconds[theirs][1:]


def row(name: str, ours: list[float], theirs: list[float]) -> dict[str, Any]:
    """One line of the table, printed at once."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    made = {
        "what": name,
        "seconds": statistics.median(ours),
        "theirs": statistics.median(theirs),
        "ratio": statistics.median(ratios),
        "lowest": min(ratios),
        "highest": max(ratios),
        "rounds": len(ratios),
    }
    print(
        f"{name:<34} {made['seconds']:>8.4f} s {made['theirs']:>8.4f} s {made['ratio']:>6.2f}  "
        f"({made['lowest']:.2f} to {made['highest']:.2f})",
        flush=True,
    )
    return made


def differing(made: Rankings, documents: Any, scores: Any) -> int:
    """How many questions bm25s ranks otherwise, but for the order of equal scores and what has no word of them."""
    wrong = 0
    for codes, ours, theirs, other in zip(made.codes, made.scores, documents, scores, strict=True):
        count = int((codes != PADDING).sum())
        last = float(other[-1])
        alone = [place for place in range(count) if (other == other[place]).sum() == 1 and other[place] != last]
        same = np.array_equal(ours[:count], other[:count]) and not (other[count:] > 0).any()
        wrong += not (same and all(codes[place] == theirs[place] for place in alone))
    return wrong


def machine() -> dict[str, Any]:
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs",
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ("numpy", "bm25s", "PyStemmer")},
    }


def texts_and_questions(options: argparse.Namespace) -> tuple[Sequence[tuple[str, str]], list[str]]:
    if options.data:
        documents = [(one.get("title", ""), one["text"]) for one in rows_of(options.data / "corpus.jsonl")]
        asked = [one["text"] for one in rows_of(options.data / "queries.jsonl")]
        return documents, (asked * (options.queries // len(asked) + 1))[: options.queries]
    documents = [("", text) for text in random_texts(options.chunks, 150, seed=1)]
    return documents, list(random_texts(options.queries, 8, seed=2))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--chunks", type=int, default=20_000)
    parser.add_argument("--queries", type=int, default=1_000)
    parser.add_argument("--depth", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    texts, questions = texts_and_questions(options)
    analyzer = Analyzer("english", stop_words_of("english"))
    about = machine()
    print(f"{len(texts):,} texts, {len(questions):,} questions, the best {options.depth}; {about}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        start = time.perf_counter()
        TermLists.write(folder, texts, analyzer, 1)
        lists = TermLists(folder)
        read = time.perf_counter()
        TermIndex.write(folder, lists, WEIGHTING)
        ours = TermIndex(folder, lists.vocabulary, np.arange(len(lists)))
        print(f"reading {lists.total:,} terms {read - start:.1f} s, weighing them {time.perf_counter() - read:.1f} s")
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{len(lists.vocabulary):,} distinct; the most memory so far {peak:,.0f} MiB")
        rows = measured(ours, lists, analyzer, questions, options)
    if options.json:
        options.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


def measured(
    ours: TermIndex, lists: TermLists, analyzer: Analyzer, questions: list[str], options: argparse.Namespace
) -> list[dict[str, Any]]:
    import bm25s

    theirs = bm25s.BM25(k1=WEIGHTING.k1, b=WEIGHTING.b, method=WEIGHTING.method)
    theirs.index(bm25s.tokenization.Tokenized([*lists], {**lists.vocabulary}), show_progress=False)
    codes = [ours.known(analyzer.terms(question)) for question in questions]
    answered = [row for row in codes if row]

    def retrieve() -> Any:
        return theirs.retrieve(answered, k=options.depth, show_progress=False, backend_selection="numpy")

    def whole() -> Rankings:
        return ours.search([ours.known(analyzer.terms(question)) for question in questions], options.depth)

    wrong = differing(ours.search(answered, options.depth), *retrieve())
    print(f"rankings that differ: {wrong} of {len(answered):,} ({len(questions) - len(answered)} have no known word)")
    print(f"{'':<34} {'ragtrial':>10} {'bm25s':>10} {'ratio':>6}  (of single rounds)")
    return [
        row("from codes of terms", *compared(lambda: ours.search(answered, options.depth), retrieve, options.rounds)),
        row("from the texts of questions", *compared(whole, retrieve, options.rounds)),
    ]


if __name__ == "__main__":
    refuse_if_busy()
    main()
