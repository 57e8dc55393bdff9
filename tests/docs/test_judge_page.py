"""The page on judging tells the truth: its commands run on the sample, with the judge that needs no model."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragtrial.comparison.judge.side import LEAST_PEOPLE
from ragtrial.comparison.statistics.two_phase import LEAST_ERRORS
from ragtrial.labelling.pooling.worklist import read_worklist
from ragtrial.labelling.session.session import Session
from small_experiment import ragtrial

PAGE = (Path(__file__).parents[2] / "docs" / "judge.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ragtrial (.*)$", PAGE, re.MULTILINE)


@pytest.mark.slow
def test_the_commands_of_the_page_run_and_20_random_questions_make_a_verdict_possible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert ragtrial(capsys, "demo", "sample").code == 0
    monkeypatch.chdir(tmp_path / "sample")
    assert [command.split()[0] for command in COMMANDS] == ["judge", "pool", "compare"]
    for command in COMMANDS[:2]:
        made = ragtrial(capsys, *command.split())
        assert made.code == 0, made.err
    known = {query["id"]: {str(one["doc"]): one.get("relevance", 1) for one in query["relevant_docs"]}
             for query in json.loads(Path("prompt_queries.json").read_text())["queries"]}  # fmt: skip
    items = read_worklist("people.json").items
    with Session(Path("people.json"), who="ada") as session:  # people grade as the labels of the sample do
        while (number := session.answers.current) is not None:
            session.grade(known[items[number].query].get(items[number].doc, 0))
        session.save()
    assert ragtrial(capsys, "rescore", "latest", "--labels", "prompt_queries.json").code == 0
    compared = ragtrial(capsys, *COMMANDS[2].split(), "--json")
    assert compared.code == 0, compared.err
    judge = json.loads(compared.out)["judge"]
    assert (judge["people"], judge["judged"], judge["drawn_at_random"]) == (20, 62, True)
    page = ragtrial(capsys, "report", "latest", "--judge", "judgments.llm.jsonl", "-o", "judged.html")
    assert page.code == 0, page.err
    assert "Mean scores by the judge less those by people" in Path("judged.html").read_text(encoding="utf-8")


def test_the_page_says_the_numbers_of_the_code() -> None:
    assert f"Fewer than {LEAST_PEOPLE} questions judged by people" in PAGE
    assert "all but one or two" in PAGE
    assert LEAST_ERRORS == 3
