"""What an index loses against exact search is what an independent computation finds it to lose."""

import numpy as np
import pytest

from corpora import write_files
from expectations import present
from experiments import Experiment, write_experiment
from ragtrial.engines.chroma import ChromaStore
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.measurement_stages import audit_warnings
from ragtrial.pipeline.run import RunOptions
from ragtrial.report.model import Report
from ragtrial.report.schema import AuditPart

pytestmark = pytest.mark.slow


WIDE = [0.0, 1.0, 0.0, 1.0]
NARROW = [0.500, 0.502, 0.498, 0.500]  # their standard error is 0.0008165
ADVICE = "Raise store.hnsw.ef_search or max_neighbors, or set store.kind: exact."


@pytest.mark.parametrize(("lost", "values", "told"), [
    (0.006, WIDE, f"-0.0060 against exact search over the same vectors, which is more than 0.005. {ADVICE}"),
    (-0.006, WIDE, f"+0.0060 against exact search over the same vectors, which is more than 0.005. {ADVICE}"),
    (0.005, WIDE, None),
    (0.0009, NARROW, "-0.0009 against exact search over the same vectors, which is more than its standard error, "
     f"0.0008. {ADVICE}"),
    (0.0008, NARROW, None),
    (0.0, [0.5, 0.5], None),
    (None, WIDE, None),
    (0.005, [0.5], None),
    (0.1, [0.5], f"-0.1000 against exact search over the same vectors, which is more than 0.005. {ADVICE}"),
])  # fmt: skip
def test_a_loss_above_its_error_or_limit_is_told(lost: float | None, values: list[float], told: str | None) -> None:
    expected = {} if told is None else {"index-loss": f"dense: the index moves ndcg@10 by {told}"}
    audit = AuditPart(overlap=1.0, lowest_overlap=1.0, queries=4, queries_that_differ=0, lost={"ndcg@10": lost})
    evaluation = Evaluation(parse_metric("ndcg@10"), np.array(values), np.ones(len(values), dtype=np.bool_))
    warnings = audit_warnings("dense", ChromaStore(), audit, "ndcg@10", evaluation)
    assert {one.code: one.message for one in warnings} == expected


EMBEDDING = """\
import zlib

import numpy as np


def embed(texts):
    vectors = []
    for text in texts:
        middle = np.random.default_rng(zlib.crc32(text.split()[0].encode())).normal(size=24)
        vectors.append(middle + 0.6 * np.random.default_rng(zlib.crc32(text.encode())).normal(size=24))
    return np.array(vectors)
"""
TOP_K = 10
POOR = {"ef_search": 1, "max_neighbors": 2, "ef_construction": 1}
GOOD = {"ef_search": 2_000, "max_neighbors": 64, "ef_construction": 400}
"""Looks at every vector that can be reached: with the defaults, a graph that threads build may miss a hit by chance."""


@pytest.fixture(scope="module")
def clustered(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """2,000 documents in 40 clusters, and a graph too poor to find its way among them."""
    documents = {f"{number:04}.txt": f"cluster{number % 40} {number}" for number in range(2_000)}
    queries = [
        {
            "id": f"q{cluster}",
            "text": f"cluster{cluster} wanted",
            "relevant_docs": [{"doc": f"{cluster + 40 * place:04}.txt"} for place in range(25)],
        }
        for cluster in range(40)
    ]
    experiment = write_experiment(
        tmp_path_factory.mktemp("audit"),
        documents,
        queries,
        chunker={"kind": "document"},
        embedder={"kind": "custom", "function": "clusters:embed", "batch_size": 500},
        retrievers={
            "poor": {"kind": "dense", "top_k": TOP_K, "store": {"kind": "chroma", "hnsw": POOR}},
            "good": {"kind": "dense", "top_k": TOP_K, "store": {"kind": "chroma", "hnsw": GOOD}},
            "exact": {"kind": "dense", "top_k": TOP_K},
        },
    )
    write_files(experiment.folder, {"clusters.py": EMBEDDING})
    return experiment


@pytest.fixture(scope="module")
def report(clustered: Experiment) -> Report:
    return run_experiment(clustered.config())


def test_a_poor_index_is_warned_of_and_its_losses_are_counted(report: Report) -> None:
    poor, good = (present(report.setting(name).audit) for name in ("poor", "good"))
    assert (poor.queries, poor.repeats, good.overlap) == (40, False, 1.0)
    assert poor.queries_that_differ > good.queries_that_differ == 0
    exact = report.setting("exact").scores
    for name in ("poor", "good"):
        setting = report.setting(name)
        lost_of = present(setting.audit).lost
        assert list(lost_of) == list(setting.scores)
        for metric, lost in lost_of.items():
            mean, of_exact = setting.scores[metric].mean, exact[metric].mean
            assert (lost is None) == (mean is None)
            if lost is not None and mean is not None and of_exact is not None:
                assert lost == pytest.approx(of_exact - mean, abs=1e-12)
    assert report.setting("exact").audit is None
    losses = [warning.message for warning in report.warnings if warning.code == "index-loss"]
    assert len(losses) == 1
    assert losses[0].startswith("poor: the index moves ndcg@10 by -0.")


def test_a_large_index_is_compared_only_when_it_is_asked_for(
    clustered: Experiment, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragtrial.pipeline.corpus.AUDITED_BELOW", 2_000)
    unasked = run_experiment(clustered.config())
    assert [setting.audit for setting in unasked.settings] == [None] * 3
    asked = run_experiment(clustered.config(), RunOptions(audit=True))
    assert [setting.audit for setting in asked.settings] == [setting.audit for setting in report.settings]
