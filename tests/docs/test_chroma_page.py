"""The page on existing collections tells the truth: its programs and its commands run and print what it shows."""

import json
import re
from pathlib import Path

import pytest
import yaml

from pages import blocks, copy_sample, fenced
from ragtrial.engines import COLLECTIONS
from scripts import run_block

_RUN = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")
_NUMBER = re.compile(r"\d\.\d{3,4}")
_BEST = re.compile(r"^(?:Best: |Leading: |No setting is shown |All identical: ).*?\n\n", re.M | re.S)
"""The settings are just told apart, or just not: Chroma's graph is another one each time it is built."""

_VERDICT = re.compile(r"( |^)(?:> best|> leading|\? inconclusive|- worse|verdict) +", re.M)

_COSTS = re.compile(r"^costs +.*?\n\n(index against .*?\n\n)?", re.M | re.S)
"""The tables of costs and of the index, which the page leaves out: they are of the machine, and of the graph."""

_SHORT = re.compile(r" \d+$", re.M)
"""How many queries are short of hits depends on the graph."""


def test_the_program_and_the_command_of_the_page_print_what_it_shows(root: Path, tmp_path: Path) -> None:
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


def test_the_page_names_every_key_and_shows_what_the_config_has(root: Path) -> None:
    pages = [root / "docs" / f"{name}.md" for name in ("chroma-collections", "stores-milvus")]
    both = "".join(page.read_text(encoding="utf-8") for page in pages)
    keys = {name for _, kind in COLLECTIONS.members() for name in kind.model_fields}
    assert [name for name in sorted(keys) if f"| `{name}`" not in both and f", `{name}`" not in both] == []
    (shown,) = fenced(pages[0], "yaml")
    config = yaml.safe_load((root / "configs" / "chroma-collection.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(shown)["retrievers"]["production"] == config["retrievers"]["production"]
