"""What is installed is what is here: the wheel has every module, the types marker, the licence and the command."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import ragtrial


@pytest.fixture(scope="module")
def wheel(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=root, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_has_every_module_and_the_marker_that_it_is_typed(root: Path, wheel: Path) -> None:
    source = root / "src"
    expected = {path.relative_to(source).as_posix() for path in (source / "ragtrial").rglob("*.py")}
    assert expected | {"ragtrial/py.typed"} == {
        name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("ragtrial/")
    }


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
