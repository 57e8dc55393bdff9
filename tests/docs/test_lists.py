"""Tables of names on pages are complete: each has a row for every member, and for nothing else."""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from ragtrial.components.chunkers.base import CHUNKERS
from ragtrial.components.executors.processes import ProcessExecutor
from ragtrial.components.executors.ray import RayExecutor
from ragtrial.config.sweep import METHODS
from ragtrial.engines import STORES
from ragtrial.labelling.importers.converting import HOWS
from ragtrial.views.sections import plot_names


def section(root: Path, page: str, start: str) -> str:
    text = (root / "docs" / page).read_text(encoding="utf-8")
    return text[text.index(start) :].partition("\n## ")[0]


@pytest.mark.parametrize(
    ("page", "start", "names"),
    [
        ("chunkers.md", "| `", CHUNKERS.names()),
        ("executors.md", "", ProcessExecutor.model_fields.keys() - {"kind"}),
        ("executors.md", "## Ray", RayExecutor.model_fields.keys() - {"kind"}),
        ("labels.md", "## How a label was found", HOWS),
        ("report-page.md", "| NAME |", plot_names()),
        ("search.md", "| `", METHODS.names()),
        ("stores.md", "| `exact`", STORES.names()),
    ],
)
def test_a_table_has_a_row_for_every_name(root: Path, page: str, start: str, names: Iterable[str]) -> None:
    assert set(re.findall(r"^\| `(\w+)`", section(root, page, start), re.MULTILINE)) == {*names}


def test_what_contributors_are_sent_to_is_there(root: Path) -> None:
    named = re.findall(r"`([\w.]+)` in `([\w/]+\.py)`", (root / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert len(named) >= 12
    for name, file in named:
        code = (root / "src" / "ragtrial" / file).read_text(encoding="utf-8")
        assert re.search(rf"^ *(?:def |class )?{name.rpartition('.')[2]}\b", code, re.MULTILINE), (name, file)


def texts_in(node: ast.AST) -> Iterator[str]:
    return (one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str))


def test_the_page_of_warnings_lists_the_codes_of_the_source(root: Path) -> None:
    """A code is the first argument of a call that warns, or ``code=``."""
    page = (root / "docs" / "warnings.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([a-z0-9-]+)` \| [A-Z].*\. \|$", page, re.MULTILINE)
    written, codes = set[str](), set[str]()
    for path in (root / "src").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        written.update(texts_in(tree))
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            if re.fullmatch(r"ReportWarning|WarningPart|(.*\.)?_?warn", ast.unparse(call.func)):
                arguments = [*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "code")]
                codes.update(text for argument in arguments for text in texts_in(argument) if " " not in text)
    assert sorted(set(listed)) == listed
    assert codes <= set(listed) <= written
    assert len(codes) > 50
