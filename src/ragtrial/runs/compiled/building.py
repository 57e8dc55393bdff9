"""Building the library from the C files in this folder, with any C compiler.

The build hook of the package loads this file by its path, so it imports nothing of ragtrial. In a checkout,
``python -m ragtrial.runs.compiled.building`` builds it again.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

FOLDER = Path(__file__).parent
NAME = "ragtrial_core.dll" if sys.platform == "win32" else "ragtrial_core.so"
FLAGS = ("-std=c11", "-O3", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra")


def sources(folder: Path = FOLDER) -> list[Path]:
    """The C files and headers in a folder, by name. None where only the library was installed."""
    return sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h"))


def mark_of(files: Sequence[Path]) -> str:
    """A checksum of the sources. The library contains it, which shows if it was built from older sources."""
    total = 0
    for file in files:
        total = zlib.crc32(file.name.encode() + b"\0" + file.read_bytes(), total)
    return f"{total:08x}"


def is_current(target: Path = FOLDER / NAME, folder: Path = FOLDER) -> bool:
    """True if the library exists and was built from the sources in a folder; it is not loaded."""
    return target.exists() and mark_of(sources(folder)).encode() in target.read_bytes()


def compiler() -> list[str] | None:
    """``$CC``, or the first of cc, gcc, clang that there is."""
    import shutil

    if os.environ.get("CC", "").strip():
        return os.environ["CC"].split()
    return next(([name] for name in ("cc", "gcc", "clang") if shutil.which(name)), None)


def build(target: Path = FOLDER / NAME, flags: Sequence[str] = FLAGS, folder: Path = FOLDER) -> None:
    """Builds the library, and moves it to ``target`` in one step, so that a library in use is not changed.

    Raises OSError if there is no compiler, or it fails; the message has the output of the compiler.
    """
    import subprocess
    import tempfile

    command, files = compiler(), sources(folder)
    if command is None:
        raise OSError("there is no C compiler: none of cc, gcc and clang is in PATH, and CC is not set")
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        library = Path(scratch) / target.name
        names = [str(file) for file in files if file.suffix == ".c"]
        mark = f'-DRAGTRIAL_MARK="{mark_of(files)}"'
        arguments = [*command, *flags, mark, "-shared", "-o", str(library), *names, "-lm"]
        ended = subprocess.run(arguments, capture_output=True, text=True, check=False)  # noqa: S603 - of CC or this machine
        if ended.returncode:
            raise OSError(f"{command[0]} cannot build it: {ended.stderr.strip()[:2000]}")
        library.replace(target)


if __name__ == "__main__":
    build()
