"""What pages tell readers to type: commands in a shell, and Python.

All of it runs in this process. What a page says of a command does not depend on the process it runs in, and to load
the libraries anew takes longer than most commands. Tests of what does depend on it start processes: ``commands``.
"""

import gc
import importlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

from commands import Outcome
from pages import Block
from ragtrial.cli.outcome import run as command_line

FOR_A_SHELL = set("$`*?~|&;<>(){}[]#!\\'\"")
"""What a shell may read as more than a letter."""


def run_script(script: str, folder: Path, **variables: str) -> Outcome:
    """What lines of shell print in ``folder`` with more environment ``variables``; each of them ends well.

    A line that is more than words, or calls another program, is given to a shell of its own.
    """
    out, err = "", ""
    with _place(folder, variables):
        for line in filter(str.strip, script.replace("\\\n", " ").splitlines()):
            made = _run_line(line)
            assert made.code == 0, f"{line}: {made.err}"
            out, err = out + made.out, err + made.err
    return Outcome(0, out, err)


def run_python(code: str, folder: Path, **variables: str) -> str:
    """What a program prints that runs in ``folder`` with more environment ``variables``."""
    out = _Captured()
    with _place(folder, variables), redirect_stdout(out):
        exec(compile(code, "<page>", "exec"), {"__name__": "__main__"})
    return out.text()


def run_block(block: Block, folder: Path, **variables: str) -> str:
    """What a block of Python or of shell prints."""
    if block.language == "python":
        return run_python(block.code, folder, **variables)
    return run_script(block.code, folder, **variables).out


def _run_line(line: str) -> Outcome:
    words = shlex.split(line)
    if words[0] == "cd" and _is_words(line):
        (folder,) = words[1:]
        os.chdir(folder)
        return Outcome(0, "", "")
    if words[0] == "ragtrial" and _is_words(line):
        out, err = _Captured(), _Captured()
        with redirect_stdout(out), redirect_stderr(err):
            code = command_line(words[1:])
        gc.collect()  # a process that ends lets go of its locks
        return Outcome(code, out.text(), err.text())
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    made = subprocess.run(
        ["bash", "-euc", line], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
    )
    return Outcome(made.returncode, made.stdout, made.stderr)


def _is_words(line: str) -> bool:
    """Whether a shell would read nothing but words in it."""
    return not FOR_A_SHELL & set(re.sub(r'"[^"$`\\]*"', "", line))


class _Captured(io.TextIOWrapper):
    """A stream as a process has it that writes into a pipe."""

    def __init__(self) -> None:
        self._bytes = io.BytesIO()
        super().__init__(self._bytes, encoding="utf-8", write_through=True)

    def text(self) -> str:
        self.flush()
        return self._bytes.getvalue().decode("utf-8")


@contextmanager
def _place(folder: Path, variables: dict[str, str]) -> Iterator[None]:
    """In ``folder`` and among ``variables``; modules that were found there are forgotten at the end."""
    environment, path, modules = dict(os.environ), list(sys.path), set(sys.modules)
    os.environ.update(variables)
    sys.path.insert(0, "")
    importlib.invalidate_caches()  # another test may have had a folder of this name
    gc.freeze()  # what is there before is not looked through after each command
    try:
        with chdir(folder):
            yield
    finally:
        os.environ.clear()
        os.environ.update(environment)
        sys.path[:] = path
        for name in set(sys.modules) - modules:
            if _is_below(sys.modules[name], folder):
                del sys.modules[name]


def _is_below(module: object, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve().is_relative_to(folder.resolve())
