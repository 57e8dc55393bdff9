"""Questions that a model drafted from passages: how many there are, who reviewed them, and whom they favour."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput, PairedScores
from ragtrial.comparison.number_text import signed, signed_interval
from ragtrial.components.retrievers import RETRIEVERS
from ragtrial.dataset.resolution import drafted_sentence
from ragtrial.errors import listed
from ragtrial.evaluation.grading import Scores
from ragtrial.records import DRAFTED, NOT_REVIEWED
from ragtrial.report.schema import Part

_MOST_NAMED = 3


class DraftedPart(Part):
    """The drafted questions of a comparison, and how far they favour settings that match words."""

    queries: int
    drafted: int
    reviewed: int
    """The number of drafted questions that were reviewed."""

    words: list[str]
    """The settings that match words."""

    vectors: list[str]
    """The settings that compare vectors."""

    on_drafted: float | None
    """The mean score of ``words`` minus the mean score of ``vectors``, by the primary metric, over drafted questions;
    null over no questions, or without settings of both kinds."""

    on_people: float | None
    """The same over questions of people."""

    gap: float | None
    """``on_drafted`` minus ``on_people``: above 0, drafted questions favour settings that match words."""

    gap_ci: tuple[float, float] | None
    """Its 95% interval (Welch 1947); null with fewer than two questions of a kind."""

    sentence: str


def drafted_part(inputs: ComparisonInput, scores: PairedScores) -> DraftedPart | None:
    """The drafted questions of ``inputs`` by the primary metric; None if there are none."""
    is_drafted = np.array([DRAFTED in query.tags for query in inputs.queries], dtype=np.bool_)
    if not is_drafted.any():
        return None
    reviewed = sum(DRAFTED in query.tags and NOT_REVIEWED not in query.tags for query in inputs.queries)
    words, vectors = ([place for place, how in enumerate(_matching(inputs)) if how == kind] for kind in _KINDS)
    drafts = people = np.empty(0)
    if words and vectors:
        contrast = scores.values[words].mean(axis=0) - scores.values[vectors].mean(axis=0)
        counts = ~np.isnan(contrast)
        drafts, people = contrast[is_drafted & counts], contrast[~is_drafted & counts]
    both = bool(len(drafts) and len(people))
    part = DraftedPart(
        queries=len(inputs.queries),
        drafted=int(is_drafted.sum()),
        reviewed=reviewed,
        words=[inputs.names[place] for place in words],
        vectors=[inputs.names[place] for place in vectors],
        on_drafted=float(drafts.mean()) if len(drafts) else None,
        on_people=float(people.mean()) if len(people) else None,
        gap=float(drafts.mean() - people.mean()) if both else None,
        gap_ci=_welch(drafts, people) if min(len(drafts), len(people)) > 1 else None,
        sentence="",
    )
    return part.model_copy(update={"sentence": f"{_counted(part)} {_measured(part)}"})


_KINDS = ("words", "vectors")


def _matching(inputs: ComparisonInput) -> list[str | None]:
    """How each setting finds its hits, where that is known."""
    kinds = [str((setting.part.parameters.get("retriever") or {}).get("kind")) for setting in inputs.settings]
    return [RETRIEVERS[kind].matches_by if kind in RETRIEVERS else None for kind in kinds]


def _welch(drafts: Scores, people: Scores) -> tuple[float, float] | None:
    """The 95% interval of the difference of two means of unequal variances; None where neither varies."""
    from scipy.special import stdtrit

    shares = np.array([one.var(ddof=1) / len(one) for one in (drafts, people)])
    if not shares.sum() > 0:
        return None
    freedom = shares.sum() ** 2 / (np.square(shares) / [len(drafts) - 1, len(people) - 1]).sum()
    gap, width = drafts.mean() - people.mean(), -float(stdtrit(freedom, 0.025)) * float(np.sqrt(shares.sum()))
    return float(gap - width), float(gap + width)


def _counted(part: DraftedPart) -> str:
    return drafted_sentence(part.queries, part.drafted, part.reviewed)


def _measured(part: DraftedPart) -> str:
    if not (part.words and part.vectors):
        return "The effect cannot be measured here without a BM25 and a dense setting."
    if part.gap is None:
        lacking = "drafted questions that count" if part.on_drafted is None else "people's questions"
        return f"The effect cannot be measured here without {lacking}."
    names = f"{_named(part.words)} minus {_named(part.vectors)}"
    interval = f" (95% interval of the change {signed_interval(part.gap_ci, between=' to ')})" if part.gap_ci else ""
    return (
        f"Measured here: {names} is {signed(part.on_drafted)} on drafted questions and {signed(part.on_people)} on "
        f"people's, a change of {signed(part.gap)}{interval}."
    )


def _named(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"the mean of {listed(names, _MOST_NAMED)}"
