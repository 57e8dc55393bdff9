"""What is known of the parts of a setting that are no settings of their own, so that nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ragtrial.demands import demand_of_parts
from ragtrial.ground import Ground
from ragtrial.outcomes import FoundByPart
from ragtrial.records import Question
from ragtrial.retrievers import Facts
from ragtrial.searching import Demand
from ragtrial.setting import Setting

FactsOf = Callable[[Setting, Sequence[Question], Demand], Facts | None]
"""The facts of a part's rankings for what it was asked, so deep; None where these are not there any more."""


def found_by_parts(
    ground: Ground, setting: Setting, questions: Sequence[Question], facts_of: FactsOf
) -> Iterator[FoundByPart]:
    """What there is to say of the parts of ``setting``, and of theirs, that have ``score: false``."""
    asked = setting.wordings(questions)
    for part in setting.parts:
        facts = None if part.retriever.score else facts_of(part, asked, demand_of_parts(setting))
        if facts is not None:
            chunks = ground.chunks(part) if part.has_index else None
            health = ground.embeddings(part, chunks).health if chunks else None
            too_long = ground.too_long(part, [question.text for question in asked]) if chunks else {}
            yield FoundByPart(part, setting.name, facts, health, too_long)
        yield from found_by_parts(ground, part, asked, facts_of)
