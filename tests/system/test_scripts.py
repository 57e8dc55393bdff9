"""Scripts of pages run as in a shell, though in this process; forked programs end as programs do."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from forked import forked, forked_command
from scripts import run_python, run_script


def test_a_line_that_is_more_than_words_gets_a_shell(tmp_path: Path) -> None:
    script = 'NAME=x; echo "$NAME" > here\ncat here | tr x y\necho "a  b" c\nragtrial list metrics | grep -c "^rr "\n'
    made = run_script(script, tmp_path)
    assert (made.code, made.out, made.err) == (0, "y\na  b c\n1\n", "")
    assert (tmp_path / "here").read_text() == "x\n"


def test_the_first_line_that_fails_is_the_last(tmp_path: Path) -> None:
    made = run_script("mkdir sub\ncd sub\nragtrial validate nowhere.yaml\ntouch after\n", tmp_path)
    assert (made.code, made.out) == (2, "")
    assert made.err == "error: nowhere.yaml: there is no such file.\n"
    assert list((tmp_path / "sub").iterdir()) == []


def test_what_stands_in_quotes_is_one_word_and_a_line_may_go_on(tmp_path: Path) -> None:
    made = run_script('ragtrial explain \\\n  "ndcg(gain=exp)@10"\n', tmp_path, COLUMNS="80")
    assert made.code == 0, made.err
    assert "ndcg(gain=exp)@10" in made.out


def test_nothing_of_a_script_is_left_behind(tmp_path: Path) -> None:
    before = Path.cwd(), dict(os.environ), list(sys.path), sys.stdout
    (tmp_path / "beside_the_script.py").write_text("VALUE = 3\n")
    code = "import os\nfrom beside_the_script import VALUE\nos.environ['LEFT'] = '1'\nprint(VALUE, os.environ['GIVEN'])"
    assert run_python(code, tmp_path, GIVEN="4") == "3 4\n"
    assert (Path.cwd(), dict(os.environ), list(sys.path), sys.stdout) == before
    assert "beside_the_script" not in sys.modules


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("print(5)", (0, "5\n", "")),
        ("import sys; print(*sys.argv[1:], file=sys.stderr); sys.exit(7)", (7, "", "a 1\n")),
        ("import os; os.kill(os.getpid(), 9)", (-signal.SIGKILL, "", "")),
    ],
)
def test_a_forked_program_has_arguments_and_an_end(code: str, expected: tuple[int, str, str], tmp_path: Path) -> None:
    ended = forked(code, "a", 1, folder=tmp_path)
    assert (ended.code, ended.out, ended.err) == expected


def test_a_forked_command_sees_its_folder_and_its_variables(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("experiment: ${NAME}\n")
    ended = forked_command(tmp_path, "validate", "config.yaml", NAME="7*7")
    assert ended.code == 2
    assert "config.yaml:1:1: experiment is '7*7'" in ended.err
