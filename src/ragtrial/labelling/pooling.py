"""Worklists of unjudged texts: those on which the settings disagree most, or all texts of random queries."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ragtrial.comparison.comparison_input import ComparisonInput, Pair
from ragtrial.comparison.judged_rankings import HitKey, JudgedRankings, hits_of_row
from ragtrial.config import load_config
from ragtrial.dataset.datasets import load_dataset
from ragtrial.errors import CorpusError, Fault, InputError, LabelsError, ReportError, counted, listed
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import metric_called
from ragtrial.labelling.label_target import label_target, refuse_others
from ragtrial.labelling.worklist import Drawn, TextToGrade, Worklist
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress, Silent
from ragtrial.records import DRAWN_AT_RANDOM
from ragtrial.scoring.rescore import is_of_given_runs

_LEAST = 1e-12
"""A label that moves a difference by less moves nothing but rounding."""


@dataclass(frozen=True)
class PoolOptions:
    """How much to label, how deep to look, by which seed to shuffle, and where labels go (None: as the config says).

    ``repeats`` is the share of the items that are judged already, or from 1 on their number.
    """

    budget: int = 20
    depth: int | None = None
    seed: int = 0
    repeats: float = 0.2
    labels: Path | None = None
    config: Path | None = None

    def repeated(self, new: int) -> int:
        """The number of judged items for ``new`` new items; at least one for a share above 0."""
        if self.repeats >= 1:
            return round(self.repeats)
        return max(1, round(new * self.repeats / (1 - self.repeats))) if self.repeats > 0 else 0


@dataclass(frozen=True)
class PooledHit:
    """A hit of the query at ``row`` of a comparison, and the best ``rank`` that a setting gives it.

    ``weight`` is how much a label of it could move the difference of two settings; 0 where it is judged.
    """

    row: int
    found: HitKey
    rank: int
    weight: float = 0.0


@dataclass(frozen=True)
class Pooled:
    """A worklist, with the numbers of ``new`` items, which are unjudged, and of ``repeated`` items, which are judged.

    ``unjudged`` counts the unjudged hits that all settings have among their first ``depth``.
    """

    worklist: Worklist
    new: int
    repeated: int
    unjudged: int
    depth: int


class Pool:
    """The first ``depth`` hits of all compared settings, by default to the depth of the primary metric.

    Queries that count for no setting are left out. Raises ReportError for rankings that cannot be read, or that do not
    give the scores of their report.
    """

    def __init__(self, inputs: ComparisonInput, depth: int | None = None) -> None:
        self._inputs = inputs
        self._metric = metric_called(inputs.primary)
        self._rankings = JudgedRankings(inputs)
        self._values = inputs.scores(inputs.primary).values
        self.depth = depth or self._rankings.usual_depth()
        self.judged: list[PooledHit] = []
        unjudged: list[PooledHit] = []
        for row in np.flatnonzero(~np.isnan(self._values).all(axis=0)).tolist():
            new, judged = _hits(self._rankings, row, self.depth)
            unjudged += new
            self.judged += judged
        weighed = zip(unjudged, self._weights(unjudged).tolist(), strict=True)
        hits = [replace(hit, weight=weight) for hit, weight in weighed]
        self.unjudged = sorted(hits, key=lambda one: (-round(one.weight, 12), one.rank))
        """Sorted by the possible effect on a difference, then by rank, then by query and id."""

    def _weights(self, hits: Sequence[PooledHit]) -> Scores:
        """The effect of each of ``hits`` on the difference of two settings if it alone is relevant; (hits,).

        The label has the highest known grade, and the effect is measured by the primary metric: for metrics of ranks,
        the difference of the discounts at its two ranks, over the ideal. It is the largest change over the pairs with
        the baseline, or else with the best setting; for one setting the change of its score. After Carterette, Allan &
        Sitaraman 2006, Minimal Test Collections for Retrieval Evaluation, SIGIR.
        """
        rows, highest = [hit.row for hit in hits], self._rankings.highest_grade
        cases = [(hit.row, {hit.found: highest}) for hit in hits]
        settings = range(len(self._inputs.settings))
        changes = [
            self._rankings.scores(setting, self._metric, cases) - self._rankings.scores_now(setting, self._metric)[rows]
            for setting in settings
        ]
        if len(changes) == 1:
            return np.abs(changes[0])
        best = int(np.argmax([np.nanmean(row) if not np.isnan(row).all() else -np.inf for row in self._values]))
        baseline = self._inputs.baseline
        pairs = self._inputs.pairs(baseline) if baseline else [Pair(best, other) for other in settings if other != best]
        moved = [np.abs(changes[pair.setting] - changes[pair.baseline]) for pair in pairs]
        return np.asarray(np.max(moved, axis=0))


def pool_of(inputs: ComparisonInput, options: PoolOptions, progress: Progress | None = None) -> Pooled:
    """The worklist of a comparison.

    The order is random, by the seed, with judged hits in between, so that it reveals nothing. Raises InputError
    where nothing is to label, and where texts or the file of the labels cannot be had.
    """
    pool = Pool(inputs, options.depth)
    new = [hit for hit in pool.unjudged[: options.budget] if hit.weight > _LEAST]
    if not new:
        raise InputError(_nothing(pool, inputs))
    rng = random.Random(options.seed)  # noqa: S311 - not for secrets
    again = rng.sample(pool.judged, min(options.repeated(len(new)), len(pool.judged)))
    order = list(range(len(new) + len(again)))
    rng.shuffle(order)
    worklist = _worklist(inputs, new, again, order, options, "stakes", progress or Silent())
    return Pooled(worklist, len(new), len(again), len(pool.unjudged), pool.depth)


def _worklist(
    inputs: ComparisonInput, new: Sequence[PooledHit], again: Sequence[PooledHit], order: Sequence[int],
    options: PoolOptions, drawn: Drawn, progress: Progress,
) -> Worklist:  # fmt: skip
    """The hits as texts to grade in this order: all that was found of a document, or the longest passage for quotes."""
    report = inputs.report
    target = label_target(report, options.labels, options.config)
    hits = [(hit.row, hit.found) for hit in (*new, *again)]
    items = texts_to_grade(inputs, hits, target.config, progress, quotes=target.form != "document")
    refuse_others(target, items[: len(new)], report)
    return Worklist(
        ragtrial_worklist=1, labels=str(target.file), kind=target.kind, form=target.form, drawn=drawn,
        config=None if target.config is None else str(target.config), report=str(report.folder.absolute()),
        metric=inputs.primary, seed=options.seed, items=[items[place] for place in order],
        highest_grade=max((label.relevance for query in inputs.queries for label in query.relevant_docs), default=0),
    )  # fmt: skip


def _nothing(pool: Pool, inputs: ComparisonInput) -> str:
    if not pool.unjudged:
        return (
            f"nothing is left to label: all hits that the settings have among their first {pool.depth} are judged. "
            "Look deeper with --depth, or add settings or queries."
        )
    return (
        f"no label could change the difference of the settings by {inputs.primary}: they rank the unjudged hits "
        f"({len(pool.unjudged):,} in all) alike. To pool one setting alone, for its score, give this command the "
        f"report {inputs.report.folder}:{inputs.settings[0].part.name}"
    )


def random_pool_of(
    inputs: ComparisonInput, queries: int, options: PoolOptions, progress: Progress | None = None
) -> Pooled:
    """The worklist of ``queries`` random queries that were not drawn before.

    It has all texts that the settings found among their first ``depth``, one query after another in the order of the
    draw, so that some queries are judged whole if the work ends early. Some judged texts are repeated, at least one of
    a query that is judged whole, so that the labels get the tag of the draw. Raises InputError if fewer queries are
    left, and if texts or the file of the labels are missing.
    """
    rankings = JudgedRankings(inputs)
    depth = options.depth or rankings.usual_depth()
    left = [row for row, query in enumerate(inputs.queries) if DRAWN_AT_RANDOM not in query.tags]
    if queries > len(left):
        drawn = len(inputs.queries) - len(left)
        raise InputError(
            f"{counted(queries, 'query', 'queries')} cannot be drawn: the report has {len(inputs.queries):,}, of "
            f"which {drawn:,} were drawn before. Draw at most {len(left):,}, or ask more questions."
        )
    rng = random.Random(options.seed)  # noqa: S311 - not for secrets
    rows = rng.sample(left, queries)
    new, again = _drawn(rankings, rows, depth, options, rng)
    hits, place_of_row = [*new, *again], {row: place for place, row in enumerate(rows)}
    order = sorted(range(len(hits)), key=lambda place: (place_of_row[hits[place].row], rng.random()))
    worklist = _worklist(inputs, new, again, order, options, "random", progress or Silent())
    return Pooled(worklist, len(new), len(again), len(new), depth)


def _drawn(
    rankings: JudgedRankings, rows: Sequence[int], depth: int, options: PoolOptions, rng: random.Random
) -> tuple[list[PooledHit], list[PooledHit]]:
    """The unjudged hits of the drawn queries at ``rows``, and judged hits to repeat."""
    new, judged, again = list[PooledHit](), list[PooledHit](), list[PooledHit]()
    for row in rows:
        unjudged, known = _hits(rankings, row, depth)
        if known and not unjudged:
            again.append(known.pop(rng.randrange(len(known))))
        new += unjudged
        judged += known
    again += rng.sample(judged, min(max(options.repeated(len(new)) - len(again), 0), len(judged)))
    if not new and not again:
        raise InputError(f"the settings found nothing for any of the {counted(len(rows), 'query', 'queries')} drawn.")
    return new, again


def _hits(rankings: JudgedRankings, row: int, depth: int) -> tuple[list[PooledHit], list[PooledHit]]:
    """The unjudged and the judged hits among the first ``depth`` of all settings for the query at ``row``."""
    hits = [PooledHit(row, found, rank) for found, rank in sorted(rankings.best_ranks(row, depth).items())]
    unjudged = [hit for hit in hits if rankings.grade(row, hit.found) is None]
    return unjudged, [hit for hit in hits if hit not in unjudged]


GAP = "\n\n[...]\n\n"
"""The mark between passages of a document that do not meet."""

Wanted = tuple[str, HitKey]
"""The id of a query, and a hit of it."""


Row = Mapping[str, Any]
"""The text of a chunk, as reports have it: ``doc``, ``title``, ``start``, ``end``, ``text``."""


class Stretch(NamedTuple):
    """A text, the characters ``start`` to ``end`` of a document."""

    start: int
    end: int
    text: str


def texts_to_grade(
    inputs: ComparisonInput,
    hits: Sequence[tuple[int, HitKey]],
    config_file: Path | None,
    progress: Progress,
    *,
    quotes: bool = False,
) -> list[TextToGrade]:
    """The text of each hit of the query at a row: all passages that settings found of a document, or one passage.

    With ``quotes`` the longest passage of a document is shown. Raises InputError if texts are missing, LabelsError for
    missing questions.
    """
    wanted = [(inputs.queries[row].id, found) for row, found in hits]
    if not any(is_of_given_runs(setting.report) for setting in inputs.settings):
        texts = _kept(inputs, wanted)
    else:
        texts = _whole_documents(inputs, wanted, config_file, progress)
    questions = _questions_of(inputs, list(dict.fromkeys(row for row, _ in hits)), config_file)
    items = []
    for (row, found), (query, _) in zip(hits, wanted, strict=True):
        stretches = _joined(texts[query, found])
        shown: tuple[int | None, int | None, str] = None, None, GAP.join(stretch.text for stretch in stretches)
        if quotes or not isinstance(found, str):
            shown = max(stretches, key=lambda stretch: stretch.end - stretch.start)
        (start, end, text), first = shown, texts[query, found][0]
        items.append(TextToGrade(query=query, question=questions[row], doc=first["doc"], title=first["title"],
                                 start=start, end=end, text=text))  # fmt: skip
    return items


def _whole_documents(
    inputs: ComparisonInput, wanted: Sequence[Wanted], config_file: Path | None, progress: Progress
) -> dict[Wanted, list[Row]]:
    """The documents of ``config_file`` that given rankings name."""
    report = inputs.report
    if config_file is None:
        raise InputError(
            f"run {report.run_id} was scored from rankings alone, without texts to label. Name a config with the "
            "documents: --config CONFIG."
        )
    library = Corpus(load_config(config_file), progress).library
    missing = sorted({str(found) for _, found in wanted} - library.positions.keys())
    if missing:
        message = f"lacks documents of run {report.run_id} ({listed(missing, 5)}); is it the right config?"
        raise CorpusError(Fault(str(config_file), message=message))
    texts: dict[Wanted, list[Row]] = {}
    for query, found in wanted:
        document = library[library.positions[str(found)]]
        row = {"doc": document.id, "title": document.title, "start": 0, "end": len(document.text)}
        texts[query, found] = [{**row, "text": document.text}]
    return texts


def _questions_of(inputs: ComparisonInput, rows: Sequence[int], config_file: Path | None) -> dict[int, str]:
    """The text of the queries at ``rows``, in the report or else in the labels of ``config_file``."""
    questions = {row: inputs.queries[row].text for row in rows}
    if config_file is not None and not all(questions.values()):
        options = load_config(config_file).dataset
        if options.beir is not None:  # its overlay need not exist
            options = options.model_copy(update={"overlay": None})
        texts = {query.id: query.text for query in load_dataset(options).labels.queries}
        questions = {row: text or texts.get(inputs.queries[row].id, "") for row, text in questions.items()}
    lacking = [inputs.queries[row].id for row, text in questions.items() if not text.strip()]
    if lacking:
        raise LabelsError(
            f"the report does not have the texts of its queries, nor does the config: {listed(lacking, 5)}. Name a "
            "config with them: --config CONFIG."
        )
    return questions


def _kept(inputs: ComparisonInput, wanted: Sequence[Wanted]) -> dict[Wanted, list[Row]]:
    """The passages in the texts of the reports. Raises ReportError if these are damaged."""
    chunks: dict[Wanted, dict[str, Path]] = {key: {} for key in wanted}
    queries = list(dict.fromkeys(query for query, _ in wanted))
    for contender in inputs.settings:
        folder = contender.report.folder
        rows = contender.report.rankings(contender.part.name, queries)
        for query, row in zip(queries, rows, strict=True):
            for chunk, unit in zip(row["chunks"], hits_of_row(row, contender.report.unit), strict=True):
                if (query, unit) in chunks:
                    chunks[query, unit].setdefault(chunk, folder)
    texts: dict[str, dict[str, Any]] = {}
    for folder, report in {setting.report.folder: setting.report for setting in inputs.settings}.items():
        names = {name for folders in chunks.values() for name, where in folders.items() if where == folder}
        texts.update(report.texts(names))
    lacking = {name for names in chunks.values() for name in names} - texts.keys()
    if lacking or not all(chunks.values()):
        place = inputs.report.folder / "texts.jsonl.gz"
        raise ReportError(Fault(str(place), message="is damaged: it lacks what rankings/ name; run it again."))
    return {key: [texts[name] for name in names] for key, names in chunks.items()}


def _joined(rows: Sequence[Row]) -> list[Stretch]:
    """The texts of some chunks of a document, joined if they meet or overlap."""
    joined: list[Stretch] = []
    for start, end, text in sorted(Stretch(row["start"], row["end"], row["text"]) for row in rows):
        last = joined[-1] if joined else None
        if last is None or start > last.end:
            joined.append(Stretch(start, end, text))
        elif end > last.end:
            joined[-1] = Stretch(last.start, end, last.text + text[last.end - start :])
    return joined
