"""Damages the files of every reader where that reaches new code: Atheris, where it is installed.

python tests/support/guided_fuzz.py [SECONDS] [READER]
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any


def main() -> int:
    seconds, *names = sys.argv[1:] or ["20"]
    if importlib.util.find_spec("atheris") is None:
        print("Atheris is not installed (pip install atheris): nothing is damaged where that reaches new code.")
        return 0
    if names:
        return one(names[0], seconds)
    from readers import READERS

    return max(subprocess.run([sys.executable, __file__, seconds, name], check=False).returncode for name in READERS)


def one(name: str, seconds: str) -> int:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["ragtrial"]):
        from ragtrial.errors import RagtrialError
        from readers import READERS
    folder = Path(tempfile.mkdtemp(prefix="ragtrial-fuzz-"))
    seeds, found = folder / "seeds", Path(__file__).parents[1] / "fuzz" / name.replace(" ", "-")
    (folder / "work").mkdir()
    found.mkdir(parents=True, exist_ok=True)
    file, *_ = READERS[name].write(folder / "work")
    path = folder / "work" / file
    seeds.mkdir()
    (seeds / "first").write_bytes(path.read_bytes())

    def read(content: bytes) -> None:
        path.write_bytes(content)
        with suppress(RagtrialError):
            READERS[name].read(path)

    limits = [f"-max_total_time={seconds}", "-max_len=20000", "-timeout=10", f"-artifact_prefix={found / file}--"]
    atheris.Setup([sys.argv[0], *limits, str(seeds)], read)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
