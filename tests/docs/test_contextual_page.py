"""The page on contextual text tells the truth: every command and all of its Python run, in their order."""

import json
import re
import shutil
from pathlib import Path

import yaml

from pages import blocks, fastest_precision, fenced, replace_sections
from ragtrial.components.contextual_text import ContextOptions
from scripts import run_block, run_script

PAGE = Path(__file__).parents[2] / "docs" / "contextual-text.md"
FEW = [
    f"account-and-app/{name}.md"
    for name in ("accessibility", "energy-reports", "larkfield-plus-guide", "release-notes-6-2", "two-factor-set-up")
]
"""The part of the sample data that the page is run on: it shows one document, which is there."""


def project_of_few(root: Path, folder: Path) -> Path:
    """A project of `ragtrial init` over a few documents and the labels of these, with the config of the page."""
    for name in FEW:
        target = folder / "data" / "support" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(root / "data" / "support" / name, target)
    labels = json.loads((root / "prompt_queries.json").read_text(encoding="utf-8"))
    for query in labels["queries"]:
        query["relevant_docs"] = [doc for doc in query["relevant_docs"] if doc["doc"] in FEW]
    (folder / "prompt_queries.json").write_text(json.dumps(labels), encoding="utf-8")
    (init,) = re.findall(r"`(ragtrial init [^`]*)`, then `cd support`", PAGE.read_text(encoding="utf-8"))
    run_script(init, folder)
    config = folder / "support" / "experiment.yaml"
    embedder = {**yaml.safe_load(config.read_text(encoding="utf-8"))["embedder"], "precision": fastest_precision()}
    replace_sections(config, fenced(PAGE, "yaml")[1], embedder=embedder, latency=False)
    return folder / "support"


def test_every_command_runs_and_prints_what_the_page_shows(root: Path, tmp_path: Path, shared_workspace: Path) -> None:
    project = project_of_few(root, tmp_path)
    printed = ""
    for block in blocks(PAGE, "sh|python"):
        out = run_block(block, project, COLUMNS="100", RAGTRIAL_WORKSPACE=str(shared_workspace))
        assert block.shown in ("", out), out
        printed += out
    assert "  + From an article on the app and the account." not in printed
    assert "  + Accessibility in the Larkfield app From an article on the app and the account.\n" in printed
    results = project / "results" / "support"
    latest = (results / "latest").read_text(encoding="utf-8").strip()
    report = json.loads((results / latest / "report.json").read_text(encoding="utf-8"))
    found = {setting["name"]: setting for setting in report["settings"]}
    assert set(found) == {"plain", "headings", "headings-sentences"}
    assert found["plain"]["parameters"]["context"]["prefixes"] == "prefixes.jsonl"
    assert found["headings-sentences"]["parameters"]["context"]["sentences"] == 1
    assert min(setting["scores"]["ndcg@10"]["mean"] for setting in found.values()) > 0.6
    assert len({setting["fingerprint"] for setting in found.values()}) == 3
    counts = [setting["counts"] for setting in found.values()]
    assert len({one["chunks"] for one in counts}) == 1
    assert [one["chunks_too_long"] for one in counts] == [0, 0, 0]


def test_the_defaults_of_the_page_are_the_defaults() -> None:
    assert yaml.safe_load(fenced(PAGE, "yaml")[0])["context"] == ContextOptions().model_dump()
