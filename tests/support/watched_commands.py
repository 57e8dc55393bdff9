"""Command lines in this process, which writes down what each imports, opens, starts and connects to."""

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_OPENING = {"open", "os.listdir", "os.scandir", "os.mkdir", "os.remove", "os.rename", "os.symlink", "sqlite3.connect"}
_REACHING = {"socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.system", "os.exec"}


@dataclass(frozen=True)
class Watched:
    """What a command came to: all paths are real ones."""

    code: int
    said: str
    opened: list[Path]
    reached: list[str]
    imported: list[Path]


def watched(cwd: Path, commands: Sequence[Sequence[str | Path]], log: Path, source: Path) -> list[Watched]:
    """Each of ``commands``, run in ``cwd``, all in one process."""
    environment = {name: value for name, value in os.environ.items() if name != "RAGTRIAL_WORKSPACE"}
    environment |= {"PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    listed = json.dumps([list(map(str, command)) for command in commands])
    done = subprocess.run([sys.executable, __file__, str(log), listed], cwd=cwd, env=environment, text=True,
                          capture_output=True, check=False, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [
        Watched(one["code"], one["said"], list(map(Path, one["opened"])), one["reached"],
                list(map(Path, one["imported"])))
        for one in json.loads(log.read_text())
    ]  # fmt: skip


def _main(log: str, listed: str) -> None:
    from ragtrial.cli.outcome import run

    here, opened, reached = Path.cwd(), set[str](), set[str]()

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event in _OPENING and isinstance(arguments[0], str | bytes | os.PathLike):
            opened.add(os.fsdecode(arguments[0]).removeprefix("file:").partition("?")[0])
        elif event in _REACHING:
            reached.add(f"{event} {arguments[1:]}")

    sys.addaudithook(watch)
    found = []
    for arguments in json.loads(listed):
        opened.clear()
        reached.clear()
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            code = run(arguments)
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        found.append({
            "code": code, "said": said.getvalue(), "reached": sorted(reached),
            "opened": sorted(os.path.realpath(here / name) for name in opened),
            "imported": sorted(os.path.realpath(file) for file in files if file),
        })  # fmt: skip
    Path(log).write_text(json.dumps(found))


if __name__ == "__main__":
    _main(*sys.argv[1:])
