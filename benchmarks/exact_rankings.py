"""Every store, set to compare all vectors, held against exact search on real texts.

    python benchmarks/exact_rankings.py DATA [--kinds NAME ...] [--depth N] [--vectors FOLDER]

DATA has the folders scifact and xquad_en. All texts are embedded with the packaged MiniLM; the vectors are kept in
FOLDER. Each kind of store, in a folder and on a server, ranks them in each space. Prints how many ranks have another
unit than exact search and how far apart the two are, and names each pair of tied units. Exits with 1 if a store gives
fewer hits, or two units change places that are not tied.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from exact_settings import TIED, Swap, swaps

from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.engines import Vectors
from ragtrial.rankings import Floats
from store_kinds import KINDS, SPACES, found_by
from vector_oracles import vectors_of

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
SETS = ("scifact", "xquad_en")


class Data(NamedTuple):
    """A data set: ids of its documents and judged queries, and their vectors."""

    documents: list[str]
    vectors: Vectors
    queries: list[str]
    asked: Floats


def read(folder: Path, embedder: CachedEmbedder) -> Data:
    documents = [json.loads(line) for line in (folder / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    lines = (folder / "qrels" / "test.tsv").read_text(encoding="utf-8").splitlines()[1:]
    judged = {line.split("\t")[0] for line in lines}
    rows = [json.loads(line) for line in (folder / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    queries = {row["_id"]: row["text"] for row in rows if row["_id"] in judged}
    matrix = embedder.embed_documents([f"{row['title']} {row['text']}".strip() for row in documents])
    ids = [row["_id"] for row in documents]
    places = {name: place for place, name in enumerate(sorted(ids))}
    asked = embedder.embed_queries(list(queries.values()))
    return Data(ids, vectors_of(matrix, [places[name] for name in ids]), list(queries), asked)


def name_ties(data: Data, found: list[Swap]) -> None:
    """Print each pair once: at both of its ranks the same two units have changed places."""
    pairs = {(one.query, *sorted((one.expected, one.found))): one for one in found if one.is_tie}
    for (query, first, second), one in pairs.items():
        names = f"{data.documents[first][:20]} and {data.documents[second][:20]}"
        print(f"    tied: query {data.queries[query][:20]}, rank {one.rank}: {names} ({one.gap:.1e} apart)")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--depth", type=int, default=100)
    parser.add_argument("--vectors", type=Path, default=Path(".ragtrial/vectors"))
    options = parser.parse_args()
    embedder = CachedEmbedder(SentenceTransformerEmbedder(model=MODEL, device="cpu"), options.vectors)
    sets = {name: read(options.data / name, embedder) for name in SETS}
    embedder.release()
    wrong = 0
    print(
        f"{'data':9} {'store':14} {'space':7} {'ranks':>7} {'other':>6} {'tied':>6} {'farthest apart':>15}", flush=True
    )
    with ExitStack() as stack:
        for kind in options.kinds:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            server = KINDS[kind].server
            reached: dict[str, Any] = stack.enter_context(server(place)) if server is not None else {}
            for name, data in sets.items():
                for space in SPACES:
                    store = KINDS[kind].store(reached, space=space, **KINDS[kind].exact)
                    with tempfile.TemporaryDirectory() as folder:
                        found = found_by(store, data.vectors, data.asked, options.depth, Path(folder))
                    other = swaps(found, data.vectors, data.asked, space)
                    tied = sum(one.is_tie for one in other)
                    wrong += len(other) - tied
                    gap = f"{max((one.gap for one in other), default=0):.1e}"
                    ranks = f"{found.codes.size:,}"
                    print(f"{name:9} {kind:14} {space:7} {ranks:>7} {len(other):6} {tied:6} {gap:>15}", flush=True)
                    name_ties(data, other)
    print(f"Ranks with another unit that is not tied (scores more than {TIED} apart): {wrong}.")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
