"""The page on continuous integration tells the truth: its commands, its workflow and its tests run, in their order."""

import re
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from github_jobs import Job, comments_api, pull_request
from pages import fenced
from ragtrial.report.schema import COSTS
from scripts import run_script
from small_experiment import CONFIG, small_experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small experiment of two settings, that needs no model, and its baseline."""
    made = tmp_path_factory.mktemp("ci")
    two = CONFIG.replace("top_k: 3}", "top_k: 10}\n  bm25: {kind: bm25, top_k: 10}")
    small_experiment(made, config=two.replace("{kind: document}", "{kind: recursive, unit: characters}"))
    run_script("ragtrial run experiment.yaml\nragtrial export latest baseline.csv --baseline --run dense\n", made)
    return made


def test_the_commands_the_workflow_and_the_tests_of_the_page_run(root: Path, folder: Path) -> None:
    done = run_script("".join(fenced(root / "docs" / "ci.md", "sh")), folder, COLUMNS="120")
    passed = ["2 gates: 2 passed", *["1 gate: 1 passed"] * 3]
    assert re.findall(r"^\d gate.*$", done.out, re.MULTILINE) == passed
    assert all((folder / name).stat().st_size for name in ("gates.xml", "gates.md", "comparison.csv"))
    (code,) = fenced(root / "docs" / "ci.md", "python")
    (folder / "test_retrieval.py").write_text(code, encoding="utf-8")
    tested = run_script("python -m pytest -q -p no:cacheprovider test_retrieval.py", folder)
    assert "3 passed" in tested.out


def blocks_of(root: Path) -> list[Any]:
    """What the blocks of YAML on the page say: a workflow of GitHub, a job of GitLab, a config of pre-commit."""
    return [yaml.safe_load(text) for text in fenced(root / "docs" / "ci.md", "yaml")]


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Commands of a job that installs nothing."""
    scripts = {"python": f'[ "$2" = pip ] || exec {sys.executable} "$@"', "pip": "true", "git": "true",
               "ragtrial": f'exec {sys.executable} -m ragtrial "$@"'}  # fmt: skip
    (tmp_path / "tools").mkdir()
    for name, script in scripts.items():
        (tmp_path / "tools" / name).write_text(f"#!/bin/bash\n{script}\n")
        (tmp_path / "tools" / name).chmod(0o755)
    return tmp_path / "tools"


def test_the_workflow_of_github_gates_and_comments(root: Path, folder: Path, tools: Path, tmp_path: Path) -> None:
    with comments_api() as api:
        job = Job(folder, tmp_path / "temp", pull_request(), api.address, tools=tools)
        job.steps(blocks_of(root)[0]["jobs"]["quality"]["steps"], {})
    assert job.code == 0, job.log
    assert job.summary.startswith("### small: passed (2 gates: 2 passed)\n")
    assert api.comments[0]["body"].endswith(job.summary)
    (files,) = (given["path"].split() for name, given in job.used if name.startswith("actions/upload-artifact"))
    assert {"gates.md", "gates.xml"} <= {path.name for path in Path(files[1]).iterdir()}
    assert (folder / files[0]).is_dir()


def test_the_job_of_gitlab_gates_and_keeps_one_note(root: Path, folder: Path, tools: Path, tmp_path: Path) -> None:
    job = blocks_of(root)[1]["retrieval"]
    with comments_api() as api:
        api.add("<!-- ragtrial -->", "stranger")
        runner = Job(folder, tmp_path / "temp", {}, tools=tools, variables={
            "CI_API_V4_URL": api.address, "CI_PROJECT_ID": "1", "CI_MERGE_REQUEST_IID": "7",
            "RAGTRIAL_TOKEN": "secret-token",
        })  # fmt: skip
        for part in ("script", "after_script", "after_script"):
            runner.steps([{"run": line} for line in job[part]], {})
            assert runner.code == 0, runner.log
    assert [method for method, _ in api.requests] == ["GET", "POST", "GET", "PUT"]
    _, note = api.comments
    assert note["body"] == f"<!-- ragtrial -->\n{(folder / 'gates.md').read_text()}"
    assert ET.parse(folder / job["artifacts"]["reports"]["junit"]).getroot()


def test_the_page_names_every_input_and_every_cost(root: Path) -> None:
    text = (root / "docs" / "ci.md").read_text(encoding="utf-8")
    action = yaml.safe_load((root / "action.yml").read_text(encoding="utf-8"))
    assert [name for name in action["inputs"] if f"`{name}`" not in text] == []
    (hook,) = yaml.safe_load((root / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [one["id"] for one in blocks_of(root)[2]["repos"][0]["hooks"]] == [hook["id"]]
    assert [name for name in COSTS if f"`{name}" not in text and f"{name} >" not in text] == []
