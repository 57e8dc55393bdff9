"""Late chunking against chunk-wise embedding, on the five long documents of chunking_evaluation.

    python benchmarks/late_chunking.py DATA [--documents finance ...] [--sizes 50 100 200] [--folder F]

DATA has corpus.jsonl and spans.json of chunking_evaluation (Smith & Troynikov 2024). One experiment with MiniLM: each
size of chunks, chunk-wise and late, with windows of 256 tokens, which it was trained on, and of 512, which it
has places for. Prints the scores, what they cost, and the effect of late chunking over all sizes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from quiet import refuse_if_busy

MODEL = "sentence-transformers/all-MiniLM-L6-v2"
EMBEDDERS = [["sentence-transformer", 256], ["late-chunking", 256], ["late-chunking", 512]]


def write_data(data: Path, folder: Path, documents: list[str] | None) -> None:
    """The documents that are wanted, and labels for their questions."""
    rows = [json.loads(line) for line in (data / "corpus.jsonl").read_text(encoding="utf-8").splitlines()]
    wanted = documents or [row["_id"] for row in rows]
    kept = [row for row in rows if row["_id"] in wanted]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept), encoding="utf-8")
    spans = json.loads((data / "spans.json").read_text(encoding="utf-8"))
    (folder / "spans.json").write_text(json.dumps([one for one in spans if one["corpus_id"] in wanted]))
    (folder / "labels.json").unlink(missing_ok=True)
    convert = [
        "labels",
        "convert",
        folder / "spans.json",
        "--corpus",
        folder / "corpus.jsonl",
        "-o",
        folder / "labels.json",
    ]
    ragtrial(*convert, "-q")


def write_config(folder: Path, sizes: list[int]) -> Path:
    chunker = {"kind": "recursive", "preset": "langchain", "size": sizes[0], "overlap": 0}
    config = {
        "experiment": "late-chunking",
        "dataset": {"corpus": "corpus.jsonl", "queries": "labels.json"},
        "chunker": {**chunker, "separators": ["\n\n", "\n", ".", "?", "!", " ", ""]},
        "store": {"kind": "exact"},
        "context": {"title": False},
        "latency": False,
        "retrievers": {"dense": {"kind": "dense", "top_k": 50}},
        "embedder": {"kind": "sentence-transformer", "model": MODEL},
        "sweep": {"matrix": {"chunker.size": sizes, "embedder.kind, embedder.max_length": EMBEDDERS}},
        "evaluators": {
            "unit": "span",
            "primary_metric": "span_recall@5",
            "budget": 500,
            "order_unaware": {"k": [5], "metrics": ["span_iou@5"]},
        },
        "output": {"directory": "results"},
    }
    file = folder / "config.yaml"
    file.write_text(json.dumps(config, indent=1), encoding="utf-8")
    return file


def ragtrial(*arguments: object) -> str:
    command = [sys.executable, "-m", "ragtrial", *map(str, arguments)]
    return subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--documents", nargs="+")
    parser.add_argument("--sizes", nargs="+", type=int, default=[50, 100, 200])
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    write_data(options.data, folder, options.documents)
    print(ragtrial("run", write_config(folder, options.sizes)))
    print(ragtrial("show", "latest", "--results", folder / "results", "--costs"))
    print(ragtrial("compare", "latest", "--results", folder / "results", "--axes"))


if __name__ == "__main__":
    refuse_if_busy()
    main()
