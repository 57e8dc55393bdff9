"""Screening: settings are tried on some of the documents, and what that says of their scores on all."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ragtrial.config.search_options import ScreenOptions
from ragtrial.dataset.library import document_samples
from ragtrial.errors import ConfigError
from ragtrial.evaluator import RetrievalEvaluator
from ragtrial.search.parts import ScreenedPart, ScreenPart
from ragtrial.search.session import Session, Trial


def screened(evaluator: RetrievalEvaluator, options: ScreenOptions) -> RetrievalEvaluator:
    """``evaluator`` over all judged documents and others at random. Raises ConfigError where there are too few."""
    corpus, seed, wanted = evaluator.corpus, evaluator.config.seed, options.documents
    samples = document_samples(corpus.library, evaluator.resolved.labels.queries, seed)
    found = f"search.screen.documents is {wanted:,}"
    message = ""
    if wanted >= len(corpus.library):
        message = f"{found}, and the corpus has {len(corpus.library):,} documents; remove screen."
    elif wanted <= len(samples.judged):
        message = f"{found}, and must be above {len(samples.judged):,}, the number of judged documents."
    if message:
        raise ConfigError(evaluator.config.fault_at(("search", "screen", "documents"), message))
    return evaluator.among(samples.of(wanted - len(samples.judged)))


def screen_part(session: Session) -> ScreenPart | None:
    """How far the scores of settings on some documents agree with those on all; None without a screen."""
    first = {trial.setting.key: trial for trial in session.trials if trial.is_screened}
    both = [(first[one.setting.key], one) for one in session.trials if one.setting.key in first and not one.is_screened]
    if not first:
        return None
    pairs = [(one.mean, other.mean) for one, other in both if not math.isnan(one.mean + other.mean)]
    changes = [one - other for one, other in pairs]
    return ScreenPart(
        documents=next(iter(first.values())).documents,
        of=max((one.documents for one in session.trials if not one.is_screened), default=0),
        settings=[
            ScreenedPart(setting=other.setting.name, screened=_known(one), whole=_known(other)) for one, other in both
        ],
        tau=_tau(pairs),
        difference=float(np.mean(changes)) if changes else None,
        lowest=min(changes, default=None),
        highest=max(changes, default=None),
    )


def _known(trial: Trial) -> float | None:
    return None if math.isnan(trial.mean) else trial.mean


def _tau(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Kendall's tau-b; None for fewer than two settings, or where one side ranks all alike."""
    from scipy.stats import kendalltau

    if len(pairs) < 2:
        return None
    found = float(kendalltau(*zip(*pairs, strict=True)).statistic)
    return None if math.isnan(found) else found
