"""The pages on chunkers and passages tell the truth: kinds and metrics, and the finding on the sample data."""

import re
from pathlib import Path

import pytest
import yaml

from expectations import present
from pages import fastest_precision, fenced
from ragtrial.config import ExperimentConfig, load_config
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.chunk_preview import cut_settings


def rows(table: str) -> list[list[str]]:
    """The cells of each line; two spaces or more stand between them."""
    return [re.split(r" {2,}", line.strip()) for line in table.splitlines()]


def test_the_finding_on_the_sample_data_holds(root: Path, tmp_path: Path, shared_workspace: Path) -> None:
    """Of the first and the last setting.

    Machines differ in the last bits of vectors, so a passage may be found one rank earlier or later.
    """
    places = {"output.directory": tmp_path / "results", "workspace": shared_workspace, "latency": "false",
              "embedder.precision": fastest_precision()}  # fmt: skip
    config = load_config(root / "configs" / "chunking.yaml", [f"{key}={value}" for key, value in places.items()])
    retrievers = {name: config.retrievers[name] for name in ("whole-documents", "tokens-64")}
    report = run_experiment(config.model_copy(update={"retrievers": retrievers}))
    page = root / "docs" / "chunkers.md"
    (shown,) = [block for block in fenced(page, "text") if "within 1,000 tokens" in block]
    at_k, at_budget = (rows(table) for table in shown.strip().split("\n\n"))
    for head, *settings_shown in (at_k, at_budget):
        assert {name for name, *_ in settings_shown} == set(config.retrievers)
        for name, *cells in settings_shown:
            if name not in retrievers:
                continue
            setting = report.setting(name)
            assert setting.budget is not None
            scores = setting.scores if head[0] == "setting" else setting.budget.scores
            for metric, cell in zip(head[1:-1], cells[:-1], strict=True):
                assert scores[metric].mean == pytest.approx(float(cell), abs=0.02), (name, metric)
            if head[0] != "setting":
                assert setting.budget.hits == pytest.approx(float(cells[-1]), abs=0.3)
                assert setting.budget.queries_not_full == 0


def test_what_init_writes_keeps_headings_with_their_text_and_finds_what_the_page_says(
    root: Path, tmp_path: Path, shared_workspace: Path
) -> None:
    """By BM25, which needs no vectors."""
    kinds = {kind: {"kind": "bm25", "top_k": 30, "chunker": {"kind": kind}} for kind in ("recursive", "markdown")}
    written = yaml.safe_load((root / "src" / "ragtrial" / "cli" / "start" / "experiment.yaml").read_text("utf-8"))
    files = {"corpus": str(root / "data" / "support"), "queries": str(root / "prompt_queries.json")}
    config = ExperimentConfig.model_validate({
        **written, "dataset": files, "retrievers": kinds, "evaluators": {"unit": "span", "budget": 1000},
        "output": {"directory": str(tmp_path)}, "workspace": str(shared_workspace),
    })  # fmt: skip
    report, page = run_experiment(config), (root / "docs" / "chunkers.md").read_text("utf-8")
    (bm25,) = re.findall(r"\| sample data \| 59 \| `recursive` \| ([\d.]+) .*\n\| \| \| `markdown` \| ([\d.]+)", page)
    for (kind, setting), shown in zip(zip(kinds, map(report.setting, kinds), strict=True), bm25, strict=True):
        assert present(setting.budget).scores["recall"].mean == pytest.approx(float(shown), abs=0.006), kind
    torn = {}
    for cut in cut_settings(config):
        texts = [cut.texts.chunks.text(place).splitlines()[-1] for place in cut.positions.tolist()]
        torn[cut.setting.name] = sum(line.startswith("#") for line in texts), len(texts)
    (counts,) = re.findall(r"at the end of (\d+) of (\d+) chunks of the sample data; `markdown` of none", page)
    assert torn["recursive"] == tuple(map(int, counts))
    assert torn["markdown"][0] == 0
    assert written["chunker"]["kind"] == "markdown"
