"""The page on array jobs tells the truth: its commands run, and each task of its scripts embeds its own shard."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts import run_script
from small_experiment import CONFIG, DOCUMENTS, LABELS, ragtrial, small_experiment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "experiment"
    small_experiment(made, config=CONFIG)
    return made


def blocks(root: Path, language: str) -> list[str]:
    text = (root / "docs" / "array-jobs.md").read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def kept(shared: Path) -> int:
    """How many texts have vectors in the shared folder."""
    return sum(path.stat().st_size for path in shared.rglob("*.keys")) // 16


def task(script: str, folder: Path, **variables: object) -> None:
    """Run a task of an array, as its engine does: with its number in the environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run(["bash", "-euc", script], cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_commands_of_the_page_run(root: Path, folder: Path, tmp_path: Path) -> None:
    (commands,) = blocks(root, "sh")
    done = run_script(commands.replace("/tmp/", f"{tmp_path}/"), folder, COLUMNS="120")
    assert done.code == 0, done.err
    assert kept(folder / "shared") == len(DOCUMENTS) + len(LABELS["queries"])


def test_tasks_of_the_slurm_script_embed_all_texts(root: Path, folder: Path, tmp_path: Path) -> None:
    """All 64 tasks are more processes than a test may start: the same script with two shards."""
    (script,) = blocks(root, "bash")
    first, last = map(int, re.findall(r"--array=(\d+)-(\d+)", script)[0])
    assert f'$SLURM_ARRAY_TASK_ID/{last - first + 1}"' in script
    for number in (1, 2):
        task(script.replace("/64", "/2"), folder, SLURM_ARRAY_TASK_ID=number, SHARED=tmp_path, TMPDIR=tmp_path)
    assert kept(tmp_path / "ragtrial") == len(DOCUMENTS) + len(LABELS["queries"])
    assert {path.name for path in tmp_path.glob("ragtrial-*")} == {"ragtrial-1", "ragtrial-2"}


def test_pods_of_the_kubernetes_job_embed_all_texts(root: Path, folder: Path, tmp_path: Path) -> None:
    (text,) = blocks(root, "yaml")
    job = yaml.safe_load(text)["spec"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    (script,) = container["args"]
    assert (job["completionMode"], container["command"]) == ("Indexed", ["sh", "-c"])
    assert f'"$JOB_COMPLETION_INDEX/{job["completions"]}"' in script
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    for number in (0, 1):
        here = script.replace("/64", "/2").replace("/data/shared", "shared").replace("/data/", "")
        task(here.replace("/scratch/", f"{tmp_path}/{number}-"), folder, JOB_COMPLETION_INDEX=number)
    assert kept(folder / "shared") == len(DOCUMENTS) + len(LABELS["queries"])


def test_the_numbers_of_the_page_are_those_of_the_command(
    root: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (root / "docs" / "array-jobs.md").read_text(encoding="utf-8")
    (every,) = re.findall(r"after every ([\d,]+) texts", page)
    assert f"[default: {every.replace(',', '')}" in re.sub(r"\s+", " ", ragtrial(capsys, "work", "--help").out)
    done = ragtrial(capsys, "work", str(folder / "experiment.yaml"), "--shard", "0/64", "--json", "-q")
    again = ragtrial(capsys, "work", str(folder / "experiment.yaml"), "--shard", "64/64", "--json", "-q")
    assert json.loads(again.out)["embedders"][0]["texts"] == done.json["embedders"][0]["texts"]
