"""``ragtrial label``: what it refuses, and how it ends."""

import json
import signal
from pathlib import Path

import pytest

from ragtrial.labelling.session.session import Session
from small_experiment import LABELS, Capture, ragtrial, refused
from worklists import judgments, post, start_page, write_work


def test_answers_are_written_without_asking_and_a_finished_worklist_says_so(tmp_path: Path, capsys: Capture) -> None:
    with Session(write_work(tmp_path)) as session:
        session.skip()
        for _ in range(5):
            session.grade(1)
    made = ragtrial(capsys, "label", "worklist.json", "--json", "-q")
    assert (made.code, made.json["written"], made.json["agreement"]["n"]) == (0, 4, 1)
    assert judgments(tmp_path, "q2") == {"warranty.md": 1, "returns.md": 1, "shipping.txt": 1}
    made = ragtrial(capsys, "label", "worklist.json", "-q")
    assert (made.code, made.err) == (0, "")
    assert made.out == (
        "everything on this worklist is answered and written; 1 left out: --skipped asks for them again\n\n"
        "5 of 6 graded, 1 left out\nprompt_queries.json: 4 judgments written\n"
        "agreement: 1 of 1 that are judged already got the same grade as before\n"
        "next: ragtrial rescore latest --labels prompt_queries.json --config experiment.yaml\n"
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gone.json"], "gone.json: there is no such file."),
        (["prompt_queries.json"], "prompt_queries.json: is not a worklist"),
        (["worklist.json", "--port", "0"], "0 is not in the range 1<=x<=65535"),
        (["worklist.json", "--highest", "10"], "10 is not in the range 1<=x<=9"),
        (["worklist.json", "--labels", "gone.json"], "there is no such file; name the labels: --labels FILE."),
        (["moved.json"], "moved.json: names the config {here}/gone.yaml, which is not there; name the one with the"),
        (["worklist.json", "--config", "gone.yaml"], "gone.yaml: there is no such file"),
    ],
)
def test_what_cannot_be_labelled_is_refused(tmp_path: Path, capsys: Capture, arguments: list[str], told: str) -> None:
    write_work(tmp_path, config=str(tmp_path / "gone.yaml")).rename("moved.json")
    write_work(tmp_path)
    refused(capsys, "label", *arguments, "-q", says=told.format(here=tmp_path))
    assert json.loads(Path("prompt_queries.json").read_text()) == LABELS
    assert list(tmp_path.glob("*.answers.jsonl")) == []


def test_the_page_ends_by_its_button_and_tells_what_was_written(tmp_path: Path) -> None:
    write_work(tmp_path)
    process, url = start_page("label", "worklist.json", "--json")
    state = post(url, "skip", revision=0)["state"]
    state = post(url, "grade", revision=state["revision"], grade=2)["state"]
    assert post(url, "finish", revision=state["revision"])["lines"][0].startswith("1 of 6 graded")
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert json.loads(out) == {
        "exit_code": 0, "labels": str(tmp_path / "prompt_queries.json"), "items": 6, "graded": 1, "left_out": 1,
        "written": 1, "judged_meanwhile": 0, "agreement": {"n": 0, "alike": 0, "kappa": None, "is_weighted": False},
        "next": "ragtrial rescore latest --labels prompt_queries.json --config experiment.yaml",
    }  # fmt: skip
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 2}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_page_that_is_interrupted_keeps_the_answers(tmp_path: Path, number: signal.Signals) -> None:
    write_work(tmp_path)
    process, url = start_page("label", "worklist.json")
    state = post(url, "skip", revision=0)["state"]
    post(url, "grade", revision=state["revision"], grade=2)
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped at 2 of 6. 1 answer is kept in" in err
    assert "Traceback" not in err
    assert judgments(tmp_path, "q1") == {"returns.md": 2}
    with Session("worklist.json") as session:
        assert len(session.answers.unsaved) == 1
