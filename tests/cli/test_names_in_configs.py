"""validate finds what run would refuse: everything that a config names and that is not there, where it is named."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ragtrial import run_experiment
from ragtrial.errors import LabelsError
from small_experiment import CONFIG, Capture, ragtrial, refused, small_experiment

CUSTOM = '{kind: custom, function: "hashing:embed"}'
HUB = "{kind: sentence-transformer, model: nobody/no-model}"

NAMES: dict[str, tuple[tuple[str, str], str]] = {
    "a model of the hub": ((CUSTOM, HUB), "give `model:` the path of a local folder"),
    "a model of a setting": (("{kind: dense,", f"{{kind: dense, embedder: {HUB},"), "cannot be found"),
    "a model folder": ((CUSTOM, "{kind: sentence-transformer, model: ./nowhere}"), "is not there"),
    "a folder without a model": ((CUSTOM, "{kind: sentence-transformer, model: documents}"), "holds no model"),
    "a tokenizer": ((CUSTOM, CUSTOM[:-1] + ", tokenizer_model: nobody/words}"), "cannot be found"),
    "a function": ((CUSTOM, '{kind: custom, function: "hashing:embeds"}'), "Did you mean 'embed'?"),
    "a module": ((CUSTOM, '{kind: custom, function: "hushing:embed"}'), "hushing.py"),
    "a module that fails": ((CUSTOM, '{kind: custom, function: "failing:embed"}'), "cannot be imported"),
    "a chunker's function": (("{kind: document}", "{kind: custom, function: absent:cut}"), "no module"),
    "documents": (("corpus: documents", "corpus: nowhere"), "no such folder"),
    "labels": (("queries: prompt_queries.json", "queries: nowhere.json"), "no such file"),
    "prefixes": (("experiment:", "context: {prefixes: nowhere.jsonl}\nexperiment:"), "no such file"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "said"), NAMES.values(), ids=NAMES)
def test_a_missing_name_is_told_in_place(change: tuple[str, str], said: str, tmp_path: Path, capsys: Capture) -> None:
    assert change[0] in CONFIG
    text = CONFIG.replace(*change, 1)
    config = small_experiment(tmp_path, config=text)
    (tmp_path / "failing.py").write_text("1 / 0\n")
    line = next(number for number, one in enumerate(text.splitlines(), 1) if change[1].splitlines()[0] in one)
    ended = {command: ragtrial(capsys, command, config, "--json") for command in ("validate", "run")}
    for command, one in ended.items():
        assert one.code == 2, command
        (error, *others) = one.json["errors"]
        assert not others
        assert (error["line"], said in error["message"]) == (line, True), error
        assert error["column"] > 1
    assert ended["validate"].json["errors"] == ended["run"].json["errors"]
    assert not (tmp_path / "results").exists()


MANY = """\
experiment: many
dataset: {corpus: documents, queries: prompt_queries.json}
embedder: {kind: custom, function: "hashing:embed"}
store: {kind: exact}
chunker: {kind: document}
latency: false
retrievers:
  dense: {kind: dense}
  one: {kind: rerank, inputs: dense, candidates: 10}
  two: {kind: rerank, inputs: dense, candidates: 20}
  three: {kind: rerank, inputs: dense, model: nobody/other}
  sparse: {kind: sparse, model: nobody/sparse}
  late: {kind: late, model: nobody/late}
  far: {kind: dense, embedder: {kind: sentence-transformer, model: nobody/dense}}
"""


def test_a_missing_model_is_one_error_with_what_does_without_it(tmp_path: Path, capsys: Capture) -> None:
    ended = ragtrial(capsys, "run", small_experiment(tmp_path, config=MANY))
    assert ended.code == 2
    lines = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    assert len(lines) == 5
    reranker = "settings 'one', 'two': the model 'cross-encoder/ms-marco-MiniLM-L6-v2'"
    for model in (reranker, "setting 'three': the model 'nobody/other'", "y/sparse'", "y/late'", "y/dense'"):
        assert sum(f"{model} cannot be found. Tried: " in line for line in lines) == 1
    assert not any(tmp_path.rglob("embeddings"))
    assert not (tmp_path / "results").exists()
    cut = ("{kind: document}", "{kind: recursive, size: 40, overlap: 0}")
    config = small_experiment(tmp_path, config=CONFIG.replace(*cut).replace(CUSTOM, HUB).replace(
        "latency", "  words: {kind: bm25}\nlatency"))  # fmt: skip
    errors = [line for line in ragtrial(capsys, "run", config).err.splitlines() if line.startswith("error: ")]
    (error,) = errors
    assert "settings 'dense', 'words': the model 'nobody" in error
    assert error.endswith("set chunker.tokenizer: words, or chunker.unit: characters with larger sizes.")
    assert ragtrial(capsys, "run", config, "--setting", "words", "--set", "chunker.tokenizer=words").code == 0


def test_a_missing_file_of_labels_is_one_error_in_python(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("Text.", encoding="utf-8")
    dataset = {"corpus": str(tmp_path), "queries": str(tmp_path / "nowhere.json")}
    with pytest.raises(LabelsError, match=r"nowhere\.json: there is no such file") as raised:
        run_experiment({"experiment": "x", "dataset": dataset, "retrievers": {"words": {"kind": "bm25"}}})
    assert (raised.value.__cause__, raised.value.__suppress_context__, len(raised.value.faults)) == (None, True, 1)


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_models_that_a_run_may_fetch_are_named_and_no_network_is_asked(command: str, tmp_path: Path) -> None:
    config = small_experiment(tmp_path, config=MANY)
    environment: Any = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    made = subprocess.run(
        [sys.executable, "-m", "ragtrial", command, config],
        capture_output=True, text=True, timeout=120, check=False,
        env={**environment, "HF_ENDPOINT": "http://127.0.0.1:9"},
    )  # fmt: skip
    assert made.returncode == (0 if command == "validate" else 2)
    assert made.stderr.count("must be fetched from the hub first") == (4 if command == "validate" else 5)
    assert "127.0.0.1" not in made.stderr
    assert "HF_HUB_OFFLINE" not in made.stderr


KEYS = {
    "retrievers.dense.k": "Did you mean 'top_k'?",
    "retrievers.words.k": "Did you mean 'top_k'?",
    "retrievers.dense.similarity_top_k": "Did you mean 'top_k'?",
    "retrievers.dense.size": "Did you mean chunker.size?",
    "retrievers.dense.chunk_size": "Did you mean chunker.size?",
    "chunker.chunk_size": "Did you mean 'size'?",
    "chunker.split_length": "Did you mean 'size'?",
    "chunker.chunk_overlap": "Did you mean 'overlap'?",
    "evaluators.k": "Did you mean order_unaware.k or order_aware.k or graded.k?",
    "evaluators.metrics": "Did you mean order_unaware.metrics or order_aware.metrics or graded.metrics?",
    "evaluators.metric": "Did you mean 'primary_metric'?",
    "embedder.model_name": "Did you mean 'model'?",
    "embedder.dim": "Did you mean 'dimensions'?",
    "embedder.passage_prefix": "Did you mean 'document_prefix'?",
    "embedder.query_instruction": "Did you mean 'query_prefix'?",
    "embedder.max_input_tokens": "Did you mean 'max_length'?",
    "store.distance": "Did you mean 'space'?",
    "dataset.path": "Did you mean 'corpus'?",
    "dataset.qrels": "Did you mean 'queries'?",
    "random_seed": "Did you mean 'seed'?",
    "vector_store": "Did you mean 'store'?",
    "text_splitter": "Did you mean 'chunker'?",
    "name": "Did you mean 'experiment'?",
    "n_jobs": "Did you mean executor.workers?",
    "dataset.documents": "Did you mean 'corpus'?",
    "size": "Did you mean chunker.size?",
    "top": "",
}


@pytest.mark.parametrize(
    ("key", "named"), [("chunk_size", "size is"), ("size", "That is"), ("chunk_overlap", "overlap is")]
)
def test_a_key_of_other_kinds_is_answered_with_these(key: str, named: str, tmp_path: Path, capsys: Capture) -> None:
    kinds = f"{named} an option of kind: code, fixed, markdown, recursive, "
    refused(capsys, "validate", small_experiment(tmp_path, config=MANY), "--set", f"chunker.{key}=3", says=kinds)


@pytest.mark.parametrize("key", KEYS)
def test_a_key_of_another_tool_is_answered_with_the_key_meant(key: str, tmp_path: Path, capsys: Capture) -> None:
    text = MANY.replace("chunker: {kind: document}", "chunker: {kind: recursive}")
    text = text.replace(CUSTOM, "{kind: sentence-transformer}").replace("  one:", "  words: {kind: bm25}\n  one:")
    unknown, config = f"unknown key {key.rpartition('.')[2]!r}", small_experiment(tmp_path, config=text)
    ended = refused(capsys, "validate", config, "--set", f"{key}=3", says=unknown)
    (line,) = [line for line in ended.err.splitlines() if "unknown key" in line]
    assert KEYS[key] in line
    assert ("Did you mean" in line) == bool(KEYS[key])
