"""RetrievalEvaluator: results in, the same results with evaluations out."""

import copy
import json
import shutil
from dataclasses import replace
from math import log2
from pathlib import Path

import pytest

from expectations import message_of
from experiments import DOCUMENTS, QUERIES, Experiment, python, write_experiment
from ragtrial import ExperimentResults, Hit, Judgment, PromptQueries, Query, QueryResult, RetrievalEvaluator
from ragtrial.errors import LabelsError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.records import Mean

METRICS = {"order_unaware": {"k": [1, 3]}, "order_aware": {"k": [3]}, "graded": {"k": [3]}, "primary_metric": "ndcg@3"}


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    """Its labels: rye finds bread/rye.md (2) and bread/rolls.md (1); coffee finds nothing; smooth is an order."""
    return write_experiment(tmp_path, evaluators=METRICS)


def evaluator_of(experiment: Experiment, *overrides: str) -> RetrievalEvaluator:
    return RetrievalEvaluator(experiment.config(*overrides))


def results_of(**documents: str) -> ExperimentResults:
    """Results as another system would bring them: for each query the ids of documents with spaces between."""
    results = tuple(
        QueryResult(name, tuple(Hit(document) for document in found.split())) for name, found in documents.items()
    )
    return ExperimentResults("elsewhere", results)


def evaluations_of(results: ExperimentResults, query: str) -> dict[str, float | None]:
    return dict(next(result.evaluations for result in results.results if result.id == query))


def test_retrieving_and_then_running_gives_the_scores_of_a_whole_experiment(tmp_path: Path) -> None:
    retrievers = {"few": {"kind": "dense", "top_k": 3}, "many": {"kind": "dense", "top_k": 5}}
    experiment = write_experiment(tmp_path, evaluators=METRICS, retrievers=retrievers)
    report = run_experiment(experiment.config())
    evaluator = evaluator_of(experiment)
    evaluated = evaluator.run(evaluator.retrieve())
    assert [results.name for results in evaluated] == ["few", "many"]
    for results, setting in zip(evaluated, report.settings, strict=True):
        assert {name: (mean.mean, mean.n) for name, mean in results.evaluations.items()} == {
            name: (mean.mean, mean.n) for name, mean in setting.scores.items()
        }
        for metric, values in setting.per_query.evaluations.items():
            assert [one.evaluations[metric] for one in results.results] == values
        assert results.parameters == setting.parameters


def test_retrieved_results_say_where_each_hit_is_and_are_not_evaluated(experiment: Experiment) -> None:
    (results,) = evaluator_of(experiment).retrieve()
    assert [result.id for result in results.results] == [query["id"] for query in QUERIES]
    (first,) = RetrievalEvaluator(experiment.config(), options=RunOptions(limit=2)).retrieve()
    assert first.results == results.results[:2]
    assert [result.query for result in results.results] == [query["text"] for query in QUERIES]
    for result in results.results:
        assert len(result.hits) == 3
        assert result.evaluations == {}
        scores = [hit.score for hit in result.hits if hit.score is not None]
        assert sorted(scores, reverse=True) == scores
        assert len(scores) == 3
        for hit in result.hits:
            assert hit.chunk
            assert DOCUMENTS[hit.doc][hit.start : hit.end].strip()
    assert results.evaluations == {}


def test_results_are_scored_by_query_id_and_an_absent_one_scores_zero(experiment: Experiment) -> None:
    given = results_of(smooth="soup/leek.md soup/tomato.md", rye="oven.txt bread/rye.md", keep="storage.txt x y")
    (scored,) = evaluator_of(experiment).run([given])
    assert [result.id for result in scored.results] == [query["id"] for query in QUERIES]
    rye = evaluations_of(scored, "rye")
    assert (rye["precision@3"], rye["recall@3"], rye["rr@3"], rye["ap@3"]) == (1 / 3, 1 / 2, 1 / 2, 1 / 4)
    keep = evaluations_of(scored, "keep")
    assert (keep["precision@1"], keep["ndcg@3"], keep["dcg@3"]) == (1.0, 1.0, 3.0)
    assert evaluations_of(scored, "smooth")["recall@3"] == 1.0
    assert scored.evaluations["rr@3"] == Mean((1 / 2 + 1 + 1) / 3, 3)
    (scored,) = evaluator_of(experiment).run([results_of(rye="bread/rye.md bread/rolls.md", keep="")])
    for query in ("keep", "smooth"):
        assert {evaluations_of(scored, query)[name] for name in ("precision@1", "recall@3", "rr@3", "ndcg@3")} == {0.0}
    assert scored.evaluations["recall@3"] == Mean(1 / 3, 3)
    missing = next(result for result in scored.results if result.id == "smooth")
    assert (missing.hits, missing.query) == ((), QUERIES[2]["text"])
    with pytest.raises(LabelsError) as caught:
        evaluator_of(experiment).run([results_of(rye="oven.txt", tea="oven.txt", cake="oven.txt")])
    assert str(caught.value) == "results of 'elsewhere' have queries without labels: 'cake', 'tea'."
    given = ExperimentResults("elsewhere", (QueryResult("rye"), QueryResult("keep"), QueryResult("rye", (Hit("a"),))))
    message = message_of(LabelsError, evaluator_of(experiment).run, [given])
    assert message == "results of 'elsewhere' have queries more than once: 'rye'; keep one."


@pytest.mark.parametrize(("no_relevant", "value", "n"), [("skip", None, 3), ("zero", 0.0, 4)])
def test_no_relevant_is_skipped_or_zero(experiment: Experiment, no_relevant: str, value: float | None, n: int) -> None:
    evaluator = evaluator_of(experiment, f"evaluators.no_relevant={no_relevant}")
    (scored,) = evaluator.run([results_of(rye="bread/rye.md", coffee="oven.txt")])
    assert evaluations_of(scored, "coffee")["precision@1"] == value
    assert scored.evaluations["precision@1"] == Mean(1 / n, n)


def test_evaluations_that_are_there_already_are_kept_and_enter_the_means(experiment: Experiment) -> None:
    (fresh,) = evaluator_of(experiment).run([results_of(rye="bread/rye.md", keep="storage.txt")])
    rye, keep = results_of(rye="bread/rye.md", keep="storage.txt").results
    given = ExperimentResults(
        "elsewhere",
        (replace(rye, evaluations={"faithfulness": 0.75, "rr@3": 0.125}), keep),
        {"model": "theirs"},
        {"faithfulness": Mean(0.75, 1), "precision@1": Mean(0.5, 9)},
    )
    (scored,) = evaluator_of(experiment).run([given])
    assert evaluations_of(scored, "rye") == {**evaluations_of(fresh, "rye"), "faithfulness": 0.75, "rr@3": 0.125}
    assert evaluations_of(scored, "keep") == evaluations_of(fresh, "keep")
    assert scored.evaluations == {
        **fresh.evaluations,
        "faithfulness": Mean(0.75, 1),
        "precision@1": Mean(0.5, 9),
        "rr@3": Mean((0.125 + 1 + 0) / 3, 3),
    }
    assert scored.parameters == {"model": "theirs"}


def test_nothing_that_is_given_is_changed(experiment: Experiment) -> None:
    evaluations, means = {"rr@3": 0.5}, {"other": Mean(1.0, 1)}
    given = ExperimentResults(
        "theirs", (QueryResult("rye", (Hit("a"), Hit("a")), evaluations=evaluations),), {"a": [1]}, means
    )
    before = copy.deepcopy(given)
    evaluator_of(experiment).run([given])
    assert given == before
    assert (evaluations, means) == ({"rr@3": 0.5}, {"other": Mean(1.0, 1)})


def test_results_are_scored_without_reading_the_documents(experiment: Experiment) -> None:
    shutil.rmtree(experiment.folder / "documents")
    (scored,) = evaluator_of(experiment).run([results_of(rye="bread/rye.md")])
    assert evaluations_of(scored, "rye")["rr@3"] == 1.0
    assert not experiment.workspace.exists()


def test_labels_that_are_passages_judge_the_documents_they_stand_in(experiment: Experiment) -> None:
    passage = "Bread keeps for four days in a paper bag."
    experiment.write_queries([{"id": "keep", "text": "four days", "relevant_docs": [{"doc": passage, "relevance": 2}]}])
    evaluator = evaluator_of(experiment, "dataset.match=content")
    (scored,) = evaluator.run([results_of(keep="oven.txt storage.txt")])
    keep = evaluations_of(scored, "keep")
    assert (keep["rr@3"], keep["recall@3"]) == (0.5, 1.0)
    assert keep["dcg@3"] == pytest.approx(2 / log2(3))
    (retrieved,) = evaluator.run(evaluator.retrieve())
    assert "storage.txt" in [hit.doc for hit in retrieved.results[0].hits]
    assert evaluations_of(retrieved, "keep")["recall@3"] == 1.0


def test_labels_may_be_given_in_place_of_the_file_of_the_config(experiment: Experiment) -> None:
    (experiment.folder / "prompt_queries.json").unlink()
    labels = PromptQueries((Query("mine", "soup", (Judgment("soup/leek.md"),)),))
    evaluator = RetrievalEvaluator(experiment.config(), labels)
    (scored,) = evaluator.run([ExperimentResults("mine", (QueryResult("mine", (Hit("soup/leek.md"),)),))])
    assert scored.evaluations["recall@1"] == Mean(1.0, 1)
    wrong = PromptQueries((Query("mine", "soup", (Judgment("soup/leak.md"),)),))
    assert message_of(LabelsError, RetrievalEvaluator(experiment.config(), wrong).retrieve) == (
        "the given labels: query 'mine' judges 'soup/leak.md', which is not in the corpus (6 documents). "
        "Did you mean 'soup/leek.md'?"
    )


def test_results_are_written_whole_with_every_digit(experiment: Experiment, tmp_path: Path) -> None:
    evaluator = evaluator_of(experiment)
    results = evaluator.run([*evaluator.retrieve(), results_of(rye="bread/rye.md oven.txt bread/rolls.md")])
    path = tmp_path / "new" / "results.json"
    evaluator.write(results[1:], path)
    evaluator.write(results, path)
    written = json.loads(path.read_text(encoding="utf-8"))
    assert [one["name"] for one in written] == ["dense", "elsewhere"]
    for row, one in zip(written, results, strict=True):
        assert row["parameters"] == dict(one.parameters)
        assert row["evaluations"] == {name: {"mean": mean.mean, "n": mean.n} for name, mean in one.evaluations.items()}
        again = tuple(
            QueryResult(part["id"], tuple(Hit(**hit) for hit in part["hits"]), part["query"], part["evaluations"])
            for part in row["results"]
        )
        assert again == one.results
    assert [path.name for path in path.parent.iterdir()] == ["results.json"]
    assert "0.3333333333333333" in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_results_of_other_systems_are_scored_without_loading_a_model_or_chroma(experiment: Experiment) -> None:
    code = (
        "import sys; from ragtrial import *\n"
        "evaluator = RetrievalEvaluator(load_config(sys.argv[1], ['store.kind=chroma']))\n"
        "(scored,) = evaluator.run([ExperimentResults('theirs', (QueryResult('rye', (Hit('bread/rye.md'),)),))])\n"
        "print(scored.evaluations['recall@3'].n, [name for name in ('torch', 'chromadb') if name in sys.modules])"
    )
    assert python(code, experiment.file).stdout == "3 []\n"


def test_a_config_that_was_changed_in_python_is_reported_as_it_is(experiment: Experiment) -> None:
    config = experiment.config()
    changed = config.model_copy(update={"experiment": "other"})
    assert config.as_written["experiment"] == "kitchen"
    assert changed.as_written["experiment"] == "other"
    assert run_experiment(changed).config["experiment"] == "other"


def test_a_model_leaves_the_memory_when_no_later_setting_needs_it(experiment: Experiment) -> None:
    run = Run.of(experiment.config())
    assert list(run.score_all().scored) == ["dense"]
    assert experiment.embedded()
    embedders = [run.corpus.resources.embedder(setting.embedder) for setting in run.settings]
    assert [one.is_loaded for one in embedders] == [False]


def test_only_the_first_queries_are_run_under_a_limit_and_that_is_said(experiment: Experiment) -> None:
    report = run_experiment(experiment.config(), RunOptions(limit=2))
    assert [query.id for query in report.queries] == ["rye", "keep"]
    said = [one.message for one in report.warnings if one.code == "limit"]
    assert said == ["only the first 2 of 4 queries ran."]
    whole = run_experiment(experiment.config(), RunOptions(limit=9))
    assert len(whole.queries) == 4
    assert not [one for one in whole.warnings if one.code == "limit"]


def test_a_config_and_labels_may_be_files_or_a_dict(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    config, labels = experiment.file, experiment.folder / "prompt_queries.json"
    found = results_of(rye="bread/rye.md")
    expected = evaluator_of(experiment).run([found])
    assert RetrievalEvaluator(str(config), labels).run([found]) == expected
    monkeypatch.chdir(config.parent)
    assert RetrievalEvaluator(experiment.config().as_written).run([found]) == expected
    reports = run_experiment(config), run_experiment(experiment.config().as_written)
    assert len({report.settings[0].fingerprint for report in reports}) == 1
