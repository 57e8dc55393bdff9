"""The pages on stores and existing collections tell the truth: configs and programs run, and no option is missing."""

import json
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml

from pages import blocks, copy_sample, fenced
from qdrant_double import qdrant_double
from ragtrial import load_config, run_experiment
from ragtrial.config import settings
from ragtrial.engines import COLLECTIONS
from ragtrial.engines.base import FlatIndex
from ragtrial.engines.milvus import MilvusIndexKind, MilvusStore
from ragtrial.engines.pgvector import PgvectorIndexOptions, PgvectorStore
from ragtrial.engines.qdrant import QdrantHnswIndex, QdrantStore
from ragtrial.engines.servers import ServerStore
from ragtrial.options import Options
from scripts import run_block, run_python, run_script
from store_kinds import postgres_url


@dataclass(frozen=True)
class Page:
    """The page on an engine: ``server`` is one with the variable that has its address, for its existing collection.

    ``used`` are settings whose index is searched, ``lossy`` some that find less than 0.7 of what is nearest, and
    ``scanned`` one whose index is not used.
    """

    store: type[ServerStore]
    kinds: tuple[type[Options], ...]
    variable: str
    server: Callable[[], AbstractContextManager[str]]
    used: tuple[str, ...]
    lossy: tuple[str, ...]
    scanned: str | None = None


_LOSSY = ("starved", "lists")
_USED = ("graph", *_LOSSY)

PAGES = {
    "milvus": Page(MilvusStore, get_args(get_args(MilvusIndexKind)[0]), "", lambda: nullcontext(""), _USED, _LOSSY),
    "qdrant": Page(QdrantStore, (QdrantHnswIndex, FlatIndex), "QDRANT_URL", qdrant_double,
     ("graph", "starved", "product"), ("starved",), "usual"),
    "pgvector": Page(PgvectorStore, get_args(get_args(PgvectorIndexOptions)[0]), "PGVECTOR_URL",
                     lambda: nullcontext(postgres_url()), _USED, _LOSSY, "usual"),
}  # fmt: skip


def settings_of(folder: Path) -> dict[str, Any]:
    (report,) = folder.glob("*/report.json")
    return {one["name"]: one for one in json.loads(report.read_text(encoding="utf-8"))["settings"]}


@pytest.fixture
def sample(root: Path, tmp_path: Path) -> Path:
    return copy_sample(root, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAGES)
def test_the_config_of_a_page_runs_and_names_what_indexes_lose(name: str, root: Path, sample: Path) -> None:
    page, text = PAGES[name], root / "docs" / f"stores-{name}.md"
    config = yaml.safe_load((sample / "configs" / f"{name}.yaml").read_text(encoding="utf-8"))
    example = next(block for block in fenced(text, "yaml") if block.startswith("store:"))
    assert yaml.safe_load(example).items() <= config.items()
    command = fenced(text, "sh")[0].splitlines()[-1]
    with page.server() as url:
        done = run_script(command, sample, COLUMNS="120", **{page.variable or "UNUSED": url})
    assert "index against exact search" in done.out
    settings = settings_of(sample / "results" / name)
    audits = {setting: one["audit"] for setting, one in settings.items() if one["audit"]}
    assert {setting: audits[setting]["used"] for setting in page.used} == dict.fromkeys(page.used, True)
    overlaps = [audits[setting]["overlap"] for setting in (*page.lossy, "graph")]
    assert overlaps == sorted(set(overlaps)), "each loses less than the one before"
    assert max(overlaps[:-1]) < 0.7
    assert overlaps[-1] > 0.95
    if page.scanned:
        assert (audits[page.scanned]["used"], audits[page.scanned]["overlap"]) == (False, 1)
    shown = re.findall(r"^(\S+) +[01]\.\d{4} ", text.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(shown) in ([], sorted(audits))
    vectors = settings["exact"]["costs"]["index_bytes"]
    assert settings["graph"]["costs"]["index_bytes"] > vectors  # and not the size of what is kept here of a server's


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if page.variable])
def test_the_existing_collection_of_a_page_is_filled_and_measured(name: str, root: Path, sample: Path) -> None:
    page, text = PAGES[name], root / "docs" / f"stores-{name}.md"
    config = yaml.safe_load((sample / "configs" / f"{name}.yaml").read_text(encoding="utf-8"))
    retrievers = yaml.safe_load(fenced(text, "yaml")[-1])["retrievers"]
    unused = {"store", "chunker"}
    mine = {key: value for key, value in config.items() if key not in unused} | {"retrievers": retrievers}
    (sample / "configs" / "mine.yaml").write_text(yaml.safe_dump(mine), encoding="utf-8")
    with page.server() as url:
        run_python(fenced(text, "python")[0], sample, **{page.variable: url})
        run_script("ragtrial run configs/mine.yaml -q --no-latency", sample, **{page.variable: url})
    settings = settings_of(sample / "results" / name)
    assert sorted(settings) == ["charging", "production"]
    assert settings["production"]["facts"]["checked"].startswith("ok")
    assert settings["production"]["audit"]["overlap"] > 0.9
    assert settings["charging"]["audit"] is not None


@pytest.mark.parametrize("name", PAGES)
def test_every_kind_of_index_and_every_option_is_on_the_page(name: str, root: Path) -> None:
    page, text = PAGES[name], (root / "docs" / f"stores-{name}.md").read_text(encoding="utf-8")
    options = {option for kind in page.kinds for option in kind.model_fields} - {"kind"}
    names = {str(name) for kind in page.kinds for name in get_args(kind.model_fields["kind"].annotation)}
    assert [one for one in sorted(options | names) if f"`{one}`" not in text] == []
    assert [one for one in sorted(page.store.connected_by) if one not in text] == []


def test_the_configs_of_the_page_on_all_stores_show_costs_and_have_the_settings_of_its_tables(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_workspace: Path
) -> None:
    monkeypatch.setenv("RAGTRIAL_WORKSPACE", str(shared_workspace))
    report = run_experiment(load_config(root / "configs" / "stores.yaml", [f"output.directory={tmp_path}"]))
    audits = {one.name: one.audit for one in report.settings if one.audit}
    overlaps = [audits[f"faiss-ef_search{ef}"].overlap or 0 for ef in (1, 8, 64)]
    assert overlaps == sorted(overlaps)
    assert overlaps[0] < 0.7 < 0.95 < overlaps[-1]
    assert (audits["qdrant"].used, audits["chroma"].used) == (False, True)
    assert "index-not-used" in {one.code for one in report.warnings}
    monkeypatch.setenv("BEIR", "scifact")
    of_beir, _ = settings.settings_of(load_config(root / "configs" / "stores-beir.yaml"))
    tables = fenced(root / "docs" / "stores.md", "text")
    for table, names in zip(tables, (audits, {one.name for one in of_beir} - {"exact"}), strict=False):
        assert sorted(re.findall(r"^(\S+) +[01]\.\d{4} ", table, re.MULTILINE)) == sorted(names)


_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")
_NUMBER = re.compile(r"\d\.\d{3,4}")
_BEST = re.compile(r"^(?:Best: |Leading: |No setting is shown |All identical: ).*?\n\n", re.M | re.S)
"""The settings are just told apart, or just not: Chroma's graph is another one each time it is built."""

_VERDICT = re.compile(r"( |^)(?:> best|> leading|\? inconclusive|- worse|verdict) +", re.M)

_COSTS = re.compile(r"^costs +.*?\n\n(index against .*?\n\n)?", re.M | re.S)
"""The tables of costs and of the index, which the page leaves out: they are of the machine, and of the graph."""

_SHORT = re.compile(r" \d+$", re.M)
"""How many queries are short of hits depends on the graph."""


def test_programs_and_commands_of_the_page_on_collections_print_what_it_shows(root: Path, tmp_path: Path) -> None:
    copy_sample(root, tmp_path)
    shown_blocks = list(blocks(root / "docs" / "chroma-collections.md", "sh|python"))
    assert [block.language for block in shown_blocks] == ["python", "sh", "python", "sh"]
    for block in shown_blocks:
        out = run_block(block, tmp_path, COLUMNS="120")
        printed = _RUN.sub("RUN", out.replace(f"{tmp_path}/", "")).replace("run\nRUN", "run RUN")
        printed = _COSTS.sub("", printed)
        shown = [_SHORT.sub(" #", _NUMBER.sub("#", text)) for text in (printed, block.shown)]
        one, other = (_VERDICT.sub(" verdict ", _BEST.sub("the best\n\n", text)) for text in shown)
        assert one == other
        scores = [[float(one) for one in _NUMBER.findall(_BEST.sub("", text))] for text in (printed, block.shown)]
        assert scores[0] == pytest.approx(scores[1], abs=0.1)
    (report,) = (tmp_path / "results" / "chroma-collection").glob("*/report.json")
    settings = {one["name"]: one for one in json.loads(report.read_text(encoding="utf-8"))["settings"]}
    facts = settings["production"]["facts"]
    assert facts["checked"].startswith("ok (cosine 1.0000")
    assert (facts["items_located"], facts["items_as_whole_documents"]) == (0, 0)


def test_the_page_on_collections_names_every_key_and_shows_what_the_config_has(root: Path) -> None:
    pages = [root / "docs" / f"{name}.md" for name in ("chroma-collections", "stores-milvus")]
    both = "".join(page.read_text(encoding="utf-8") for page in pages)
    keys = {name for _, kind in COLLECTIONS.members() for name in kind.model_fields}
    assert [name for name in sorted(keys) if f"| `{name}`" not in both and f", `{name}`" not in both] == []
    (shown,) = fenced(pages[0], "yaml")
    config = yaml.safe_load((root / "configs" / "chroma-collection.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(shown)["retrievers"]["production"] == config["retrievers"]["production"]
