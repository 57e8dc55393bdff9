"""What does not fit between a run and its qrels: queries of one that the other lacks, and a guess why."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ragtrial.errors import listed
from ragtrial.records import ReportWarning, WarningCode

MOST_NAMED = 10
_LONGEST_PREFIX = 24


@dataclass(frozen=True)
class Mismatch:
    """Queries of the qrels and of the run, and how far they are the same.

    ``judged`` counts the queries of the qrels, ``retrieved`` those of them that the run has. ``missing_names`` has up
    to ten of the others: they score 0 and are counted. ``unknown`` counts the run's queries without a judgment, which
    are left out; ``unknown_names`` has up to ten of them.
    """

    judged: int
    retrieved: int
    missing_names: tuple[str, ...]
    unknown: int
    unknown_names: tuple[str, ...]

    @property
    def missing(self) -> int:
        return self.judged - self.retrieved


def mismatch_warnings(run: str, mismatch: Mismatch, judged: Collection[str]) -> Iterator[ReportWarning]:
    """What should be known of it; ``judged`` has the ids of the qrels."""
    missing, unknown, both = mismatch.missing, mismatch.unknown, mismatch.retrieved
    if missing:
        yield ReportWarning(
            WarningCode.QUERIES_NOT_RETRIEVED,
            f"{run}: {missing:,} of {mismatch.judged:,} judged queries are missing in the run; they score 0 and are "
            f"counted: {_some(mismatch.missing_names, missing)}.",
        )
    if unknown:
        yield ReportWarning(
            WarningCode.QUERIES_NOT_JUDGED,
            f"{run}: queries of the run without judgments are left out, {unknown:,} in number: "
            f"{_some(mismatch.unknown_names, unknown)}.",
        )
    sizes = mismatch.judged, both + unknown
    if 2 * both < max(sizes) and min(sizes):
        guess = guessed_reason(judged, mismatch.unknown_names)
        yield ReportWarning(
            WarningCode.FEW_QUERIES_MATCH,
            f"{run}: FEWER THAN HALF OF THE QUERIES MATCH: {sizes[0]:,} are judged, {sizes[1]:,} are in the run, "
            f"{both:,} in both. {guess or 'Do the two belong together?'}",
        )


def document_warning(run: str, judged: Collection[str], found: Sequence[str]) -> ReportWarning:
    """What should be known where no hit of a run is judged; ``found`` has some of its documents."""
    names = f"The run has {listed(found, 3)}; the qrels have {listed(islice(judged, 3), 3)}."
    return ReportWarning(
        WarningCode.NO_DOCUMENTS_MATCH,
        f"{run}: NOT ONE HIT IS JUDGED: no document of the run is in the qrels of its query, so all is 0. "
        f"{guessed_reason(judged, found) or names}",
    )


_RULES: tuple[tuple[str, Callable[[str], str]], ...] = (
    ("white space around them", str.strip),
    ("upper and lower case", str.lower),
    ("zeros before the number", lambda name: re.sub(r"0*(\d+)$", r"\1", name)),
    ("numbers that were written as decimals, like 7.0 for 7", lambda name: re.sub(r"(?<=.)\.0*$", "", name)),
)
"""By what ids differ that are the same after a change."""


def guessed_reason(judged: Collection[str], unknown: Sequence[str]) -> str:
    """A sentence that says how ids of ``unknown`` would be ids of ``judged``; nothing if no rule is found."""
    names = dict.fromkeys(judged)
    for what, rule in _RULES:
        plain = {rule(name): name for name in names}
        pairs = [(name, plain[rule(name)]) for name in unknown if rule(name) in plain]
        if 2 * len(pairs) >= len(unknown) and pairs:
            return f"The ids differ by {what}: {pairs[0][0]!r} in the run, {pairs[0][1]!r} in the qrels."
    for whose, longer, shorter in (("run", unknown, names), ("qrels", names, dict.fromkeys(unknown))):
        cuts = ((name[:cut], name[cut:]) for name in longer for cut in range(1, min(len(name), _LONGEST_PREFIX)))
        ends = [(prefix, end) for prefix, end in cuts if end in shorter]
        for prefix, count in Counter(prefix for prefix, _ in ends).most_common(1):
            if 2 * count >= len(unknown):
                plain_id = next(end for start, end in ends if start == prefix)
                return f"The ids of the {whose} have {prefix!r} before them: {prefix + plain_id!r} for {plain_id!r}."
    return ""


def _some(names: Sequence[str], count: int) -> str:
    rest = count - len(names)
    return listed(names, MOST_NAMED) + (f", and {rest:,} more" if rest > 0 else "")
