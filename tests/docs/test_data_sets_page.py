"""The page on several data sets: its commands run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from small_experiment import ragtrial

PAGE = (Path(__file__).parents[2] / "docs" / "data-sets.md").read_text(encoding="utf-8")
BASE = """\
chunker: {kind: document}
retrievers:
  bm25: {kind: bm25, top_k: 10}
  plain: {kind: bm25, top_k: 10, stemmer: none}
latency: false
"""


def test_its_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("retrievers.yaml").write_text(BASE, encoding="utf-8")
    (config,) = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for name, ending in (("scifact", "ing"), ("cranfield", "s")):
        (folder := Path(name)).mkdir()
        (folder / "qrels").mkdir()
        rows = [{"_id": f"d{at}", "title": "", "text": f"word{at % 700}{ending} of {at}"} for at in range(70)]
        asked = [{"_id": f"q{at}", "text": f"word{at} of {at}"} for at in range(20)]
        (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
        (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, asked)), encoding="utf-8")
        qrels = "".join(f"q{at}\td{at}\t1\n" for at in range(20))
        (folder / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{qrels}", encoding="utf-8")
        Path(f"{name}.yaml").write_text(config.replace("scifact", name), encoding="utf-8")
    (compare,) = re.findall(r"^ragtrial (.*)$", PAGE, re.MULTILINE)
    for command in ("run scifact.yaml", "run cranfield.yaml", compare):
        made = ragtrial(capsys, *command.split())
        assert made.code == 0, made.err
    assert "2 data sets are few" in made.out
