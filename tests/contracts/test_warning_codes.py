"""Every warning has a code that programs may rely on, and a sentence that says what it is about."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ragtrial.records import WarningCode
from small_experiment import ragtrial

SOURCE = Path(__file__).parents[2] / "src" / "ragtrial"


@pytest.mark.slow
def test_no_code_is_written_but_as_a_member_of_the_enum() -> None:
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("ReportWarning", "WarningPart"):
                named = (one.value for one in node.keywords if one.arg == "code")
                code = node.args[0] if node.args else next(named, None)
                assert not isinstance(code, ast.Constant | ast.JoinedStr), f"{path}:{node.lineno}: write WarningCode"


def test_every_code_is_used() -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.rglob("*.py"))
    assert [code for code in WarningCode if f"WarningCode.{code.name}" not in text] == []


@pytest.mark.parametrize("code", WarningCode)
def test_a_code_is_called_as_it_is_written_and_says_what_it_is_about(code: WarningCode) -> None:
    assert code == code.name.lower().replace("_", "-")
    assert code.about.endswith(".")
    assert code.about[0].isupper()


def test_the_codes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ragtrial(capsys, "list", "warnings").out.splitlines()
    assert [line.split()[0] for line in lines] == [code.value for code in WarningCode]
