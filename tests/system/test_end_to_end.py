"""The sample experiment with the real model and the real Chroma, from its config to its numbers."""

from pathlib import Path

import pytest

from ragtrial import load_config, run_experiment


def test_the_sample_scores_as_a_small_model_should_and_nothing_is_missing(
    root: Path, shared_workspace: Path, tmp_path: Path
) -> None:
    """With exact search beside it."""
    exact = "retrievers.exact={kind: dense, top_k: 10, store: {kind: exact}}"
    places = (f"workspace={shared_workspace}", f"output.directory={tmp_path}")
    report = run_experiment(load_config(root / "configs" / "quickstart.yaml", [*places, exact]))
    scores = {name: score.mean for name, score in report.setting("exact").scores.items()}
    assert {name: scores[name] for name in ("ndcg@10", "recall@10", "rr@10", "hit_rate@10")} == {
        "ndcg@10": pytest.approx(0.68, abs=0.1), "recall@10": pytest.approx(0.72, abs=0.1),
        "rr@10": pytest.approx(0.80, abs=0.1), "hit_rate@10": pytest.approx(0.95, abs=0.05),
    }  # fmt: skip
    outside = {name: score for name, score in scores.items() if score is None or not 0 < score <= 1}
    assert set(outside) == {"dcg@5", "dcg@10"}
    assert report.failures == []
    assert report.dataset.empty_documents == 0
    for setting in report.settings:
        counts = setting.counts
        assert (counts["chunks_too_long"], counts["queries_too_long"]) == (0, 0)
        assert (counts["queries_short"], counts["queries_without_hits"]) == (0, 0)
        assert counts["chunks"] == setting.index["vectors"]
    assert not report.warnings
