"""Every warning has a code that programs may rely on, and docs/warnings.md says what each is about."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
WARNS = re.compile(r"ReportWarning|WarningPart|(.*\.)?_?warn")
LISTED = re.findall(
    r"^\| `([a-z0-9-]+)` \| [A-Z].*\. \|$", (ROOT / "docs" / "warnings.md").read_text(encoding="utf-8"), re.MULTILINE
)


def texts_in(node: ast.AST) -> Iterator[str]:
    return (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def codes_of(call: ast.Call) -> Iterator[str]:
    """The texts that are the code of a warning: the first argument, or ``code=``."""
    arguments = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "code")]
    yield from (text for argument in arguments for text in texts_in(argument) if " " not in text)


def test_the_page_of_warnings_lists_the_codes_of_the_source() -> None:
    written, codes = set[str](), set[str]()
    for path in (ROOT / "src").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        written.update(texts_in(tree))
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        codes.update(code for call in calls if WARNS.fullmatch(ast.unparse(call.func)) for code in codes_of(call))
    assert sorted(set(LISTED)) == LISTED
    assert codes <= set(LISTED) <= written
    assert len(codes) > 50
