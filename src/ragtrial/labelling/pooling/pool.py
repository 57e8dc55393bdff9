"""A worklist pooled from what settings found: the unjudged texts whose labels would settle most, in a blind order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.contest import ComparisonSet
from ragtrial.comparison.unjudged.joint_hits import JudgedLists
from ragtrial.errors import InputError, LabelsError, listed
from ragtrial.labelling.changes import Form
from ragtrial.labelling.label_target import LabelTarget, label_target, refuse_others
from ragtrial.labelling.pooling.item_texts import ItemText, questions_of, texts_of
from ragtrial.labelling.pooling.pooling import Choice, Pool, PooledHit, SettledVerdict
from ragtrial.labelling.pooling.worklist import VERSION, WorkItem, Worklist
from ragtrial.progress import Progress, Silent
from ragtrial.records import ReportWarning, WarningCode

USUAL_REPEATS = 0.2


@dataclass(frozen=True)
class Repeats:
    """How many of the items are judged already: ``count`` of them, or a ``share`` of all items, from 0 to below 1."""

    count: int | None = None
    share: float = USUAL_REPEATS

    def of(self, new: int) -> int:
        """How many, beside so many new ones; of a share above 0 at least one."""
        if self.count is not None:
            return self.count
        return max(1, round(new * self.share / (1 - self.share))) if self.share > 0 else 0


@dataclass(frozen=True)
class PoolOptions:
    """How much to label, how deep to look, by which seed to shuffle, and where labels go (None: as the config says)."""

    budget: int = 20
    depth: int | None = None
    seed: int = 0
    repeats: Repeats = Repeats()
    labels: Path | None = None
    config: Path | None = None


@dataclass(frozen=True)
class Pooled:
    """A worklist, and what it would settle: the comparison that decides first.

    Of its items ``new`` are unjudged and ``repeated`` are judged already. ``unjudged`` counts the unjudged hits that
    all settings have among their first ``depth``; ``warnings`` say where that is deeper than the metric looks.
    """

    worklist: Worklist
    settled: tuple[SettledVerdict, ...]
    new: int
    repeated: int
    unjudged: int
    depth: int
    warnings: tuple[ReportWarning, ...] = ()


def parse_repeats(text: str) -> Repeats:
    """``0.2`` is a share of the items, ``5`` a number. Raises InputError."""
    try:
        if text.strip().isdecimal():
            return Repeats(count=int(text))
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InputError(f"--repeat is {text!r}; it must be a number of items, or a share of them, from 0 to below 1.")
    return Repeats(share=share)


def pool_of(
    contest: ComparisonSet, aim: ComparisonOptions, options: PoolOptions, progress: Progress | None = None
) -> Pooled:
    """The worklist of a contest.

    Which unjudged hits are in it is chosen by what labels of them would settle; the order is random, by the seed, with
    judged ones in between, so that nothing is told by it. Raises InputError where nothing is to label, where texts or
    the file of the labels cannot be had, and for a metric of which nothing is known.
    """
    pool = Pool(contest, aim, options.depth)
    choice = pool.choose(options.budget)
    if not choice.hits:
        raise InputError(_nothing(pool, choice))
    report = contest.contenders[0].report
    target = label_target(report, options.labels, options.config)
    rng = random.Random(options.seed)  # noqa: S311 - not for secrets
    judged = pool.hits(judged=True)
    again = rng.sample(judged, min(options.repeats.of(len(choice.hits)), len(judged)))
    hits = [*choice.hits, *again]
    items = _items(pool, hits, target, progress or Silent())
    refuse_others(target, items[: len(choice.hits)], report)
    rng.shuffle(items)
    worklist = Worklist(
        ragtrial_worklist=VERSION,
        labels=str(target.file),
        kind=target.kind,
        config=None if target.config is None else str(target.config),
        form=target.form,
        report=str(report.folder.absolute()),
        metric=contest.primary,
        highest_grade=max((one.relevance for query in contest.queries for one in query.relevant_docs), default=0),
        seed=options.seed,
        items=items,
    )
    return Pooled(worklist, choice.settled, len(choice.hits), len(again), choice.unjudged, pool.depth, _warnings(pool))


def _warnings(pool: Pool) -> tuple[ReportWarning, ...]:
    k = pool.metric.k
    if k is None or pool.depth <= k:
        return ()
    message = (
        f"--depth {pool.depth} goes beyond where {pool.metric} looks, the first {k}: of the unjudged hits below only "
        "such are chosen as change how many relevant ones there are to find, if the metric asks that."
    )
    return (ReportWarning(WarningCode.DEPTH, message),)


def _items(pool: Pool, hits: Sequence[PooledHit], target: LabelTarget, progress: Progress) -> list[WorkItem]:
    contest = pool.contest
    wanted = [(contest.queries[hit.row].id, pool.lists.unit_of(hit.code)) for hit in hits]
    texts = texts_of(contest, wanted, target.config, progress)
    questions = questions_of(contest, [hit.row for hit in hits], target.config)
    lacking = list(dict.fromkeys(contest.queries[row].id for row, text in questions.items() if not text.strip()))
    if lacking:
        raise LabelsError(
            f"the report does not have the texts of its queries, nor does the config: {listed(lacking, 5)}. Name a "
            "config with them: --config CONFIG."
        )
    return [
        _item(query, questions[hit.row], texts[query, unit], target.form, pool.lists)
        for hit, (query, unit) in zip(hits, wanted, strict=True)
    ]


def _item(query: str, question: str, found: ItemText, form: Form, lists: JudgedLists) -> WorkItem:
    """Of a document that labels name as such all that was found; where they name passages, the longest one of it."""
    if form == "document" and lists.unit == "document":
        return WorkItem(query=query, question=question, doc=found.doc, title=found.title, start=None, end=None,
                        text=found.text)  # fmt: skip
    shown = max(found.stretches, key=lambda one: one.end - one.start)
    return WorkItem(query=query, question=question, doc=found.doc, title=found.title, start=shown.start,
                    end=shown.end, text=shown.text)  # fmt: skip


def _nothing(pool: Pool, choice: Choice) -> str:
    if not choice.unjudged:
        return (
            f"nothing is left to label: all hits that the settings have among their first {pool.depth} are judged. "
            "Look deeper with --depth, or add settings or queries."
        )
    contenders = pool.contest.contenders
    if len(contenders) > 1 and pool.rank_alike():
        far = f"in their first {pool.metric.k}" if pool.metric.k else "all the way down"
        return (
            f"the {len(contenders)} settings rank the same hits in the same order {far}, for every query: no label "
            f"can tell them apart by {pool.metric}. Pool one alone, for the range of its score: ragtrial pool "
            f"{contenders[0].report.folder}:{contenders[0].setting.name}"
        )
    return (
        f"no label could change {pool.metric}: of what is unjudged ({choice.unjudged:,} in all) nothing can weigh by "
        "the grades that the labels have, or where the metric looks."
    )
