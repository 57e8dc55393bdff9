"""Programs in processes of their own that begin at once: forked from one that has loaded the libraries.

For tests that need a process because it may crash or fill a disk, or to be sure that nothing is left in memory. What
depends on how a process begins (its imports, its memory, its signals, what it connects to) is tested in real ones.
"""

import os
import sys
import tempfile
from collections.abc import Sequence
from multiprocessing import get_context
from pathlib import Path

from commands import LONGEST, Outcome

LOADED = ["numpy.ma", "chromadb.api.rust", "ragtrial.__main__", "ragtrial.cli.outcome", "ragtrial.cli.gating",
          "ragtrial.experiment", "ragtrial.views.comparison_tables"]  # fmt: skip
"""What most runs load."""

_FORKS = get_context("forkserver") if sys.platform == "linux" else get_context("spawn")
_FORKS.set_forkserver_preload(LOADED)


def forked(code: str, *arguments: object, folder: Path | None = None, **environment: str) -> Outcome:
    """What a Python program comes to that runs in ``folder``, with these arguments and more environment variables."""
    with tempfile.TemporaryDirectory() as log:
        files = [Path(log, "stdout.txt"), Path(log, "stderr.txt")]
        argv = ["-c", *map(str, arguments)]
        place = str(folder or Path.cwd())
        process = _FORKS.Process(target=_run, args=(code, argv, place, {**os.environ, **environment}, files))
        process.start()
        process.join(LONGEST)
        if process.exitcode is None:
            process.kill()
            process.join()
        out, err = (file.read_text(encoding="utf-8") if file.exists() else "" for file in files)
        assert process.exitcode is not None
        ended = Outcome(process.exitcode, out, err)
        process.close()
        return ended


def forked_command(folder: Path, *arguments: str, **environment: str) -> Outcome:
    """What ``ragtrial`` with ``arguments`` comes to in ``folder``."""
    code = "from ragtrial.__main__ import main; main()"
    return forked(code, *arguments, folder=folder, **{"COLUMNS": "160", **environment})


def _run(code: str, argv: Sequence[str], folder: str, environment: dict[str, str], files: Sequence[Path]) -> None:
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, file in enumerate(files, 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout, sys.stderr = (open(number, "w", encoding="utf-8", closefd=False) for number in (1, 2))  # noqa: SIM115
    sys.argv = list(argv)
    sys.path.insert(0, "")
    exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
