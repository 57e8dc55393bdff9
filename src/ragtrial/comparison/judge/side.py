"""Both sides of a comparison with a judge: which queries count for people, and what the judge makes of all of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from ragtrial.comparison.contest import ComparisonSet, Pair, PairedScores
from ragtrial.comparison.judge.judgments import JudgmentsError, ModelJudgments, on_scale
from ragtrial.comparison.judged_rankings import Found, JudgedRankings
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
"""Of fewer queries judged by people little is known of a judge's errors."""


@dataclass(frozen=True, eq=False)
class JudgeSide:
    """What a judge says of the queries of ``contest``, whose ``people`` are those that people judged.

    ``covered`` says of which queries the judge has all that counts, shape (queries,); ``drawn`` whether the labels say
    that people's queries were drawn at random.
    """

    contest: ComparisonSet
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
        known = self.contest.people or frozenset()
        return np.array([query.id in known for query in self.contest.queries], dtype=np.bool_)

    def scores(self, metric: str) -> PairedScores:
        """What settings score by the judge's grades; NaN for a query that it has not judged.

        Where it finds nothing relevant all have 0. A metric that cannot be had from rankings alone is NaN throughout.
        """
        if metric not in self._scores:
            values = np.full((len(self.contest.contenders), len(self.contest.queries)), np.nan)
            rows = np.flatnonzero(self.covered).tolist()
            try:
                for place in range(len(values)):
                    values[place, rows] = self.rankings.scores(place, parse_metric(metric), [(row, {}) for row in rows])
            except ReportError:
                values[:] = np.nan
            else:
                values[:, self.covered & np.isnan(values).all(axis=0)] = 0.0
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
        own = JudgedRankings(self.contest)
        return [
            (theirs, on_scale(grade, self.highest))
            for row in np.flatnonzero(self.people).tolist()
            for found, grade in self.judgments.grades.get(self.contest.queries[row].id, {}).items()
            if grade is not None and (theirs := own.grade(row, found)) is not None
        ]

    @cached_property
    def rankings(self) -> JudgedRankings:
        """The rankings, judged by the judge's grades alone."""
        return JudgedRankings(self.contest, [
            _judged(query.id, query.text, self.judgments.grades.get(query.id, {}), self.highest)
            for query in self.contest.queries
        ])  # fmt: skip


def judge_side(contest: ComparisonSet, judgments: ModelJudgments) -> JudgeSide:
    """Both sides of ``contest``, which is then that of the result: with the queries that count for people.

    Raises JudgmentsError where people's queries were chosen by what is at stake, and where the judge has judged none of
    the queries whole; ReportError for rankings that cannot be read.
    """
    rankings = JudgedRankings(contest)
    depth = rankings.usual_depth()
    labelled = [
        row for row, query in enumerate(contest.queries) if query.relevant_docs and NOT_REVIEWED not in query.tags
    ]
    random = [row for row in labelled if DRAWN_AT_RANDOM in contest.queries[row].tags]
    chosen = [row for row in labelled if CHOSEN_BY_STAKES in contest.queries[row].tags and row not in random]
    if chosen and not random:
        raise JudgmentsError(_by_stakes(contest, chosen))
    found = [rankings.best_ranks(row, depth).keys() for row in range(len(contest.queries))]
    graded = [judgments.grades.get(query.id, {}) for query in contest.queries]
    covered = np.array([bool(texts) and texts <= own.keys() for texts, own in zip(found, graded, strict=True)])
    if not covered.any():
        raise JudgmentsError(_nothing_covered(judgments, contest, depth))
    whole = [row for row in random if all(rankings.grade(row, one) is not None for one in found[row])]
    people = [row for row in (whole if random else labelled) if covered[row]]
    names = frozenset(contest.queries[row].id for row in people)
    highest = max((one.relevance for row in people for one in contest.queries[row].relevant_docs), default=1)
    judged = replace(contest, people=names)
    warnings = [
        *_about_people(people, random, whole, labelled, int(covered.sum())),
        *_circular(contest, judgments.model),
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


def _by_stakes(contest: ComparisonSet, rows: Sequence[int]) -> str:
    names = listed([contest.queries[row].id for row in rows], 3)
    return (
        f"{counted(len(rows), 'query', 'queries')} that people judged ({names}) were chosen because settings disagree "
        "there. On such questions the judge errs in other ways than on the rest, so they say nothing of it. Draw "
        "questions at random, and judge those: ragtrial pool REPORT --random-queries 40."
    )


def _nothing_covered(judgments: ModelJudgments, contest: ComparisonSet, depth: int) -> Fault:
    known = {query.id for query in contest.queries}
    if known.isdisjoint(judgments.grades):
        message = f"judges none of the queries that are compared ({listed(sorted(known), 3)}); it is of another report."
    else:
        message = (
            f"has no query of which it judges all that the compared settings have among their first {depth}. Go on "
            "with ragtrial judge: what was answered is kept."
        )
    return Fault(str(judgments.file), message=message)


def _about_people(
    people: Sequence[int], random: Sequence[int], whole: Sequence[int], labelled: Sequence[int], judged: int
) -> Iterator[ReportWarning]:
    """What is said of people's side."""
    if not people:
        yield ReportWarning(
            WarningCode.JUDGE_ALONE,
            "no question was judged by people, so there is no verdict: a judge alone may prefer a setting, and nothing "
            "shows it. Next: ragtrial pool REPORT --random-queries 40.",
        )
        return
    if not random and judged > len(people):
        yield ReportWarning(
            WarningCode.NOT_DRAWN_AT_RANDOM,
            f"nothing says that the {counted(len(people), 'question')} with people's labels were drawn at random from "
            f"the {judged:,} that the judge has. If they were not, the intervals do not hold. `ragtrial pool REPORT "
            "--random-queries N` draws some, and labels then say so.",
        )
    if len(random) > len(whole):
        yield ReportWarning(
            WarningCode.JUDGED_IN_PART,
            f"{len(random) - len(whole):,} of {counted(len(random), 'question')} drawn at random are judged in part, "
            "and left out. Label their other texts, and rescore.",
        )
    if 0 < len(random) < len(labelled):
        yield ReportWarning(
            WarningCode.NOT_DRAWN_AT_RANDOM,
            f"{len(labelled) - len(random):,} questions with people's labels were not drawn at random, and count only "
            "for the judge's side.",
        )
    if len(people) < LEAST_PEOPLE:
        yield ReportWarning(
            WarningCode.FEW_PEOPLE,
            f"people judged {counted(len(people), 'question')}; from {LEAST_PEOPLE} on the intervals were tried.",
        )


def _circular(contest: ComparisonSet, model: str) -> Iterator[ReportWarning]:
    users = [one.name for one in contest.contenders if model in _strings(one.setting.parameters)]
    if users:
        yield ReportWarning(
            WarningCode.JUDGE_IN_PIPELINE,
            f"the judge's model, {model}, also works inside of what it judges ({listed(users, 4)}), and may prefer "
            "that. The intervals hold all the same; a judge of its own is worth more.",
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
