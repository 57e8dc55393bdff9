"""What one would write without ragtrial: sentence-transformers and chromadb, nothing else. benchmarks/run.py times it.

    python benchmarks/plain.py BEIR_FOLDER MODEL_FOLDER OUTPUT_FOLDER

Writes run.json (query to document to score) and timings.json (seconds of each part).
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

started = time.perf_counter()

import chromadb  # noqa: E402 - the time that imports take is measured
from chromadb.config import Settings  # noqa: E402
from sentence_transformers import SentenceTransformer  # noqa: E402

ADD_BATCH = 5_000
TOP_K = 10

timings: dict[str, float] = {}


def done(part: str) -> None:
    """What ran since the last part, or since the start, was this ``part``."""
    timings[part] = time.perf_counter() - started - sum(timings.values())


def main(beir: Path, model_folder: str, output: Path) -> None:
    done("imports")
    documents = [json.loads(line) for line in (beir / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    judged = {line.split("\t")[0] for line in (beir / "qrels" / "test.tsv").read_text().splitlines()[1:]}
    rows = [json.loads(line) for line in (beir / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    queries = {row["_id"]: row["text"] for row in rows if row["_id"] in judged}
    texts = [f"{document['title']} {document['text']}" for document in documents]
    done("documents")

    model = SentenceTransformer(model_folder)
    done("model")
    vectors = model.encode(texts, batch_size=32, normalize_embeddings=True)
    done("embeddings")

    client = chromadb.PersistentClient(str(output / "chroma"), settings=Settings(anonymized_telemetry=False))
    collection = client.create_collection("chunks", configuration={"hnsw": {"space": "cosine"}})
    for start in range(0, len(documents), ADD_BATCH):
        end = min(start + ADD_BATCH, len(documents))
        ids = [document["_id"] for document in documents[start:end]]
        collection.add(ids=ids, embeddings=vectors[start:end])
    done("index")

    asked = model.encode(list(queries.values()), batch_size=32, normalize_embeddings=True)
    found = collection.query(query_embeddings=asked, n_results=TOP_K, include=["distances"])
    distances = found["distances"] or []
    run = {
        query: {name: 1 - distance for name, distance in zip(names, row, strict=True)}
        for query, names, row in zip(queries, found["ids"], distances, strict=True)
    }
    done("retrieval")
    (output / "run.json").write_text(json.dumps(run))
    (output / "timings.json").write_text(json.dumps(timings))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
