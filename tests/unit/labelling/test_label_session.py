"""Labelling through a worklist: whatever one does and however it ends, it goes on there, and nothing is lost."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from sklearn.metrics import cohen_kappa_score

from corpora import write_rows
from expectations import message_of
from limits import full_disk
from ragtrial.cli.label_command import _stopped
from ragtrial.errors import InputError, LabelsError, RunError
from ragtrial.labelling.label_files import OverlayText
from ragtrial.labelling.session.serving import _save
from ragtrial.labelling.session.session import FEWEST, Session, agreement, agreement_of, ending_lines
from ragtrial.labelling.worklist import TextToGrade, WorklistError, read_worklist, write_worklist
from small_experiment import CONFIG, LABELS, small_experiment
from worklists import JUDGED, item, judgments, whole_documents, write_work


def labels_of(folder: Path) -> Any:
    return json.loads((folder / "prompt_queries.json").read_text(encoding="utf-8"))


@dataclass
class Model:
    """What a session should come to, said as plainly as can be: ``done`` is a stack of answers."""

    total: int
    done: list[tuple[int | None, str | None]] = field(default_factory=list)
    fixed: int = 0
    passage: str | None = None

    def do(self, step: tuple[str, Any]) -> None:
        what, value = step
        asked = len(self.done) < self.total
        if what == "undo":
            if self.passage is not None:
                self.passage = None
            elif len(self.done) > self.fixed:
                self.done.pop()
        elif what == "save" and self.unsaved():
            self.fixed = len(self.done)
        elif asked and what == "quote":
            self.passage = value
        elif asked and what in ("grade", "skip"):
            grade = value if what == "grade" else None
            self.done.append((grade, self.passage if grade is not None else None))
            self.passage = None

    def unsaved(self) -> bool:
        return any(grade is not None for place, (grade, _) in enumerate(self.done) if place >= self.fixed)


WORDS = ["Returns", "Warranty", "Parcels", "days", "covered"]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("grade"), st.integers(0, 3)),
        st.tuples(st.sampled_from(["skip", "undo", "save", "restart"]), st.none()),
        st.tuples(st.just("quote"), st.sampled_from(WORDS)),
    ),
    max_size=25,
)


def do(session: Session, step: tuple[str, Any]) -> None:
    what, value = step
    if what == "undo":
        session.undo()
    elif what == "save":
        session.save()
    elif session.item is not None:
        if what == "quote":
            session.quote(value)
        else:
            session.grade(value) if what == "grade" else session.skip()


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_whatever_one_does_is_what_a_plain_model_says_also_after_a_restart(steps: list[tuple[str, Any]]) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        items = [one.model_copy(update={"text": " ".join(WORDS)}) for one in whole_documents()]
        worklist = write_work(folder, items, config=None)
        model = Model(len(items))
        session = Session(worklist, who="ada")
        for step in steps:
            if step[0] == "restart":
                session.close()
                session = Session(worklist, who="ada")
            else:
                model.do(step)
                do(session, step)
            given, skipped = session.answers.given, session.answers.skipped
            found = [
                (given[place].grade, given[place].quote) if place in given else (None, None)
                for place in range(len(given) + len(skipped))
            ]
            assert found == model.done
            assert session.answers.current == (len(found) if len(found) < model.total else None)
            assert session.answers.pending.quote == model.passage
            assert session.answers.can_undo == (model.passage is not None or len(model.done) > model.fixed)
        session.save()
        session.close()
        expected = {"q1": {"returns.md": 2}, "q2": {"warranty.md": 1}}
        for place, (grade, _) in enumerate(model.done):
            if grade is not None and place not in JUDGED:
                expected[items[place].query][items[place].doc] = grade
        assert {query: judgments(folder, query) for query in expected} == expected


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Six whole documents to grade, of which the labels judge two."""
    with Session(write_work(tmp_path), who="ada") as session:
        yield session


def test_what_the_labels_judge_already_is_not_written_but_compared(session: Session, tmp_path: Path) -> None:
    for grade in (2, 0, 1, 0, 3, 0):
        session.grade(grade)
    assert len(session.answers.unsaved) == 6
    done = session.save()
    assert [(one.action, one.after["doc"], one.after["relevance"]) for one in done] == [
        ("add", "warranty.md", 0), ("add", "shipping.txt", 1), ("add", "returns.md", 0), ("add", "shipping.txt", 0),
    ]  # fmt: skip
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 0, "shipping.txt": 1}
    assert judgments(tmp_path, "q2") == {"warranty.md": 1, "returns.md": 0, "shipping.txt": 0}
    assert (agreement_of(session).n, agreement_of(session).alike, session.answers.is_finished) == (2, 1, True)
    rows = (tmp_path / "prompt_queries.history.jsonl").read_text().splitlines()
    assert {json.loads(row)["who"] for row in rows} == {"ada"}


def test_labels_that_became_invalid_are_not_written_and_answers_are_kept(session: Session, tmp_path: Path) -> None:
    session.skip()
    session.grade(3)
    sound = labels_of(tmp_path)
    broken = labels_of(tmp_path)
    broken["queries"][1]["relevant_docs"].append({"doc": "gone.md"})
    (tmp_path / "prompt_queries.json").write_text(json.dumps(broken))
    told = f"{session.answers.file}: 1 answer is kept here, and nothing was written; mend the labels, and save again"
    with pytest.raises(LabelsError, match=r"query 'q2' judges 'gone\.md'") as error:
        session.save()
    assert told in str(error.value)
    session.close()
    with pytest.raises(LabelsError, match=r"query 'q2' judges 'gone\.md'") as error:
        Session(tmp_path / "worklist.json")
    assert told in str(error.value)
    assert labels_of(tmp_path) == broken
    (tmp_path / "prompt_queries.json").write_text(json.dumps(sound))
    with Session(tmp_path / "worklist.json") as again:
        again.save()
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 3}


def test_a_worklist_of_other_labels_is_refused_and_they_are_named(tmp_path: Path) -> None:
    other = {"queries": [{"id": "q1", "text": "something else", "relevant_docs": []}]}
    worklist = write_work(tmp_path, judged=other)
    message = message_of(LabelsError, Session, worklist)
    file = tmp_path / "prompt_queries.json"
    assert message.splitlines() == [
        f"{file}: query 'q1' is 'something else'; in the worklist it is 'thirty days to return an item'.",
        f"{file}: there is no query 'q2', 'which batteries are covered', of which the worklist asks.",
        f"{file}: The worklist is of other labels: name its own (--labels FILE), or make one of these: ragtrial pool.",
    ]
    assert not (tmp_path / "worklist.answers.jsonl").exists()
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps(LABELS))
    with Session(worklist, labels=mine) as session:
        session.skip()
        session.grade(1)
        session.save()
    assert len(json.loads(mine.read_text())["queries"][0]["relevant_docs"]) == 2
    mine.unlink()
    with pytest.raises(LabelsError, match="there is no such file; name the labels: --labels FILE"):
        Session(worklist, labels=mine)


def test_a_worklist_at_work_and_answers_to_another_are_refused(session: Session, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="somebody labels this worklist at the moment"):
        Session(tmp_path / "worklist.json")
    session.grade(1)
    assert session.answers.file.exists()
    session.grade(1)
    session.close()
    worklist = tmp_path / "worklist.json"
    worklist.write_text(worklist.read_text().replace('"doc": "returns.md"', '"doc": "other.md"'))
    with pytest.raises(InputError, match="has no answers to this worklist, but to another one of its name"):
        Session(worklist)


def test_a_worklist_is_replaced_with_its_answers_once_all_are_saved(tmp_path: Path) -> None:
    """Before that only by force. The answers to the same items stay."""
    fewer = read_worklist(file := write_work(tmp_path)).model_copy(update={"items": whole_documents()[:2]})
    acts = [lambda session: session.grade(1), Session.save]
    for act in (*acts, *[Session.skip] * 4, *acts):
        assert "is there already" in message_of(WorklistError, write_worklist, fewer, file)
        with Session(file) as session:
            act(session)
            assert "is there already" in message_of(WorklistError, write_worklist, fewer, file)
    for worklist, graded, force in ((session.worklist, 2, False), (fewer, 0, False), (session.worklist, 0, True)):
        write_worklist(worklist, file, force=force)
        with Session(file) as session:
            assert (session.worklist, len(session.answers.given)) == (worklist, graded)
            if worklist == fewer:
                session.grade(1)


def test_an_answer_that_cannot_be_kept_is_told_and_was_not_given(session: Session, tmp_path: Path) -> None:
    session.grade(1)
    with (
        full_disk(session.answers.file.stat().st_size + 30),
        pytest.raises(RunError, match=r"answers\.jsonl: cannot be"),
    ):
        session.grade(2)
    assert session.answers.current == 1
    session.grade(3)
    session.close()
    with Session(tmp_path / "worklist.json") as again:
        assert [again.answers.given[item].grade for item in (0, 1)] == [1, 3]


@pytest.mark.parametrize("cut", [1, 40])
def test_an_answer_of_which_half_was_written_was_not_given(session: Session, tmp_path: Path, cut: int) -> None:
    session.grade(1)
    session.grade(2)
    session.close()
    session.answers.file.write_bytes(session.answers.file.read_bytes()[:-cut])
    with Session(tmp_path / "worklist.json") as again:
        assert again.answers.current == 1
        again.grade(3)
    with Session(tmp_path / "worklist.json") as again:
        assert [again.answers.given[item].grade for item in (0, 1)] == [1, 3]


@pytest.mark.parametrize(("line", "told"), [
    ("[1]", "is not a JSON object"),
    ("[" * 100_000, "is not a JSON object"),
    ('{"did": "dance"}', "unknown key 'did'."),
    ('{"item": 6, "grade": 1}', "has an item that is not among the 6."),
    ('{"item": 4, "grade": "high"}', "grade is 'high'; it must be a whole number."),
    ('{"written": [1, 7]}', "has an item that is not among the 6."),
])  # fmt: skip
def test_a_journal_that_cannot_be_names_its_line(session: Session, tmp_path: Path, line: str, told: str) -> None:
    session.grade(1)
    session.close()
    first = session.answers.file.read_text().splitlines()[0]
    session.answers.file.write_text(f"{first}\n{line}\n")
    assert message_of(InputError, Session, tmp_path / "worklist.json").startswith(f"{session.answers.file}:2: {told}")


def test_what_two_people_answered_is_noted_under_the_name_of_each(session: Session, tmp_path: Path) -> None:
    session.skip()
    session.grade(1)
    session.close()
    with Session(tmp_path / "worklist.json", who="bob") as again:
        again.grade(2)
        assert len(again.save()) == 2
    rows = [json.loads(line) for line in (tmp_path / "prompt_queries.history.jsonl").read_text().splitlines()]
    grades = [row for row in rows if row["action"] != "tag"]
    assert [(row["who"], row["after"]["doc"]) for row in grades] == [("ada", "warranty.md"), ("bob", "shipping.txt")]
    assert [(row["query"], row["after"]) for row in rows if row["action"] == "tag"] == [("q1", ["chosen-by-stakes"])]


def test_grades_go_up_to_the_highest_of_the_labels_and_to_9_at_most(tmp_path: Path) -> None:
    for labelled, highest in ((0, 1), (2, 2), (9, 9), (10, 9)):
        with Session(write_work(tmp_path, highest_grade=labelled)) as session:
            assert session.highest == highest


def test_what_was_left_out_is_asked_again_when_wanted(session: Session) -> None:
    for _ in range(6):
        session.skip()
    assert session.answers.is_finished
    session.answers.ask_again()
    assert (session.answers.current, session.answers.can_undo) == (0, False)
    with pytest.raises(InputError, match="the grade 4 is not among 0 to 3; --highest 4 would allow it"):
        session.grade(4)


QUOTED = {"queries": [{"id": "q1", "text": "thirty days to return an item",
                       "relevant_docs": [{"doc": "returns.md", "quote": "any item within"}]}]}  # fmt: skip


@pytest.mark.parametrize(("unit", "judged"), [("span", [1, 2]), ("document", [0, 1, 2, 3])])
def test_quotes_judge_what_they_overlap_or_all_of_a_document(tmp_path: Path, unit: str, judged: list[int]) -> None:
    text = "# Returns\n\nReturn any item within thirty days.\n"
    small_experiment(tmp_path, config=CONFIG.replace("latency", f"evaluators: {{unit: {unit}}}\nlatency"))
    cuts = [(0, 18), (11, 30), (30, 36), (36, 46)]  # the quote is 18 to 33
    items = [item(text[start:end], "returns.md", start=start) for start, end in cuts]
    worklist = write_work(tmp_path, items, form="quote")
    (tmp_path / "prompt_queries.json").write_text(json.dumps(QUOTED))
    with Session(worklist) as session:
        for _ in items:
            session.grade(1)
        assert agreement_of(session).n == len(judged)
        done = session.save()
    assert [one.after["start"] for one in done] == [cut[0] for number, cut in enumerate(cuts) if number not in judged]


GROUPED = {"queries": [
    {"id": "q1", "text": "thirty days to return an item", "relevant_docs": [
        {"doc": "returns.md", "relevance": 2, "quote": "within thirty days", "group": 7}]},
    {"id": "q2", "text": "which batteries are covered", "relevant_docs": [{"doc": "warranty.md"}]},
]}  # fmt: skip


def test_another_place_of_a_known_answer_is_written_with_its_group(tmp_path: Path) -> None:
    worklist = write_work(tmp_path, judged=GROUPED)
    with Session(worklist, who="ada") as session:
        assert session.groups == {}, "the text is the known answer itself, which must not be told"
        session.grade(2)
        assert session.groups == {"7": ["returns.md: within thirty days"]}
        with pytest.raises(InputError, match="this question have no group 'x' to choose"):
            session.choose_group("x")
        session.choose_group("7")
        session.choose_group(None)
        assert session.answers.pending.group is None
        session.choose_group("7")
        session.undo()
        assert (session.answers.current, session.answers.pending.group) == (1, None)
        session.choose_group("7")
    with Session(worklist, who="ada") as session:  # the choice is kept
        session.grade(1)
        session.choose_group("7")
        session.grade(0)  # which answers nothing
        session.save()
    added = [{"doc": "warranty.md", "relevance": 1, "group": "7"}, {"doc": "shipping.txt", "relevance": 0}]
    assert labels_of(tmp_path)["queries"][0]["relevant_docs"] == [*GROUPED["queries"][0]["relevant_docs"], *added]
    with Session(worklist, who="ada") as session:
        assert (agreement_of(session).n, session.overtaken) == (1, set()), "none of these is somebody else's"


def test_a_passage_in_several_documents_is_no_named_group(tmp_path: Path) -> None:
    labels = {"queries": [{"id": "q1", "text": "thirty days to return an item", "relevant_docs": [
        {"doc": "Twice told.", "group": "a"}, {"doc": "Also twice."}]}]}  # fmt: skip
    twice = "Twice told. Also twice."
    small_experiment(tmp_path, documents={"returns.md": twice, "warranty.md": twice, "shipping.txt": "Parcels."},
                     config=CONFIG.replace("queries:", "match: content, queries:"))  # fmt: skip
    worklist = write_work(tmp_path, [item("Parcels.", start=None)], form="content")
    (tmp_path / "prompt_queries.json").write_text(json.dumps(labels))
    with Session(worklist) as session:
        also = "same as Also twice."
        assert session.groups == {
            "a": ["returns.md: Twice told.", "warranty.md: Twice told."],
            also: ["returns.md: Also twice.", "warranty.md: Also twice."],
        }
        session.choose_group(also)
        session.grade(1)
        session.save()
    assert labels_of(tmp_path)["queries"][0]["relevant_docs"][1:] == [
        {"doc": "Also twice.", "group": also}, {"doc": "Parcels.", "relevance": 1, "group": also}]  # fmt: skip


def test_a_text_that_says_the_same_as_another_gets_a_group_with_it(tmp_path: Path) -> None:
    """The other one is a label without a group, or a text that was graded in this session, saved or not."""
    with Session(write_work(tmp_path), who="ada") as session:
        session.grade(2)  # judged already: that label counts
        assert session.groups == {"same as returns.md": ["returns.md"]}
        session.choose_group("same as returns.md")
        session.grade(1)
        session.save()
        assert session.groups == {"same as returns.md": ["returns.md", "warranty.md"]}
        session.grade(0)
        session.grade(2)
        assert session.groups == {"same as returns.md": ["returns.md"]}, "not the label that judges this text"
        session.choose_group("same as returns.md")
        session.grade(1)  # judged already: nothing is written, and there is nothing to share a group with
        session.grade(3)
        session.save()
    assert [row["relevant_docs"] for row in labels_of(tmp_path)["queries"]] == [
        [{"doc": "returns.md", "relevance": 2, "group": "same as returns.md"},
         {"doc": "warranty.md", "relevance": 1, "group": "same as returns.md"},
         {"doc": "shipping.txt", "relevance": 0}],
        [{"doc": "warranty.md"}, {"doc": "returns.md", "relevance": 2}, {"doc": "shipping.txt", "relevance": 3}],
    ]  # fmt: skip


@pytest.mark.parametrize("is_saved", [False, True])
def test_a_text_that_says_the_same_as_an_answer_gets_a_group_with_it(tmp_path: Path, *, is_saved: bool) -> None:
    with Session(write_work(tmp_path, whole_documents()[1:3]), who="ada") as session:
        session.grade(1)
        if is_saved:
            session.save()
        assert session.groups == {"same as returns.md": ["returns.md"], "same as warranty.md": ["warranty.md"]}
        session.choose_group("same as warranty.md")
        session.grade(2)
        session.save()
    assert labels_of(tmp_path)["queries"][0]["relevant_docs"] == [
        {"doc": "returns.md", "relevance": 2}, {"doc": "warranty.md", "relevance": 1, "group": "same as warranty.md"},
        {"doc": "shipping.txt", "relevance": 2, "group": "same as warranty.md"}]  # fmt: skip


def test_passages_of_one_document_are_different_answers(tmp_path: Path) -> None:
    passages = [
        {"doc": "returns.md", "quote": "any item", "start": 18, "end": 26},
        {"doc": "returns.md", "start": 30, "end": 41},
        {"doc": "warranty.md", "relevance": 0},
    ]
    labels = {"queries": [{"id": "q1", "text": "thirty days to return an item", "relevant_docs": passages}]}
    with Session(write_work(tmp_path, [item("Parcels take two days")], labels, form="quote")) as session:
        assert session.groups == {
            "same as returns.md: any item": ["returns.md: any item"],
            "same as returns.md 30-41": ["returns.md"],
        }
        session.choose_group("same as returns.md 30-41")
        session.grade(1)
        session.save()
    groups = [label.get("group") for label in labels_of(tmp_path)["queries"][0]["relevant_docs"]]
    assert groups == [None, "same as returns.md 30-41", None, "same as returns.md 30-41"]


def test_labels_in_an_order_have_no_groups_to_choose(tmp_path: Path) -> None:
    query = {"id": "q1", "text": "thirty days to return an item", "relevant_docs": [{"doc": "returns.md"}]}
    with Session(write_work(tmp_path, whole_documents()[1:2], {"queries": [{**query, "ordered": True}]})) as session:
        assert session.groups == {}


def test_an_item_that_several_labels_judge_has_the_highest_of_their_grades(tmp_path: Path) -> None:
    text = "# Returns\n\nReturn any item within thirty days.\n"
    quotes = [{"doc": "returns.md", "quote": words, "relevance": grade}
              for words, grade in (("any item", 1), ("within", 3), ("thirty days", 2))]  # fmt: skip
    labels = {"queries": [{"id": "q1", "text": "thirty days to return an item", "relevant_docs": quotes}]}
    worklist = write_work(tmp_path, [item(text, "returns.md")], labels, form="quote")
    for grade in (1, 2, 3):
        with Session(worklist, who="ada") as session:
            session.grade(grade)
            assert (agreement_of(session).n, agreement_of(session).alike) == (1, int(grade == 3))
            session.undo()


def test_quotes_say_where_they_stand(tmp_path: Path) -> None:
    text = "# Returns\n\nReturn any item within thirty days.\n"
    items = [
        item(text[11:30], "returns.md", start=11),
        item(text[30:], "returns.md", start=30),
        item("Parcels take two days"),
    ]
    with Session(write_work(tmp_path, items, QUOTED, form="quote")) as session:
        session.grade(1)  # overlaps the quote of the labels
        session.quote(" thirty  days.\n")
        session.grade(2)
        session.quote(" take ", 7)
        session.grade(0)
        session.save()
        assert agreement_of(session).n == 2
    assert labels_of(tmp_path)["queries"][0]["relevant_docs"][1:] == [
        {"doc": "shipping.txt", "relevance": 0, "quote": "take", "start": 8, "end": 12}
    ]


@pytest.mark.parametrize(("passage", "at", "told"), [
    ("nowhere", None, "that is not in the text of this item; it must be verbatim."),
    ("two", 0, "that is not in the text of this item; it must be verbatim."),
    (" \n", 0, "the passage is empty."),
    ("days [...] to", None, "[...] stands for text that is not shown; name a passage on one side of it."),
])  # fmt: skip
def test_a_passage_that_is_not_there_is_refused(tmp_path: Path, passage: str, at: int | None, told: str) -> None:
    worklist = write_work(tmp_path, [item("Parcels take two days [...] to arrive", start=None)])
    with Session(worklist) as session:
        assert message_of(InputError, session.quote, passage, at) == told
        assert not session.answers.can_undo


def test_texts_without_a_word_and_overlays_without_a_config_are_refused(tmp_path: Path) -> None:
    told = "this text is empty, and the labels name passages; leave it out"
    worklist = write_work(tmp_path, [item(" ")], form="quote")
    with Session(worklist) as session, pytest.raises(InputError, match=told):
        session.grade(1)
    with pytest.raises(LabelsError, match="name the config that has both: --config CONFIG"):
        Session(beir_work(tmp_path, config=None))
    assert agreement([(0, 0), (1, 1)]).kappa is None
    assert agreement([(1, 1)] * 20).kappa is None


def beir_work(folder: Path, **given: Any) -> Path:
    """A BEIR folder with one judged pair, and a worklist of both documents for its overlay."""
    write_rows(folder / "data" / "queries.jsonl", [{"_id": "b1", "text": "take"}])
    write_rows(folder / "data" / "corpus.jsonl", [{"_id": f"d{n}", "title": "", "text": f"take {n}"} for n in (1, 2)])
    (folder / "data" / "qrels").mkdir()
    (folder / "data" / "qrels" / "test.tsv").write_text("b1\td1\t1\n")
    items = [
        TextToGrade(query="b1", question="take", doc=f"d{n}", title="", start=None, end=None, text=f"take {n}")
        for n in (1, 2)
    ]
    worklist = write_work(folder, items, kind="overlay", labels=str(folder / "mine.tsv"), **given)
    config = CONFIG.replace("corpus: documents, queries: prompt_queries.json", "beir: data, overlay: mine.tsv")
    (folder / "experiment.yaml").write_text(config)
    return worklist


def test_answers_for_a_beir_folder_go_into_its_overlay(tmp_path: Path) -> None:
    with Session(beir_work(tmp_path)) as session:
        assert (session.can_quote, session.groups) == (False, {})
        with pytest.raises(InputError, match="qrels judge documents"):
            session.quote("take")
        session.grade(1)
        session.grade(2)
        session.save()
        assert (agreement_of(session).n, agreement_of(session).alike) == (1, 1)
    assert OverlayText.read(tmp_path / "mine.tsv").judged == {("b1", "d2"): 2}


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


def test_what_somebody_else_took_back_before_the_save_is_written(session: Session, tmp_path: Path) -> None:
    session.grade(3)  # returns.md is judged
    somebody_else_judges(tmp_path, None, 0)
    assert _save(session, {}) == ["1 answer saved."]
    assert (session.answers.unsaved, judgments(tmp_path, "q1")) == ([], {"returns.md": 3})
    assert (session.overtaken, agreement_of(session).n) == (set(), 0)


@pytest.mark.parametrize("theirs", [0, 3])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_others_grades_stay_as_they_are(session: Session, tmp_path: Path, theirs: int, *, is_restarted: bool) -> None:
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


GRADE = st.integers(0, 3)


@given(st.lists(st.tuples(GRADE, GRADE), min_size=FEWEST, max_size=30))
def test_kappa_is_that_of_another_library(pairs: list[tuple[int, int]]) -> None:
    found = agreement(pairs)
    first, second = [one for one, _ in pairs], [other for _, other in pairs]
    assert (found.n, found.alike) == (len(pairs), sum(map(int.__eq__, first, second)))
    if len(set(first)) == 1 or len(set(second)) == 1:
        assert found.kappa is None
    else:
        labels = list(range(4))
        assert found.kappa == pytest.approx(cohen_kappa_score(first, second, labels=labels, weights="quadratic"))
    assert found.is_weighted == (len({*first, *second}) > 2)
