"""What does not fit between a run and its qrels: queries of one that the other lacks, and a guess why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from ragtrial.errors import listed
from ragtrial.records import ReportWarning, WarningCode

MOST_NAMED = 10


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
    if mismatch.missing:
        yield ReportWarning(
            WarningCode.QUERIES_NOT_RETRIEVED,
            f"{run}: {_of(mismatch.missing, mismatch.judged)} judged queries are missing in the run; they score 0 and "
            f"are counted: {_some(mismatch.missing_names, mismatch.missing)}.",
        )
    if mismatch.unknown:
        yield ReportWarning(
            WarningCode.QUERIES_NOT_JUDGED,
            f"{run}: queries of the run without judgments are left out, {mismatch.unknown:,} in number: "
            f"{_some(mismatch.unknown_names, mismatch.unknown)}.",
        )
    smaller = min(mismatch.judged, mismatch.retrieved + mismatch.unknown)
    if 2 * mismatch.retrieved < max(mismatch.judged, mismatch.retrieved + mismatch.unknown) and smaller:
        guess = guessed_reason(judged, mismatch.unknown_names)
        yield ReportWarning(
            WarningCode.FEW_QUERIES_MATCH,
            f"{run}: FEWER THAN HALF OF THE QUERIES MATCH: {mismatch.judged:,} are judged, "
            f"{mismatch.retrieved + mismatch.unknown:,} are in the run, {mismatch.retrieved:,} in both. "
            f"{guess or 'Do the two belong together?'}",
        )


def document_warnings(run: str, judged: Collection[str], found: Sequence[str]) -> Iterator[ReportWarning]:
    """What should be known where no hit of a run is judged; ``found`` has some of its documents."""
    guess = guessed_reason(judged, found)
    names = f"The run has {listed(found, 3)}; the qrels have {listed(islice(judged, 3), 3)}."
    yield ReportWarning(
        WarningCode.NO_DOCUMENTS_MATCH,
        f"{run}: NOT ONE HIT IS JUDGED: no document of the run is in the qrels of its query, so all is 0. "
        f"{guess or names}",
    )


def guessed_reason(judged: Collection[str], unknown: Sequence[str]) -> str:
    """A sentence that says how ids of ``unknown`` would be ids of ``judged``; nothing if no rule is found."""
    names = set(judged)
    rules: tuple[tuple[Callable[[str], str], str], ...] = (
        (str.strip, "white space around them"),
        (str.lower, "upper and lower case"),
        (_without_zeros, "zeros before the number"),
        (_as_whole_number, "numbers that were written as decimals, like 7.0 for 7"),
    )
    for rule, what in rules:
        plain = {rule(name): name for name in names}
        pairs = [(name, plain[rule(name)]) for name in unknown if rule(name) in plain]
        if 2 * len(pairs) >= len(unknown) and pairs:
            return f"The ids differ by {what}: {pairs[0][0]!r} in the run, {pairs[0][1]!r} in the qrels."
    return _prefix(names, unknown)


def _prefix(judged: set[str], unknown: Sequence[str]) -> str:
    """The text that most ids of one side have before them, if half of them have it."""
    before = Counter(name[:cut] for name in unknown for cut in range(1, len(name)) if name[cut:] in judged)
    for prefix, count in before.most_common(1):
        if 2 * count >= len(unknown):
            name = next(name for name in unknown if name.startswith(prefix) and name[len(prefix) :] in judged)
            plain = name[len(prefix) :]
            return f"The run's ids have {prefix!r} before them: {name!r} in the run, {plain!r} in the qrels."
    wanted = set(unknown)
    ends = [(name[:cut], name[cut:]) for name in judged for cut in range(1, min(len(name), 24)) if name[cut:] in wanted]
    for prefix, count in Counter(start for start, _ in ends).most_common(1):
        if 2 * count >= len(unknown):
            known = {end for start, end in ends if start == prefix}
            plain = next(name for name in unknown if name in known)
            return f"The ids of the qrels have {prefix!r} before them: {plain!r} in the run, {prefix + plain!r} there."
    return ""


def _without_zeros(name: str) -> str:
    head = name.rstrip("0123456789")
    digits = name[len(head) :]
    return head + (digits.lstrip("0") or "0") if digits else name


def _as_whole_number(name: str) -> str:
    whole, point, fraction = name.partition(".")
    return whole if point and whole and not fraction.strip("0") else name


def _of(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,}" if part < whole else f"all {whole:,}"


def _some(names: Sequence[str], count: int) -> str:
    rest = count - len(names)
    return listed(names, MOST_NAMED) + (f", and {rest:,} more" if rest > 0 else "")
