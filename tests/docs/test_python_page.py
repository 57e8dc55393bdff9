"""Python as the pages show it: it runs, prints what they say, and takes nothing from inside the package."""

import re
from pathlib import Path

import pytest

from pages import assert_prints_what_it_shows
from small_experiment import Capture, ragtrial

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_CODE = re.compile(r"^ *```\w*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_IMPORTED = re.compile(r"^\s*(?:from|import) (ragtrial[\w.]*)", re.MULTILINE)


@pytest.mark.slow
def test_python_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    assert ragtrial(capsys, "demo", tmp_path / "demo", "-q").code == 0
    monkeypatch.chdir(tmp_path / "demo")
    assert_prints_what_it_shows(ROOT / "docs" / "python.md")


@pytest.mark.parametrize("page", ["pandas.md", "scoring.md"])
def test_python_on_a_page_prints_what_it_shows(page: str) -> None:
    assert_prints_what_it_shows(ROOT / "docs" / page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_on_a_page_imports_public_modules_alone(page: Path) -> None:
    code = "\n".join(_CODE.findall(page.read_text(encoding="utf-8")))
    assert set(_IMPORTED.findall(code)) <= {"ragtrial"}
