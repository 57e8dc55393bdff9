"""Which texts a judge is asked about: people's queries first, others at random, each text whole with its title."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from contests import run_into
from experiments import QUERIES
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.comparison.judged_rankings import JudgedRankings
from ragtrial.labelling.judging import MOST_CHARACTERS, OFFLINE, judge_offline, shown, texts_to_judge
from ragtrial.progress import Silent
from ragtrial.records import CHOSEN_BY_STAKES, DRAWN_AT_RANDOM
from worklists import item

ASKED = [
    {"id": f"q{number}", "text": f"Which soup is number {number}?", "relevant_docs": labels, "tags": tags}
    for number, (labels, tags) in enumerate([
        ([], []), ([], []), ([], []), ([], []), ([], []),
        ([{"doc": "storage.txt"}], [CHOSEN_BY_STAKES]), ([{"doc": "soup/leek.md"}], []),
        ([{"doc": "soup/leek.md"}], [DRAWN_AT_RANDOM]), ([{"doc": "bread/rye.md"}], [DRAWN_AT_RANDOM]),
    ])
]  # fmt: skip


def contest(folder: Path, **changes: Any) -> ComparisonInput:
    retrievers = {"bm25": {"kind": "bm25", "top_k": 3}, "titles": {"kind": "bm25", "title_weight": 5, "top_k": 3}}
    return input_of([run_into(folder, "report", **{"retrievers": retrievers, "latency": False, **changes})])


def order(given: ComparisonInput, queries: int | None = None, seed: int = 0) -> list[str]:
    texts = texts_to_judge(given, None, queries, seed, None, Silent())
    return [some[0].query for some in texts if some]


def test_queries_that_people_drew_come_first_then_other_labels_then_the_rest_at_random(tmp_path: Path) -> None:
    given = contest(tmp_path, queries=ASKED)
    found = {seed: order(given, seed=seed) for seed in range(6)}
    for one in found.values():
        assert {*one[:2]} == {"q7", "q8"}
        assert {*one[2:4]} == {"q5", "q6"}
        assert {*one[4:]} == {"q0", "q1", "q2", "q3", "q4"}
    assert len({tuple(one[4:]) for one in found.values()}) > 1
    assert order(given, queries=3) == found[0][:3]


def test_each_text_that_a_setting_has_in_its_first_hits_is_judged_once_with_its_title(tmp_path: Path) -> None:
    given = contest(tmp_path)
    rankings = JudgedRankings(given)
    documents = {one["id"]: row for row, one in enumerate(QUERIES)}
    for depth in (1, 3):
        for some in texts_to_judge(given, depth, None, 0, None, Silent()):
            row = documents[some[0].query]
            assert [one.doc for one in some] == list(rankings.best_ranks(row, depth))
            assert all((one.start, one.end, one.question) == (None, None, QUERIES[row]["text"]) for one in some)
    texts = [one for some in texts_to_judge(given, 3, None, 0, None, Silent()) for one in some]
    rye = [shown(one) for one in texts if one.doc == "bread/rye.md"]
    assert rye
    assert all(text.startswith("Rye bread\n") for text in rye)


def test_under_unit_span_a_text_is_a_passage_with_its_place(tmp_path: Path) -> None:
    queries = [{"id": "rye", "text": "How long do I bake rye bread?",
                "relevant_docs": [{"doc": "bread/rye.md", "quote": "Bake it for an hour"}]}]  # fmt: skip
    chunker = {"kind": "recursive", "size": 60, "overlap": 20, "unit": "characters"}
    given = contest(tmp_path, queries=queries, chunker=chunker, evaluators={"unit": "span"})
    (texts,) = texts_to_judge(given, 3, None, 0, None, Silent())
    for one in texts:
        assert one.start is not None
        assert one.end is not None
        assert len(one.text) == one.end - one.start > 0
    (judged,) = {(row.doc, row.start, row.end) for row in judge_offline([texts[:1]])}
    assert judged == (texts[0].doc, texts[0].start, texts[0].end)


def test_a_long_text_is_cut() -> None:
    assert len(shown(item("x" * (MOST_CHARACTERS + 5), title="T"))) == MOST_CHARACTERS


@pytest.mark.parametrize(
    ("text", "grade"),
    [
        ("nothing of it", 0),
        ("BAKED and breaded", 1),  # two of five, by their beginnings
        ("Baked bread with a crusty rye", 2),  # four of five
        ("the golden crust of rye bread, BAKED for hours", 3),
    ],
)
def test_the_judge_without_a_model_grades_by_shared_beginnings_of_words(text: str, grade: int) -> None:
    question = "golden crust rye bread baked"
    (row,) = judge_offline([[item(text).model_copy(update={"question": question})]])
    assert (row.grade, row.model, row.reply) == (grade, OFFLINE, None)
