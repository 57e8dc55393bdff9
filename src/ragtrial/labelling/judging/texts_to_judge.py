"""Which texts a judge is asked about: all that settings found for a query, people's queries first."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.judged_rankings import Found, JudgedRankings
from ragtrial.errors import LabelsError, listed
from ragtrial.labelling.pooling.item_texts import questions_of, texts_of
from ragtrial.progress import Progress
from ragtrial.records import DRAWN_AT_RANDOM

MOST_CHARACTERS = 12_000
"""Of a longer text so many are judged: about 3,000 tokens."""


@dataclass(frozen=True)
class TextToJudge:
    """A text that a setting found for a query: a whole document, or the passage from ``start`` to ``end``."""

    query: str
    question: str
    doc: str
    start: int | None
    end: int | None
    text: str

    @classmethod
    def of(cls, query: str, question: str, found: Found, text: str) -> Self:
        doc, start, end = (found, None, None) if isinstance(found, str) else found
        return cls(query, question, doc, start, end, text[:MOST_CHARACTERS])


def texts_to_judge(
    contest: ComparisonInput, depth: int | None, queries: int | None, seed: int, config: Path | None, progress: Progress
) -> list[list[TextToJudge]]:
    """The texts of each query, query by query; of so many ``queries``, None for all.

    Those that people judged come first, then the others in a random order: whatever is judged when a budget ends is a
    random sample, and has people's. Raises InputError where texts or questions cannot be had.
    """
    rankings = JudgedRankings(contest)
    deep = depth or rankings.usual_depth()
    rows = _in_order(contest, seed)[:queries]
    found = {row: list(rankings.best_ranks(row, deep)) for row in rows}
    questions = questions_of(contest, rows, config)
    lacking = [contest.queries[row].id for row, text in questions.items() if not text.strip()]
    if lacking:
        raise LabelsError(
            f"the report does not have the texts of its queries, nor does the config: {listed(lacking, 5)}. Name a "
            "config with them: --config CONFIG."
        )
    wanted = [(contest.queries[row].id, one) for row in rows for one in found[row]]
    texts = texts_of(contest, wanted, config, progress)
    made = []
    for row in rows:
        name = contest.queries[row].id
        shown = [texts[name, one] for one in found[row]]
        whole = [
            item.text if isinstance(one, str) else max((part.text for part in item.stretches), key=len)
            for one, item in zip(found[row], shown, strict=True)
        ]
        titled = [f"{item.title}\n{text}" if item.title else text for item, text in zip(shown, whole, strict=True)]
        made.append([
            TextToJudge.of(name, questions[row], one, text) for one, text in zip(found[row], titled, strict=True)
        ])  # fmt: skip
    return made


def _in_order(contest: ComparisonInput, seed: int) -> Sequence[int]:
    rows = list(range(len(contest.queries)))
    random.Random(seed).shuffle(rows)  # noqa: S311 - not for secrets

    def rank(row: int) -> int:
        query = contest.queries[row]
        return 0 if DRAWN_AT_RANDOM in query.tags else 1 if query.relevant_docs else 2

    return sorted(rows, key=rank)
