"""A metric that only this file registers is seen everywhere: one definition carries all that is known of it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from experiments import write_experiment
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.query_differences import GainShare
from ragtrial.evaluation.bounds import attainable, tie_range
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import METRICS, parse_metric
from ragtrial.evaluation.metrics.base import Formulas, HitCount, metric, ratio
from ragtrial.experiment import run_experiment
from ragtrial.labelling.pooling import Pool
from ragtrial.rankings import Counts
from ragtrial.report.model import Report
from ragtrial.views.report_tables import score_table
from scenarios import scenario
from small_experiment import Capture, ragtrial


@pytest.fixture(scope="module", autouse=True)
def halved_recall() -> Iterator[None]:
    """The metric ``halved_recall``: recall, but of twice as many."""

    class Halved(Formulas):
        @metric(
            "order_unaware", "relevant", "relevant hits in the first k / 2R", "a test", aliases=("half",),
            prefers="relevant", standard=True, columns={"document": 0},
            structure=HitCount(lambda _metric, relevant: 2 * relevant),
            denominator="2R",
            elsewhere={"nobody": "HR@{k}"},
        )  # fmt: skip
        def halved_recall(self, k: int) -> Scores:
            """Half of the share of the relevant documents that are among the first k."""
            return ratio(self._found(k), 2.0 * self._graded.relevant_counts)

        def _found(self, k: int) -> Counts:
            return self._graded.relevant_units(k)

    yield
    del METRICS._members["halved_recall"]
    parse_metric.cache_clear()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, halved_recall: None) -> Report:
    retrievers = {"dense": {"kind": "dense", "top_k": 3}, "bm25": {"kind": "bm25", "top_k": 3}}
    evaluators = {"order_unaware": {"k": [1, 2]}, "order_aware": {"k": [2]}, "graded": {"k": [2]}}
    made = write_experiment(tmp_path_factory.mktemp("new"), retrievers=retrievers, evaluators=evaluators)
    return run_experiment(made.config())


def test_it_is_listed_explained_named_in_configs_and_scores_files(capsys: Capture, tmp_path: Path) -> None:
    assert "halved_recall" in ragtrial(capsys, "list", "metrics").out
    explained = ragtrial(capsys, "explain", "half@3").out
    assert "halved_recall@3" in explained
    assert "relevant hits in the first 3 / 2R" in explained
    assert "nobody: HR@3" in explained
    right = write_experiment(tmp_path / "right", evaluators={"order_unaware": {"metrics": ["halved_recall@3"]}})
    wrong = write_experiment(tmp_path / "wrong", evaluators={"graded": {"metrics": ["halved_recall@3"]}})
    assert ragtrial(capsys, "validate", right.file, "-q").code == 0
    assert "list it in evaluators.order_unaware" in ragtrial(capsys, "validate", wrong.file).err
    (tmp_path / "qrels").write_text("q 0 a 1\nq 0 b 1\n")
    (tmp_path / "run").write_text("q Q0 a 1 1.0 r\nq Q0 x 2 0.5 r\n")
    made = ragtrial(capsys, "score", tmp_path / "qrels", tmp_path / "run", "--metrics", "half@2", "--json", "-q")
    assert json.dumps(json.loads(made.out)).count("halved_recall@2")


def test_a_run_computes_describes_splits_and_shows_it(report: Report) -> None:
    for setting in report.settings:
        assert setting.scores["halved_recall@2"].mean == pytest.approx((setting.scores["recall@2"].mean or 0) / 2)
    assert report.metrics["halved_recall@2"].formula == "relevant hits in the first k / 2R"
    query = next(one for one in report.queries if one.relevant_docs)
    share = GainShare.of("halved_recall@2", query, report)
    assert share.at(query.relevant_docs[0].doc, 1) == 1 / (2 * share.relevant)
    contest = input_of([str(report.folder)], primary="halved_recall@2")
    assert Pool(contest).unjudged[0].weight > 0
    assert score_table(report, 200).titles[:3] == ["setting", report.primary_metric, "halved_recall@2"]


def test_its_best_value_and_its_range_are_known() -> None:
    one = parse_metric("halved_recall@1")
    graded = scenario(("x a", "a")).graded()
    ties, best = tie_range(one, graded), attainable(one, graded.judgments)
    assert ties is not None
    assert (ties.low.tolist(), ties.high.tolist(), best.tolist()) == ([0], [0], [1 / 2])
