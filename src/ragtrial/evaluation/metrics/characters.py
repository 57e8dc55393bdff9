"""Metrics of relevant text: how much of it the first k chunks have, and how much else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np

from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics.base import Formulas, MetricParameter, metric, ratio
from ragtrial.evaluation.spans import CoveredText, Overlaps
from ragtrial.rankings import Counts

_SMITH = "Smith & Troynikov 2024, Evaluating Chunking Strategies for Retrieval, Chroma Technical Report"
_RELEVANT = "1 for a character of a relevant passage, counted once, else 0"
_ALTERNATIVES = "of a passage that is in several places, the place that is found in the first k chunks counts"
_UNIT = "the report speaks of tokens, its code and this count characters"


def _of_text(
    formula: str,
    denominator: str,
    *edges: str,
    alternatives: str = _ALTERNATIVES,
    unlike: tuple[str, ...] = (),
    **more: Any,
) -> Callable[..., Any]:
    """The decorator of a metric of characters, which is defined only where passages are found in chunks."""
    return metric(
        "order_unaware", "relevant", formula, _SMITH, condensable=False, spans=formula, documents=False, standard=True,
        gain=_RELEVANT, denominator=denominator, edges=(*edges, alternatives), unlike=(_UNIT, *unlike), **more,
    )  # fmt: skip


class CharacterMetrics(Formulas):
    """Every method gives one float64 in [0, 1] per query, shape (queries,), 0 where nothing is relevant.

    They are defined for rankings of chunks alone. Characters that are in several passages, or in several chunks, are
    relevant, and found, once.
    """

    @_of_text(
        "relevant characters in the first k chunks / relevant characters",
        "all characters of relevant passages, each once",
        "characters that several chunks repeat count once",
        unlike=("the code of the report adds up the lengths of passages that overlap, and cannot reach 1 then",),
        columns={"span": 5},
    )
    def span_recall(self, k: int) -> Scores:
        """Share of the relevant characters that are in the first ``k`` chunks.

        Source: Smith & Troynikov 2024, section Metrics.
        """
        text = self._text(k)
        return ratio(text.covered(k), text.totals)

    @_of_text(
        "relevant characters in the first k chunks / characters in the first k chunks",
        "the characters of the first k chunks, those that are repeated as often as they are",
        "characters that several chunks repeat count against it",
        "0 where nothing was retrieved",
        columns={"span": 6},
    )
    def span_precision(self, k: int) -> Scores:
        """Share of the characters of the first ``k`` chunks that are relevant, and not in a chunk above.

        Source: Smith & Troynikov 2024, section Metrics.
        """
        return ratio(self._text(k).covered(k), self._characters(k))

    @_of_text(
        "relevant characters in the first k chunks / (characters in those chunks + relevant ones in none of them)",
        "the characters of the first k chunks, as often as they are repeated, and the relevant ones that are missing",
        "characters that several chunks repeat count against it",
        columns={"span": 7},
    )
    def span_iou(self, k: int) -> Scores:
        """Intersection over union of retrieved and relevant text, in characters.

        Source: Smith & Troynikov 2024, section Metrics.
        """
        text = self._text(k)
        covered = text.covered(k)
        return ratio(covered, self._characters(k) + text.totals - covered)

    @_of_text(
        "relevant characters / characters, both in all chunks that have a relevant character, each character once",
        "the characters of all chunks with a relevant one, each once",
        "the precision of a retriever that returns these chunks and no others: what the chunks allow",
        "no retriever plays a part",
        alternatives="of a passage that is in several places, all are relevant",
        unlike=(
            "the report's code counts chunks that only touch a passage, too, and divides by the relevant characters "
            "of no chunk as well: touching=true",
            "that code places a chunk whose text is in several places at the first of them",
        ),
        cut="none", of_chunks=True, parameters={"touching": MetricParameter(default=False)},
    )  # fmt: skip
    def span_precision_ceiling(self, *, touching: bool = False) -> Scores:
        """Precision in characters if every chunk with relevant text were retrieved: the report's precision-omega.

        With ``touching``, chunks that only touch a relevant passage are among them, and relevant characters that are in
        no chunk are divided by, too, as in the code behind the report's table. Not defined, and 0, where not all chunks
        are known. Source: Smith & Troynikov 2024, section Metrics.
        """
        if not self._overlaps.is_whole:
            return np.zeros(len(self._graded))
        return self._overlaps.ceilings(self._graded.threshold, touching=touching)

    @property
    def _overlaps(self) -> Overlaps:
        return cast("Overlaps", self._graded.overlaps)  # a metric is computed after ``check_unit``

    def _text(self, k: int) -> CoveredText:
        """The relevant characters in the first ``k`` chunks. Raises CutoffError as ``within`` does."""
        self._graded.within(k)
        return self._overlaps.text(self._graded.threshold, k)

    def _characters(self, k: int) -> Counts:
        """Characters of the first ``k`` chunks, shape (queries,)."""
        self._graded.within(k)
        retrieved = self._overlaps.retrieved
        return np.asarray(retrieved[:, min(k, retrieved.shape[1] - 1)])
