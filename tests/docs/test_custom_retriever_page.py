"""The page on custom retrievers tells the truth: its code runs, and an experiment with its retrievers does."""

import json
import re
from pathlib import Path

import pytest

from asked import workplace
from corpora import write_files
from pages import assert_prints_what_it_shows, blocks
from ragtrial.config import load_config
from ragtrial.experiment import run_experiment
from small_experiment import CONFIG, DOCUMENTS, HASHING, LABELS


@pytest.fixture
def page(root: Path) -> Path:
    return root / "docs" / "custom-retrievers.md"


def test_its_retrievers_run_in_an_experiment(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    monkeypatch.chdir(tmp_path)
    files = {f"documents/{name}": text for name, text in DOCUMENTS.items()}
    write_files(
        tmp_path, {**files, "documents/warranty.md": "The warranty is valid for six months. Batteries are covered."}
    )
    assert_prints_what_it_shows(page)
    settings = re.findall(r"^```yaml\nretrievers:\n(.*?)^```$", page.read_text(encoding="utf-8"), re.M | re.S)
    mine, _, libraries, _ = settings
    config = CONFIG + mine + libraries
    code = "\n".join(block.code for block in blocks(page) if not block.shown)
    function = next(block.code for block in blocks(page) if block.shown).rpartition("print(")[0]
    own = {"my_search.py": function + code, "hashing.py": HASHING, "prompt_queries.json": json.dumps(LABELS)}
    write_files(tmp_path, {**own, "config.yaml": config.replace("latency: false\n", "") + "latency: false\n"})
    report = run_experiment(load_config(tmp_path / "config.yaml"))
    assert [one.name for one in report.settings] == ["dense", "mine", "langchain", "llama-index", "haystack"]
    assert report.setting("mine").scores["precision@1"].mean == 1.0
    assert report.setting("haystack").scores["hit_rate@1"].mean == 1.0


def test_a_hit_of_each_shape_on_the_page_is_one(page: Path, tmp_path: Path) -> None:
    place = workplace(tmp_path, {"warranty.md": "Batteries are covered ..." + "x" * 500})
    cells = re.findall(r"^\| `([\"({].*?)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(cells) == 4
    for cell in cells:
        assert place.found(f"return [[{cell}]]")[0][0].startswith("warranty.md")
