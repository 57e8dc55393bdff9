"""Stored rankings scored again: the numbers of a run with the same labels and metrics, and nothing retrieved."""

import json
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from expectations import message_of, present
from experiments import DOCUMENTS, QUERIES, Experiment, write_experiment
from ragtrial.errors import ConfigError, InputError, LabelsError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report, load_report, read_rows, write_report, write_rows
from ragtrial.scoring.rescore import DocumentsNotFoundError, rescore
from scored_runs import scored_report
from small_experiment import Capture, ragtrial, succeeded

SMOOTH = QUERIES[2]
NEW_LABELS: list[dict[str, Any]] = [
    {**QUERIES[3], "relevant_docs": [{"doc": "oven.txt", "relevance": 1}]},
    {**QUERIES[0], "relevant_docs": [{"doc": "bread/rye.md", "quote": "Bake it for an hour in a hot oven."},
                                     {"doc": "bread/rye.md", "quote": "flour with warm water", "relevance": 3},
                                     {"doc": "oven.txt", "quote": "Clean the oven", "relevance": 0}]},
    {**SMOOTH, "ordered": False,
     "relevant_docs": [{"doc": "soup/tomato.md", "quote": "Blend the  SOUP", "relevance": 2},
                       {"doc": "storage.txt", "relevance": 1}]},
    {**QUERIES[1], "relevant_docs": [{"doc": "soup/leek.md", "relevance": 1}]},
]  # fmt: skip
"""Other documents, grades, passages and order of the same queries."""

SPANS = {"unit": "span", "span_coverage": 0.4, "order_aware": {"metrics": ["rbp(p=0.8)@2"]}}
FUSED = {
    "dense": {"kind": "dense", "top_k": 4},
    "words": {"kind": "bm25", "top_k": 4},
    "hybrid": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 4},
    "whole": {"kind": "dense", "top_k": 5, "chunker": {"kind": "document"}},
}

SEARCH = """\
def search(queries, top_k):
    if "smooth" in queries[0]:
        raise ConnectionError("429")
    return [["soup/leek.md", "oven.txt", "soup/leek.md", "storage.txt"] for _ in queries]
"""


def numbers(report: Report) -> dict[str, Any]:
    """All of a report but what is of one run alone: its id, and how long things took there."""
    whole = report.model_dump(mode="json")
    for key in ("run_id", "parent", "environment", "config", "failures", "files", "sizes", "checksum"):
        del whole[key]
    whole["warnings"] = sorted((one["code"], one["message"]) for one in whole["warnings"])
    for setting in whole["settings"]:
        del setting["timings"], setting["costs"], setting["latency"]
    return whole


def compared(made: Experiment, queries: Sequence[Mapping[str, Any]], *overrides: str) -> tuple[Report, Report]:
    """Rankings of the old labels scored by new ones, and a run by these, with the same ``overrides``."""
    parent = run_experiment(made.config())
    made.write_queries(queries)
    again = rescore(parent, made.file.with_name("prompt_queries.json"), overrides=overrides, config_file=made.file)
    return again, run_experiment(made.config(*overrides))


def test_documents_and_named_metrics_score_as_in_a_run_with_them(tmp_path: Path) -> None:
    made = write_experiment(tmp_path, retrievers=FUSED)
    again, run = compared(made, NEW_LABELS)
    assert numbers(again) == numbers(run)
    assert [query.id for query in again.queries] == ["coffee", "rye", "smooth", "keep"]
    rows = {row["query"]: row for row in read_rows(again.folder / "rankings" / "hybrid.jsonl.gz")}
    assert rows == {row["query"]: row for row in read_rows(run.folder / "rankings" / "hybrid.jsonl.gz")}
    parent = run_experiment(made.config())
    again = rescore(parent, metrics="precision@2,ndcg@4")
    assert list(again.metrics) == ["precision@2", "ndcg@4"]
    assert again.primary_metric == "precision@2"
    alone = made.config(
        "evaluators.order_unaware.k=[]", "evaluators.order_aware.k=[]", "evaluators.graded.k=[]",
        "evaluators.order_unaware.metrics=[precision@2]", "evaluators.graded.metrics=[ndcg@4]",
        "evaluators.primary_metric=precision@2",
    )  # fmt: skip
    assert numbers(again) == numbers(run_experiment(alone))


def test_passages_by_other_labels_rules_and_metrics_score_as_in_a_run_with_them(tmp_path: Path) -> None:
    made = write_experiment(tmp_path, retrievers=FUSED, evaluators=SPANS)
    again, run = compared(
        made, NEW_LABELS, "evaluators.relevance_threshold=2", "evaluators.graded.k=[2, 4]",
        "evaluators.span_coverage=0.9", "evaluators.no_relevant=zero", "evaluators.primary_metric=span_recall@2",
    )  # fmt: skip
    assert numbers(again) == numbers(run)
    assert again.config == run.config
    assert again.primary_metric == "span_recall@2"
    assert again.setting("dense").scores["span_precision_ceiling"].mean is not None
    assert again.setting("hybrid").per_query.passages is not None


def test_a_budget_is_counted_in_the_tokens_that_were_counted(tmp_path: Path, minilm_folder: Path) -> None:
    """One document is cut into more chunks than the report shows: the tokens of the rest are counted again."""
    long = "\n\n".join(f"Bread number {number} needs flour and water for {number} days." for number in range(30))
    made = write_experiment(
        tmp_path,
        {**DOCUMENTS, "long.txt": long},
        embedder={"kind": "custom", "function": "embedding:embed", "tokenizer_model": str(minilm_folder)},
        retrievers={"dense": {"kind": "dense", "top_k": 30}},
        evaluators={**SPANS, "budget": 60},
    )
    again, run = compared(made, NEW_LABELS, "evaluators.budget=400")
    assert numbers(again) == numbers(run)
    budget = present(again.settings[0].budget)
    assert budget.hits > 20
    without = rescore(run, overrides=["evaluators.budget=null"], config_file=made.file)
    assert without.settings[0].budget is None
    rows = read_rows(ranking := run.folder / "rankings" / "dense.jsonl.gz")
    write_rows(ranking, [{name: column for name, column in row.items() if name != "tokens"} for row in rows])
    uncounted = rescore(run.model_copy(update={"files": {}}), overrides=["evaluators.budget=6"], config_file=made.file)
    assert "budget-not-known" in [warning.code for warning in uncounted.warnings]


def test_nothing_is_embedded_or_retrieved_and_no_document_is_read_where_labels_have_no_passages(tmp_path: Path) -> None:
    made = write_experiment(tmp_path)
    parent = run_experiment(made.config())
    before = made.embedded()
    for gone in ("documents", "workspace"):
        shutil.rmtree(tmp_path / gone)
    labels = [{**query, "relevant_docs": [{"doc": "storage.txt"}]} for query in QUERIES]
    made.write_queries(labels)
    again = rescore(parent, tmp_path / "prompt_queries.json")
    assert made.embedded() == before
    assert again.settings[0].scores["recall@3"].n == 4
    assert not made.workspace.exists()


def test_without_documents_labels_with_passages_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = tmp_path / "far" / "away" / "trial"
    made = write_experiment(trial)
    parent = run_experiment(made.config())
    made.write_queries(NEW_LABELS)
    here = tmp_path / "moved" / "reports" / "old"
    here.mkdir(parents=True)
    labels = (trial / "prompt_queries.json").rename(here / "labels.json")
    shutil.move(parent.folder, here / "elsewhere")
    monkeypatch.chdir(here)
    moved = load_report(here / "elsewhere")
    made.file.rename(trial / "other.json")
    assert message_of(DocumentsNotFoundError, rescore, moved, labels) == (
        f"the documents of run {parent.run_id} are needed, to find the passages that labels mean. Name the config that "
        "it was run with: --config CONFIG."
    )
    config = (trial / "other.json").rename(made.file)
    again = rescore(moved, labels, config_file=config)
    assert again.folder == here / f"elsewhere-{again.run_id}"
    (trial / "documents" / "oven.txt").write_text("Another text.")
    with pytest.raises(DocumentsNotFoundError, match=r"are not those of run .* they were changed"):
        rescore(moved, labels, config_file=config)


def test_known_places_are_scored_without_documents_but_for_other_chunks(tmp_path: Path) -> None:
    queries = [{**QUERIES[1], "relevant_docs": [{"doc": "storage.txt", "quote": "Soup keeps for three days"}]}]
    made = write_experiment(tmp_path, queries=queries, evaluators=SPANS)
    parent = run_experiment(made.config())
    for gone in ("documents", "workspace"):
        shutil.rmtree(tmp_path / gone)
    again = rescore(parent, overrides=["evaluators.span_coverage=1.0"])
    assert again.settings[0].scores["span_recall@3"] == parent.settings[0].scores["span_recall@3"]
    assert again.settings[0].scores["span_precision_ceiling"].n == 0
    assert "chunks-not-known" in {warning.code for warning in again.warnings}


def test_queries_without_a_ranking_or_labels_and_those_asked_otherwise_are_left_out_and_said(tmp_path: Path) -> None:
    made = write_experiment(tmp_path, retrievers={"dense": {"kind": "dense", "top_k": 10}})
    parent = run_experiment(made.config())
    labels = [{"id": "new", "text": "New?", "relevant_docs": []}, QUERIES[1], {**SMOOTH, "text": "Smooth soup?"}]
    made.write_queries(labels)
    again = rescore(parent, tmp_path / "prompt_queries.json")
    assert [query.id for query in again.queries] == ["keep"]
    told = [warning.message for warning in again.warnings if warning.code in _LEFT_OUT]
    assert told == [
        f"queries left out: 1 (new); they have labels, but no ranking in run {parent.run_id}; run the experiment "
        "again.",
        f"queries left out: 1 (smooth); they have another text than in run {parent.run_id}, so their rankings are of "
        "something else; run the experiment again.",
        "queries left out: 2 (coffee, rye); they are in the report and no more in the labels.",
    ]
    made.write_queries([QUERIES[1]])
    alone = numbers(run_experiment(made.config()))
    ours = numbers(again)
    ours["warnings"] = [one for one in ours["warnings"] if one[0] not in _LEFT_OUT]
    alone["warnings"] = [one for one in alone["warnings"] if one[0] != "short"]
    ours["settings"][0]["counts"]["queries_too_long"] = alone["settings"][0]["counts"]["queries_too_long"]
    assert ours == alone


_LEFT_OUT = ("not-ranked", "text-of-query", "no-labels-left")


def test_labels_of_other_queries_or_other_documents_are_refused(tmp_path: Path) -> None:
    made = write_experiment(tmp_path)
    parent = run_experiment(made.config())
    made.write_queries([{"id": "1", "text": "What?", "relevant_docs": []}])
    with pytest.raises(LabelsError, match=r"has 1 query, and run .* has rankings of none of them\. It has 1; the"):
        rescore(parent, tmp_path / "prompt_queries.json")
    made.write_queries([{**query, "relevant_docs": [{"doc": "d1"}, {"doc": "d2"}]} for query in QUERIES])
    with pytest.raises(
        LabelsError, match=r"documents in the labels that are in no .*: 2 of 2 \(d1, d2\)\. The report has"
    ):
        rescore(parent, tmp_path / "prompt_queries.json")
    assert len(list(parent.folder.parent.glob("2*"))) == 1


def test_documents_nothing_knows_deeper_metrics_and_lost_rankings_are_told(tmp_path: Path) -> None:
    made = write_experiment(tmp_path)
    parent = run_experiment(made.config())
    made.write_queries([{**QUERIES[1], "relevant_docs": [{"doc": "storage.txt"}, {"doc": "storrage.txt"}]}])
    again = rescore(parent, tmp_path / "prompt_queries.json")
    (told,) = (warning.message for warning in again.warnings if warning.code == "unknown-documents")
    assert told.startswith(
        "documents in the labels that are in no stored ranking and in no earlier label: 1 of 2 (storr"
    )
    assert again.settings[0].scores["recall@3"].mean == 0.5
    parent = run_experiment(write_experiment(tmp_path).config())
    for deep in ({"metrics": "ndcg@4"}, {"overrides": ["evaluators.graded.k=[1, 7]"]}):
        with pytest.raises(ConfigError, match=r"above the top_k of 3 of 'dense'.*; only that many are kept"):
            rescore(parent, **deep)
    assert rescore(parent, metrics="ndcg@3").settings[0].scores["ndcg@3"] == parent.settings[0].scores["ndcg@3"]
    (parent.folder / "rankings" / "dense.jsonl.gz").unlink()
    with pytest.raises(InputError, match=r"dense\.jsonl\.gz: cannot be read: No such file"):
        rescore(parent, metrics="rr@1")
    text = json.loads((parent.folder / "report.json").read_text())
    assert text["parent"] is None


@pytest.mark.parametrize("override", ["seed=1", "evaluators.unit=span", "evaluators.ties=trec"])
def test_what_would_need_another_run_is_refused(tmp_path: Path, override: str) -> None:
    parent = run_experiment(write_experiment(tmp_path).config())
    assert message_of(InputError, rescore, parent, overrides=[override]) == (
        f"--set #1: {override.partition('=')[0]} says what was ranked, which another run alone can change; only other "
        "keys of evaluators can be set."
    )


def test_printed_commands_compare_new_labels(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = write_experiment(tmp_path, retrievers={"words": {"kind": "bm25", "top_k": 4}})
    first = run_experiment(made.config())
    rankings = {"words": list(first.rankings("words", [query.id for query in first.queries]))}
    written = tmp_path / "results", rankings, first.all_texts(), made.file.read_text()
    early = write_report(first.model_copy(update={"run_id": "20260101T000000Z-0a1b2c"}), *written)
    shutil.rmtree(first.folder)
    made.write_queries(NEW_LABELS)
    later = run_experiment(made.config())
    refused = ragtrial(capsys, "compare", "latest~1", "latest")
    rescoring, comparing = re.findall("`(ragtrial [^`]+)`", refused.err)
    assert refused.code == 2
    again = succeeded(capsys, *shlex.split(rescoring)[1:])
    assert len([line for line in again.out.splitlines() if line.startswith("Next: ")]) == 1
    rescored = load_report(shlex.split(rescoring)[-1])
    assert rescored.parent == early.run_id
    assert rescored.dataset.labels_fingerprint == later.dataset.labels_fingerprint
    assert shlex.split(comparing)[2:] == [str(rescored.folder), f"results/kitchen/{later.run_id}"]
    assert "later-baseline" not in succeeded(capsys, *shlex.split(comparing)[1:], "--json").out
    succeeded(capsys, "rescore", early.run_id, "--labels", "config.yaml")
    assert "later-baseline" in succeeded(capsys, "compare", "latest~1", "latest", "--json").out


def test_labels_of_a_file_that_no_config_names_are_those_of_the_next_commands(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A report that was scored by such a file lends its labels to other runs, so advice does not go in a circle."""
    monkeypatch.chdir(tmp_path)
    parent = run_experiment(write_experiment(tmp_path).config())
    written = {"queries": [{**QUERIES[0], "relevant_docs": [{"doc": "storage.txt"}]}]}
    (tmp_path / "mine.json").write_text(json.dumps(written))
    succeeded(capsys, "rescore", "latest", "--labels", "mine.json", "-o", "mine")
    refused = ragtrial(capsys, "compare", parent.folder, "mine")
    rescoring, comparing = re.findall("`(ragtrial [^`]+)`", refused.err)
    succeeded(capsys, *shlex.split(rescoring)[1:])
    succeeded(capsys, *shlex.split(comparing)[1:])
    first, second = [load_report(name).queries[0].relevant_docs for name in shlex.split(comparing)[2:]]
    assert first == second


def test_the_new_report_names_its_parent(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    made = write_experiment(tmp_path, latency=True)
    parent = run_experiment(made.config())
    monkeypatch.chdir(tmp_path)
    outcome = succeeded(capsys, "rescore", "latest", "--metrics", "rr@2", "--json")
    assert outcome.json["parent"] == parent.run_id
    again = load_report("latest")
    assert again.run_id == outcome.json["run_id"] != parent.run_id
    assert again.parent == parent.run_id
    assert again.folder.parent == Path("results/kitchen")
    assert [(one.costs, one.latency) for one in again.settings] == [(one.costs, one.latency) for one in parent.settings]
    assert again.settings[0].latency is not None
    for name in ("texts.jsonl.gz", "rankings/dense.jsonl.gz", "config.yaml"):
        assert (again.folder / name).read_bytes() == (parent.folder / name).read_bytes()
    shown = ragtrial(capsys, "show", "latest", "--query", "rye")
    assert "How long do I bake rye bread?" in shown.out
    assert f"the rankings of run {parent.run_id} scored again" in " ".join(
        ragtrial(capsys, "show", "latest").out.split()
    )
    twice = ragtrial(capsys, "rescore", "latest", "--metrics", "rr@1", "-o", "mine", "--json")
    assert load_report("mine").parent == parent.run_id
    assert twice.json["report"] == "mine/report.json"
    assert ragtrial(capsys, "rescore", "latest", "--metrics", "rr@1", "-o", "mine").err == (
        "error: mine: is there already; a report is a new folder. Name another one.\n"
    )
    assert ragtrial(capsys, "rescore", "latest").err == (
        "error: nothing would change: give --labels, --metrics, or --set evaluators...\n"
    )


def test_labels_by_passage_alone_and_qrels_score_from_the_report(tmp_path: Path) -> None:
    content = {"dataset": {"corpus": "documents", "queries": "prompt_queries.json", "match": "content"}}
    queries = [{**QUERIES[1], "relevant_docs": [{"doc": "Soup keeps for three days in the fridge"}]}]
    made = write_experiment(tmp_path, queries=queries, **content)
    again, run = compared(made, [{**QUERIES[1], "relevant_docs": [{"doc": "in the fridge", "relevance": 2}]}])
    assert numbers(again) == numbers(run)
    made = write_experiment(tmp_path)
    parent = run_experiment(made.config())
    (tmp_path / "test.tsv").write_text("query-id\tcorpus-id\tscore\nkeep\tstorage.txt\t2\nnobody\td1\t1\n")
    again = rescore(parent, tmp_path / "test.tsv")
    assert [(query.id, query.text) for query in again.queries] == [("keep", QUERIES[1]["text"])]
    made.write_queries([{**QUERIES[1], "relevant_docs": [{"doc": "storage.txt", "relevance": 2}]}])
    assert again.settings[0].scores == run_experiment(made.config()).settings[0].scores


def test_losses_by_new_labels_are_said_unknown_and_skipped_queries_stay_so(tmp_path: Path) -> None:
    made = write_experiment(tmp_path, store={"kind": "chroma"})
    parent = run_experiment(made.config())
    again = rescore(parent, metrics="rr@2")
    audit = present(again.settings[0].audit)
    assert audit.lost == {"rr@2": None}
    assert audit.overlap == parent.settings[0].audit.overlap  # type: ignore[union-attr]
    assert [one.code for one in again.warnings].count("audit-of-parent") == 1
    mine = {"kind": "custom", "function": "my_search:search", "top_k": 3, "on_error": "skip", "batch_size": 1}
    made = write_experiment(tmp_path, retrievers={"mine": mine})
    (tmp_path / "my_search.py").write_text(SEARCH)
    again, run = compared(made, NEW_LABELS)
    assert numbers(again) == numbers(run)
    (setting,) = again.settings
    assert setting.counts["queries_skipped"] == 1
    assert setting.scores["precision@3"].n == 3


def test_a_report_of_scored_runs_names_the_command_that_scores_it_again(tmp_path: Path) -> None:
    report = scored_report(tmp_path, {"q1": {"d1": 1}}, {"bm25": {"q1": "d1"}})
    with pytest.raises(InputError, match=r"by `ragtrial score`, .*: ragtrial score LABELS REPORT -o FOLDER\."):
        rescore(report, metrics="rr@1")
