"""Questions drawn at random: whole, blind, never twice, and labels that say so."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contests import run_into
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.judged_rankings import JudgedRankings
from ragtrial.labelling.pooling import PoolOptions, random_pool_of
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import read_worklist
from ragtrial.report.model import load_report
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]

QUERIES = [
    {"id": f"q{number}", "text": f"{word} of a thing", "relevant_docs": []}
    for number, word in enumerate(["red", "green", "blue", "salt", "bread", "soup", "oven", "stone"])
]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    return run_into(tmp_path, "report", QUERIES)


def pool(capsys: Capture, report: Path, *options: str) -> Any:
    config = report.parent / "experiment-report" / "config.yaml"
    written = report.parent / "people.json"
    return ragtrial(capsys, "pool", report, "--config", config, "-o", written, "--force", *options)


def test_all_texts_of_so_many_queries_are_asked_one_query_after_another(report: Path, capsys: Capture) -> None:
    ended = pool(capsys, report, "--random-queries", "5", "--json")
    assert (ended.code, json.loads(ended.out)["drawn"]) == (0, "random")
    work = read_worklist(report.parent / "people.json")
    queries = [item.query for item in work.items]
    assert work.drawn == "random"
    assert len(dict.fromkeys(queries)) == 5
    assert [name for name, _ in Counter(queries).items() for _ in range(Counter(queries)[name])] == queries
    contest = input_of([load_report(report)], may_be_unlabelled=True)
    rankings = JudgedRankings(contest)
    rows = {query.id: row for row, query in enumerate(contest.queries)}
    for name, count in Counter(queries).items():
        found = {one for place in range(2) for one in rankings.hits(place)[rows[name]]}
        assert count == len(found)


def test_every_query_is_drawn_about_as_often(report: Path) -> None:
    contest = input_of([load_report(report)], may_be_unlabelled=True)
    drawn: Counter[str] = Counter()
    for seed in range(40):
        options = PoolOptions(seed=seed, config=report.parent / "experiment-report" / "config.yaml")
        drawn.update({item.query for item in random_pool_of(contest, 2, options).worklist.items})
    assert len(drawn) == len(QUERIES)
    assert 3 <= min(drawn.values()) <= max(drawn.values()) <= 20


def test_labels_say_that_a_query_was_drawn_and_it_is_not_drawn_again(report: Path, capsys: Capture) -> None:
    pool(capsys, report, "--random-queries", "3")
    with Session(report.parent / "people.json", who="ada") as session:
        while session.answers.current is not None:
            session.grade(0)
        session.save()
        labels = session.file
    tagged = {row["id"] for row in json.loads(labels.read_text())["queries"] if row.get("tags") == ["drawn-at-random"]}
    assert len(tagged) == 3
    again = ragtrial(capsys, "rescore", report, "--labels", labels, "-o", report.parent / "again")
    assert again.code == 0, again.err
    others = pool(capsys, report.parent / "again", "--random-queries", "5")
    assert others.code == 0, others.err
    assert not tagged & {item.query for item in read_worklist(report.parent / "people.json").items}
    refused = pool(capsys, report.parent / "again", "--random-queries", "6")
    assert "the report has 8, of which 3 were drawn before. Draw at most 5" in refused.err


def test_a_budget_of_labels_is_refused(report: Path, capsys: Capture) -> None:
    ended = pool(capsys, report, "--random-queries", "3", "--budget", "5")
    assert (ended.code, "leave out --budget" in ended.err) == (2, True)
