"""How many questions a metric scores, of how many, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragtrial.errors import counted
from ragtrial.records import UNANSWERABLE
from ragtrial.report.schema import Part, QueryPart, SettingPart


class ScoredPart(Part):
    """The questions behind the means of the primary metric, and why the others are not in them."""

    scored: int
    questions: int
    unanswerable: int
    """Not scored: tagged as without an answer in the documents."""

    unlabelled: int
    """Not scored: without a label that counts as relevant."""

    failed: int
    """Not scored: no setting could answer them."""

    @property
    def sentence(self) -> str:
        """``62 questions (59 scored; 3 have no answer in the documents)``; without brackets if all are scored."""
        reasons = "; ".join([f"{self.scored:,} scored", *self._reasons()])
        return counted(self.questions, "question") + (f" ({reasons})" if self.scored < self.questions else "")

    def _reasons(self) -> Iterator[str]:
        if self.unanswerable:
            yield f"{self.unanswerable:,} {'has' if self.unanswerable == 1 else 'have'} no answer in the documents"
        if self.unlabelled:
            yield f"{self.unlabelled:,} {'has' if self.unlabelled == 1 else 'have'} no label that counts"
        if self.failed:
            yield f"{self.failed:,} could not be searched"


def scored_by(queries: Sequence[QueryPart], settings: Sequence[SettingPart], metric: str) -> ScoredPart:
    """Counts over ``queries``, each scored if ``metric`` has a value for any of the ``settings``."""
    columns = [(one.per_query.evaluations[metric], one.per_query.skipped) for one in settings]
    known = [any(values[row] is not None for values, _ in columns) for row in range(len(queries))]
    failed = [all(skipped[row] for _, skipped in columns) for row in range(len(queries))]
    return scored_part(queries, known, failed)


def scored_part(queries: Sequence[QueryPart], is_scored: Sequence[bool], has_failed: Sequence[bool]) -> ScoredPart:
    """Counts over ``queries``; each that is not scored has one reason, the first of those above that holds."""
    missing = [
        (query, failed) for query, known, failed in zip(queries, is_scored, has_failed, strict=True) if not known
    ]
    unanswerable = sum(UNANSWERABLE in query.tags for query, _ in missing)
    failed = sum(failed for query, failed in missing if UNANSWERABLE not in query.tags)
    return ScoredPart(
        scored=len(queries) - len(missing),
        questions=len(queries),
        unanswerable=unanswerable,
        unlabelled=len(missing) - unanswerable - failed,
        failed=failed,
    )
