"""New grades beside those that a question has never lower what is known of a document without need."""

from __future__ import annotations

import pytest

from ragtrial.errors import InputError
from ragtrial.labelling.edits import beside, judged
from ragtrial.labelling.label_files import Grade
from ragtrial.records import FoundText, Judgment


@pytest.mark.parametrize("grades", [(2, 0), (0, 2), (2, 2), (1, 2)])
def test_the_label_of_a_whole_document_gets_the_highest_grade_that_its_passages_are_given(
    grades: tuple[int, int],
) -> None:
    made = [Grade("q", "a.md", grade, quote) for grade, quote in zip(grades, ("One.", "Two."), strict=True)]
    changed = list(beside([Judgment("a.md", 1)], made, "quote"))
    assert {one.relevance for one in changed if one.quote is None} == {2}


@pytest.mark.parametrize("text", ["", " \n", None])
@pytest.mark.parametrize("form", ["quote", "content"])
def test_a_hit_without_text_cannot_be_quoted(form: str, text: str | None) -> None:
    hit = FoundText(3, "a.md", "", 0, 0, 1.0, text)
    with pytest.raises(InputError, match=r"the text of 'a\.md' is empty and cannot be quoted"):
        judged(form, "q", hit, 1)  # type: ignore[arg-type]
