"""Scripts of pages run as in a shell, though in this process; forked programs end as programs do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

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


def test_nothing_of_a_script_is_left_behind(tmp_path: Path) -> None:
    before = Path.cwd(), dict(os.environ), list(sys.path), sys.stdout
    (tmp_path / "beside_the_script.py").write_text("VALUE = 3\n")
    code = "import os\nfrom beside_the_script import VALUE\nos.environ['LEFT'] = '1'\nprint(VALUE, os.environ['GIVEN'])"
    assert run_python(code, tmp_path, GIVEN="4") == "3 4\n"
    assert (Path.cwd(), dict(os.environ), list(sys.path), sys.stdout) == before
    assert "beside_the_script" not in sys.modules
