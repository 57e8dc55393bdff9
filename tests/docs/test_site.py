"""The documentation is whole: every page is in the navigation, and links lead somewhere."""

from __future__ import annotations

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINKING = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]

_CODE = re.compile(r"^ *```.*?^ *```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def navigation(entries: object) -> Iterator[str]:
    """The pages of the navigation, in their order."""
    if isinstance(entries, str):
        yield entries
    for entry in entries.values() if isinstance(entries, dict) else entries if isinstance(entries, list) else ():
        yield from navigation(entry)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and the site make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_reference_of_config_keys_is_what_the_models_say() -> None:
    made = runpy.run_path(str(DOCS / "config_reference.py"))["page"]()
    assert (DOCS / "config.md").read_text(encoding="utf-8") == made, "out of date: run `make docs`"


def test_every_page_is_in_the_navigation_once() -> None:
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(navigation(site["nav"])) == [str(page.relative_to(DOCS)) for page in PAGES]


def test_the_first_page_links_to_every_other() -> None:
    linked = set(_LINK.findall((DOCS / "index.md").read_text(encoding="utf-8")))
    assert {str(page.relative_to(DOCS)) for page in PAGES} - linked == {"index.md"}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    broken = []
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        target, _, anchor = link.partition("#")
        if "://" in link:
            continue
        path = (page.parent / target).resolve() if target else page
        is_inside = page.parent == ROOT or path.is_relative_to(DOCS)
        if not path.exists() or not is_inside or (anchor and anchor not in anchors(path)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_installs_a_clone_and_later_its_extras(page: Path) -> None:
    """The project is on no index: a clone is installed first, with tested versions; then its name adds an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    clone = re.compile(r"pip install -c (?:ragtrial/)?constraints/cpu\.txt '\./?(?:ragtrial)?\[([\w,-]+)\]'")
    extra = re.compile(r"pip install 'ragtrial\[([\w,-]+)\]'")
    for command in re.findall(r"pip install [^`\n]*", page.read_text(encoding="utf-8")):
        form = clone.fullmatch(command) or extra.fullmatch(command)
        assert form, command
        assert set(form[1].split(",")) <= set(project["optional-dependencies"])


def test_the_site_is_built_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="the site needs the extra docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    shutil.copytree(DOCS, tmp_path / "docs")
    command = [sys.executable, "-m", "zensical", "build", "--strict", "--clean"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "config" / "index.html").is_file()
