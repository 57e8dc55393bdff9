"""Query expansion by a chat model: replies become wordings, are kept, paid for once, and shown."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import endpoint_double
from endpoint_double import EndpointDouble, Fault
from experiments import DOCUMENTS, QUERIES, Experiment, write_experiment
from ragtrial import run_experiment
from ragtrial.components.endpoints.chat import PROMPTS
from ragtrial.components.refiners.fusion import ExpandRefiner
from ragtrial.errors import RunError
from ragtrial.experiment import search_settings
from ragtrial.pipeline.run import Run
from ragtrial.records import Question, Written
from ragtrial.scoring.query_details import load_query
from ragtrial.views.dry_run_lines import plan_lines, total_lines
from ragtrial.views.texts import query_text

REPLY = '1. "rye bread baking time"\n2) how long bake rye\n\n- oven bread minutes\n'
ASKED = len(QUERIES)


def saying(text: str | None) -> Fault:
    def fault(_: Any, answer: Any) -> Any:
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
        return {**answer, "choices": [choice]} if "choices" in answer else answer

    return fault


@pytest.fixture
def double() -> Iterator[EndpointDouble]:
    with EndpointDouble(default=saying(REPLY)) as made:
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
    assert expand.writer is not None
    question = Question("q", written=(Written(expand.writer.key, reply),))
    return [wording.text for wording in expand.wordings(question)]


def test_wordings_are_the_lines_of_a_reply_a_whole_answer_or_none_of_another_prompt() -> None:
    assert wordings(REPLY) == ["q", "rye bread baking time", "how long bake rye", "oven bread minutes"]
    assert wordings("* \N{LEFT DOUBLE QUOTATION MARK}a 1.5 b\N{RIGHT DOUBLE QUOTATION MARK}\nq\n a 1.5 b ") == ["q", "a 1.5 b"]  # fmt: skip  # noqa: E501
    assert wordings(REPLY, question=False)[0] == "rye bread baking time"
    assert wordings("Bake it.\nAn hour.", prompt="answer") == ["q", "Bake it.\nAn hour."]
    assert wordings("Bake it.\nAn hour.", prompt="answer", lines=True) == ["q", "Bake it.", "An hour."]
    assert wordings("Bake it.\nAn hour.", prompt="Say {query}", lines=False) == ["q", "Bake it.\nAn hour."]
    other = refiner(prompt="answer").writer
    assert other is not None
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
    spent = [(one["prompt_tokens"], one["completion_tokens"]) for one in (usage(text) for text in asked)]
    expected = sum(read * 1.0 + written * 4.0 for read, written in spent) / 1e6
    assert wide.costs is not None
    assert wide.costs.query_cost == pytest.approx(1000 * expected / ASKED)
    (ranking,) = load_query(report, [wide], "rye")
    assert ranking.wordings == ("rye bread baking time", "how long bake rye", "oven bread minutes")
    assert "  asked: how long bake rye\n" in query_text(report, "rye", [ranking], 80)
    run_experiment(experiment.config())
    assert len(double.asked) == ASKED, "replies are kept"


def usage(text: str) -> dict[str, int]:
    words = len(text.split())
    return {"prompt_tokens": words, "completion_tokens": words + 1}


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
    double.default = saying(None)
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
    dense, wide, best = (report.setting(name).costs for name in ("dense", "wide", "best"))
    assert dense is not None
    assert wide is not None
    assert best is not None
    texts = {text for asked in double.asked if asked.path == "/v1/embeddings" for text in asked.texts}
    wordings = {text for text in texts if text.startswith(("about ", "Query: "))}
    chunks = texts - wordings - {query["text"] for query in QUERIES}
    words = sum(len(text.split()) for text in chunks)
    assert dense.embedding_cost == pytest.approx(words * 2.0 / 1e6, rel=0.02)
    assert best.embedding_cost == dense.embedding_cost
    assert dense.query_cost is not None
    assert wide.query_cost is not None
    assert best.query_cost is not None
    assert 0 < dense.query_cost < wide.query_cost < best.query_cost
    kinds = {one.kind for one in before.stages if one.amount.cost}
    assert kinds == {"embeddings", "wordings", "rankings", "latency"}


def test_a_query_that_is_refused_is_asked_as_it_is_and_named(
    double: EndpointDouble, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    double.faults = [None, endpoint_double.status(400, "filtered by the content policy")]
    report = run_experiment(experiment_of(tmp_path, double).config("retrievers.wide.endpoint.concurrency=1"))
    assert not report.failures
    assert "1 query is asked without other wordings, the first " in caplog.text
    assert "answered 400: filtered by the content policy." in caplog.text
    assert [warning.code for warning in report.warnings if warning.code == "no-reply"] == ["no-reply"]
