"""The procedures that can be asked for: what each does, what speaks against it, and where it is from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtrial.comparison.flips import Family, Inference, Procedure, infer
from ragtrial.errors import ReportError, did_you_mean, listed

Way = Callable[[Sequence[Family], Procedure], list[Inference]]


@dataclass(frozen=True)
class ProcedureCard:
    """What a reader must know of a procedure; ``infers`` is the procedure itself."""

    name: str
    sentence: str
    caveat: str
    source: str
    infers: Way


DEFAULT = "max-t"

PROCEDURES = {
    card.name: card
    for card in (
        ProcedureCard(
            "max-t",
            "Studentised sign flips, the same for all comparisons; the largest of each flip gives p and interval.",
            "",
            "Westfall & Young 1993, chapter 2",
            infer,
        ),
    )
}


def infer_by(name: str, families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """What the procedure called ``name`` says. Raises ReportError with those that there are."""
    if name not in PROCEDURES:
        near = did_you_mean(name, list(PROCEDURES))
        raise ReportError(f"no procedure is called {name!r}.{near} There are: {listed(list(PROCEDURES))}.")
    return PROCEDURES[name].infers(families, procedure)
