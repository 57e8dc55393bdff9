"""Haystack's document evaluators, computed by ragtrial's metrics.

from ragtrial.integrations.haystack import DocumentNDCGEvaluator

Same names, arguments and outputs as in ``haystack.components.evaluators``, and the same numbers wherever those are
defined; ``top_k`` is new and cuts the ranking first. Like there, every query counts in the mean, those without ground
truth with 0; a duplicate takes up a rank and is credited once; ``Document.score`` matters to NDCG alone. Otherwise:

* Values that cannot be hashed (lists and dicts in ``meta``) are compared in all four, not only in MRR and MAP.
* A score below 0 in the ground truth gains 0 and leaves the ideal alone; there it made NDCG exceed 1.
* A score that is no number or infinite is refused; there NDCG was 0 or nan.
* NDCG is always a float, not the int 0, for a query that can gain nothing.
* A field or a mode that does not exist is refused when the component is made, not when it runs, or never.
* A field that no document has is logged as a warning by all four; there by recall alone, once per query.

Needs the extra ``haystack``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Hashable, Sequence
from typing import Any, ClassVar

import numpy as np

from ragtrial.evaluation.evaluators import evaluate
from ragtrial.evaluation.grading import GradedRankings, grade_codes
from ragtrial.evaluation.metrics import Metric
from ragtrial.rankings import PADDING, from_rows
from ragtrial.runs.qrels import Judgments

try:
    from haystack import Document, component, default_to_dict
    from haystack.components.evaluators.document_recall import RecallMode
except ImportError as error:
    raise ImportError(
        "ragtrial.integrations.haystack needs haystack-ai, from version 3 on: pip install 'ragtrial[haystack]'"
    ) from error

__all__ = [
    "DocumentMAPEvaluator",
    "DocumentMRREvaluator",
    "DocumentNDCGEvaluator",
    "DocumentRecallEvaluator",
    "RecallMode",
]

_log = logging.getLogger(__name__)

Gains = dict[Hashable, float]
"""The gain of each ground truth value of one query."""


class _DocumentEvaluator:
    """The common part of the four: everything but the metric."""

    _metric: ClassVar[str]
    """Its name, where that says all."""

    _missing: ClassVar[tuple[Hashable, ...]] = (None,)
    """Values that match nothing."""

    def __init__(self, document_comparison_field: str = "content", *, top_k: int | None = None) -> None:
        """Compare documents by a field, over the first ``top_k`` of each ranking (None: over all of it).

        ``document_comparison_field`` is ``content``, ``id`` or ``meta.<key>``, where a key may go deeper: ``meta.a.b``.
        Raises ValueError for anything else, or a ``top_k`` that is no whole number from 1 on.
        """
        if document_comparison_field not in ("content", "id") and not document_comparison_field.startswith("meta."):
            raise ValueError(
                f"Unsupported document_comparison_field: '{document_comparison_field}'. "
                "Use 'content', 'id', or 'meta.<key>'."
            )
        if top_k is not None and (type(top_k) is not int or top_k < 1):  # True is no number of documents
            raise ValueError(f"top_k is {top_k!r}; it must be a whole number from 1 on, or None for no cut.")
        self.document_comparison_field = document_comparison_field
        self.top_k = top_k

    def to_dict(self) -> dict[str, Any]:
        """The data from which a pipeline rebuilds it."""
        return default_to_dict(self, document_comparison_field=self.document_comparison_field, top_k=self.top_k)

    @component.output_types(score=float, individual_scores=list[float])
    def run(
        self, ground_truth_documents: list[list[Document]], retrieved_documents: list[list[Document]]
    ) -> dict[str, Any]:
        """``individual_scores``, one for each query, and their mean, ``score``.

        Both lists have one list of documents per query; retrieved documents are ordered, best first. Raises ValueError
        where the two are empty or differ in length, or where documents cannot be compared or are scored wrongly.
        """
        if not ground_truth_documents or not retrieved_documents:
            raise ValueError("ground_truth_documents and retrieved_documents must be provided.")
        if len(ground_truth_documents) != len(retrieved_documents):
            raise ValueError("The length of ground_truth_documents and retrieved_documents must be the same.")
        truths = [self._gains(documents, query) for query, documents in enumerate(ground_truth_documents)]
        found = [[self._value(document) for document in documents] for documents in retrieved_documents]
        self._warn_of_missing(truths, found)
        k = self.top_k or max(1, *map(len, [*truths, *found]))
        levels = sorted({gain for gains in truths for gain in gains.values() if gain > 0})
        metric = self._metric_at(k, levels)
        (evaluation,) = evaluate([metric], _graded(truths, found, levels, k), "zero").values()
        return {"score": evaluation.mean.mean, "individual_scores": evaluation.values.tolist()}

    def _metric_at(self, k: int, levels: Sequence[float]) -> Metric:
        """The metric, cut at ``k``, where grade 1 gains the first of ``levels``, grade 2 the second, and so on."""
        return Metric(self._metric, k)

    def _gains(self, documents: Sequence[Document], query: int) -> Gains:
        """The documents to find, each value once, with the same gain."""
        return dict.fromkeys((value for document in documents if (value := self._value(document)) is not None), 1.0)

    def _value(self, document: Document) -> Hashable:
        """The value by which a document is compared, None if it is missing."""
        field = self.document_comparison_field
        if field in ("content", "id"):
            value: object = getattr(document, field)
        else:
            value = document.meta
            for key in field.removeprefix("meta.").split("."):
                value = value.get(key) if isinstance(value, dict) else None
        try:
            comparable = _hashable(value)
        except TypeError:
            raise ValueError(
                f"document {document.id!r}: {field} is a {type(value).__name__}, which cannot be compared; "
                "it must be what JSON can hold: text, a number, a list or a dict."
            ) from None
        return None if comparable in self._missing else comparable

    def _warn_of_missing(self, truths: list[Gains], found: list[list[Hashable]]) -> None:
        without = sum(not gains for gains in truths)
        if without:
            _log.warning(
                "%d of %d queries have no ground truth with a value in %s; each scores 0 and counts in the mean.",
                without,
                len(truths),
                self.document_comparison_field,
            )
        if all(value is None for values in found for value in values):
            _log.warning("No retrieved document has a value in %s; every score is 0.", self.document_comparison_field)


@component
class DocumentMRREvaluator(_DocumentEvaluator):
    """1 / rank of the first ground truth document, and its mean (MRR)."""

    _metric = "rr"


@component
class DocumentMAPEvaluator(_DocumentEvaluator):
    """Average precision over all ground truth documents, and its mean (MAP)."""

    _metric = "ap"


@component
class DocumentRecallEvaluator(_DocumentEvaluator):
    """The share of questions for which any ground truth document is found (``single_hit``), or the share of the
    documents (``multi_hit``).

    Unlike in the other three, an empty text matches nothing.
    """

    _missing = (None, "")

    def __init__(
        self,
        mode: str | RecallMode = RecallMode.SINGLE_HIT,
        document_comparison_field: str = "content",
        *,
        top_k: int | None = None,
    ) -> None:
        """As the other evaluators, with a ``mode``. Raises ValueError also for an unknown metric."""
        _DocumentEvaluator.__init__(self, document_comparison_field, top_k=top_k)
        self.mode = mode if isinstance(mode, RecallMode) else RecallMode.from_str(mode)

    def to_dict(self) -> dict[str, Any]:
        """The data from which a pipeline rebuilds it."""
        return default_to_dict(
            self, mode=str(self.mode), document_comparison_field=self.document_comparison_field, top_k=self.top_k
        )

    def _metric_at(self, k: int, levels: Sequence[float]) -> Metric:
        return Metric("hit_rate" if self.mode is RecallMode.SINGLE_HIT else "recall", k)


@component
class DocumentNDCGEvaluator(_DocumentEvaluator):
    """Discounted cumulative gain divided by the gain of the best order of all ground truth documents, cut at ``top_k``
    like it.

    The gain of a ground truth document is its ``score``, 1 where none of the query's has one.
    """

    def _metric_at(self, k: int, levels: Sequence[float]) -> Metric:
        return Metric("ndcg", k, gains=tuple(enumerate(levels, start=1)))

    def _gains(self, documents: Sequence[Document], query: int) -> Gains:
        """The highest score of each value. Raises ValueError where only some have one, or one is no finite number."""
        scores = [document.score for document in documents if document.score is not None]
        if 0 < len(scores) < len(documents):
            raise ValueError("Either none or all documents in each list of ground_truth_documents must have a score.")
        gains: Gains = {}
        for place, document in enumerate(documents):
            gain = 1.0 if document.score is None else float(document.score)
            if not math.isfinite(gain):
                raise ValueError(
                    f"ground_truth_documents[{query}][{place}] has the score {gain}; it must be a finite number."
                )
            value = self._value(document)
            if value is not None:
                gains[value] = max(gain, gains.get(value, gain))
        return gains


def _hashable(value: object) -> Hashable:
    """A value that can be hashed, equal to another one of its kind where the two values are. Raises TypeError."""
    if isinstance(value, str):  # nearly all are
        return value
    if isinstance(value, dict):
        return dict, frozenset((key, _hashable(inner)) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return list if isinstance(value, list) else tuple, tuple(map(_hashable, value))
    hash(value)
    return value


def _graded(truths: list[Gains], found: list[list[Hashable]], levels: Sequence[float], depth: int) -> GradedRankings:
    """The rankings as ragtrial's metrics see them. A gain has the grade of its level, from 1 on; 0 without one."""
    codes: dict[Hashable, int] = {}
    labels = [codes.setdefault(value, len(codes)) for gains in truths for value in gains]
    rows = []
    for values in found:
        row: dict[int, None] = {}
        for value in values:  # a duplicate keeps its rank, but is no hit any more; nor is a missing value
            code = codes.get(value, PADDING)
            row[len(codes) + len(row) if code in row or code == PADDING else code] = None
        rows.append(list(row))
    grades = [levels.index(gain) + 1 if gain > 0 else 0 for gains in truths for gain in gains.values()]
    starts = np.cumsum([0, *map(len, truths)], dtype=np.int64)
    judgments = Judgments(starts, np.array(grades, dtype=np.int32), np.zeros(len(truths), dtype=np.bool_))
    return grade_codes(from_rows(rows), judgments, np.array(labels, dtype=np.int32), depth)
