"""An experiment of three documents and a hashing embedder, and the command line in this process."""

import json
import signal
from collections.abc import Mapping
from pathlib import Path

import pytest

from commands import Outcome
from corpora import write_files
from ragtrial.cli.outcome import run

Capture = pytest.CaptureFixture[str]
"""What a test gets as ``capsys``."""

CONFIG = """\
experiment: small
dataset: {corpus: documents, queries: prompt_queries.json}
chunker: {kind: document}
embedder: {kind: custom, function: "hashing:embed"}
store: {kind: exact}
retrievers:
  dense: {kind: dense, top_k: 3}
latency: false
"""

DOCUMENTS: Mapping[str, str | bytes] = {
    "returns.md": "# Returns\n\nReturn any item within thirty days.\n",
    "warranty.md": "# Warranty\n\nBatteries are covered for six months.\n",
    "shipping.txt": "Parcels take two days to arrive.\n",
}

LABELS = {
    "prompt": 'Answer {query} from {contexts} as {"json": true}',
    "queries": [
        {"id": "q1", "text": "thirty days to return an item", "relevant_docs": [{"doc": "returns.md", "relevance": 2}]},
        {"id": "q2", "text": "which batteries are covered", "relevant_docs": [{"doc": "warranty.md"}]},
    ],
}

HASHING = """\
import hashlib

import numpy as np


def embed(texts):
    vectors = np.zeros((len(texts), 64), dtype=np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            vectors[row, hashlib.sha256(word.strip(".#").encode()).digest()[0] % 64] += 1
    return vectors
"""

BROKEN = """\
def embed(texts):
    raise RuntimeError("no key")
"""


def small_experiment(
    folder: Path,
    *,
    config: str | bytes = CONFIG,
    labels: object = LABELS,
    documents: Mapping[str, str | bytes] = DOCUMENTS,
    functions: str = HASHING,
) -> Path:
    """Write the files of an experiment; its config file. Labels that are a text are written as they are."""
    contents: dict[str, str | bytes] = {
        "experiment.yaml": config,
        "prompt_queries.json": labels if isinstance(labels, str | bytes) else json.dumps(labels),
        "hashing.py": functions,
        **{f"documents/{name}": text for name, text in documents.items()},
    }
    (folder / "documents").mkdir(parents=True, exist_ok=True)
    return write_files(folder, contents) / "experiment.yaml"


def ragtrial(capsys: Capture, *arguments: str | Path) -> Outcome:
    """Run a command line in this process; its exit code and what it printed."""
    before = signal.getsignal(signal.SIGTERM)
    capsys.readouterr()
    try:
        code = run([str(argument) for argument in arguments])
    finally:
        signal.signal(signal.SIGTERM, before)
    return Outcome(code, *capsys.readouterr())


def succeeded(capsys: Capture, *arguments: str | Path) -> Outcome:
    """The outcome of a command line that ends well."""
    made = ragtrial(capsys, *arguments)
    assert made.code == 0, f"{arguments}: {made.err}"
    return made


def refused(capsys: Capture, *arguments: str | Path, says: str) -> Outcome:
    """The outcome of a command line that is an error, whose message has these words."""
    made = ragtrial(capsys, *arguments)
    assert (made.code, says in made.err, "Traceback" in made.err) == (2, True, False), f"{arguments}: {made.err}"
    return made
