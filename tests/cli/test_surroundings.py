"""What surrounds a command changes what it may say, never how it ends: closed streams, a folder that is gone."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from ragtrial.cli.terminal import Terminal
from ragtrial.records import ReportWarning

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell of POSIX is needed")


def done(folder: Path, line: str, before: str = "") -> subprocess.CompletedProcess[str]:
    command = f"{before} {shlex.quote(sys.executable)} -m ragtrial {line}"
    return subprocess.run(["sh", "-c", command], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("line", "code", "streams"),
    [("list metrics", 0, ">&-"), ("list metrics", 0, "<&- >&- 2>&-"), ("run nothing.yaml", 2, "2>&-"),
     ("run nothing.yaml", 2, "<&-")],
)  # fmt: skip
def test_a_closed_stream_changes_no_exit_code(tmp_path: Path, streams: str, line: str, code: int) -> None:
    process = done(tmp_path, f"{line} {streams}")
    assert (process.returncode, "Traceback" in process.stdout + process.stderr) == (code, False)


@pytest.mark.parametrize("line", ["run /tmp/x.yaml", "show", "init x", "cache list"])
def test_a_current_folder_that_is_gone_is_an_error_that_says_so(tmp_path: Path, line: str) -> None:
    process = done(tmp_path, line, "mkdir gone && cd gone && rmdir ../gone &&")
    assert process.returncode == 2, process.stderr
    assert "the current folder no longer exists" in process.stderr


def test_a_warning_of_each_kind_is_shown_first_what_may_change_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal(as_json=False, quiet=False, verbose=False, no_color=True)
    short = [ReportWarning("short", f"setting {number}: \x1b[2Jshort.") for number in range(3)]
    terminal.warn([*short, ReportWarning.of_verdict("ties", "equal scores.")])
    assert capsys.readouterr().err.strip().splitlines() == [
        "4 warnings, 2 shown:",
        "  equal scores.",
        "  setting 0: \ufffd[2Jshort. (2 more short: --json shows all)",
    ]
