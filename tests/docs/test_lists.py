"""Tables of names on pages are complete: each has a row for every member, and for nothing else."""

import re
from collections.abc import Iterable
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
