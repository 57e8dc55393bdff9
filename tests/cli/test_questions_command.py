"""``ragtrial questions`` and the review of its drafts: nothing is paid twice, and only what is kept becomes a label."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from drafting_double import DRAFTING
from endpoint_double import EndpointDouble, saying
from ragtrial.errors import InputError
from ragtrial.labelling.session.session import Session, ending_lines
from ragtrial.labelling.worklist import read_worklist
from ragtrial.records import DRAFTED, NOT_REVIEWED, UNANSWERABLE
from small_experiment import CONFIG, Capture, ragtrial, refused, small_experiment, succeeded

SUBJECTS = ["battery", "charger", "invoice", "parcel", "router", "sensor", "boiler", "warranty", "window", "heating"]
DOCUMENTS: Mapping[str, str | bytes] = {
    f"{('home', 'shop')[number % 2]}/{subject}.md": f"The {subject} has article number {number}. Whoever returns one "
    f"within {number + 10} days gets the price back.\n"
    for number, subject in enumerate(SUBJECTS)
}
CONFIG_BOTH = CONFIG.replace("latency:", "  bm25: {kind: bm25, top_k: 3}\noutput: {directory: results}\nlatency:")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path) -> None:
    labels = {"queries": [{"id": f"own{number}", "text": f"how long may I keep the {subject}",
                           "relevant_docs": [{"doc": name}]}
                          for number, (subject, name) in enumerate(zip(SUBJECTS, DOCUMENTS, strict=True))]}  # fmt: skip
    small_experiment(tmp_path, config=CONFIG_BOTH, documents=DOCUMENTS, labels=labels)


def questions(capsys: Capture, url: str, *options: str) -> Any:
    return ragtrial(capsys, "questions", "experiment.yaml", "--endpoint", url, "--model", "m", *options)


def drafts(capsys: Capture, *options: str) -> None:
    with EndpointDouble(default=DRAFTING) as double:
        made = questions(capsys, double.url, *options)
    assert made.code == 0, made.err


def labels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(Path("prompt_queries.json").read_text(encoding="utf-8"))["queries"]
    return [query for query in found if not query["id"].startswith("own")]


def test_drafts_go_into_a_file_of_their_own_and_labels_stay(capsys: Capture) -> None:
    before = Path("prompt_queries.json").read_bytes()
    with EndpointDouble(default=DRAFTING) as double:
        planned = questions(capsys, double.url, "--plan", "--json").json
        assert not double.asked
        made = questions(capsys, double.url, "--price", "2", "--json").json
        assert (planned["questions"], planned["calls"]) == (10, len(double.asked)) == (10, 10)
        assert made["cost"] > 0
        again = questions(capsys, double.url, "--json").json
        assert (again["replies"], len(double.asked)) == (10, 10)
    worklist = read_worklist("drafts.json")
    assert worklist.source is not None
    assert (worklist.source.model, worklist.source.counts.replies, len(worklist.items)) == ("m", 10, made["drafts"])
    assert sum(item.draft is not None and item.draft.quote is None for item in worklist.items) == 1
    assert Path("prompt_queries.json").read_bytes() == before


def test_a_budget_ends_drafting_and_the_same_command_goes_on(capsys: Capture) -> None:
    with EndpointDouble(default=DRAFTING) as double:
        part = questions(capsys, double.url, "--calls", "4")
        assert "6 not asked yet; the same command with a larger budget continues" in part.out
        first = [item.question for item in read_worklist("drafts.json").items]
        assert len(double.asked) == 4
        assert questions(capsys, double.url).code == 0
        assert len(double.asked) == 10
        assert [item.question for item in read_worklist("drafts.json").items][: len(first)] == first
        plan = questions(capsys, double.url, "--seed", "5", "--price", "9", "--plan", "--json").json
        half = questions(capsys, double.url, "--seed", "5", "--price", "9", "--budget", str(plan["cost"] / 2), "--json")
        assert 0 < half.json["replies"] < 10
        nothing = questions(capsys, double.url, "--seed", "6", "--price", "9", "--budget", "0")
        assert (nothing.code, "one question could cost more than the budget" in nothing.err) == (2, True)


def test_replies_of_no_use_are_left_out_and_drafts_may_be_the_first_labels(capsys: Capture) -> None:
    with EndpointDouble(default=saying(lambda _: "Question: Why?\nAnswer: because of it")) as double:
        made = questions(capsys, double.url, "--json", "--unanswerable", "0").json
        assert (made["not_in_passage"], made["drafts"], made["wrote"]) == (10, 0, [])
        double.default = saying(lambda _: "I cannot do that.")
        made = questions(capsys, double.url, "--model", "other").out
    assert "left out: 10 could not be parsed" in made
    assert not Path("drafts.json").exists()
    Path("prompt_queries.json").unlink()
    drafts(capsys, "--count", "2", "--unanswerable", "0")
    with Session("drafts.json") as session:
        session.keep()
        session.quote("article number")
        session.keep()
        session.save()
    assert [query["relevant_docs"][0]["quote"] for query in labels()][1] == "article number"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--styles", "factual,funny"], "the styles are factual, keywords, how-to, reworded"),
        (["--styles", ","], "the styles are"),
        (["--budget", "1"], "--budget needs the price of a million tokens: --price."),
        (["--prompt", "own.txt"], "own.txt: lacks {passage}; a prompt needs {task} and {passage}."),
        (["-o", "prompt_queries.json"], "prompt_queries.json: is not a worklist and is not replaced"),
        (["--count", "0"], "0 is not in the range"),
    ],
)
def test_what_cannot_be_drafted_is_refused_before_all(capsys: Capture, options: list[str], said: str) -> None:
    Path("own.txt").write_text("{task}", encoding="utf-8")
    with EndpointDouble(default=DRAFTING) as double:
        made = questions(capsys, double.url, *options)
        assert (made.code, double.asked) == (2, [])
    assert said in made.err
    Path("beir.yaml").write_text(CONFIG_BOTH.replace("{corpus: documents, queries: prompt_queries.json}", "{beir: x}"))
    away = ("--endpoint", "http://127.0.0.1:9/v1", "--model", "m")
    refused(capsys, "questions", "beir.yaml", *away, says="beir.yaml: a BEIR folder is not changed")
    refused(capsys, "questions", "experiment.yaml", says="error: name the model: --endpoint URL --model NAME.")


def test_a_prompt_of_ones_own_is_sent(capsys: Capture) -> None:
    Path("own.txt").write_text("Mine. {task}\n{passage}", encoding="utf-8")
    with EndpointDouble(default=DRAFTING) as double:
        assert questions(capsys, double.url, "--prompt", "own.txt", "--count", "2").code == 0
        assert all(one.body["messages"][0]["content"].startswith("Mine. Write one") for one in double.asked)


def test_drafts_are_kept_edited_and_dropped_and_only_the_kept_become_labels(capsys: Capture) -> None:
    drafts(capsys, "--unanswerable", "0.3")
    items = read_worklist("drafts.json").items
    with Session("drafts.json", who="ada") as session:
        session.keep()
        session.drop()
        session.skip()
        session.rephrase("What is the deadline?")
        session.keep()
        session.save()
        assert ending_lines(session) == [
            "3 of 10 reviewed, 1 left out, 6 to go: the same command goes on",
            "prompt_queries.json: 2 questions added, 1 of them changed; 1 dropped",
            "next: ragtrial run experiment.yaml",
        ]
    made = labels()
    assert [(query["id"], query["text"]) for query in made] == [
        (items[0].query, items[0].question), (items[3].query, "What is the deadline?"),
    ]  # fmt: skip
    for query, item in zip(made, (items[0], items[3]), strict=True):
        assert item.draft is not None
        expected = [DRAFTED, item.draft.style, *([] if item.draft.quote else [UNANSWERABLE])]
        assert query["tags"] == expected
        (label,) = query["relevant_docs"] or [None]
        if item.draft.quote is None:
            assert label is None
        else:
            assert label == {"doc": item.doc, "relevance": 1, "quote": item.draft.quote, "start": label["start"],
                             "end": label["start"] + len(item.draft.quote)}  # fmt: skip
    assert ragtrial(capsys, "run", "experiment.yaml").code == 0  # the labels fit the documents


def test_a_draft_without_a_review_is_no_label_unless_asked_for_and_said(capsys: Capture) -> None:
    drafts(capsys)
    count = len(read_worklist("drafts.json").items)
    with Session("drafts.json", who="ada") as session:
        session.keep()
        session.drop()
        session.skip()
        session.save()
    assert len(labels()) == 1
    again = questions(capsys, "http://127.0.0.1:9/v1")
    assert (again.code, "is under review: drafts.answers.jsonl has answers" in again.err) == (2, True)
    made = ragtrial(capsys, "label", "drafts.json", "--unreviewed")
    assert f"{count - 2} drafts kept without review; every report will say so" in made.out
    assert f"2 of {count} reviewed\n" in made.out
    made = ragtrial(capsys, "label", "drafts.json", "--json")
    assert made.json["review"] == {"kept": count - 1, "changed": 0, "dropped": 1, "unseen": count - 2}
    assert [NOT_REVIEWED in query["tags"] for query in labels()] == [False] + [True] * (count - 2)
    run = ragtrial(capsys, "run", "experiment.yaml", "--json").json
    share = f"people reviewed 1 of these ({1 / (count - 1):.0%})."
    told = f"{count - 1} of {count + 9} questions were drafted by a model; {share}"
    assert told in " ".join(one["message"] for one in run["warnings"])
    compared = ragtrial(capsys, "compare", "latest", "--json").json
    assert told in " ".join(warning["message"] for warning in compared["warnings"])
    succeeded(capsys, "report", "latest", "-o", "page.html")
    assert told in Path("page.html").read_text(encoding="utf-8")


def test_a_review_that_was_killed_between_labels_and_journal_writes_nothing_twice(capsys: Capture) -> None:
    drafts(capsys)
    with Session("drafts.json", who="ada") as session:
        session.keep()
        with pytest.raises(InputError, match=r"the question is empty; drop it instead\."):
            session.rephrase(" \n")
        session.rephrase("What is it worth?")
        session.keep()
        session.save()
    journal = Path("drafts.answers.jsonl")
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    assert json.loads(lines[-1])["written"] == [0, 1]
    journal.write_text("".join(lines[:-1]), encoding="utf-8")
    before = labels()
    with Session("drafts.json", who="ada") as session:
        assert session.answers.unsaved == [0, 1]
        session.save()
        assert session.answers.unsaved == []
    assert labels() == before
    assert len(before) == 2
