"""Whole screens of commands, as files in tests/golden: `pytest --update-golden` writes them anew.

One experiment, of BM25 on the sample data, gives all of them: it needs no model, and its numbers are the same anywhere.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from command_tree import COMMANDS
from small_experiment import Capture, ragtrial

ROOT = Path(__file__).parents[2]

CONFIG = f"""\
experiment: words
dataset: {{corpus: {ROOT}/data/support, queries: {ROOT}/prompt_queries.json}}
chunker: {{kind: recursive, size: 500, overlap: 100, unit: characters}}
retrievers:
  words: {{kind: bm25, stemmer: none, stop_words: none, k1: 0.3}}
  stems: {{kind: bm25}}
  titles: {{kind: bm25, title_weight: 3}}
  whole: {{kind: bm25, chunker: {{kind: document}}}}
  fused: {{kind: fusion, inputs: [titles, whole]}}
latency: false
"""

SCREENS = {
    "run": ("run", "experiment.yaml"),
    "run-80": ("run", "experiment.yaml"),
    "plan": ("plan", "experiment.yaml"),
    "show": ("show", "latest"),
    "show-metrics": ("show", "latest", "--metrics", "all"),
    "show-query": ("show", "latest", "--query", "hub-13", "--setting", "fused"),
    "compare": ("compare", "latest"),
    "compare-80": ("compare", "latest"),
    "compare-baseline": ("compare", "latest", "--baseline", "words", "--slices", "--full"),
    "compare-queries": ("compare", "latest", "--baseline", "words", "--queries", "--unjudged"),
    "gates": ("compare", "latest", "--baseline", "words", "--fail-if", "ndcg@10 worse than baseline"),
    "gate-failed": ("compare", "latest", "--fail-if", "ndcg@10 < 0.9"),
    "search": ("search", "experiment.yaml", "return the hub"),
    "explain": ("explain", "ndcg@10"),
    "list-metrics": ("list", "metrics"),
    "list-retrievers": ("list", "retrievers"),
}
"""By the name of the file. A name that ends in -80 is of a terminal of 80 columns, others are of 120."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("screens")
    (made / "experiment.yaml").write_text(CONFIG, encoding="utf-8")
    (made / ".ragtrial").mkdir()  # one cache for all screens
    return made


@pytest.mark.parametrize("name", SCREENS)
def test_a_command_shows_its_golden_screen(
    name: str, folder: Path, golden: Callable[[str, str], None], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80" if name.endswith("-80") else "120")
    if not (folder / "results").exists():
        assert ragtrial(capsys, "run", "experiment.yaml", "-q").code == 0
    made = ragtrial(capsys, *SCREENS[name])
    golden(name, f"{harmless(made.out, folder)}{harmless(made.err, folder)}exit code {made.code}\n")


def test_the_help_of_all_commands_is_golden(
    golden: Callable[[str, str], None], capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    golden("help", "\n".join(ragtrial(capsys, *name.split()[1:], "--help").out for name in COMMANDS))


NARROW = [
    *SCREENS.values(), ("validate", "experiment.yaml"), ("chunks", "experiment.yaml", "-n", "2"), ("cache", "list"),
    ("--help",), ("help", "compare"), ("help", "labels"), ("help", "search"), ("list", "runs"), ("labels", "list"),
    ("explain", "chunker.size"), ("show", "--costs"), ("compare", "--axes"),
    ("pool", "--setting", "words", "-o", "work.json", "--force"),
]  # fmt: skip
"""What is run in a terminal of 80 columns."""


@pytest.mark.parametrize("command", NARROW, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    command: tuple[str, ...], folder: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But paths and ids, which are wanted whole: a line without spaces after the first word may be longer."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    if not (folder / "results").exists():
        assert ragtrial(capsys, "run", "experiment.yaml", "-q").code == 0
    made = ragtrial(capsys, *command)
    wide = [line for line in f"{made.out}\n{made.err}".splitlines() if len(line) > 80]
    assert [line for line in wide if not re.search(r"\S{40,}", line)] == []


def harmless(screen: str, folder: Path) -> str:
    """The screen without what differs from run to run: ids, folders, and how long things took."""
    screen = screen.replace(str(folder), "FOLDER").replace(str(ROOT), "ROOT")
    screen = re.sub(r"\d{8}T\d{6}Z-[0-9a-f]{6}", "RUN-ID", screen)
    screen = re.sub(r" +\d+\.\d(?=  )", "  N.N", screen)
    return re.sub(r"<1 s|\b\d+(\.\d)? s\b", "TIME", screen)
