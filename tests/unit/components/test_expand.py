"""The refiner that asks several wordings of a question, from functions or from a chat model."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

import endpoint_double
from corpora import library_of
from endpoint_double import EndpointDouble
from expectations import present
from experiments import DOCUMENTS, QUERIES, Experiment, write_experiment
from ragtrial import RetrievalEvaluator, run_experiment
from ragtrial.components.endpoints.chat import PROMPTS
from ragtrial.components.interfaces import Candidates, RetrieverContext
from ragtrial.components.refiners.fusion import ExpandRefiner
from ragtrial.config.load import load_config
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import RunError
from ragtrial.experiment import search_settings
from ragtrial.pipeline.run import Run
from ragtrial.rankings import from_rows
from ragtrial.records import Question, ReportWarning, Written
from ragtrial.scoring.query_details import load_query
from ragtrial.views.dry_run_lines import plan_lines, total_lines
from ragtrial.views.texts import query_text
from refining import rows_of
from report_hits import hits_of
from small_experiment import CONFIG, small_experiment

RYE = Question("rye?", ("sourdough?", " rye? ", "dark bread?"), where={"lang": "en"})
PLAIN = Question("soup?")


@pytest.fixture
def units(tmp_path: Path) -> Chunks:
    library = library_of(tmp_path, {"b": "bread", "a": "apple", "c": "cherry"})
    return Chunks.of(library, [(document, 0, 5) for document in range(3)])


def expand(**options: Any) -> ExpandRefiner:
    return ExpandRefiner(inputs="dense", **options)


def refined(
    units: Chunks, refiner: ExpandRefiner, questions: Sequence[Question], rows: Sequence[Sequence[int]], *skipped: int
) -> Candidates:
    """What becomes of the rankings of all wordings; scores fall from 0.5 by 0.1."""
    made = from_rows(rows, [[0.5 - rank / 10 for rank in range(len(row))] for row in rows])
    part = Candidates(units, made, np.isin(np.arange(len(rows)), skipped))
    context = cast("RetrieverContext", SimpleNamespace(setting="expanded"))  # it is asked for nothing else
    return refiner.open(context).refine(questions, [part])


def texts(refiner: ExpandRefiner, question: Question) -> list[str]:
    return [wording.text for wording in refiner.wordings(question)]


def test_wordings_are_question_phrasings_and_templates_with_its_filters() -> None:
    refiner = expand(templates=["{query}", "A text on {query} ({query})"])
    assert texts(refiner, RYE) == ["rye?", "sourdough?", "dark bread?", "A text on rye? (rye?)"]
    assert refiner.asked(RYE) == texts(refiner, RYE)
    assert texts(expand(), PLAIN) == ["soup?"]
    template = "A text on {query}"
    assert texts(expand(question=False), RYE) == ["sourdough?", " rye? ", "dark bread?"]
    assert texts(expand(question=False, phrasings=False, templates=[template]), RYE) == ["A text on rye?"]
    assert texts(expand(phrasings=False, templates=[template]), RYE) == ["rye?", "A text on rye?"]
    assert texts(expand(question=False), PLAIN) == ["soup?"], "there is no other wording"
    refiner = expand(templates=['{"text": "{query}", "n": {}}'])
    assert texts(refiner, Question("what is {query} or {0}?"))[1] == '{"text": "what is {query} or {0}?", "n": {}}'
    for wording in expand().wordings(RYE):
        assert (wording.where, wording.phrasings) == ({"lang": "en"}, ())
    other = Question("rye?", ("sourdough?",))
    assert expand().asked(RYE) != expand().asked(other)
    plain = expand(phrasings=False, templates=["On {query}"])
    assert plain.asked(RYE) == plain.asked(other)


def test_the_rankings_of_the_wordings_of_each_question_are_fused(units: Chunks) -> None:
    # Three wordings of the first question, one of the second.
    found = refined(units, expand(), [RYE, PLAIN], [[0, 1], [2, 1], [1], [2, 0]])
    assert rows_of(found) == [[1, 0, 2], [2, 0]]
    assert found.rankings.scores[0].tolist() == pytest.approx([1 / 62 + 1 / 62 + 1 / 61, 1 / 61, 1 / 61])
    assert found.units is units
    assert found.facts == {"queries": 2, "mean_wordings": 2, "without_phrasings": 1}
    assert rows_of(refined(units, expand(), [Question("?", ("!",))], [[0], [1]])) == [[1, 0]]


def test_labels_without_any_phrasings_are_a_warning() -> None:
    facts = {"queries": 3, "without_phrasings": 3}
    assert list(expand().warnings("wide", facts)) == [
        ReportWarning(
            "no-phrasings",
            "wide: no query has `phrasings` in the labels, so nothing but the query was asked; write phrasings into "
            "the labels, or give templates.",
        )
    ]
    assert [warning.message for warning in expand(templates=["On {query}"]).warnings("wide", facts)] == [
        "wide: no query has `phrasings` in the labels, so nothing but the query and the templates were asked; write "
        "phrasings into the labels, or set phrasings: false."
    ]
    assert not list(expand().warnings("wide", {"queries": 3, "without_phrasings": 2}))
    assert not list(expand().warnings("wide", {"queries": 0, "without_phrasings": 0}))
    unused = expand(phrasings=False, templates=["On {query}"])
    assert not list(unused.warnings("wide", facts))


def test_what_a_file_has_for_a_question_was_not_found_for_its_other_wordings(tmp_path: Path) -> None:
    """Of another wording it has what it has under that text, if anything; what it lacks is reported."""
    entries = {
        "file": {"kind": "run_file", "path": "run.json", "score": False},
        "wide": {"kind": "expand", "inputs": "file", "top_k": 3},
    }
    experiment = write_experiment(tmp_path, retrievers=entries)
    asked = {"id": "rye", "text": "How long do I bake rye bread?", "phrasings": ["dark bread", "brown loaf"]}
    experiment.write_queries([{**asked, "relevant_docs": [{"doc": "bread/rye.md"}]}])
    run = {"rye": {"bread/rye.md": 2.0, "oven.txt": 1.0}, "dark bread": {"storage.txt": 3.0, "oven.txt": 2.0}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    report = run_experiment(experiment.config())
    (hits,) = hits_of(report, "wide").values()
    assert [hit.doc for hit in hits] == ["oven.txt", "bread/rye.md", "storage.txt"]
    assert [one.message for one in report.warnings if one.code == "queries-not-in-run"] == [
        "file, by itself, as a part of wide: labelled queries that are not in run.json: 1 ('brown loaf'); they score 0."
    ]


def test_a_fusion_with_other_phrasings_in_a_part_is_made_anew_and_no_other(tmp_path: Path) -> None:
    config = CONFIG.partition("retrievers:")[0] + (
        "retrievers:\n"
        "  bm25: {kind: bm25, top_k: 3}\n"
        "  wide: {kind: expand, inputs: bm25, top_k: 3, score: false}\n"
        "  both: {kind: fusion, inputs: [bm25, wide], top_k: 3}\n"
        "latency: false\n"
    )

    def found(folder: Path, phrasing: str) -> object:
        query = {"id": "q", "text": "thirty", "phrasings": [phrasing], "relevant_docs": [{"doc": "returns.md"}]}
        path = small_experiment(folder, config=config, labels={"queries": [query]})
        retrieved = RetrievalEvaluator(load_config(path)).retrieve()
        return [[hit.doc for hit in one.results[0].hits] for one in retrieved]

    before = found(tmp_path / "kept", "Parcels")
    assert found(tmp_path / "kept", "Batteries") == found(tmp_path / "fresh", "Batteries") != before


REPLY = '1. "rye bread baking time"\n2) how long bake rye\n\n- oven bread minutes\n'
ASKED = len(QUERIES)


@pytest.fixture
def double() -> Iterator[EndpointDouble]:
    with EndpointDouble(default=endpoint_double.saying(lambda _: REPLY)) as made:
        yield made


def experiment_of(folder: Path, double: EndpointDouble, **options: Any) -> Experiment:
    endpoint = {"model": "writer", "base_url": double.url, "price": 1.0, "output_price": 4.0}
    entries = {
        "dense": {"kind": "dense", "top_k": 3},
        "wide": {"kind": "expand", "inputs": "dense", "top_k": 3, "endpoint": endpoint, **options},
    }
    return write_experiment(folder, retrievers=entries)


def refiner(**options: Any) -> ExpandRefiner:
    made = {"inputs": "dense", "endpoint": {"model": "m"}, **options}
    return ExpandRefiner.model_validate(made)


def wordings(reply: str, **options: Any) -> list[str]:
    expand = refiner(**options)
    question = Question("q", written=(Written(present(expand.writer).key, reply),))
    return [wording.text for wording in expand.wordings(question)]


def test_wordings_are_the_lines_of_a_reply_a_whole_answer_or_none_of_another_prompt() -> None:
    assert wordings(REPLY) == ["q", "rye bread baking time", "how long bake rye", "oven bread minutes"]
    assert wordings("* \N{LEFT DOUBLE QUOTATION MARK}a 1.5 b\N{RIGHT DOUBLE QUOTATION MARK}\nq\n a 1.5 b ") == ["q", "a 1.5 b"]  # fmt: skip  # noqa: E501
    assert wordings(REPLY, question=False)[0] == "rye bread baking time"
    assert wordings("Bake it.\nAn hour.", prompt="answer") == ["q", "Bake it.\nAn hour."]
    assert wordings("Bake it.\nAn hour.", prompt="answer", lines=True) == ["q", "Bake it.", "An hour."]
    assert wordings("Bake it.\nAn hour.", prompt="Say {query}", lines=False) == ["q", "Bake it.\nAn hour."]
    other = present(refiner(prompt="answer").writer)
    expand = refiner()
    assert [one.text for one in expand.wordings(Question("q", written=(Written(other.key, REPLY),)))] == ["q"]


def test_a_run_asks_once_a_question_and_fuses_and_shows_wordings(double: EndpointDouble, tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, double)
    report = run_experiment(experiment.config("latency=true"))
    assert len(double.asked) == ASKED
    asked = {one.body["messages"][0]["content"] for one in double.asked}
    assert asked == {PROMPTS["rewrites"].replace("{query}", query["text"]) for query in QUERIES}
    embedded = experiment.embedded()
    assert {"rye bread baking time", "how long bake rye", "oven bread minutes"} <= set(embedded)
    wide = report.setting("wide")
    assert wide.latency is None, "each question would be paid for again"
    assert report.setting("dense").latency is not None
    lengths = [len(text.split()) for text in asked]  # the double bills a token a word, and one more for its reply
    expected = sum(length * 1.0 + (length + 1) * 4.0 for length in lengths) / 1e6
    assert present(wide.costs).query_cost == pytest.approx(1000 * expected / ASKED)
    (ranking,) = load_query(report, [wide], "rye")
    assert ranking.wordings == ("rye bread baking time", "how long bake rye", "oven bread minutes")
    assert "  asked: how long bake rye\n" in query_text(report, "rye", [ranking], 80)
    run_experiment(experiment.config())
    assert len(double.asked) == ASKED, "replies are kept"


def test_a_plan_says_how_many_questions_it_asks_and_their_cost(double: EndpointDouble, tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, double)
    plan = Run.of(experiment.config()).dry_run()
    (asking,) = [one for one in plan.stages if one.kind == "wordings"]
    assert (asking.what, asking.settings, asking.amount.to_do) == ("writer", ("wide",), ASKED)
    assert asking.amount.cost is not None
    assert 0 < asking.amount.cost < 0.01
    assert plan.cost == pytest.approx(asking.amount.cost)
    assert f"{ASKED} questions  ?, cost 0.00" in "\n".join(plan_lines(plan, 120))
    assert ", at the prices of the config." in total_lines(plan)[0]
    assert not double.asked
    run_experiment(experiment.config())
    again = Run.of(experiment.config()).dry_run()
    assert not again.to_do
    assert again.cost is None


def test_a_search_asks_the_chat_model_too_and_says_when_it_cannot(double: EndpointDouble, tmp_path: Path) -> None:
    experiment = experiment_of(tmp_path, double)
    found = search_settings(experiment.config(), "rye", ["wide"])
    assert found["wide"]
    assert len(double.asked) == 1
    double.default = endpoint_double.status(401, "who are you?")
    with pytest.raises(RunError, match="answered 401: who are you"):
        search_settings(experiment.config(), "leek", ["wide"])


def test_queries_for_which_nothing_was_written_are_counted(double: EndpointDouble, tmp_path: Path) -> None:
    double.default = endpoint_double.saying(lambda _: "")
    report = run_experiment(experiment_of(tmp_path, double).config())
    codes = {warning.code: warning.message for warning in report.warnings}
    assert f"for {ASKED} of {ASKED} queries the chat model wrote nothing" in codes["no-reply"]
    assert "no-phrasings" not in codes


def test_the_whole_chain_is_asked_once_and_its_costs_add_up(tmp_path: Path) -> None:
    """An embedder, a chat model and a reranker behind endpoints, and a second run that pays nothing."""
    with EndpointDouble() as double:
        at = {"base_url": double.url, "price": 2.0}
        entries = {
            "dense": {"kind": "dense", "top_k": 3},
            "wide": {"kind": "expand", "inputs": "dense", "top_k": 3, "endpoint": {**at, "model": "w"}},
            "best": {"kind": "rerank", "inputs": "wide", "top_k": 3, "endpoint": {**at, "model": "r"}},
        }
        embedder = {"kind": "openai", "model": "e", **at}
        experiment = write_experiment(tmp_path, DOCUMENTS, retrievers=entries, embedder=embedder, latency=True)
        before = Run.of(experiment.config()).dry_run()
        report = run_experiment(experiment.config())
        paid = dict.fromkeys(("/v1/embeddings", "/v1/chat/completions", "/v1/rerank"), 0.0)
        for one in double.asked:
            paid[one.path] += 1
        assert all(paid.values())
        count = len(double.asked)
        run_experiment(experiment.config())
        assert len(double.asked) == count
        assert Run.of(experiment.config()).dry_run().cost is None
    dense, wide, best = (present(report.setting(name).costs) for name in ("dense", "wide", "best"))
    texts = {text for asked in double.asked if asked.path == "/v1/embeddings" for text in asked.texts}
    wordings = {text for text in texts if text.startswith(("about ", "Query: "))}
    chunks = texts - wordings - {query["text"] for query in QUERIES}
    words = sum(len(text.split()) for text in chunks)
    assert dense.embedding_cost == pytest.approx(words * 2.0 / 1e6, rel=0.02)
    assert best.embedding_cost == dense.embedding_cost
    assert 0 < present(dense.query_cost) < present(wide.query_cost) < present(best.query_cost)
    kinds = {one.kind for one in before.stages if one.amount.cost}
    assert kinds == {"embeddings", "wordings", "rankings", "latency"}


def test_a_refused_query_is_named(double: EndpointDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    double.faults = [None, endpoint_double.status(400, "filtered by the content policy")]
    report = run_experiment(experiment_of(tmp_path, double).config("retrievers.wide.endpoint.concurrency=1"))
    assert not report.failures
    assert "1 query is asked without other wordings, the first " in caplog.text
    assert "answered 400: filtered by the content policy." in caplog.text
    assert [warning.code for warning in report.warnings if warning.code == "no-reply"] == ["no-reply"]
