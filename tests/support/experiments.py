"""Small experiments on disk. Their texts are embedded by a function that notes every text it is given."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpora import write_files
from ragtrial.config.load import load_config
from ragtrial.config.models import ExperimentConfig

EMBEDDING = '''
"""Counts words: texts with the same words are near. Does what trouble.json beside it says, when it comes to that."""

import json
import os
import signal
import zlib
from pathlib import Path

CALLS = Path(__file__).with_name("calls.jsonl")
TROUBLE = Path(__file__).with_name("trouble.json")


def embed(texts):
    with CALLS.open("a", encoding="utf-8") as calls:
        calls.write(json.dumps(texts) + "\\n")
    vectors = [vector(text) for text in texts]
    trouble = json.loads(TROUBLE.read_text()) if TROUBLE.exists() else None
    if trouble and sum(len(json.loads(line)) for line in CALLS.read_text().splitlines()) > trouble["after"]:
        if trouble["what"] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if trouble["what"] == "raise":
            raise ConnectionError("out of quota")
        vectors = [TROUBLES[trouble["what"]](vector) for vector in vectors]
    return vectors


def vector(text):
    counts = [0.0] * 32
    for word in text.lower().split():
        counts[zlib.crc32(word.strip(".,?").encode()) % 32] += 1.0
    return counts


TROUBLES = {"nan": lambda vector: [float("nan"), *vector[1:]], "shorter": lambda vector: vector[:3]}
'''

DOCUMENTS: dict[str, str] = {
    "bread/rye.md": "# Rye bread\nMix rye flour with warm water and sourdough. Let the dough rest overnight.\n\n"
    "Bake it for an hour in a hot oven. The crust should sound hollow when you knock on it.",
    "bread/rolls.md": "# Quick rolls\nKnead flour, milk and yeast. Shape small rolls and let them rise for an hour.\n\n"
    "Bake the rolls until they are golden. They taste best while they are warm.",
    "soup/tomato.md": "# Tomato soup\nCook ripe tomatoes with onion and garlic. Blend the soup until it is smooth.\n\n"
    "Serve it with basil and a piece of rye bread.",
    "soup/leek.md": "# Leek soup\nSlice the leeks and cook them slowly in butter. Add potatoes and stock.\n\n"
    "Blend half of the soup, so that it stays a little rough.",
    "storage.txt": "Bread keeps for four days in a paper bag. Never put it into the fridge.\n\n"
    "Soup keeps for three days in the fridge, and for three months in the freezer.",
    "oven.txt": "Clean the oven with baking soda and warm water. Leave it overnight, then wipe it.",
}

QUERIES: list[dict[str, Any]] = [
    {"id": "rye", "text": "How long do I bake rye bread?",
     "relevant_docs": [{"doc": "bread/rye.md", "relevance": 2}, {"doc": "bread/rolls.md", "relevance": 1}],
     "tags": ["bread"]},
    {"id": "keep", "text": "How many days does soup keep in the fridge?",
     "relevant_docs": [{"doc": "storage.txt", "relevance": 3}, {"doc": "soup/leek.md", "relevance": 0}]},
    {"id": "smooth", "text": "Which soup is blended until it is smooth?",
     "relevant_docs": [{"doc": "soup/tomato.md"}, {"doc": "soup/leek.md"}], "ordered": True},
    {"id": "coffee", "text": "Where do you grow coffee?", "relevant_docs": []},
]  # fmt: skip
QUOTED: list[dict[str, Any]] = [
    {**query, "relevant_docs": [{**label, "quote": DOCUMENTS[label["doc"]][:30]} for label in query["relevant_docs"]]}
    for query in QUERIES
]
"""Labels of the same documents, each for its first 30 characters."""


STAGES = ("documents", "chunks", "lengths", "embeddings", "indexes", "rankings", "latency", "use")
"""Every kind of stage; the last two are made when latency is measured, and for indexes that are not exact."""


@dataclass(frozen=True)
class Experiment:
    """An experiment in a folder of its own."""

    folder: Path

    @property
    def file(self) -> Path:
        return self.folder / "config.yaml"

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    def config(self, *overrides: str) -> ExperimentConfig:
        return load_config(self.file, overrides)

    def embedded(self) -> list[str]:
        """Every text that the function was given so far, in that order."""
        calls = self.folder / "calls.jsonl"
        lines = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        return [text for line in lines for text in json.loads(line)]

    def trouble(self, what: str, after: int) -> None:
        """Let the function fail once it was given more than ``after`` texts."""
        (self.folder / "trouble.json").write_text(json.dumps({"what": what, "after": after}))

    def no_trouble(self) -> None:
        (self.folder / "trouble.json").unlink()

    def stages(self) -> set[tuple[str, str]]:
        """Kind and name of every finished stage."""
        return {(kind, path.name) for kind in STAGES for path in (self.workspace / kind).glob("[!.]*")}

    def stage(self, kind: str) -> Path:
        """The folder of the only stage of ``kind``."""
        (path,) = (self.workspace / kind).glob("[!.]*")
        return path

    def write_queries(self, queries: Sequence[Mapping[str, Any]]) -> None:
        write_files(self.folder, {"prompt_queries.json": json.dumps({"queries": queries})})


def write_experiment(
    folder: Path,
    documents: Mapping[str, str] = DOCUMENTS,
    queries: Sequence[Mapping[str, Any]] = tuple(QUERIES),
    **changes: object,
) -> Experiment:
    """Documents, labels, the function and a config with ``changes`` in ``folder``."""
    config = {
        "experiment": "kitchen",
        "dataset": {"corpus": "documents", "queries": "prompt_queries.json"},
        "chunker": {"kind": "recursive", "size": 90, "overlap": 0, "unit": "characters"},
        "embedder": {"kind": "custom", "function": "embedding:embed", "batch_size": 4},
        "store": {"kind": "exact"},
        "retrievers": {"dense": {"kind": "dense", "top_k": 3}},
        "output": {"directory": "results"},
        "workspace": "workspace",
        "latency": False,
        **changes,
    }
    write_files(folder, {"embedding.py": EMBEDDING, "config.yaml": json.dumps(config, indent=1)})
    write_files(folder / "documents", documents)
    made = Experiment(folder)
    made.write_queries(queries)
    return made


def edit(name: str, old: str, new: str) -> Callable[[Experiment], None]:
    """A change of an experiment: ``new`` for ``old`` in one of its files."""

    def change(experiment: Experiment) -> None:
        file = experiment.folder / name
        assert old in file.read_text()
        file.write_text(file.read_text().replace(old, new))

    return change


RUN = "import sys; from ragtrial import load_config, run_experiment; run_experiment(load_config(sys.argv[1]))"
"""A program that runs the experiment of a config."""


def python(
    code: str, *arguments: object, folder: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """What a Python process says; it may fail."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=folder, env={**os.environ, **environment}
    )
