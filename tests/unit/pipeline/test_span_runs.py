"""Experiments that look for passages in chunks: scores, report, drill-down, contexts and budgets."""

import json
import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from commands import Outcome
from expectations import message_of
from ragtrial import ExperimentResults, QueryResult, RetrievalEvaluator, load_config, load_report
from ragtrial.errors import LabelsError, counted
from ragtrial.records import Hit
from report_hits import ReportHit, hits_of
from small_experiment import HASHING, ragtrial, small_experiment

pytestmark = pytest.mark.slow

Capture = pytest.CaptureFixture[str]

CONFIG = """\
experiment: spans
dataset: {corpus: documents, queries: prompt_queries.json}
embedder: {kind: custom, function: "hashing:embed"}
store: {kind: exact}
retrievers:
  words: {kind: dense, top_k: 4, chunker: {kind: fixed, size: 24, overlap: 0, unit: characters}}
  whole: {kind: dense, top_k: 4, chunker: {kind: document}}
evaluators: {unit: span, primary_metric: ndcg@2, order_unaware: {k: [1, 2]}, order_aware: {k: [2]}, graded: {k: [2]}}
latency: false
"""

DOCUMENTS = {
    "hours.txt": "The shop opens at nine. The shop closes at six sharp.",
    "prices.txt": "Bread costs two euros. A cake costs nine euros here.",
}
LABELS = {
    "queries": [
        {
            "id": "q1", "text": "shop closes six", "tags": ["hours"],
            "relevant_docs": [{"doc": "hours.txt", "quote": "The shop closes at six", "relevance": 2},
                              {"doc": "prices.txt", "relevance": 0}],
        },
        {"id": "q2", "text": "cakes", "relevant_docs": [{"doc": "prices.txt", "quote": "A cake costs nine euros"}]},
        {"id": "q3", "text": "bread", "relevant_docs": [{"doc": "prices.txt", "quote": "Bread costs two euros."},
                                                        {"doc": "hours.txt", "quote": "opens at nine"}]},
    ]
}  # fmt: skip


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return small_experiment(tmp_path, config=CONFIG, labels=LABELS, documents=DOCUMENTS, functions=HASHING)


@pytest.fixture
def report(config: Path, capsys: Capture) -> dict[str, Any]:
    outcome = ragtrial(capsys, "run", str(config), "--json")
    assert outcome.code == 0, outcome.err
    return dict(json.loads(Path(outcome.json["report"]).read_text()))


def setting(report: dict[str, Any], name: str) -> dict[str, Any]:
    return dict(next(one for one in report["settings"] if one["name"] == name))


def found(report: dict[str, Any], name: str) -> list[list[ReportHit]]:
    """What a setting found for each query."""
    (folder,) = Path().rglob(f"{report['run_id']}/")
    return list(hits_of(load_report(folder), name).values())


def test_chunks_are_ranked_and_contexts_measured_at_every_cutoff(report: dict[str, Any]) -> None:
    """Each document of 53 or 52 characters is cut at 24 and 48."""
    words, whole = setting(report, "words"), setting(report, "whole")
    assert words["counts"]["chunks"] == 6
    assert words["counts"]["chunks_kept"] == 3 * 4
    assert words["counts"]["chunks_collapsed"] == 0
    assert whole["counts"]["chunks_kept"] == 3 * 2
    first = found(report, "words")[0]
    assert len({(hit.doc, hit.start, hit.end) for hit in first}) == 4
    assert (first[0].doc, first[0].start, first[0].end, first[0].grade) == ("hours.txt", 24, 48, 2)
    whole = setting(report, "whole")
    assert whole["context"] == [
        {"k": 1, "characters": pytest.approx((53 + 52 + 52) / 3), "tokens": None},
        {"k": 2, "characters": 105, "tokens": None},
        {"k": 4, "characters": 105, "tokens": None},
    ]
    assert whole["budget"] is None
    # Few passages of each question are labelled, as is usual; the whole setting has too few documents.
    assert {warning["code"] for warning in report["warnings"]} <= {"short"}


@pytest.mark.parametrize(
    ("overlap", "steps"), [(0, [(1, 1 / 23), (5, 22 / 23)]), (12, [(1, 1 / 23), (6, 12 / 23), (7, 1.0)])]
)
def test_each_label_has_the_rank_that_finds_it_and_the_ranks_that_cover_more_of_it(
    config: Path, capsys: Capture, overlap: int, steps: list[tuple[int, float]]
) -> None:
    """The passage has 23 characters; with an overlap of 12, every second chunk adds nothing to its neighbours."""
    words = "retrievers.words"
    overrides = ("--set", f"{words}.chunker.overlap={overlap}", "--set", f"{words}.top_k=12")
    outcome = ragtrial(capsys, "run", str(config), "--json", *overrides)
    report = json.loads(Path(outcome.json["report"]).read_text())
    (first, _), (cake,), (_, last) = setting(report, "words")["per_query"]["passages"]
    assert first == {"found": 1, "covered": [{"rank": 1, "share": 1.0}]}
    assert last == {"found": 2, "covered": [{"rank": 2, "share": 1.0}]}
    assert [(step["rank"], step["share"]) for step in cake["covered"]] == steps
    assert cake["found"] == next(rank for rank, share in steps if share >= 0.5)


def test_a_label_without_a_quote_speaks_of_the_whole_document_and_that_is_said(config: Path, capsys: Capture) -> None:
    labels = {"queries": [{"id": "q", "text": "shop", "relevant_docs": [{"doc": "hours.txt"}]}]}
    (config.parent / "prompt_queries.json").write_text(json.dumps(labels))
    outcome = ragtrial(capsys, "run", str(config))
    assert outcome.code == 0
    assert (
        "labels of a grade above 0 without a quote: 1. Under unit: span their passage is the whole document, of which "
        "the share span_coverage must be retrieved. Add quotes, or use unit: document." in " ".join(outcome.err.split())
    )
    strict = ragtrial(capsys, "run", str(config), "--strict")
    assert strict.code == 2


def test_results_handed_in_score_as_those_of_a_run_each_chunk_once(config: Path, report: dict[str, Any]) -> None:
    evaluator = RetrievalEvaluator(load_config(config))
    for given in evaluator.run(evaluator.retrieve()):
        means = {name: mean.mean for name, mean in given.evaluations.items()}
        reported = {name: one["mean"] for name, one in setting(report, given.name)["scores"].items()}
        assert reported.pop("span_precision_ceiling") is not None
        assert means.pop("span_precision_ceiling") is None  # of given results not all chunks are known
        assert means == pytest.approx(reported)
    hit = Hit("hours.txt", 1.0, None, 24, 48)
    given = ExperimentResults("mine", (QueryResult("q1", (hit, hit, Hit("unknown.txt", 0.5, None, 0, 9))),))
    (scored,) = RetrievalEvaluator(load_config(config)).run([given])
    assert scored.results[0].evaluations["precision@2"] == 1 / 2
    assert scored.results[0].evaluations["span_precision@2"] == pytest.approx(22 / (24 + 9))
    assert scored.results[1].evaluations["recall@2"] == 0


@pytest.mark.parametrize(("start", "end"), [(9, 4), (-5, 4), (40, 54)])
def test_given_chunks_that_no_document_has_are_refused(config: Path, start: int, end: int) -> None:
    given = ExperimentResults("mine", (QueryResult("q1", (Hit("hours.txt", start=start, end=end),)),))
    assert message_of(LabelsError, RetrievalEvaluator(load_config(config)).run, [given]) == (
        f"results of 'mine' have a hit of 'hours.txt' with start {start} and end {end}; under unit: span a hit must "
        "say which characters of the document's normalised text it has (0 to 53 in this document)."
    )


def test_chunks_are_written_as_documents_only_when_asked(config: Path, report: dict[str, Any], capsys: Capture) -> None:
    refused = "run 'words' is of a report of passages in chunks (unit: span), and what is scored and written here are"
    for command in (("score", "prompt_queries.json", "latest"), ("export", "latest", "out.run", "--run", "words")):
        outcome = ragtrial(capsys, *command)
        assert (outcome.code, refused in outcome.err) == (2, True), command
        assert outcome.err.count("error:") == 1
        assert ragtrial(capsys, *command, "--duplicates", "first").code == 0
    hits = [hit.doc for hit in found(report, "words")[0]]
    written = [line.split()[2] for line in Path("out.run").read_text().splitlines() if line.startswith("q1 ")]
    assert written == list(dict.fromkeys(hits))


@pytest.fixture
def budgeted(config: Path, minilm_folder: Path, capsys: Capture) -> Callable[..., Outcome]:
    text = CONFIG.replace("unit: span,", "unit: span, budget: BUDGET,").replace(
        '{kind: custom, function: "hashing:embed"}',
        f'{{kind: custom, function: "hashing:embed", tokenizer_model: "{minilm_folder}"}}',
    )

    def run(budget: int, *options: str) -> Outcome:
        config.write_text(text.replace("BUDGET", str(budget)))
        return ragtrial(capsys, "run", str(config), "--json", *options)

    return run


def test_equal_context_keeps_the_hits_that_fit(budgeted: Callable[[int], Outcome]) -> None:
    outcome = budgeted(12)
    assert outcome.code == 0, outcome.err
    report = json.loads(Path(outcome.json["report"]).read_text())
    whole, words = setting(report, "whole"), setting(report, "words")
    for one in (whole, words):
        fits = []
        for hits in found(report, one["name"]):
            sizes = [hit.tokens or 0 for hit in hits]
            fits.append(sum(sum(sizes[: rank + 1]) <= 12 for rank in range(len(sizes))))
        assert one["budget"]["hits"] == pytest.approx(sum(fits) / 3)
    assert whole["budget"]["hits"] < 1
    assert words["budget"]["scores"]["recall"]["mean"] > whole["budget"]["scores"]["recall"]["mean"]
    assert list(words["budget"]["scores"]) == [
        "span_recall", "span_precision", "span_iou", "span_precision_ceiling", "recall", "hit_rate", "rr", "ap", "dcg",
        "ndcg", "judged",
    ]  # fmt: skip


def test_a_budget_that_rankings_do_not_fill_is_said(budgeted: Callable[..., Outcome]) -> None:
    outcome = budgeted(10_000, "--set", "retrievers.words.top_k=2", "--set", "retrievers.whole.top_k=2")
    report = json.loads(Path(outcome.json["report"]).read_text())
    wanted = {}
    for one in report["settings"]:
        full = [hits for hits in found(report, one["name"]) if len(hits) == 2]
        assert one["budget"]["queries_not_full"] == len(full) > 0, "where there are no more hits, none is missing"
        usual = statistics.median(sum(hit.tokens or 0 for hit in hits) for hits in full)
        wanted[one["name"]] = len(full), math.ceil(2 * 10_000 / usual)
        assert one["budget"]["scores"]["ap"]["mean"] >= one["scores"]["ap@2"]["mean"]
        assert one["budget"]["scores"]["recall"]["mean"] >= one["scores"]["recall@2"]["mean"]
    assert [warning["message"] for warning in report["warnings"] if warning["code"] == "budget-not-full"] == [
        f"{name}: the hits for {counted(queries, 'query', 'queries')} do not fill 10,000 tokens. To compare "
        f"at equal context, raise its top_k to about {top_k:,}."
        for name, (queries, top_k) in wanted.items()
    ]
    deep = budgeted(10_000, "--set", "retrievers.words.top_k=50", "--set", "retrievers.whole.top_k=50")
    report = json.loads(Path(deep.json["report"]).read_text())
    assert [one["budget"]["queries_not_full"] for one in report["settings"]] == [0, 0]
    assert "budget-not-full" not in {warning["code"] for warning in report["warnings"]}


def test_a_budget_needs_a_tokenizer(config: Path, capsys: Capture) -> None:
    outcome = ragtrial(capsys, "run", str(config), "--set", "evaluators.budget=100")
    assert outcome.code == 2
    assert outcome.err == (
        "error: --set #1: evaluators.budget counts tokens of the custom embedder, which has no tokenizer; give it a "
        "tokenizer_model.\n"
    )
