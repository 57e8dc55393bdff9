"""A worklist of queries drawn at random, each with all that settings found for it: people's side beside a judge."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.judged_rankings import JudgedRankings
from ragtrial.errors import InputError, counted
from ragtrial.labelling.label_target import label_target, refuse_others
from ragtrial.labelling.pooling.pool import Pooled, PooledHit, PoolOptions, work_items, worklist_of
from ragtrial.progress import Progress, Silent
from ragtrial.records import DRAWN_AT_RANDOM


@dataclass(frozen=True)
class _Draw:
    """The hits to judge of the drawn queries, ``new`` those that nobody judged."""

    new: list[PooledHit]
    again: list[PooledHit]


def random_pool_of(
    contest: ComparisonInput, queries: int, options: PoolOptions, progress: Progress | None = None
) -> Pooled:
    """The worklist of so many ``queries``, drawn at random from those that were not drawn before.

    All that the settings found among their first ``depth`` is in it, one query after another in the order of the draw,
    so that whoever stops early has judged some of them whole. Of what is judged already some is asked again, and of a
    query that is judged whole one text, so that labels say how it came to be among people's. Raises InputError where
    fewer queries are left, and where texts or the file of the labels cannot be had.
    """
    rankings = JudgedRankings(contest)
    depth = options.depth or rankings.usual_depth()
    left = [row for row, query in enumerate(contest.queries) if DRAWN_AT_RANDOM not in query.tags]
    if queries > len(left):
        drawn = len(contest.queries) - len(left)
        raise InputError(
            f"{counted(queries, 'query', 'queries')} cannot be drawn: the report has {len(contest.queries):,}, of "
            f"which {drawn:,} were drawn before. Draw at most {len(left):,}, or ask more questions."
        )
    rng = random.Random(options.seed)  # noqa: S311 - not for secrets
    rows = rng.sample(left, queries)
    made = _drawn(rankings, rows, depth, options, rng)
    report = contest.report
    target = label_target(report, options.labels, options.config)
    hits = [*made.new, *made.again]
    items = work_items(contest, report.unit, hits, target, progress or Silent())
    refuse_others(target, items[: len(made.new)], report)
    order = {row: place for place, row in enumerate(rows)}
    shuffled = sorted(range(len(items)), key=lambda place: (order[hits[place].row], rng.random()))
    worklist = worklist_of(contest, target, [items[place] for place in shuffled], options.seed)
    return Pooled(worklist.model_copy(update={"drawn": "random"}), len(made.new), len(made.again), len(made.new), depth)


def _drawn(
    rankings: JudgedRankings, rows: Sequence[int], depth: int, options: PoolOptions, rng: random.Random
) -> _Draw:
    new: list[PooledHit] = []
    judged: list[PooledHit] = []
    again: list[PooledHit] = []
    for row in rows:
        hits = [PooledHit(row, one, rank) for one, rank in sorted(rankings.best_ranks(row, depth).items())]
        unjudged = [hit for hit in hits if rankings.grade(row, hit.found) is None]
        known = [hit for hit in hits if hit not in unjudged]
        if hits and not unjudged:
            again.append(known.pop(rng.randrange(len(known))))
        new += unjudged
        judged += known
    again += rng.sample(judged, min(max(options.repeated(len(new)) - len(again), 0), len(judged)))
    if not new and not again:
        raise InputError(f"the settings found nothing for any of the {counted(len(rows), 'query', 'queries')} drawn.")
    return _Draw(new, again)
