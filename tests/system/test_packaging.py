"""What is installed is what is here: the wheel has every module, the types marker, the licence and the command."""

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


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_every_module_all_of_a_page_and_the_marker_that_it_is_typed(root: Path, wheel: Path) -> None:
    source = root / "src"
    expected = {path.relative_to(source).as_posix() for path in (source / "ragtrial").rglob("*.py")}
    views = source / "ragtrial" / "views"
    folders = [views / name for name in ("page/assets", "label_page/assets")]
    shown = {path.relative_to(source).as_posix() for folder in folders for path in folder.iterdir()}
    shown |= {f"ragtrial/views/page/{name}.html" for name in ("template", "history")}
    start = source / "ragtrial" / "cli" / "start"
    shown |= {path.relative_to(source).as_posix() for path in start.rglob("*") if path.is_file()}
    samples = source / "ragtrial" / "cli" / "samples"
    shown |= {path.relative_to(source).as_posix() for path in samples.rglob("*") if path.is_file()}
    support = root / "data" / "support"
    documents = {path.relative_to(support).as_posix() for path in support.rglob("*.md")}
    shown |= {
        f"ragtrial/cli/samples/support/{name}"
        for name in {"prompt_queries.json", *(f"documents/{one}" for one in documents)}
    }
    assert len(documents) == 118
    library = {f"ragtrial/runs/compiled/{building.NAME}"} if building.compiler() else set()
    assert "ragtrial/views/page/assets/main.js" in shown
    assert {f"ragtrial/views/label_page/assets/label.{kind}" for kind in ("html", "css", "js")} <= shown
    assert expected | {"ragtrial/py.typed"} | shown | library == {
        name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("ragtrial/")
    }


def test_the_demo_runs_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    ran = subprocess.run(
        [sys.executable, "-m", "ragtrial", "demo", "-q"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")}, capture_output=True, text=True,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "ragtrial-demo" / "documents" / "hub" / "webhooks.md").is_file()
    assert (tmp_path / "ragtrial-demo" / "report.html").is_file()


@pytest.mark.skipif(building.compiler() is None, reason="there is no C compiler, so the wheel has no library")
def test_a_wheel_with_the_library_is_for_this_platform_and_any_python(wheel: Path, tmp_path: Path) -> None:
    assert "-py3-none-" in wheel.name
    assert not wheel.name.endswith("-any.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extract(f"ragtrial/runs/compiled/{building.NAME}", tmp_path)
    assert load(tmp_path / "ragtrial" / "runs" / "compiled" / building.NAME) is not None


def test_a_source_distribution_makes_the_same_wheel(root: Path, wheel: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path)]
    subprocess.run([*command, "-t", "sdist"], cwd=root, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    (unpacked,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert not (unpacked / "src" / "ragtrial" / "runs" / "compiled" / building.NAME).exists()
    subprocess.run([*command, "-t", "wheel"], cwd=unpacked, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.whl")
    assert made.name == wheel.name
    assert set(zipfile.ZipFile(made).namelist()) == set(zipfile.ZipFile(wheel).namelist())


def test_without_a_compiler_the_wheel_is_of_python_alone(root: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    ran = subprocess.run(
        command, cwd=root, check=True, capture_output=True, text=True, env={**os.environ, "CC": "no-such-compiler"}
    )
    assert "ragtrial is installed without its compiled part, so it scores slower" in ran.stderr + ran.stdout
    (made,) = tmp_path.glob("*.whl")
    assert made.name.endswith("-py3-none-any.whl")
    assert f"ragtrial/runs/compiled/{building.NAME}" not in zipfile.ZipFile(made).namelist()


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
