"""The loop that one would write with LangChain's parts: every combination of a grid, one after another.

    python benchmarks/sweep_loop.py BEIR MODEL FOLDER SIZES OPTIONS [--keep]

LangChain's splitter (sizes in tokens of the model) and its InMemoryVectorStore with the model of sentence-transformers,
rank_bm25, reciprocal rank fusion by hand, and the store's maximal marginal relevance. Every setting cuts and embeds
again; with --keep the store and the BM25 index of each chunking are kept. The store has no index options: where
ragtrial has another index, this has the same again. Writes the seconds per part, and the hits, as FOLDER/loop.json.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter
from quiet import refuse_if_busy
from rank_bm25 import BM25Okapi
from sentence_transformers import SentenceTransformer

TOP_K, CANDIDATES, CONSTANT = 10, 50, 60
MMR_CANDIDATES, RELEVANCE = 50, 0.7

Search = Callable[[str], list[str]]
"""From a question to the ids of documents, best first."""

parts: dict[str, float] = {}


@contextmanager
def timed(name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    parts[name] = parts.get(name, 0.0) + time.perf_counter() - start


class Model(Embeddings):
    def __init__(self, folder: str) -> None:
        self.model = SentenceTransformer(folder, device="cpu")

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        made: list[list[float]] = self.model.encode(texts, batch_size=32, normalize_embeddings=True).tolist()
        return made

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


@dataclass
class Chunking:
    """The documents, cut; what searches them is made when it is needed."""

    chunks: list[Document]
    model: Model

    @cached_property
    def vectors(self) -> InMemoryVectorStore:
        with timed("embeddings"):
            return InMemoryVectorStore.from_documents(self.chunks, self.model)

    @cached_property
    def words(self) -> BM25Okapi:
        with timed("bm25 index"):
            return BM25Okapi([chunk.page_content.lower().split() for chunk in self.chunks])

    def dense(self, query: str) -> list[str]:
        return ids(self.vectors.similarity_search(query, CANDIDATES))

    def bm25(self, query: str) -> list[str]:
        scores = self.words.get_scores(query.lower().split())
        return ids([self.chunks[place] for place in scores.argsort()[::-1][:CANDIDATES]])

    def hybrid(self, query: str) -> list[str]:
        sums: dict[str, float] = {}
        for found in (self.dense(query), self.bm25(query)):
            for rank, name in enumerate(found, 1):
                sums[name] = sums.get(name, 0.0) + 1 / (CONSTANT + rank)
        return sorted(sums, key=sums.__getitem__, reverse=True)

    def mmr(self, query: str) -> list[str]:
        found = self.vectors.max_marginal_relevance_search(
            query, k=CANDIDATES, fetch_k=MMR_CANDIDATES, lambda_mult=RELEVANCE
        )
        return ids(found)


def ids(chunks: Sequence[Document]) -> list[str]:
    """The documents of chunks, each once."""
    return list(dict.fromkeys(chunk.metadata["id"] for chunk in chunks))


def rows_of(file: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def main() -> None:
    beir, folder = Path(sys.argv[1]), Path(sys.argv[3])
    sizes, options = json.loads(sys.argv[4]), json.loads(sys.argv[5])
    with timed("documents"):
        rows = rows_of(beir / "corpus.jsonl")
        documents = [Document(f"{row['title']} {row['text']}", metadata={"id": row["_id"]}) for row in rows]
        judged = {line.split("\t")[0] for line in (beir / "qrels" / "test.tsv").read_text().splitlines()[1:]}
        queries = {row["_id"]: row["text"] for row in rows_of(beir / "queries.jsonl") if row["_id"] in judged}
    with timed("model"):
        model = Model(sys.argv[2])
    kept: dict[int, Chunking] = {}
    hits: dict[str, dict[str, list[str]]] = {}
    for size in sizes:
        for option in options:
            for name in ("dense", "bm25", "hybrid", "mmr"):
                if size not in kept or "--keep" not in sys.argv:
                    with timed("chunks"):
                        splitter = RecursiveCharacterTextSplitter.from_huggingface_tokenizer(
                            model.model.tokenizer, chunk_size=size, chunk_overlap=0
                        )
                        kept[size] = Chunking(splitter.split_documents(documents), model)
                search: Search = getattr(kept[size], name)
                # What it searches, so that its making is not counted as searching.
                kept[size].words if name == "bm25" else kept[size].vectors
                with timed(f"search ({name})"):
                    found = {query: search(text)[:TOP_K] for query, text in queries.items()}
                hits[f"{name}-{size}-{option}"] = found
    (folder / "loop.json").write_text(json.dumps({"parts": parts, "hits": hits}))


if __name__ == "__main__":
    refuse_if_busy()
    main()
