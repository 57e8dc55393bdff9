"""The page on Milvus tells the truth: its config runs, its indexes lose what it says, and no option is missing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import get_args

import pytest
import yaml

from ragtrial.components.stores.milvus import MilvusStore
from ragtrial.components.stores.milvus_index import MilvusIndexKind
from scripts import run_script


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "stores-milvus.md").read_text(encoding="utf-8")


def test_the_config_of_the_page_runs_and_names_what_indexes_lose(page: str, root: Path, tmp_path: Path) -> None:
    for name in ("configs", "data", "prompt_queries.json"):
        copied = shutil.copytree if (root / name).is_dir() else shutil.copy
        copied(root / name, tmp_path / name)
    shutil.rmtree(tmp_path / "configs" / ".ragtrial", ignore_errors=True)
    shown, *_ = re.findall(r"^```yaml\n(.*?)^```$", page, re.M | re.S)
    config = yaml.safe_load((tmp_path / "configs" / "milvus.yaml").read_text(encoding="utf-8"))
    assert yaml.safe_load(shown).items() <= config.items()
    command = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)[0]
    done = run_script(command, tmp_path, COLUMNS="120")
    assert done.code == 0, done.err
    assert "index against exact search" in done.out
    (report,) = (tmp_path / "results" / "milvus").glob("*/report.json")
    audits = {one["name"]: one["audit"] for one in json.loads(report.read_text(encoding="utf-8"))["settings"]}
    assert all(audits[name]["used"] for name in ("graph", "starved", "lists")), audits
    assert max(audits["lists"]["overlap"], audits["starved"]["overlap"]) < 0.7
    assert audits["graph"]["overlap"] > 0.95


def test_every_kind_of_index_and_every_option_is_on_the_page(page: str) -> None:
    kinds = get_args(get_args(MilvusIndexKind)[0])
    options = {name for kind in kinds for name in kind.model_fields} - {"kind"}
    names = {str(get_args(kind.model_fields["kind"].annotation)[0]) for kind in kinds}
    assert [one for one in sorted(options | names) if f"`{one}`" not in page] == []
    connection = set(MilvusStore.connected_by)
    assert [one for one in sorted(connection) if one not in page] == []
