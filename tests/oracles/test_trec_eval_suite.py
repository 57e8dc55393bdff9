"""The scores of trec_eval's own test files are those that its expected outputs have, by its names of measures."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ragtrial import score
from ragtrial.errors import MetricError
from ragtrial.evaluation.metrics import Metric, parse_metrics

CASES: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    "official": ("qrels.test", "results.test", "out.test", {}),
    "comments in qrels": ("qrels.test.with-comments", "results.test", "out.test", {}),
    "comments": ("qrels.comment.test", "results.comment.test.gz", "out.comment.test", {}),
    "all measures": ("qrels.test", "results.test", "out.test.aq", {}),
    "missing topics": ("qrels.test", "results.trunc", "out.test.aqc", {}),
    "depth": ("qrels.test", "results.trunc", "out.test.aqcM", {"depth": 100}),
    "threshold": ("qrels.rel_level", "results.test", "out.test.aql", {"relevance_threshold": 2}),
    "parameters": ("qrels.test", "results.test", "out.test.meas_params", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_measure_that_is_a_metric_has_the_expected_values(shared_data: Path, case: str) -> None:
    folder = shared_data / "trec_eval_suite"
    qrels, run, output, rules = CASES[case]
    expected = {}
    metrics: dict[str, Metric] = {}
    for line in (folder / output).read_text().splitlines():
        name, query, value = (part.strip() for part in line.split("\t"))
        with suppress(MetricError):
            (metrics[name],) = parse_metrics(name, trec=True)
            expected[name, query] = value
    assert len(metrics) >= (11 if case == "parameters" else 13)
    asked = list(dict.fromkeys(metrics.values()))
    (scored,) = score(folder / qrels, folder / run, asked, trec_compat=True, no_relevant="zero", **rules).runs
    values = scored.per_query()
    for (name, query), text in expected.items():
        metric = str(metrics[name])
        found = scored.scores[metric].mean if query == "all" else values[query][metric]
        if "." in text and not name.startswith("rbp"):  # counts of all topics are sums; rbp weighs grades by itself
            assert f"{found:.4f}" == text, (name, query)
