"""Which queries settings are chosen by, and which are held out for the verdict."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES
from ragtrial.config.search_options import SearchOptions
from ragtrial.errors import Fault, LabelsError, did_you_mean, listed
from ragtrial.records import Query


@dataclass(frozen=True)
class Split:
    """The ids of the queries that are searched by, and of those that are held out, in the order of the labels."""

    searched: tuple[str, ...]
    held_out: tuple[str, ...]

    @property
    def judging(self) -> tuple[str, ...]:
        """Those that decide the verdict: held out, or all where none is."""
        return self.held_out or self.searched


def split_queries(queries: Sequence[Query], options: SearchOptions, seed: int, file: str) -> Split:
    """Hold out a share of ``queries``, drawn with ``seed``, or those with a tag.

    Queries without relevant documents count for neither side. Raises LabelsError where a side has too few to compare
    anything by.
    """
    counted = [query for query in queries if query.relevant_docs]
    if isinstance(options.held_out, list):
        held = _tagged(counted, options.held_out, file)
    elif options.held_out is None:
        held = set()
    else:
        held = _drawn(counted, options.held_out, seed, by_document=options.group_by == "document")
    searched = tuple(query.id for query in counted if query.id not in held)
    held_out = tuple(query.id for query in counted if query.id in held)
    if options.held_out is not None and min(len(searched), len(held_out)) < LEAST_DIFFERENCES:
        largest = max(map(len, _groups(counted))) if options.group_by else 0
        of_group = f" {largest} queries have documents in common and stay together (group_by)." if largest else ""
        message = (
            f"search.held_out leaves {len(searched)} queries to search by and {len(held_out)} for the verdict; each "
            f"takes at least {LEAST_DIFFERENCES}.{of_group} Change the share, label more, or use method: random "
            "without it."
        )
        raise LabelsError(Fault(file, message=message))
    return Split(searched, held_out)


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


def _drawn(queries: Sequence[Query], share: float, seed: int, *, by_document: bool) -> set[str]:
    """Groups at random, as long as they fit into the share."""
    groups = _groups(queries) if by_document else [[query.id] for query in queries]
    random.Random(seed).shuffle(groups)  # noqa: S311 - not a secret
    wanted, held = round(share * len(queries)), set[str]()
    for group in groups:
        if len(held) + len(group) <= wanted:
            held.update(group)
    return held


def _groups(queries: Sequence[Query]) -> list[list[str]]:
    """The ids of queries that have relevant documents in common, directly or by way of others."""
    group_of: dict[str, list[str]] = {}
    for query in queries:
        documents = [judgment.doc for judgment in query.relevant_docs]
        met = {id(group_of[doc]): group_of[doc] for doc in documents if doc in group_of}
        group = [name for one in met.values() for name in one] + [query.id]
        merged = {doc for doc, one in group_of.items() if id(one) in met}
        group_of |= dict.fromkeys([*merged, *documents], group)
    return list({id(group): group for group in group_of.values()}.values())
