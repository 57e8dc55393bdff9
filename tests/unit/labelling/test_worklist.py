"""Worklists on disk: what is written is read again, and what is no worklist is refused with its place."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from ragtrial.labelling.worklist import TextToGrade, Worklist, WorklistError, read_worklist, speaks_of, write_worklist
from ragtrial.records import Judgment, Span

ITEM: dict[str, Any] = {
    "query": "q1", "question": "How long?", "doc": "returns.md", "title": "Returns", "start": None, "end": None,
    "text": "Thirty days.",
}  # fmt: skip
WRITTEN: dict[str, Any] = {
    "ragtrial_worklist": 1, "labels": "prompt_queries.json", "kind": "prompt_queries", "config": None,
    "form": "document", "metric": "ndcg@10", "highest_grade": 3, "seed": 0, "items": [ITEM],
}  # fmt: skip

COLUMN = len(json.dumps({**WRITTEN, "items": []}).removesuffix("]}")) + 1

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
NAMES = TEXTS.filter(lambda text: bool(text.strip()))
ITEMS = st.builds(TextToGrade, query=NAMES, question=st.just("?"), doc=NAMES, title=TEXTS, text=TEXTS,
                  start=st.integers(0, 9), end=st.integers(9, 99))  # fmt: skip


def refusal(file: Path) -> str:
    return message_of(WorklistError, read_worklist, file)


@given(items=st.lists(ITEMS, min_size=1, max_size=4, unique_by=lambda one: (one.query, one.doc, one.start, one.end)))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, items: list[TextToGrade]) -> None:
    folder = tmp_path_factory.mktemp("lists")
    worklist = Worklist.model_validate({**WRITTEN, "labels": str(folder / "x" / "labels.json"), "items": items})
    write_worklist(worklist, folder / "worklist.json")
    assert read_worklist(folder / "worklist.json") == worklist


def test_its_paths_are_relative_and_all_faults_are_told_at_once(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    (before / "lists").mkdir(parents=True)
    paths = {"labels": str(before / "labels.json"), "config": str(before / "lists" / "config.yaml")}
    write_worklist(Worklist.model_validate({**WRITTEN, **paths}), before / "lists" / "worklist.json")
    assert json.loads((before / "lists" / "worklist.json").read_text())["labels"] == "../labels.json"
    before.rename(after)
    read = read_worklist(after / "lists" / "worklist.json")
    assert (read.labels, read.config) == (str(after / "labels.json"), str(after / "lists" / "config.yaml"))
    file = tmp_path / "worklist.json"
    broken = {**WRITTEN, "seed": "0", "items": [{**ITEM, "rank": 1}]}
    file.write_text(json.dumps(broken, indent=0))
    assert refusal(file).splitlines() == [
        f"{file}:9:9: seed is '0'; it must be a whole number.",
        f"{file}:19:9: unknown key 'rank' in items[0]. Allowed here: query, question, doc, title, start, end, text, "
        "draft.",
    ]


def test_a_file_that_is_there_is_kept_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    file = tmp_path / "worklist.json"
    file.write_text("mine")
    assert message_of(WorklistError, write_worklist, Worklist.model_validate(WRITTEN), file) == (
        f"{file}: is there already; it may hold work that is not done. Name another file, or replace it: --force."
    )
    message = message_of(WorklistError, write_worklist, Worklist.model_validate(WRITTEN), file, force=True)
    assert message == f"{file}: is not a worklist and is not replaced; name another file."
    assert file.read_text() == "mine"
    file.write_text('{"ragtrial_worklist": 1}')
    write_worklist(Worklist.model_validate(WRITTEN), file, force=True)
    assert read_worklist(file).items == [TextToGrade(**ITEM)]
    with pytest.raises(WorklistError, match="is a folder; name a file"):
        write_worklist(Worklist.model_validate(WRITTEN), tmp_path, force=True)


@pytest.mark.parametrize(("text", "message"), [
    ("{", ":1:2: is not JSON: Expecting property name enclosed in double quotes."),
    *(
        (text, ": is not a worklist of version 1; `ragtrial pool REPORT` or `ragtrial questions CONFIG` makes one.")
        for text in ("[]", '{"queries": []}', '{"schema_version": 1}', '{"ragtrial_worklist": 2}')
    ),
    *(
        (json.dumps({**WRITTEN, "items": items}), f":1:{COLUMN + after}: {message}")
        for items, after, message in (
            ([ITEM, ITEM], len(f"{json.dumps(ITEM)}, "), "items[1] is the same as items[0]."),
            ([{**ITEM, "start": 3}], 0, "items[0] has start 3 and end None; end must follow start."),
            ([{**ITEM, "end": 3}], 0, "items[0] has start None and end 3; end must follow start."),
            ([{**ITEM, "start": 3, "end": 2}], 0, "items[0] has start 3 and end 2; end must follow start."),
        )
    ),
])  # fmt: skip
def test_what_is_no_worklist_or_contradicts_itself_is_refused(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "worklist.json"
    file.write_text(text)
    assert refusal(file) == f"{file}{message}"


@pytest.mark.parametrize(("label", "asked", "judges"), [
    ({"doc": "returns.md"}, {}, True),
    ({"doc": "other.md"}, {}, False),
    ({"doc": "returns.md", "quote": "thirty\n days"}, {}, True),
    ({"doc": "returns.md", "quote": "forty days"}, {}, False),
    ({"doc": "returns.md", "quote": "forty days"}, {"by_document": True}, True),
    ({"doc": "returns.md", "spans": (Span(0, 10),)}, {}, False),
    ({"doc": "returns.md", "spans": (Span(0, 11),)}, {}, True),
    ({"doc": "returns.md", "spans": (Span(0, 10), Span(29, 40))}, {}, True),
    ({"doc": "returns.md", "spans": (Span(30, 40),)}, {}, False),
    ({"doc": "thirty  days"}, {"by_content": True}, True),
    ({"doc": "returns.md"}, {"by_content": True}, False),
])  # fmt: skip
def test_a_judgment_is_of_the_item_it_means(label: dict[str, Any], asked: dict[str, bool], *, judges: bool) -> None:
    """The item is characters 10 to 30 of returns.md."""
    item = TextToGrade(**{**ITEM, "start": 10, "end": 30, "text": "Within thirty days. "})
    assert speaks_of(Judgment(**label), item, **{"by_content": False, "by_document": False, **asked}) is judges
