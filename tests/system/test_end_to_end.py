"""The sample experiment with the real model and the real Chroma, from its config to its numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ragtrial import Report, RetrievalEvaluator, load_config, run_experiment
from ragtrial.config import ExperimentConfig
from ragtrial.records import Mean
from ragtrial.report.rows import read_rows
from ragtrial.report.schema import SettingPart
from report_hits import values_of

Load = Callable[..., ExperimentConfig]


@pytest.fixture(scope="module")
def load(root: Path, shared_workspace: Path, tmp_path_factory: pytest.TempPathFactory) -> Load:
    """The sample config with overrides, working in a folder of the tests'."""
    places = (f"workspace={shared_workspace}", f"output.directory={tmp_path_factory.mktemp('results')}")
    return lambda *overrides: load_config(root / "configs" / "quickstart.yaml", [*places, *overrides])


@dataclass(frozen=True)
class Outcome:
    report: Report

    @property
    def chroma(self) -> SettingPart:
        return self.report.setting("dense")

    @property
    def exact(self) -> SettingPart:
        return self.report.setting("exact")


@pytest.fixture(scope="module")
def outcome(load: Load) -> Outcome:
    """The sample experiment, and the same with exact search beside it."""
    return Outcome(run_experiment(load("retrievers.exact={kind: dense, top_k: 10, store: {kind: exact}}")))


def test_the_sample_experiment_scores_as_a_small_model_should(outcome: Outcome) -> None:
    scores = {name: score.mean for name, score in outcome.exact.scores.items()}
    assert {name: scores[name] for name in ("ndcg@10", "recall@10", "rr@10", "hit_rate@10")} == {
        "ndcg@10": pytest.approx(0.68, abs=0.1), "recall@10": pytest.approx(0.72, abs=0.1),
        "rr@10": pytest.approx(0.80, abs=0.1), "hit_rate@10": pytest.approx(0.95, abs=0.05),
    }  # fmt: skip
    outside = {name: score for name, score in scores.items() if score is None or not 0 < score <= 1}
    assert set(outside) == {"dcg@5", "dcg@10"}


def test_nothing_of_the_sample_is_cut_short_or_missing(outcome: Outcome) -> None:
    assert outcome.report.failures == []
    assert outcome.report.dataset.empty_documents == 0
    for setting in outcome.report.settings:
        counts = setting.counts
        assert (counts["chunks_too_long"], counts["queries_too_long"]) == (0, 0)
        assert (counts["queries_short"], counts["queries_without_hits"]) == (0, 0)
        assert counts["chunks"] == setting.index["vectors"]
    assert {warning.code for warning in outcome.report.warnings} <= {"latency-loaded"}  # by other tests


def test_the_vectors_of_the_sample_are_healthy_and_the_index_loses_nothing(outcome: Outcome) -> None:
    for setting in outcome.report.settings:
        assert setting.health
        assert (setting.health.vectors, setting.health.dimension) == (setting.counts["chunks"], 384)
        assert (setting.health.zeros, setting.health.distinct_texts) == (0, setting.counts["chunks"])
        assert setting.health.shortest == pytest.approx(1, abs=1e-5)
        assert setting.health.longest == pytest.approx(1, abs=1e-5)
    assert outcome.exact.audit is None
    audit = outcome.chroma.audit
    assert audit is not None
    assert audit.unreachable == 0
    for metric, lost in audit.lost.items():
        mean, exact = outcome.chroma.scores[metric].mean, outcome.exact.scores[metric].mean
        assert lost == (exact or 0) - (mean or 0)


def test_only_queries_without_relevant_documents_are_left_out(outcome: Outcome) -> None:
    unanswerable = [
        query.id for query in outcome.report.queries if not any(doc.relevance > 0 for doc in query.relevant_docs)
    ]
    assert len(unanswerable) == 3
    for setting in outcome.report.settings:
        undefined = [
            query for query, value in values_of(outcome.report, setting.name, "ndcg@10").items() if value is None
        ]
        assert undefined == unanswerable
        assert setting.scores["ndcg@10"].n == len(outcome.report.queries) - len(unanswerable)


def test_chroma_and_exact_search_agree(outcome: Outcome) -> None:
    rankings = {
        name: {row["query"]: row for row in read_rows(outcome.report.folder / "rankings" / f"{name}.jsonl.gz")}
        for name in ("dense", "exact")
    }
    same = [len(set(row["docs"]) & set(rankings["exact"][query]["docs"])) for query, row in rankings["dense"].items()]
    assert sum(same) >= 0.97 * 10 * len(same)
    for query, row in rankings["dense"].items():
        exact = dict(zip(rankings["exact"][query]["chunks"], rankings["exact"][query]["scores"], strict=True))
        for chunk, score in zip(row["chunks"], row["scores"], strict=True):
            assert score == pytest.approx(exact.get(chunk, score), abs=1e-4)
    for metric, score in outcome.chroma.scores.items():
        assert score.mean == pytest.approx(outcome.exact.scores[metric].mean, abs=0.02)
        assert score.n == outcome.exact.scores[metric].n


def test_latency_is_measured_on_single_queries(outcome: Outcome) -> None:
    for setting in outcome.report.settings:
        assert setting.latency is not None
        assert setting.latency.n == 50
        assert 0 < setting.latency.p50 <= setting.latency.p95 < 30


def test_the_evaluator_gives_the_numbers_of_the_report(outcome: Outcome, load: Load) -> None:
    evaluator = RetrievalEvaluator(load())
    (results,) = evaluator.run(evaluator.retrieve())
    expected = {name: Mean(score.mean, score.n) for name, score in outcome.chroma.scores.items()}
    assert dict(results.evaluations) == expected
