"""The README tells the truth: every command in it runs, in its order, on a copy of what is shipped."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corpora import write_files
from ragtrial.components.refiners import REFINERS
from ragtrial.components.retrievers import RETRIEVERS
from scripts import run_python, run_script
from small_experiment import CONFIG

SHIPPED = ("configs", "data", "constraints", "prompt_queries.json", "Makefile", "pyproject.toml", "README.md")


@pytest.fixture(scope="module")
def clone(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the shipped files, without anything that runs have left behind."""
    folder = tmp_path_factory.mktemp("clone")
    for name in SHIPPED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns(".ragtrial", "__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def blocks(root: Path, language: str) -> list[str]:
    text = (root / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def run(script: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Under `make test` a make of ours would take itself for a part of that one.
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
    environment = {**inherited, "PATH": path, "HF_HUB_OFFLINE": "1", "COLUMNS": "120", **more}
    return subprocess.run(["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True)


def make(target: str, folder: Path, *flags: str, **more: str) -> subprocess.CompletedProcess[str]:
    """``make`` in this virtual environment, taken as installed."""
    venv = Path(sys.prefix)
    installed = [f"-o {venv}/{stamp}" for stamp in (".demo", ".dev")]
    return run(f"make {target} VENV={venv} {' '.join([*flags, *installed])}", folder, **more)


def test_make_demo_ends_with_the_score_table_and_the_path_of_the_report(clone: Path, shared_workspace: Path) -> None:
    done = make("demo", clone, RAGTRIAL_WORKSPACE=str(shared_workspace))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.rstrip().split("\n")
    header = next(index for index, line in enumerate(lines) if line.startswith("setting "))
    assert lines[header].split()[1] == "ndcg@10"
    assert lines[header + 1].startswith("dense ")
    report = Path(lines[-1].removeprefix("report: "))
    assert report.is_file()
    assert report.is_relative_to(clone / "results" / "quickstart")


def test_make_test_runs_the_tests(clone: Path) -> None:
    done = make("test", clone, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "-m pytest" in done.stdout


def test_every_shell_command_of_the_readme_runs_in_its_order(root: Path, clone: Path) -> None:
    scripts = [block for block in blocks(root, "sh") if not block.startswith("make ")]
    assert any("ragtrial init" in script for script in scripts)
    done = run_script("".join(scripts), clone, COLUMNS="120")
    assert done.code == 0, done.err
    assert "query q1: How long can I send something back?" in done.out
    assert " characters)" in done.out


def test_the_make_commands_of_the_readme_are_demo_and_test(root: Path) -> None:
    assert [block.strip() for block in blocks(root, "sh") if block.startswith("make ")] == ["make demo", "make test"]


def test_the_python_of_the_readme_runs(root: Path, clone: Path, shared_workspace: Path) -> None:
    of_runs, of_experiments = blocks(root, "python")
    printed = run_python(of_experiments, clone, RAGTRIAL_WORKSPACE=str(shared_workspace))
    assert re.match(r"Mean\(mean=0\.\d+, n=59\)", printed)
    assert (clone / "scores.json").is_file()
    assert run_python(of_runs, clone).splitlines() == [
        "Mean(mean=0.75, n=2)",
        "{'rr': 0.5, 'ndcg@10': 0.6309297535714575}",
    ]


def test_the_retrievers_and_the_sweep_of_the_readme_are_a_config(root: Path, tmp_path: Path) -> None:
    from ragtrial import load_config

    head = CONFIG.partition("retrievers:")[0].replace("{kind: document}", "{kind: recursive, unit: characters}")
    write_files(tmp_path, {"config.yaml": head + "".join(blocks(root, "yaml"))})
    settings = load_config(tmp_path / "config.yaml")
    assert list(settings.retrievers) == ["dense", "bm25", "hybrid", "reranked"]
    assert settings.sweep is not None


def test_every_kind_of_retriever_and_refiner_is_in_the_readme(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    kinds = re.findall(r"^\| \[?`(\w+)`(?:\]\(\S+\))? \|", text, flags=re.MULTILINE)
    assert kinds == ["dense", "bm25", "custom", "run_file", "fusion", "expand", "rerank", "mmr", "parent"]
    assert set(kinds) == {*RETRIEVERS.names(), *REFINERS.names()}


def test_the_labels_of_the_readme_are_labels(root: Path, tmp_path: Path) -> None:
    from ragtrial import load_prompt_queries

    text = (root / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^ +```json\n(.*?)^ +```$", text, flags=re.MULTILINE | re.DOTALL)
    path = tmp_path / "prompt_queries.json"
    path.write_text(block, encoding="utf-8")
    assert load_prompt_queries(path).queries[0].relevant_docs[0].quote == "within 30 days of delivery"


def test_every_file_the_readme_links_to_is_there(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#]+)\)", text)
    assert targets
    assert [target for target in targets if not (root / target).exists()] == []
