"""The documentation is whole: every page is in the navigation, and links lead somewhere."""

import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragtrial.config.models import ExperimentConfig
from ragtrial.config.reference import config_sections

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


def test_references_are_what_the_code_says() -> None:
    for name, text in runpy.run_path(str(DOCS / "config_reference.py"))["pages"]().items():
        assert (DOCS / name).read_text(encoding="utf-8") == text, f"{name} is out of date: run `make docs`"
    made = runpy.run_path(str(DOCS / "api_reference.py"))["page"]()
    assert (DOCS / "api.md").read_text(encoding="utf-8") == made, "api.md is out of date: run `make docs`"


EXAMPLES = [
    pytest.param(heading, example, id=f"{page.stem}: {heading}")
    for page in sorted(DOCS.glob("config-*.md"))
    for heading, example in re.findall(
        r"^#+ ([^\n]*)\n(?:(?!#)[^\n]*\n)*?```yaml\n(.*?)```",
        page.read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
]


@pytest.mark.parametrize(("heading", "example"), EXAMPLES)
def test_the_example_of_a_kind_is_valid(heading: str, example: str) -> None:
    ((key, value),) = yaml.safe_load(example).items()
    retrievers: dict[str, Any] = {"dense": {"kind": "dense"}, "bm25": {"kind": "bm25"}}
    config = {"experiment": "e", "dataset": {"corpus": "c", "queries": "q.json"}, "retrievers": retrievers}
    if key == "mine":
        retrievers["mine"] = value
    elif key == "collection":
        retrievers["mine"] = {"kind": "dense", "collection": value}
    elif key == "endpoint":
        retrievers["mine"] = {"kind": heading.split()[0], "inputs": "dense", "endpoint": value}
    elif key.startswith("retrievers."):
        config["sweep"] = {"matrix": {key: value}}
    elif key in ("chunker", "embedder", "store", "executor"):
        config[key] = value
    else:  # a mapping in a kind of store
        kind = heading.split()[0]
        address = {"url": "postgresql://localhost/app"} if kind == "pgvector" else {}
        config["store"] = {"kind": kind, key: value, **address}
    assert ExperimentConfig.model_validate(config).experiment == "e"


def test_every_kind_has_an_example_and_every_page_a_way_to_it() -> None:
    kinds = {section.kind for section in config_sections() if section.kind}
    assert len(EXAMPLES) > len(kinds) > 30
    site = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]
    assert sorted(navigation(site["nav"])) == [str(page.relative_to(DOCS)) for page in PAGES]
    linked = set(_LINK.findall((DOCS / "index.md").read_text(encoding="utf-8")))
    assert {str(page.relative_to(DOCS)) for page in PAGES} - linked == {"index.md"}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_a_file_and_pages_install_a_clone_first(page: Path) -> None:
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
    # The project is on no index: a clone is installed first, with tested versions; then its name adds an extra.
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
