"""Judging through an endpoint: every reply is paid once, budgets hold, and keys are nowhere."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from commands import Command
from contests import run_into
from endpoint_double import EndpointDouble, saying, soon, status
from ragtrial.comparison.judge import read_judgments
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]
KEY = "sk-this-is-a-secret-key-0123456789"


GRADED = saying(lambda said: f"It is about it.\n\nGrade: {len(said) % 4}")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return run_into(tmp_path, "report")


def judge(capsys: Capture, report: Path, url: str, *options: str) -> Any:
    return ragtrial(capsys, "judge", report, "--endpoint", url, "--model", "m", "-o",
                    report.parent / "judgments.jsonl", *options)  # fmt: skip


def test_judgments_say_what_was_asked_answered_and_paid_and_labels_stay(report: Path, capsys: Capture) -> None:
    before = {file: file.read_bytes() for file in report.rglob("*") if file.is_file()}
    with EndpointDouble(default=GRADED) as double:
        ended = judge(capsys, report, double.url, "--price", "2", "--json")
    assert ended.code == 0
    rows = read_judgments(report.parent / "judgments.jsonl").rows
    assert len(rows) == len(double.asked) > 0
    for row in rows:
        assert row.grade in (0, 1, 2, 3)
        assert row.reply is not None
        assert row.reply.endswith(f"Grade: {row.grade}")
        assert row.cost == pytest.approx(((row.input_tokens or 0) + (row.output_tokens or 0)) * 2e-6)
        assert (row.model, row.parameters) == ("m", {"temperature": 0.0, "seed": 0, "max_tokens": 400})
    assert before == {file: file.read_bytes() for file in before}


def test_what_was_answered_is_never_asked_again_and_a_plan_asks_nothing(report: Path, capsys: Capture) -> None:
    with EndpointDouble(default=GRADED) as double:
        planned = json.loads(judge(capsys, report, double.url, "--plan", "--json").out)
        assert not double.asked
        judge(capsys, report, double.url)
        first = len(double.asked)
        assert planned["calls"] == first
        again = json.loads(judge(capsys, report, double.url, "--plan", "--json").out)
        judge(capsys, report, double.url)
        assert (again["calls"], again["kept"], len(double.asked)) == (0, first, first)


def test_a_reply_without_a_grade_or_that_was_cut_is_kept_as_missing(report: Path, capsys: Capture) -> None:
    def cut_off(_: Any, answer: Any) -> Any:
        answer["choices"][0] |= {"message": {"content": "It may be a 2 or a\n3"}, "finish_reason": "length"}
        return answer

    with EndpointDouble(faults=[cut_off], default=saying(lambda _: "I would rather not say.")) as double:
        ended = judge(capsys, report, double.url, "--json")
    assert json.loads(ended.out)["unparsable"] == len(double.asked)
    assert {row.grade for row in read_judgments(report.parent / "judgments.jsonl").rows} == {None}


def test_a_budget_of_calls_ends_between_queries_and_goes_on_later(report: Path, capsys: Capture) -> None:
    with EndpointDouble(default=GRADED) as double:
        whole = json.loads(judge(capsys, report, double.url, "--plan", "--json").out)
        part = json.loads(judge(capsys, report, double.url, "--calls", "4", "--json").out)
        assert 0 < len(double.asked) <= 4
        assert part["queries"] < whole["queries"]
        assert part["judgments"] == len(double.asked)
        judge(capsys, report, double.url)
        assert len(double.asked) == whole["calls"]


def test_a_server_that_breaks_for_good_leaves_what_it_answered(report: Path, capsys: Capture) -> None:
    with EndpointDouble(faults=[GRADED] * 9, default=soon(500)) as double:
        ended = judge(capsys, report, double.url, "--retries", "0", "--concurrency", "1")
        assert ended.code == 3
        paid = len(read_judgments(report.parent / "judgments.jsonl").rows)
        assert 0 < paid <= 9
        double.default = GRADED
        before = len(double.asked)
        assert judge(capsys, report, double.url).code == 0
    rows = read_judgments(report.parent / "judgments.jsonl").rows
    assert len(double.asked) - before == len(rows) - 9


def test_keys_are_sent_and_are_in_no_file_and_no_line(
    report: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUDGE_KEY", KEY)
    with EndpointDouble(default=GRADED) as double:
        ended = judge(capsys, report, double.url, "--api-key", "${JUDGE_KEY}", "-v")
        assert {one.headers["Authorization"] for one in double.asked} == {f"Bearer {KEY}"}
        pasted = judge(capsys, report, double.url, "--api-key", KEY)
    assert (ended.code, pasted.code) == (0, 2)
    assert KEY not in ended.out + ended.err + pasted.out + pasted.err
    assert all(KEY.encode() not in file.read_bytes() for file in report.parent.rglob("*") if file.is_file())


@pytest.mark.slow
def test_a_judge_that_is_killed_has_lost_no_reply_that_was_paid(report: Path, tmp_path: Path) -> None:
    with EndpointDouble(default=GRADED, latency=0.05) as double:
        arguments = ["judge", str(report), "--endpoint", double.url, "--model", "m"]
        arguments += ["--concurrency", "2", "-o", "j.jsonl"]
        running = Command(tmp_path, *arguments, log=tmp_path / "first")
        kept = tmp_path / "j.replies"
        running.wait_until(lambda: kept.exists() and kept.read_bytes().count(b"\n") >= 4)
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
        lines = kept.read_bytes().count(b"\n")
        before = len(double.asked)
        assert before - lines <= 4  # those on their way
        ended = Command(tmp_path, *arguments, log=tmp_path / "second")
        assert ended.process.wait() == 0
    rows = read_judgments(tmp_path / "j.jsonl").rows
    assert len(double.asked) - before <= len(rows) - lines + 1  # a line that was cut may be asked again


def test_a_refused_text_is_counted_and_named_and_the_others_are_judged(report: Path, capsys: Capture) -> None:
    refused = status(400, "filtered by the content policy")
    with EndpointDouble(faults=[None, refused, GRADED, refused], default=GRADED) as double:
        ended = judge(capsys, report, double.url, "--concurrency", "1", "--price", "1")
        rows = read_judgments(report.parent / "judgments.jsonl").rows
        assert (ended.code, len(rows)) == (0, len(double.asked))
        (first, second) = [row for row in rows if row.refusal]
        assert (first.grade, first.reply, first.cost) == (None, None, 0)
        assert f"2 texts were refused, the first {first.doc} for {first.query}: the endpoint " in ended.out
        before = len(double.asked)
        assert "texts were refused" not in judge(capsys, report, double.url).out
        assert len(double.asked) == before + 2
    assert second.refusal is not None


def test_fields_are_set_and_left_out_as_a_reasoning_model_wants_them(report: Path, capsys: Capture) -> None:
    fields = ["--field", "max_tokens=null", "--field", "temperature=null", "--field", "seed=null",
              "--field", "max_completion_tokens=2000", "--field", "reasoning_effort=low"]  # fmt: skip
    with EndpointDouble(default=GRADED) as double:
        assert judge(capsys, report, double.url, *fields).code == 0
        sent = double.asked[0].body
    assert {name: value for name, value in sent.items() if name != "messages"} == {
        "model": "m", "max_completion_tokens": 2000, "reasoning_effort": "low",
    }  # fmt: skip
    rows = read_judgments(report.parent / "judgments.jsonl").rows
    assert rows[0].parameters == {"max_completion_tokens": 2000, "reasoning_effort": "low"}
    wrong = judge(capsys, report, double.url, "--field", "max_tokens")
    assert (wrong.code, "--field is 'max_tokens'; it must be NAME=VALUE" in wrong.err) == (2, True)
