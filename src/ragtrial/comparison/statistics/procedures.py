"""The procedures that can be asked for: what each does, what speaks against it, and where it is from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragtrial.comparison.statistics.flips import infer, infer_stepping_down
from ragtrial.comparison.statistics.paired import infer_bootstrap, infer_t_bh, infer_t_holm, infer_wilcoxon
from ragtrial.comparison.statistics.samples import Family, Inference, Procedure, Sample
from ragtrial.errors import ReportError, did_you_mean, listed


def _each(
    infers: Callable[[Sample, Procedure], Inference],
) -> Callable[[Sequence[Family], Procedure], list[Inference]]:
    """A procedure that looks at each family by itself."""
    return lambda families, procedure: [infers(Sample(family), procedure) for family in families]


@dataclass(frozen=True)
class ProcedureCard:
    """What a reader must know of a procedure; ``infers`` is the procedure itself.

    ``is_simultaneous``: its level is that of any wrong claim among all comparisons of a metric, not of each.
    ``draws``: what it draws at random as often as flips are asked for, where that is no flips; nothing where it draws
    none.
    """

    name: str
    sentence: str
    caveat: str
    source: str
    infers: Callable[[Sequence[Family], Procedure], list[Inference]]
    is_simultaneous: bool = True
    draws: str = ""


DEFAULT = "max-t"
FLIPPED = ("max-t", "step-down")
"""Those that flip signs."""

PROCEDURES = {
    card.name: card
    for card in (
        ProcedureCard(
            "max-t",
            "Studentised sign flips, the same for all comparisons; p and simultaneous intervals from their maxima.",
            "It assumes that queries are independent, and that of settings that are equally good either might as well "
            "have won a query by as much as it lost it.",
            "Westfall & Young 1993, chapter 2; Fisher 1935",
            infer,
        ),
        ProcedureCard(
            "step-down",
            "As max-t, but after each claim the largest of those that are left: more claims at the same level.",
            "A claim may stand beside an interval that has 0 in it: the intervals are those of max-t.",
            "Westfall & Young 1993, section 2.6",
            infer_stepping_down,
        ),
        ProcedureCard(
            "t-holm",
            "Paired t tests with Holm's correction, and t intervals with Bonferroni's.",
            "It is blind to what comparisons have in common, so near-clones cost it power; a claim may stand beside an "
            "interval that has 0 in it.",
            "Student 1908; Holm 1979; Smucker, Allan & Carterette 2007",
            _each(infer_t_holm),
        ),
        ProcedureCard(
            "bootstrap",
            "BCa bootstrap intervals of each comparison by itself, without p.",
            "It is not corrected for the number of comparisons, and below some hundred queries the intervals hold less "
            "often than they say.",
            "Efron 1987; Sakai 2006",
            _each(infer_bootstrap),
            is_simultaneous=False,
            draws="resamples",
        ),
        ProcedureCard(
            "wilcoxon",
            "Wilcoxon's signed-rank tests (zeros as Pratt has them) with Holm's correction, without intervals.",
            "It tests ranks, not the mean that the table shows; with skewed differences the two may disagree.",
            "Wilcoxon 1945; Pratt 1959; Holm 1979",
            _each(infer_wilcoxon),
        ),
        ProcedureCard(
            "bh",
            "Paired t tests with Benjamini and Hochberg's correction, and the intervals that go with it.",
            "For exploration: of the differences it claims, one of twenty may be wrong at level 0.05.",
            "Benjamini & Hochberg 1995; Benjamini & Yekutieli 2005",
            _each(infer_t_bh),
            is_simultaneous=False,
        ),
    )
}


def infer_by(name: str, families: Sequence[Family], procedure: Procedure) -> list[Inference]:
    """What the procedure called ``name`` says. Raises ReportError with those that there are."""
    if name not in PROCEDURES:
        near = did_you_mean(name, list(PROCEDURES))
        raise ReportError(f"no procedure is called {name!r}.{near} There are: {listed(list(PROCEDURES))}.")
    return PROCEDURES[name].infers(families, procedure)
