"""Reports and comparisons in a notebook: one line as text, rows as a DataFrame."""

import sys
from pathlib import Path

import pytest

from ragtrial import Report, compare, load_config, run_experiment
from ragtrial.errors import ReportError
from ragtrial.records import Hit, QueryResult
from small_experiment import CONFIG, small_experiment


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An experiment of two settings, one with a name that is HTML."""
    made = tmp_path_factory.mktemp("notebook")
    config = CONFIG.replace("top_k: 3}", "top_k: 3}\n  bm25: {kind: bm25, top_k: 3}")
    small_experiment(made, config=config + f"output: {{directory: {made}/results}}\n")
    return made


@pytest.fixture(scope="module")
def report(folder: Path) -> Report:
    return run_experiment(load_config(folder / "experiment.yaml"))


def test_a_report_is_one_line_and_no_frame_without_pandas(report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    best = report.ranked_settings()[0].name
    assert repr(report) == str(report) == f"Report('small', 2 settings, 2 queries, ndcg@3: {best} 1.000)"
    assert repr(QueryResult("q1", (Hit("a"), Hit("b")), "why" * 50)) == (
        f"QueryResult(id='q1', hits=<2>, query='{('why' * 50)[:27]}...{('why' * 50)[-28:]}', evaluations=<0>)"
    )
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ReportError, match=r"needs pandas, which is not installed: pip install 'ragtrial\[pandas\]'\."):
        report.to_frame()


@pytest.mark.slow
def test_a_report_and_a_comparison_are_frames(report: Report) -> None:
    frame = report.to_frame()
    assert list(frame["setting"]) == [setting.name for setting in report.ranked_settings()]
    assert list(frame.columns)[:2] == ["setting", report.primary_metric]
    assert sorted(frame.columns) == sorted(["setting", *report.metrics])
    assert frame["ndcg@3"][0] == report.ranked_settings()[0].scores["ndcg@3"].mean
    queries = report.to_frame(per_query=True)
    assert list(zip(queries["setting"], queries["query"], strict=True)) == [
        (setting.name, query) for setting in report.ranked_settings() for query in ("q1", "q2")
    ]
    assert list(queries.columns) == ["setting", "query", *frame.columns[1:]]
    comparison = compare(report, baseline="bm25")
    frame = comparison.to_frame()
    assert len(frame) == len(comparison.comparisons)
    assert {"metric", "setting", "baseline", "difference", "ci_low", "ci_high", "p", "verdict"} <= set(frame.columns)
    assert "ci" not in frame.columns
