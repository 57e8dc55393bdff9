"""What is known of the parts of a setting that are no settings of their own, so that nothing of it is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ragtrial.components.retrievers import Candidates, Facts
from ragtrial.config.settings import Setting
from ragtrial.pipeline.demands import demand_of_parts
from ragtrial.pipeline.ground import Ground
from ragtrial.pipeline.outcomes import FoundByPart, ToldOfPart
from ragtrial.pipeline.searching import Demand
from ragtrial.records import Question

FoundOf = Callable[[Setting, Sequence[Question], Demand], Candidates | None]
"""A part's rankings for what it was asked, so deep or deeper; None where these are not there any more."""


def found_by_parts(
    ground: Ground, setting: Setting, questions: Sequence[Question], found_of: FoundOf, *, as_asked: bool = True
) -> Iterator[FoundByPart]:
    """What there is to say of the parts of ``setting``, and of theirs.

    Of those that are settings of their own only what was looked at of them, where that is deeper than these are.
    ``as_asked`` says that ``questions`` are those of the labels, and not other wordings of them.
    """
    asked = setting.wordings(questions)
    is_same = as_asked and asked is questions
    for part in setting.parts:
        is_deeper = is_same and setting.depth_of_parts > part.retriever.top_k
        found = found_of(part, asked, demand_of_parts(setting)) if is_deeper or not part.retriever.score else None
        if found is not None:
            kept = replace(found, rankings=found.rankings.cut(setting.depth_of_parts)) if is_same else None
            if part.retriever.score:
                yield FoundByPart(part, setting, kept)
            else:
                yield FoundByPart(part, setting, kept, _told(ground, part, asked, found.facts))
        yield from found_by_parts(ground, part, asked, found_of, as_asked=is_same)


def _told(ground: Ground, part: Setting, asked: Sequence[Question], facts: Facts) -> ToldOfPart:
    chunks = ground.chunks(part) if part.has_index else None
    health = ground.embeddings(part, chunks).health if chunks else None
    too_long = ground.too_long(part, [question.text for question in asked]) if chunks else {}
    return ToldOfPart(facts, health, too_long)
