"""What ``from ragtrial import ...`` offers, and that neither it nor ``--help`` loads anything heavy."""

import inspect
import os
import pkgutil
import pydoc
import subprocess
import sys
import textwrap
from pathlib import Path

import click
import pytest

import ragtrial
from ragtrial.cli.group import COMMANDS, group, summary_of

PUBLIC = [
    "ExperimentResults", "Hit", "Judgment", "PromptQueries", "Query", "QueryResult",
    "RagtrialError", "Report", "RetrievalEvaluator", "RunOptions", "compare",
    "load_config", "load_prompt_queries", "load_report", "run_experiment", "score",
]  # fmt: skip
HEAVY = {"torch", "chromadb", "scipy", "pandas", "sentence_transformers", "transformers", "haystack"}

MORE_THAN_HELP_NEEDS = HEAVY | {"numpy", "pydantic", "yaml", "rich", "huggingface_hub", "tokenizers"}


def imported_by(code: str, tmp_path: Path) -> set[str]:
    """The top-level packages that a fresh Python has loaded after ``code``."""
    ending = "import sys; print('LOADED', *{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)"
    wrapped = f"try:\n    {code}\nfinally:\n    {ending}\n"
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    made = subprocess.run(
        [sys.executable, "-c", wrapped], capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    (line,) = [line for line in made.stderr.splitlines() if line.startswith("LOADED ")]
    return set(line.split()[1:])


def test_the_public_names_are_these_and_help_lists_them_with_examples() -> None:
    assert ragtrial.__all__ == dir(ragtrial) == PUBLIC
    assert len(PUBLIC) <= 16
    # The import system would overwrite the one by the other.
    modules = {module.name for module in pkgutil.iter_modules(ragtrial.__path__)}
    assert modules >= {"config", "experiment", "report"}
    assert modules.isdisjoint(PUBLIC)
    with pytest.raises(AttributeError, match="module 'ragtrial' has no attribute 'nothing'"):
        _ = ragtrial.nothing
    shown = pydoc.plain(pydoc.render_doc(ragtrial))
    assert [name for name in PUBLIC if f" {name}(" not in shown and f".{name}" not in shown] == []
    shown = (ragtrial.__doc__ or "").split("\n\n", 1)[1]
    assert "run_experiment(" in shown
    compile(textwrap.dedent(shown), "example", "exec")


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_says_what_it_is_and_shows_readable_defaults(name: str) -> None:
    assert "<lambda>" not in str(inspect.signature(getattr(ragtrial, name)))
    assert " at 0x" not in str(inspect.signature(getattr(ragtrial, name)))
    assert getattr(ragtrial, name).__doc__


@pytest.mark.slow
def test_importing_names_or_commands_loads_nothing_heavy(tmp_path: Path) -> None:
    assert MORE_THAN_HELP_NEEDS.isdisjoint(imported_by("import ragtrial", tmp_path))
    loaded = imported_by(f"from ragtrial import {', '.join(PUBLIC)}", tmp_path)
    assert loaded >= {"numpy", "pydantic"}
    assert HEAVY.isdisjoint(loaded)
    modules = ", ".join(f"ragtrial.cli.{name}_command" for name in COMMANDS)
    assert HEAVY.isdisjoint(imported_by(f"import {modules}", tmp_path))


def test_the_list_of_commands_has_the_first_line_of_each_commands_own_help() -> None:
    own = {name: group.get_command(click.Context(group), name) for name in COMMANDS}
    assert {name: command.get_short_help_str(999) for name, command in own.items() if command} == {
        name: summary_of(name) for name in COMMANDS
    }


@pytest.mark.slow
@pytest.mark.parametrize("line", ["--help", "--version", "list metrics", "list stores", "schema", "show nowhere"])
def test_commands_that_compute_nothing_import_nothing_heavy(line: str, tmp_path: Path) -> None:
    main = f"from ragtrial.__main__ import main; import sys; sys.argv[1:] = {line.split()}; main()"
    loaded = imported_by(main, tmp_path)
    assert "click" in loaded
    assert (MORE_THAN_HELP_NEEDS if line.startswith("--") else HEAVY).isdisjoint(loaded)
