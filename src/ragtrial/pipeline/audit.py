"""What an approximate index loses: its rankings against exact search over the same vectors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from ragtrial.components.stores import Store
from ragtrial.evaluation.evaluators import Evaluation
from ragtrial.pipeline.outcomes import Audited
from ragtrial.pipeline.searching import Retrieved
from ragtrial.rankings import PADDING, Floats, Rankings
from ragtrial.records import Caution
from ragtrial.report.schema import AuditPart

_MOVED = 0.005
"""A change of the primary metric's mean that matters, however large its standard error is."""


def audit(
    found: Retrieved,
    audited: Audited,
    evaluations: Mapping[str, Evaluation],
    exact_evaluations: Mapping[str, Evaluation],
) -> AuditPart:
    """The comparison of a setting's rankings with those of exact search, which ``exact_evaluations`` are of."""
    shares = overlap(found.rankings, audited.scores, audited.exact.rankings)
    known = shares[~np.isnan(shares)]
    means = {
        name: (evaluation.mean.mean, exact_evaluations[name].mean.mean) for name, evaluation in evaluations.items()
    }
    return AuditPart(
        overlap=float(known.mean()) if len(known) else None,
        lowest_overlap=float(known.min()) if len(known) else None,
        queries_that_differ=int((known < 1).sum()),
        unreachable=audited.unreachable,
        lost={name: None if now is None or exact is None else exact - now for name, (now, exact) in means.items()},
    )


def overlap(found: Rankings, scores: Floats, exact: Rankings) -> npt.NDArray[np.float64]:
    """The share of each query's exact hits that was found, in [0, 1], shape (queries,); NaN where there are none.

    ``found`` is compared as a set with ``exact``, which was asked for as many hits. A hit that is not among the exact
    ones counts if its exact score, in ``scores``, is as high as the last of them: of equal ones any may be returned.
    """
    shares = np.full(len(exact), np.nan)
    for row, length in enumerate(exact.lengths.tolist()):
        if length:
            wanted, last = exact.codes[row, :length], float(exact.scores[row, length - 1])
            matches = (found.codes[row] != PADDING) & (np.isin(found.codes[row], wanted) | (scores[row] >= last))
            shares[row] = min(int(matches.sum()), length) / length
    return shares


def audit_cautions(name: str, store: Store, part: AuditPart, primary: str, evaluation: Evaluation) -> Iterator[Caution]:
    """Warnings of the index that ``store`` built for the setting ``name``; ``evaluation`` is of the primary metric."""
    lost = part.lost[primary]
    values = evaluation.values[evaluation.counted]
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else np.inf
    if lost is not None and abs(lost) > min(error, _MOVED):
        more = f"its standard error, {error:.4f}" if error < _MOVED else f"{_MOVED}"
        yield Caution(
            "index-loss",
            f"{name}: the index moves {primary} by {-lost:+.4f} against exact search over the same vectors, which is "
            f"more than {more}. {store.advice_for_low_recall}",
        )
    if part.unreachable:
        yield Caution(
            "unreachable",
            f"{name}: {part.unreachable:,} vectors cannot be reached in the index by any query. "
            f"{store.advice_for_unreachable}",
        )
