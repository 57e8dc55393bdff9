"""The queries that choose settings, the queries that are held out for the verdict, and their power."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.comparison.statistics.estimates import detectable_difference, queries_for
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, Procedure
from ragtrial.config.sweep import SearchOptions
from ragtrial.errors import Fault, LabelsError, counted, did_you_mean, listed
from ragtrial.evaluation.clusters import Places, clusters_of
from ragtrial.pipeline.run import Run
from ragtrial.records import Query

USUAL_DEVIATION = 0.2
"""The standard deviation of the differences of two settings in nDCG@10 by query, on public data sets."""

_SETTLES = 0.05
"""A difference that is worth a search."""


@dataclass(frozen=True)
class Split:
    """The ids of the queries to search by, and of the held-out queries, in the order of the labels."""

    searched: tuple[str, ...]
    held_out: tuple[str, ...]
    is_clustered: bool = False

    @property
    def judging(self) -> tuple[str, ...]:
        """The queries that decide the verdict: the held-out queries, or all if none are."""
        return self.held_out or self.searched


def split_of(run: Run, options: SearchOptions) -> Split:
    """The split of the labels of ``run``, whose config says whether documents make clusters."""
    by_document = run.config.evaluators.clusters == "document"
    labels, file = run.resolved.labels, run.dataset.labels_file
    return split_queries(labels.queries, options, run.config.seed, file, by_document=by_document)


def split_queries(
    queries: Sequence[Query], options: SearchOptions, seed: int, file: str, *, by_document: bool = False
) -> Split:
    """Hold out a share of ``queries``, drawn with ``seed``, or the queries with a tag.

    The queries of a cluster stay on one side of a share; ``by_document`` is as in ``clusters_of``. Queries without
    relevant documents count for neither side. Raises LabelsError if a side has too few queries to compare anything by.
    """
    counted_queries = [query for query in queries if query.relevant_docs]
    clusters = clusters_of(counted_queries, by_document=by_document or options.group_by == "document")
    if isinstance(options.held_out, list):
        held_ids = _tagged(counted_queries, options.held_out, file)
    elif options.held_out is None:
        held_ids = set()
    else:
        held_ids = _drawn(counted_queries, options.held_out, seed, clusters)
    searched = tuple(query.id for query in counted_queries if query.id not in held_ids)
    held_out = tuple(query.id for query in counted_queries if query.id in held_ids)
    if options.held_out is not None and min(len(searched), len(held_out)) < LEAST_DIFFERENCES:
        largest = 0 if clusters is None else int(np.bincount(clusters).max())
        of_group = f" The largest cluster has {largest} queries, which stay together." if largest else ""
        message = (
            f"search.held_out leaves {len(searched)} queries to search by and {len(held_out)} for the verdict; each "
            f"takes at least {LEAST_DIFFERENCES}.{of_group} Change the share, label more, or use method: random "
            "without it."
        )
        raise LabelsError(Fault(file, message=message))
    return Split(searched, held_out, clusters is not None)


def detectable_with(queries: int, comparisons: int, deviation: float = USUAL_DEVIATION) -> float:
    """The difference that a verdict on ``queries`` detects with 80% power, corrected for ``comparisons``."""
    from scipy.special import stdtrit

    critical = np.array([-stdtrit(queries - 1, Procedure().with_bonferroni(comparisons).level / 2)])
    return float(detectable_difference(np.array([deviation]), np.array([queries]), critical)[0])


def power_sentence(split: Split, options: SearchOptions) -> str:
    """The difference from the baseline that can be shown, and how to show smaller differences."""
    n, held_out = len(split.judging), bool(split.held_out)
    detectable = detectable_with(n, 1 if held_out else options.settings)
    corrected = f"{counted(n, 'question')}, and corrected for {options.settings} settings,"
    by = f"{n} held-out questions" if held_out else corrected
    sentence = f"With {by} a difference from the baseline of about {detectable:.2f} can be shown"
    sentence += " (with 80% power, at a typical spread)."
    sentence += " Questions that belong together count for less, so it may take a larger one." * split.is_clustered
    needed = queries_for(_SETTLES, np.array([USUAL_DEVIATION]), np.array([Procedure().level]))[0] - n
    if not held_out or needed <= 0:
        return sentence
    return f"{sentence} To see smaller ones, hold out about {needed:.0f} more to show {_SETTLES:g}."


def _tagged(queries: Sequence[Query], tags: Sequence[str], file: str) -> set[str]:
    known = sorted({tag for query in queries for tag in query.tags})
    faults = [
        Fault(file, message=f"no query has the tag {tag!r} of search.held_out.{did_you_mean(tag, known)} "
              f"Tags: {listed(known) or 'none'}.")
        for tag in tags
        if tag not in known
    ]  # fmt: skip
    if faults:
        raise LabelsError(*faults)
    return {query.id for query in queries if not set(tags).isdisjoint(query.tags)}


def _drawn(queries: Sequence[Query], share: float, seed: int, clusters: Places | None) -> set[str]:
    """Random clusters, as long as they fit into the share."""
    groups: list[list[str]] = [[] for _ in queries]
    for cluster, query in zip(range(len(queries)) if clusters is None else clusters.tolist(), queries, strict=True):
        groups[cluster].append(query.id)
    groups = [group for group in groups if group]
    random.Random(seed).shuffle(groups)  # noqa: S311 - not a secret
    wanted, drawn = round(share * len(queries)), set[str]()
    for group in groups:
        if len(drawn) + len(group) <= wanted:
            drawn.update(group)
    return drawn
