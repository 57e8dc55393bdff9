"""The files of rag-experiments work as they are: its config by `init --from`, its labels, its results."""

import json
import re
from pathlib import Path

import pytest

from corpora import write_files
from ragtrial import RetrievalEvaluator, load_config, score
from small_experiment import DOCUMENTS, Capture, ragtrial

CONFIG = """\
loader:
  paths: [data/returns.md, data/warranty.md]
splitter: {method: recursive, chunk_size: 400, chunk_overlap: 50}
database: {path: database}
pipelines:
  openai: {embedding: text-embedding-3-small, max_tokens: 500, llm: gpt-4o}
  large: {embedding: text-embedding-3-large, max_tokens: 500, llm: gpt-4o}
  local: {embedding: sentence-transformers/all-MiniLM-L6-v2, max_tokens: 500, llm: llama3}
output: {directory: results}
evaluators:
  order_unaware: {k: 3}
  order_aware: {k: 12}
"""
LABELS = {
    "prompt": "Answer {query} from {contexts}, or say `I don't know!`",
    "queries": [
        {"id": 1, "text": "When may I return an item?", "relevant_docs": [
            {"doc": "Return any item within thirty days.", "relevance": 3}, {"doc": "doc4", "relevance": 0}]},
        {"id": 2, "text": "Which batteries?", "relevant_docs": [{"doc": "Batteries are covered", "relevance": 1}]},
    ],
}  # fmt: skip
FOUND = [
    {"query": "Which batteries?", "contexts": ["no", "Batteries\nare covered"], "prompt": "", "response": "All"},
    {"query": "When may I return an item?", "contexts": ["doc4"], "prompt": "", "response": "I don't know!"},
]
RESULTS = [
    {"results": [{**one, "evaluations": {"order_aware": {"rr": 1.0}}} for one in FOUND], "model": "gpt-4o",
     "parameters": [{"method": "recursive", "chunk_size": 400}, {"embedding": "text-embedding-3-small"}],
     "timestamp_end": "2024-06-18 10:00:00", "evaluations": {}}
]  # fmt: skip


@pytest.fixture(autouse=True)
def _files(tmp_path: Path) -> None:
    labels, results = json.dumps(LABELS), json.dumps(RESULTS)
    write_files(tmp_path, {"config.yaml": CONFIG, "prompts_queries.json": labels, "results.json": results})
    write_files(tmp_path, {f"data/{name}": text for name, text in DOCUMENTS.items()})


def test_init_writes_the_config_in_our_words_and_it_runs(capsys: Capture) -> None:
    assert ragtrial(capsys, "init", "ours", "--from", "config.yaml").out == (
        "wrote ours/experiment.yaml\n\nNow: cd ours && ragtrial run\n"
    )
    config = load_config("ours/experiment.yaml")
    assert Path(config.dataset.corpus or "").resolve() == Path("data").resolve()
    chunker = {"kind": "recursive", "size": 400, "overlap": 50, "unit": "characters"}
    assert chunker.items() <= config.chunker.model_dump().items()
    options = {name: setting.model_dump() for name, setting in config.retrievers.items()}
    tops = {name: one["top_k"] for name, one in options.items()}
    assert tops == dict.fromkeys(("bm25", "openai", "large", "local"), 12)
    assert [options[name]["embedder"]["kind"] for name in ("openai", "large")] == ["openai", "openai"]
    assert options["local"]["embedder"]["kind"] == "sentence-transformer"
    assert config.evaluators.order_unaware.k == [3]
    ran = ragtrial(capsys, "run", "ours/experiment.yaml", "--setting", "bm25")
    assert ran.code == 0, ran.err
    assert re.search(r"^bm25 +1\.000 ", ran.out, re.MULTILINE)
    assert "query '1' gives 'doc4' the grade 0, and it is not in the corpus; the label has no effect." in ran.err


def test_init_from_a_config_of_another_form_says_what_is_missing(capsys: Capture) -> None:
    ragtrial(capsys, "init", "ours", "--from", "config.yaml")
    other = ragtrial(capsys, "init", "more", "--from", "ours/experiment.yaml")
    assert (other.code, other.out) == (2, "")
    assert other.err.splitlines()[0] == "error: ours/experiment.yaml:1:1: loader is missing; it is required."
    assert ragtrial(capsys, "init", "more", "--from", "config.yaml", "--corpus", "data").code == 2
    assert not Path("more").exists()


def test_a_config_with_the_least_keys_gets_what_their_tool_assumes(capsys: Capture) -> None:
    Path("prompts_queries.json").unlink()
    least = "loader: {paths: [data]}\npipelines: {a: {embedding: b/c}}\nevaluators: {graded: {}}\n"
    Path("config.yaml").write_text(least)
    assert ragtrial(capsys, "init", "ours", "--from", "config.yaml").code == 0
    config = load_config("ours/experiment.yaml")
    assert {"kind": "recursive", "size": 800, "overlap": 0}.items() <= config.chunker.model_dump().items()
    assert (config.evaluators.graded.k, config.retrievers["bm25"].top_k) == ([10], 10)
    assert Path(config.dataset.queries or "").resolve() == Path("prompt_queries.json").resolve()


def test_results_are_scored_by_the_texts_of_their_queries(capsys: Capture) -> None:
    ragtrial(capsys, "init", "--from", "config.yaml")
    (evaluated,) = RetrievalEvaluator("experiment.yaml").run("results.json")
    assert [(row.id, row.evaluations["rr@12"]) for row in evaluated.results] == [("1", 0.0), ("2", 0.5)]
    assert evaluated.evaluations["recall@3"].mean == 0.5
    scored = score("prompts_queries.json", "results.json", "recall@3,rr")
    assert repr(scored) == "Scoring(1 run, 2 queries, recall@3: gpt-4o 0.500)"
