"""ragtrial init"""

from __future__ import annotations

import json
from pathlib import Path

import click

from ragtrial.cli.terminal import Terminal, common_options

_CONFIG = """\
# yaml-language-server: $schema=./experiment.schema.json
experiment: first
dataset:
  corpus: documents                # a folder of .md, .txt, .html files, or a corpus.jsonl
  queries: prompt_queries.json     # questions with known good answers
  match: id                        # what a label's `doc` holds: id | content (a verbatim passage)
chunker: {kind: recursive, size: 200, overlap: 40, unit: tokens}
embedder: {kind: sentence-transformer, model: sentence-transformers/all-MiniLM-L6-v2}
store: {kind: chroma, space: cosine}
retrievers:                        # the settings to compare: add more, each may have its own chunker, embedder, store
  dense: {kind: dense, top_k: 10}
  whole-documents: {kind: dense, top_k: 10, chunker: {kind: document}}
  # bm25: {kind: bm25, top_k: 10}                                # words in place of vectors: codes, names, numbers
  # hybrid: {kind: fusion, inputs: [dense, bm25], top_k: 10}     # both; `ragtrial list refiners` has more
evaluators:
  primary_metric: ndcg@10
output: {directory: results}
"""

_LABELS = {
    "prompt": "Answer the question with these passages.\n\n{contexts}\n\nQuestion: {query}",
    "queries": [
        {
            "id": "q1",
            "text": "How long can I send something back?",
            "relevant_docs": [
                {"doc": "returns.md", "relevance": 3, "quote": "within 30 days of delivery"},
                {"doc": "warranty.md", "relevance": 1},
            ],
            "tags": ["paraphrase"],
        },
        {
            "id": "q2",
            "text": "Is a broken battery covered?",
            "relevant_docs": [{"doc": "warranty.md", "relevance": 3, "quote": "Batteries are covered for six months"}],
            "tags": ["fact"],
        },
    ],
}

_DOCUMENTS = {
    "returns.md": "# Returns\n\nReturn any item within 30 days of delivery. Refunds reach your card in five days.\n",
    "warranty.md": "# Warranty\n\nDevices are covered for three years. Batteries are covered for six months.\n",
    "shipping.md": "# Shipping\n\nParcels leave the warehouse on the next working day and take two days to arrive.\n",
}


@click.command("init", short_help="Write a config, labels and three documents to start from.")
@click.argument("folder", type=click.Path(file_okay=False), default=".")
@common_options
def command(terminal: Terminal, folder: str) -> int:
    """Write a config, labels and three documents to start from into FOLDER. Nothing is overwritten."""
    from ragtrial.cache.atomic import write_text
    from ragtrial.config.json_schema import config_schema
    from ragtrial.errors import Fault, InputError

    root = Path(folder)
    files = {
        "experiment.yaml": _CONFIG,
        "experiment.schema.json": json.dumps(config_schema(), indent=2, ensure_ascii=False) + "\n",
        "prompt_queries.json": json.dumps(_LABELS, indent=2, ensure_ascii=False) + "\n",
        **{f"documents/{name}": text for name, text in _DOCUMENTS.items()},
    }
    there = [name for name in files if (root / name).exists()]
    if there:
        raise InputError(
            *(Fault(str(root / name), message="is there already; init overwrites nothing.") for name in there)
        )
    try:
        for name, text in files.items():
            write_text(root / name, text)
    except OSError as error:
        raise InputError(Fault(str(root), message=f"cannot be written: {error.strerror}.")) from error
    for name in files:
        terminal.say(f"wrote {root / name}")
    enter = "" if root.resolve() == Path.cwd() else f"cd {root} && "
    terminal.say(f"\nNow: {enter}ragtrial run experiment.yaml")
    terminal.say_json({"exit_code": 0, "wrote": [str(root / name) for name in files]})
    return 0
