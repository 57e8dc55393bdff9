"""Files of answers and judgments of somebody else end in an error with a name, whatever JSON they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrial.comparison.judge import read_judgments
from ragtrial.errors import InputError
from ragtrial.labelling.session.session import Session
from worklists import write_work

LINES = {
    "arrays without an end": "[" * 100_000,
    "objects one in another": '{"a":' * 100_000,
    "objects that end": '{"a":' * 150 + "1" + "}" * 150,
    "an integer of 400 digits": '{"n": ' + "9" * 400 + "}",
    "an integer of 5,000 digits": '{"n": ' + "9" * 5_000 + "}",
    "an infinite number": '{"n": 1e999}',
    "no number": '{"n": NaN}',
    "no JSON": "<html>",
}


@pytest.mark.parametrize("name", LINES)
def test_a_line_that_is_no_answer_and_no_judgment_is_named(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.llm.jsonl").write_text(LINES[name] + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"line|JSON"):
        read_judgments(tmp_path / "a.llm.jsonl")
    worklist = write_work(tmp_path)
    (tmp_path / "worklist.answers.jsonl").write_text(LINES[name] + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"worklist\.answers\.jsonl:1: is not a JSON object"), Session(worklist):
        pass
