"""Builds what is published, into dist/: the source distribution, this platform's wheel, and a wheel of Python alone.

Each is installed in a new environment with the light dependencies, without torch, Chroma and sentence-transformers, and
runs the demo and a score there.

python tests/support/distribution.py
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"
HEAVY = ("chromadb", "sentence-transformers")
NO_COMPILER = {"CC": "no-such-compiler"}


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    source = built("sdist", ROOT, DIST)
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(source) as packed:
            packed.extractall(folder, filter="data")
        (unpacked,) = Path(folder).iterdir()
        platform = built("wheel", unpacked, DIST)
        pure = built("wheel", unpacked, Path(folder, "pure"), **NO_COMPILER)
        shutil.copy(pure, DIST)
    with zipfile.ZipFile(platform) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Metadata.from_email(wheel.read(name), validate=True)
    print(f"{metadata.name} {metadata.version}: the metadata is valid")
    for archive in (source, platform, DIST / pure.name):
        tried(archive)


def built(target: str, folder: Path, into: Path, **environment: str) -> Path:
    """The only file that a build of ``folder`` adds to ``into``."""
    before = set(into.glob("*"))
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(into)]
    subprocess.run(command, cwd=folder, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
    (archive,) = set(into.glob("*")) - before
    return archive


def tried(archive: Path) -> None:
    """Install ``archive`` in a new environment, and run the demo and a score there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    light = [text for text in project["dependencies"] if Requirement(text).name not in HEAVY]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        install = [f"{folder}/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-c", str(ROOT / "constraints" / "cpu.txt"), *light], check=True)
        subprocess.run([*install, "--no-deps", str(archive)], check=True)
        Path(folder, "qrels").write_text("q 0 a 1\n")
        Path(folder, "run").write_text("q Q0 a 1 1.0 run\n")
        for command in (["--version"], ["demo", "-q"], ["score", "qrels", "run", "-q"]):
            subprocess.run([f"{folder}/bin/ragtrial", *command], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    print(f"{archive.name}: installed, and its demo and score ran")


if __name__ == "__main__":
    main()
