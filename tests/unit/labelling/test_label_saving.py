"""Saving while labelling: nothing shows what is judged already, and a conflict leaves a way on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrial.cli.label_command import _stopped
from ragtrial.labelling.session.ending import agreement_of, ending_lines
from ragtrial.labelling.session.serving import _save
from ragtrial.labelling.session.session import Session
from worklists import judgments, write_work


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Six whole documents to grade, of which the labels judge the first and the fifth."""
    with Session(write_work(tmp_path), who="ada") as session:
        yield session


def somebody_else_judges(folder: Path, doc: str | None, relevance: int) -> None:
    """Grade ``doc`` for the first query, or take all judgments of it back, as another program would."""
    file = folder / "prompt_queries.json"
    labels = json.loads(file.read_text(encoding="utf-8"))
    known = labels["queries"][0]["relevant_docs"]
    labels["queries"][0]["relevant_docs"] = [*known, {"doc": doc, "relevance": relevance}] if doc else []
    file.write_text(json.dumps(labels), encoding="utf-8")


def test_an_answer_that_is_judged_already_is_saved_as_any_other(session: Session, tmp_path: Path) -> None:
    session.grade(0)
    assert "1 answer is kept in" in str(_stopped(session))
    assert _save(session, {}) == ["1 answer saved."]
    assert str(_stopped(session)) == "stopped at 1 of 6. Every answer is saved; run the same command again to go on."
    assert (session.answers.unsaved, session.undo(), judgments(tmp_path, "q1")) == ([], False, {"returns.md": 2})
    session.grade(0)
    assert _save(session, {}) == ["1 answer saved."]
    assert (session.answers.unsaved, session.undo()) == ([], False)
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 0}


@pytest.mark.parametrize("theirs", [0, 3])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_text_that_somebody_else_judged_meanwhile_keeps_their_grade(
    session: Session, tmp_path: Path, theirs: int, *, is_restarted: bool
) -> None:
    session.skip()
    session.grade(2)
    session.grade(1)
    somebody_else_judges(tmp_path, "warranty.md", theirs)
    if is_restarted:
        session.close()
    with Session(tmp_path / "worklist.json") if is_restarted else session as again:
        assert _save(again, {}) == ["2 answers saved.", "1 was judged by somebody else meanwhile; theirs stays."]
        assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": theirs, "shipping.txt": 1}
        assert ending_lines(again)[:3] == [
            "2 of 6 graded, 1 left out, 3 to go: the same command goes on",
            f"{tmp_path / 'prompt_queries.json'}: 1 judgment written",
            "1 was judged by somebody else meanwhile; theirs stays",
        ]
        assert (again.overtaken, again.answers.written, agreement_of(again).n) == ({1}, {2}, 0)
        again.grade(2)
        assert _save(again, {}) == ["1 answer saved."]


def test_what_somebody_else_took_back_before_the_save_is_written(session: Session, tmp_path: Path) -> None:
    session.grade(3)  # returns.md is judged
    somebody_else_judges(tmp_path, None, 0)
    assert _save(session, {}) == ["1 answer saved."]
    assert (session.answers.unsaved, judgments(tmp_path, "q1")) == ([], {"returns.md": 3})
    assert (session.overtaken, agreement_of(session).n) == (set(), 0)


def test_what_one_wrote_before_a_kill_is_not_taken_for_somebody_elses(session: Session, tmp_path: Path) -> None:
    session.skip()
    session.grade(3)
    session.save()
    session.close()
    *kept, last = session.answers.file.read_bytes().splitlines(keepends=True)
    assert json.loads(last)["written"] == [1]
    session.answers.file.write_bytes(b"".join(kept))
    with Session(tmp_path / "worklist.json") as again:
        somebody_else_judges(tmp_path, "shipping.txt", 0)
        assert (again.answers.unsaved, agreement_of(again).n) == ([1], 0)
        assert again.save() == []
        assert (again.answers.unsaved, again.overtaken, again.answers.written) == ([], set(), {1})
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 3, "shipping.txt": 0}
