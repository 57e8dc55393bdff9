"""Saving while labelling: nothing shows what is judged already, and a conflict leaves a way on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ragtrial.cli.label_command import _stopped
from ragtrial.labelling.session.ending import ending_lines
from ragtrial.labelling.session.serving import _save
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.write_back import LabelsConflictError
from worklists import judgments, write_work


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Six whole documents to grade, of which the labels judge the first and the fifth."""
    with Session(write_work(tmp_path), who="ada") as session:
        yield session


def somebody_else_judges(folder: Path, doc: str, relevance: int) -> None:
    """Grade ``doc`` for the first query, as another program would."""
    file = folder / "prompt_queries.json"
    labels = json.loads(file.read_text(encoding="utf-8"))
    labels["queries"][0]["relevant_docs"].append({"doc": doc, "relevance": relevance})
    file.write_text(json.dumps(labels), encoding="utf-8")


def test_each_answer_waits_for_a_save_whether_it_is_judged_already_or_not(session: Session) -> None:
    waiting = []
    for _ in range(6):
        session.grade(1)
        waiting.append(session.unsaved)
    assert waiting == [1, 2, 3, 4, 5, 6]
    assert "6 answers are kept in" in str(_stopped(session))


def test_an_answer_that_is_judged_already_is_saved_as_any_other(session: Session, tmp_path: Path) -> None:
    session.grade(0)
    assert "1 answer is kept in" in str(_stopped(session))
    assert _save(session, {}) == ["1 answer saved."]
    assert str(_stopped(session)) == "stopped at 1 of 6. Every answer is saved; run the same command again to go on."
    assert (session.unsaved, session.undo(), judgments(tmp_path, "q1")) == (0, False, {"returns.md": 2})
    session.grade(0)
    assert _save(session, {}) == ["1 answer saved."]
    assert (session.unsaved, session.undo(), judgments(tmp_path, "q1")) == (
        0,
        False,
        {"returns.md": 2, "warranty.md": 0},
    )


def test_what_is_saved_is_saved_after_a_restart(session: Session, tmp_path: Path) -> None:
    session.grade(0)
    session.save()
    session.grade(1)
    session.close()
    with Session(tmp_path / "worklist.json") as again:
        assert again.unsaved == 1
        assert again.agreement().n == 1


@pytest.mark.parametrize("theirs", [0, 3])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_after_a_conflict_about_the_same_text_one_saves_again_and_theirs_stays(
    session: Session, tmp_path: Path, theirs: int, *, is_restarted: bool
) -> None:
    session.skip()
    session.grade(3)
    somebody_else_judges(tmp_path, "warranty.md", theirs)
    with pytest.raises(LabelsConflictError):
        session.save()
    if is_restarted:
        session.close()
    with Session(tmp_path / "worklist.json") if is_restarted else session as again:
        assert again.unsaved == 1
        assert "1 answer is kept in" in str(_stopped(again))
        assert _save(again, {}) == ["1 answer saved.", "1 was judged by somebody else meanwhile; theirs stays."]
        assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": theirs}
        assert ending_lines(again) == [
            "1 of 6 graded, 1 left out, 4 to go: the same command goes on",
            f"{tmp_path / 'prompt_queries.json'}: 0 judgments written",
            "1 was judged by somebody else meanwhile; theirs stays",
        ]
        again.grade(2)
        assert _save(again, {}) == ["1 answer saved."]


def test_what_somebody_else_took_back_before_the_next_save_is_written(session: Session, tmp_path: Path) -> None:
    session.skip()
    session.grade(3)
    before = (tmp_path / "prompt_queries.json").read_text(encoding="utf-8")
    somebody_else_judges(tmp_path, "warranty.md", 0)
    with pytest.raises(LabelsConflictError):
        session.save()
    (tmp_path / "prompt_queries.json").write_text(before, encoding="utf-8")
    session.close()
    with Session(tmp_path / "worklist.json") as again:
        assert _save(again, {}) == ["1 answer saved."]
        assert (judgments(tmp_path, "q1"), again.overtaken) == ({"returns.md": 2, "warranty.md": 3}, frozenset())
    (tmp_path / "prompt_queries.json").write_text(before, encoding="utf-8")
    somebody_else_judges(tmp_path, "warranty.md", 1)
    with Session(tmp_path / "worklist.json") as once_more:
        assert (once_more.overtaken, once_more.unsaved) == (frozenset(), 0)


def test_an_answer_waits_again_when_the_label_that_it_was_left_to_is_gone(session: Session, tmp_path: Path) -> None:
    session.grade(3)
    session.save()
    session.close()
    labels = json.loads((tmp_path / "prompt_queries.json").read_text(encoding="utf-8"))
    labels["queries"][0]["relevant_docs"] = []
    (tmp_path / "prompt_queries.json").write_text(json.dumps(labels), encoding="utf-8")
    with Session(tmp_path / "worklist.json") as again:
        assert again.unsaved == 1
        assert _save(again, {}) == ["1 answer saved."]
        assert (again.unsaved, judgments(tmp_path, "q1")) == (0, {"returns.md": 3})


def test_what_one_wrote_before_a_kill_is_not_taken_for_somebody_elses_after_a_conflict(
    session: Session, tmp_path: Path
) -> None:
    session.skip()
    session.grade(3)
    session.save()
    session.close()
    *kept, last = session.journal.read_bytes().splitlines(keepends=True)
    assert json.loads(last)["did"] == "write"
    session.journal.write_bytes(b"".join(kept))
    with Session(tmp_path / "worklist.json") as again:
        somebody_else_judges(tmp_path, "shipping.txt", 0)
        with pytest.raises(LabelsConflictError):
            again.save()
        again.save()
        assert (again.unsaved, again.overtaken, again.answers.written) == (0, frozenset(), frozenset({1}))
