"""The page shows what the terminal does beside a query and its hits: wordings, the query's terms, matches, terms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browsers import chromium, opened, write_page
from endpoint_double import EndpointDouble
from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial import run_experiment
from ragtrial.comparison.comparison_input import input_of
from ragtrial.errors import ReportError
from ragtrial.report.model import Report
from ragtrial.report.rows import write_rows
from ragtrial.scoring.query_details import load_query
from ragtrial.views.page.blocks import FoundHits
from ragtrial.views.texts import query_text
from scored_runs import scored_report


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def report(tmp_path: Path, tiny_model: Path, sparse_model: Path, late_model: Path) -> Report:
    with EndpointDouble() as double:
        tokens = {"device": "cpu", "top_k": 3}
        entries = {
            "dense": {"kind": "dense", "top_k": 3},
            "sparse": {"kind": "sparse", "model": str(sparse_model), **tokens},
            "late": {"kind": "late", "model": str(late_model), **tokens},
            "wide": {
                "kind": "expand",
                "inputs": "dense",
                "top_k": 3,
                "templates": ["<b>text</b> on {query}"],
                "endpoint": {"model": "writer", "base_url": double.url},
            },
        }
        embedder = {"kind": "sentence-transformer", "model": str(tiny_model), "device": "cpu"}
        experiment = write_experiment(tmp_path, DOCUMENTS, QUERIES, retrievers=entries, embedder=embedder)
        return run_experiment(experiment.config())


MARKS = ("the query's terms: ", "asked: ", "matches: ", "terms: ")


def test_each_line_of_the_terminal_that_explains_a_query_is_on_the_page(
    browser: Browser, report: Report, tmp_path: Path
) -> None:
    page = write_page(report.folder, tmp_path / "page.html")
    for setting in report.settings:
        shown = query_text(report, "rye", load_query(report, [setting], "rye"), 10_000)
        expected = [line.strip() for line in shown.splitlines() if line.strip().startswith(MARKS)]
        assert bool(expected) == (setting.name != "dense")
        seen = opened(browser, page, f"#q=rye&a={setting.name}&b=dense")
        column = seen.page.locator("#detail .lists > div").first
        assert column.locator(".why").all_inner_texts() == expected
        assert seen.console == []
        seen.page.context.close()


def test_rankings_with_a_weight_that_is_no_number_are_refused_by_name(tmp_path: Path) -> None:
    report = scored_report(tmp_path / "scored", {"q": {"a": 1}}, {"dense": {"q": "a b"}, "other": {"q": "b a"}})
    assert [own.explanations for own in FoundHits(input_of([report])).settings] == [None, None]
    path = report.ranking_file("other")
    write_rows(path, [{"query": "q", "docs": ["b"], "grades": [None], "matches": [[["bread", "much"]]]}])
    unsealed = report.model_copy(update={"files": {}, "sizes": {}})
    with pytest.raises(ReportError, match=f"^{re.escape(str(path))}: is damaged"):
        FoundHits(input_of([unsealed]))
