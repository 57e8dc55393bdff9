"""`ragtrial explain` knows every column of every table that a command prints, and the words in its cells."""

import re
from pathlib import Path
from typing import get_args

import pytest

from corpora import write_files
from ragtrial.cli.terminal import Terminal
from ragtrial.comparison.comparison_parts import Verdict
from ragtrial.views.table import Table
from small_experiment import HASHING, Capture, ragtrial, succeeded

ROOT = Path(__file__).parents[2]

CONFIG = f"""\
experiment: every-table
dataset: {{corpus: {ROOT}/data/support, queries: {ROOT}/prompt_queries.json}}
chunker: {{kind: recursive, size: 500, overlap: 100, unit: characters}}
embedder: {{kind: custom, function: "hashing:embed"}}
store: {{kind: chroma}}
retrievers:
  words: {{kind: bm25}}
  dense: {{kind: dense}}
  hybrid: {{kind: fusion, inputs: [words, dense]}}
sweep: {{matrix: {{chunker.size: [300, 500]}}}}
evaluators: {{unit: span}}
"""

COMMANDS = [
    ("run", "--set", "evaluators.budget=300", "--set", "embedder={kind: sentence-transformer}", "--setting",
     "words-size300"), ("run",), ("validate",), ("chunks",), ("show", "--costs"), ("show", "--metrics", "all"),
    ("show", "--query", "hub-13"), ("compare", "--full", "--axes", "--unjudged", "--margin", "0.02"),
    ("compare", "--baseline", "words-size500", "--slices", "--queries"),
    ("cache", "list"), ("list", "runs"), ("labels", "list"), ("search", "return the hub"),
    ("score", "qrels.txt", "run.txt"), ("init", "mine", "--corpus", f"{ROOT}/data/support", "--labels", "q.csv"),
]  # fmt: skip


def test_every_column_is_explained(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    scored = {"qrels.txt": "q1 0 d1 1\nq2 0 d2 1\n", "run.txt": "q1 Q0 d1 1 2.0 run\nq2 Q0 d1 1 2.0 run\n"}
    asked = "question,answer\nwhich?,nowhere at all\n"
    write_files(tmp_path, {"experiment.yaml": CONFIG, "hashing.py": HASHING, "q.csv": asked, **scored})
    titles: dict[str, str] = {}
    shown = Terminal.table

    def table(self: Terminal, table: Table, *, before: str = "") -> None:
        titles.update({column.title.removeprefix("run: "): command for column in table.columns})
        shown(self, table, before=before)

    monkeypatch.setattr(Terminal, "table", table)
    for arguments in COMMANDS:
        command = " ".join(arguments)
        made = succeeded(capsys, *arguments)
        if command == "run":
            assert re.search(r"^Details  ragtrial compare --axes$", made.out, re.MULTILINE)
    assert len(titles) > 60
    own = {title for title in titles if any(name in title for name in ("words-size", "dense-size", "hybrid-size"))}
    names = titles.keys() - own - {"", "run"}
    unknown = {name: titles[name] for name in sorted(names) if ragtrial(capsys, "explain", "--", name).code != 0}
    assert sorted(unknown.items()) == []


@pytest.mark.parametrize(
    "verdict", [*get_args(Verdict), "span", "document", "p", "ci", "judged", "mde", "n", "group", "cluster", "abstain"]
)
def test_the_words_of_a_verdict_are_explained(verdict: str, capsys: Capture) -> None:
    succeeded(capsys, "explain", verdict)


def test_a_word_that_is_a_column_and_a_metric_is_explained_as_both(capsys: Capture) -> None:
    made = ragtrial(capsys, "explain", "p")
    assert "by chance" in made.out
    assert "precision" in made.out
    assert ragtrial(capsys, "explain", "p", "--json").json["meaning"].startswith("How likely")
