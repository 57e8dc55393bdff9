"""The page on continuous integration tells the truth: its commands, its workflow and its tests run, in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from pages import fenced
from ragtrial.report.schema import COSTS
from scripts import run_script
from small_experiment import CONFIG, small_experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small experiment of two settings, that needs no model."""
    made = tmp_path_factory.mktemp("ci")
    two = CONFIG.replace("top_k: 3}", "top_k: 10}\n  bm25: {kind: bm25, top_k: 10}")
    small_experiment(made, config=two.replace("{kind: document}", "{kind: recursive, unit: characters}"))
    return made


def run(script: str, folder: Path, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "COLUMNS": "120", **variables}
    done = subprocess.run(["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done


def test_the_commands_the_workflow_and_the_tests_of_the_page_run(root: Path, folder: Path) -> None:
    done = run_script("".join(fenced(root / "docs" / "ci.md", "sh")), folder, COLUMNS="120")
    assert done.code == 0, done.err
    assert re.findall(r"^\d gate.*$", done.out, re.MULTILINE) == ["2 gates: 2 passed", "1 gate: 1 passed"]
    assert all((folder / name).stat().st_size for name in ("gates.xml", "gates.md", "comparison.csv"))
    (gates,) = [step for step in workflow(root)["jobs"]["quality"]["steps"] if step.get("name") == "Gates"]
    (folder / "gates.xml").unlink()
    run(gates["run"], folder, GITHUB_STEP_SUMMARY="summary.md")
    summary = (folder / "summary.md").read_text(encoding="utf-8")
    assert summary.startswith("### small: passed (2 gates: 2 passed)\n")
    assert [suite.attrib["name"] for suite in ET.parse(folder / "gates.xml").getroot()] == [
        "gates", "comparison",
    ]  # fmt: skip
    (code,) = fenced(root / "docs" / "ci.md", "python")
    (folder / "test_retrieval.py").write_text(code, encoding="utf-8")
    tested = run(f"{sys.executable} -m pytest -q -p no:cacheprovider test_retrieval.py", folder)
    assert "3 passed" in tested.stdout


def workflow(root: Path) -> dict[str, dict[str, dict[str, list[dict[str, str]]]]]:
    (text,) = fenced(root / "docs" / "ci.md", "yaml")
    made: dict[str, dict[str, dict[str, list[dict[str, str]]]]] = yaml.safe_load(text)
    return made


def test_the_page_names_every_cost(root: Path) -> None:
    text = (root / "docs" / "ci.md").read_text(encoding="utf-8")
    assert [name for name in COSTS if f"`{name}" not in text and f"{name} >" not in text] == []
