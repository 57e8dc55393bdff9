"""Both sides of a comparison with a judge: the queries of people, and the scores by the judge's grades."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput, Pair, PairedScores
from ragtrial.comparison.judged_rankings import Found, JudgedRankings
from ragtrial.comparison.judgments import JudgmentsError, ModelJudgments, on_scale
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.comparison.statistics.two_phase import TwoPhaseSample, infer_two_phase
from ragtrial.errors import Fault, ReportError, counted, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.rankings import Bools
from ragtrial.records import (
    CHOSEN_BY_STAKES,
    DRAWN_AT_RANDOM,
    NOT_REVIEWED,
    Judgment,
    Query,
    ReportWarning,
    Span,
    WarningCode,
)

LEAST_PEOPLE = 15
"""With fewer queries judged by people, little is known about a judge's errors."""


@dataclass(frozen=True, eq=False)
class JudgeSide:
    """The judge's side of ``inputs``, whose ``people`` are the queries that people judged.

    ``covered`` marks the queries for which the judge judged all that counts, shape (queries,). ``drawn`` is true if the
    labels state that people's queries were drawn at random.
    """

    inputs: ComparisonInput
    judgments: ModelJudgments
    covered: Bools
    drawn: bool
    highest: int
    """People's highest grade, on whose scale the judge's are."""

    warnings: tuple[ReportWarning, ...]
    _scores: dict[str, PairedScores] = field(default_factory=dict)

    @property
    def people(self) -> Bools:
        """Which queries count for people, (queries,)."""
        known = self.inputs.people or frozenset()
        return np.array([query.id in known for query in self.inputs.queries], dtype=np.bool_)

    def scores(self, metric: str) -> PairedScores:
        """The scores of settings by the judge's grades; NaN for a query that the judge did not judge.

        If the judge finds nothing relevant for a query, all settings have 0. A metric that needs more than rankings is
        NaN throughout.
        """
        if metric not in self._scores:
            values = np.full((len(self.inputs.settings), len(self.inputs.queries)), np.nan)
            rows = np.flatnonzero(self.covered).tolist()
            try:
                for place in range(len(values)):
                    values[place, rows] = self.rankings.scores(place, parse_metric(metric), [(row, {}) for row in rows])
            except ReportError:
                values[:] = np.nan
            self._scores[metric] = PairedScores(metric, values)
        return self._scores[metric]

    def sample(self, people: PairedScores, pairs: Sequence[Pair]) -> TwoPhaseSample:
        """The differences of ``pairs`` as both have them."""
        return TwoPhaseSample(people.differences(pairs), self.scores(people.metric).differences(pairs))

    def means(self, people: PairedScores) -> Scores:
        """Each setting's mean over all queries, estimated from both; NaN where people judged none; (settings,)."""
        sample = TwoPhaseSample(people.values, self.scores(people.metric).values)
        return infer_two_phase([sample], Procedure(flips=100))[0].inference.mean

    def pairs_of_grades(self) -> list[tuple[int, int]]:
        """The grades of the texts that both judged: people's, and the judge's on their scale."""
        own = JudgedRankings(self.inputs)
        return [
            (theirs, on_scale(grade, self.highest))
            for row in np.flatnonzero(self.people).tolist()
            for found, grade in self.judgments.grades.get(self.inputs.queries[row].id, {}).items()
            if grade is not None and (theirs := own.grade(row, found)) is not None
        ]

    @cached_property
    def rankings(self) -> JudgedRankings:
        """The rankings, judged by the judge's grades alone."""
        return JudgedRankings(self.inputs, [
            _judged(query.id, query.text, self.judgments.grades.get(query.id, {}), self.highest)
            for query in self.inputs.queries
        ])  # fmt: skip


def judge_side(inputs: ComparisonInput, judgments: ModelJudgments) -> JudgeSide:
    """Both sides of ``inputs``. The ``inputs`` of the result are limited to the queries that count for people.

    Raises JudgmentsError if people's queries were chosen because settings disagree on them, or the judge judged no
    query completely; ReportError for rankings that cannot be read.
    """
    rankings = JudgedRankings(inputs)
    depth = rankings.usual_depth()
    labelled = [
        row for row, query in enumerate(inputs.queries) if query.relevant_docs and NOT_REVIEWED not in query.tags
    ]
    random = [row for row in labelled if DRAWN_AT_RANDOM in inputs.queries[row].tags]
    chosen = [row for row in labelled if CHOSEN_BY_STAKES in inputs.queries[row].tags]
    if chosen and not random:
        raise JudgmentsError(_by_stakes(inputs, chosen))
    found = [rankings.best_ranks(row, depth).keys() for row in range(len(inputs.queries))]
    graded = [judgments.grades.get(query.id, {}) for query in inputs.queries]
    covered = np.array([bool(texts) and texts <= own.keys() for texts, own in zip(found, graded, strict=True)])
    if not covered.any():
        raise JudgmentsError(_nothing_covered(judgments, inputs, depth))
    whole = [row for row in random if all(rankings.grade(row, one) is not None for one in found[row])]
    people = [row for row in (whole if random else labelled) if covered[row]]
    names = frozenset(inputs.queries[row].id for row in people)
    highest = max((one.relevance for row in people for one in inputs.queries[row].relevant_docs), default=1)
    judged = replace(inputs, people=names)
    warnings = [
        *_about_people(people, random, whole, labelled, int(covered.sum())),
        *_circular(inputs, judgments.model),
    ]
    return JudgeSide(judged, judgments, covered, bool(random), highest, tuple(warnings))


def _judged(name: str, text: str, grades: Mapping[Found, int | None], highest: int) -> Query:
    """A query with the judge's grades as its labels."""
    made = []
    for found, grade in grades.items():
        if grade is not None:
            doc, spans = (found, ()) if isinstance(found, str) else (found[0], (Span(*found[1:]),))
            made.append(Judgment(doc, on_scale(grade, highest), spans=spans))
    return Query(name, text, tuple(made))


def _by_stakes(inputs: ComparisonInput, rows: Sequence[int]) -> str:
    names = listed([inputs.queries[row].id for row in rows], 3)
    return (
        f"{counted(len(rows), 'query', 'queries')} that people judged ({names}) were chosen because the settings "
        "disagree on them. The judge's errors differ between such queries and others, so these labels cannot correct "
        "it. Draw queries at random, and label those: ragtrial pool REPORT --random-queries 40."
    )


def _nothing_covered(judgments: ModelJudgments, inputs: ComparisonInput, depth: int) -> Fault:
    known = {query.id for query in inputs.queries}
    if known.isdisjoint(judgments.grades):
        message = f"has no judgments of the compared queries ({listed(sorted(known), 3)}); it is for another report."
    else:
        message = (
            f"has no query with judgments of all texts in the top {depth} of the compared settings. Run ragtrial judge "
            "again: it goes on where it stopped."
        )
    return Fault(str(judgments.file), message=message)


def _about_people(
    people: Sequence[int], random: Sequence[int], whole: Sequence[int], labelled: Sequence[int], judged: int
) -> Iterator[ReportWarning]:
    """Warnings about people's side."""
    if not people:
        yield ReportWarning(
            WarningCode.JUDGE_ALONE,
            "people judged no question, so there is no verdict: a judge may favour a setting, and its grades cannot "
            "show that. Next: ragtrial pool REPORT --random-queries 40.",
        )
        return
    if not random and judged > len(people):
        yield ReportWarning(
            WarningCode.NOT_DRAWN_AT_RANDOM,
            f"the labels do not say that the {counted(len(people), 'question')} with people's labels were drawn at "
            f"random from the {judged:,} that the judge judged. If they were not, the intervals are not valid. "
            "`ragtrial pool REPORT --random-queries N` draws queries at random, and the labels then say so.",
        )
    if len(random) > len(whole):
        yield ReportWarning(
            WarningCode.JUDGED_IN_PART,
            f"{len(random) - len(whole):,} of {counted(len(random), 'question')} drawn at random have texts that "
            "people did not judge, and are left out. Label these texts, and rescore.",
        )
    if 0 < len(random) < len(labelled):
        yield ReportWarning(
            WarningCode.NOT_DRAWN_AT_RANDOM,
            f"{counted(len(labelled) - len(random), 'question')} with people's labels were not drawn at random; only "
            "the judge's grades count there.",
        )
    if len(people) < LEAST_PEOPLE:
        yield ReportWarning(
            WarningCode.FEW_PEOPLE,
            f"people judged only {counted(len(people), 'question')}; the intervals were validated from {LEAST_PEOPLE} "
            "questions on.",
        )


def _circular(inputs: ComparisonInput, model: str) -> Iterator[ReportWarning]:
    users = [one.name for one in inputs.settings if model in _strings(one.part.parameters)]
    if users:
        yield ReportWarning(
            WarningCode.JUDGE_IN_PIPELINE,
            f"the judge's model, {model}, is also used by settings that it judges ({listed(users, 4)}), and may favour "
            "them. The intervals stay valid, but another judge would narrow them more.",
        )


def _strings(value: Any) -> Iterator[str]:
    """All strings in a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _strings(one)
    elif isinstance(value, Sequence):
        for one in value:
            yield from _strings(one)
