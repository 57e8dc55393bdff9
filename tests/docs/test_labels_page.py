"""The page on labels tells the truth: every command on it runs, and what is shown is what is printed."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from foreign_labels import DOCUMENTS, LIGHTS, RED, RESET, TWICE, WHITE, corpus, lines, written
from ragtrial.labelling.importers.base import IMPORTERS
from small_experiment import Capture, ragtrial

PAGE = (Path(__file__).parents[2] / "docs" / "labels.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"ragtrial (labels convert [^`\n]+)", PAGE)


def block(language: str) -> str:
    """The first block of code in that language, below the heading on conversions."""
    found = re.search(rf"^```{language}\n(.*?)^```$", PAGE[PAGE.index("## Converting") :], re.MULTILINE | re.DOTALL)
    assert found
    return found[1]


def of_haystack() -> str:
    from haystack import Document

    return lines([{"question": "?", "ground_truth_documents": [Document(content=WHITE).to_dict()]}])


FILES: dict[str, tuple[str, Any]] = {
    "chunks.json": ("prompt-queries", block("json")),
    "prompts_queries.json": ("prompt-queries", block("json")),
    "pairs.json": ("llamaindex",
     {"queries": {"a": "?"}, "corpus": {"n": WHITE}, "relevant_docs": {"a": ["n"]}, "mode": "text"}),
    "rag_dataset.json": ("llamaindex", {"examples": [{"query": "?", "reference_contexts": [WHITE]}]}),
    "haystack.jsonl": ("haystack", of_haystack),
    "dev-v2.0.json": ("squad",
     {"data": [{"paragraphs": [{"context": LIGHTS,
     "qas": [{"id": "s", "question": "?", "answers": [{"text": RED, "answer_start": 37}]}]}]}]}),
    "questions_df.csv": ("chunking-evaluation",
     'question,references,corpus_id\n?,"[{""content"": ""' + TWICE + '"", ""start_index"": 17}]",reset\n'),
    "goldens.json": ("deepeval", [{"input": "?", "expected_output": "x", "context": [WHITE], "source_file": None}]),
    "items.json": ("langfuse", [{"id": "a", "input": "?", "expectedOutput": "x", "metadata": {"quote": RED}}]),
    "examples.jsonl": ("langsmith", lines([{"inputs": {"question": "?"}, "outputs": {"answer": "x", "quote": RED}}])),
    "qa.parquet": ("autorag",
     lines([{"qid": "a", "query": "?", "retrieval_gt": [["faq.txt"]], "generation_gt": ["x"]}])),
    "longmemeval_s.json": ("longmemeval",
     [{"question_id": "a", "question": "?", "question_type": "t", "answer": "x", "answer_session_ids": ["s"],
       "haystack_session_ids": ["s"], "haystack_sessions": [[{"role": "user", "content": "I moved."}]]}]),
    "labels.csv": ("rows", f"question,answer\n?,{RED}\n"),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    corpus(tmp_path)
    for name, (_, content) in FILES.items():
        written(tmp_path / name, content() if callable(content) else content)
    exec(block("python"), {})


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_of_the_page_runs(command: str, capsys: Capture) -> None:
    made = ragtrial(capsys, *command.split(), "--json", "-q")
    assert (made.code, made.err) == (0, "")
    assert made.json["format"] == FILES[command.split()[2]][0]
    assert len(made.json["labels"]) >= 1


def test_the_page_has_every_form_and_its_example_prints_what_is_shown(capsys: Capture) -> None:
    assert {command.split()[2] for command in COMMANDS} == FILES.keys()
    assert {form for form, _ in FILES.values()} == set(IMPORTERS.names())
    assert block("markdown") == RESET == DOCUMENTS["hub/reset.md"]
    assert block("sh") == f"ragtrial {COMMANDS[0]}\n"
    made = ragtrial(capsys, *COMMANDS[0].split(), "-q")
    assert (made.code, made.out, made.err) == (0, block("text"), "")
    assert json.loads(Path("prompt_queries.json").read_text())["queries"][1]["relevant_docs"] == [
        {"doc": "hub/reset.md", "relevance": 2, "quote": TWICE}
    ]
