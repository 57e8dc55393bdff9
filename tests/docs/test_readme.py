"""The README is true: every command in it runs, in its order, on a copy of what is shipped."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from corpora import write_files
from pages import fenced
from scripts import run_python, run_script

SHIPPED = (
    "configs", "data", "results/sample", "constraints", "prompt_queries.json", "Makefile", "pyproject.toml",
    "README.md",
)  # fmt: skip


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


@pytest.mark.slow
def test_make_demo_compares_four_settings_and_the_commands_after_it_work(clone: Path, shared_workspace: Path) -> None:
    with (clone / "configs" / "hybrid.yaml").open("a", encoding="utf-8") as config:
        config.write("latency: false\n")
    done = make("demo", clone, RAGTRIAL_WORKSPACE=str(shared_workspace))
    assert done.returncode == 0, done.stderr
    assert re.search(r"^[^\n]*: weighted, ndcg@10 0\.704: it finds an answer", done.stdout, re.MULTILINE), done.stdout
    rows = [line.split()[0] for line in done.stdout.splitlines() if re.match(r"\w+ {2,}0\.", line)]
    assert rows[:4] == ["weighted", "rrf", "dense", "bm25"]
    assert done.stdout.splitlines()[-1].endswith("/bin/ragtrial compare")
    page = clone / "report.html"
    assert page.is_file()
    page.unlink()
    run_script("ragtrial compare\nragtrial report", clone)
    assert page.is_file()


def test_the_readme_is_short(root: Path) -> None:
    assert len((root / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


def test_the_shell_commands_of_the_readme_run_in_their_order(root: Path, clone: Path) -> None:
    install, commands, own = fenced(root / "README.md", "sh")
    assert "pip install -c constraints/cpu.txt '.[offline-model]'" in install
    demo = "".join(line for line in install.splitlines(keepends=True) if line.startswith("ragtrial "))
    done = run_script(demo + commands, clone, COLUMNS="120")
    assert "\nLeading: hybrid, ndcg@10 0.712: it finds an answer in the first 10 for 59 of 59 questions" in done.out
    assert (clone / "trial" / "report.html").is_file()
    shutil.copytree(clone / "trial" / "documents", clone / "my-documents")
    write_files(clone, {"questions.csv": "question,answer\nsend it back?,within 30 days of delivery\n"})
    made = run_script(own, clone, COLUMNS="120")
    assert re.search(r"^bm25: ndcg@10 [01].\d{4} \(1 of 3 settings\)$", made.err, re.MULTILINE)


def test_the_python_of_the_readme_runs(root: Path, clone: Path, shared_workspace: Path) -> None:
    (code,) = fenced(root / "README.md", "python")
    run_script("ragtrial init python", clone)
    printed = run_python(code, clone / "python", RAGTRIAL_WORKSPACE=str(shared_workspace))
    assert re.search(r"^Baseline: bm25, ndcg@\d+ 0\.\d+: it finds an answer in the first ", printed, re.MULTILINE)
    assert re.search(r"^No ranking yet: 1 scored question; a ranking needs 10\.$", printed, re.MULTILINE)
