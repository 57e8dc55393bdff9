"""Metrics of the documents among the first k, or of all retrieved documents, independent of their order."""

from __future__ import annotations

import numpy as np

from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics.base import Alias, Formulas, HitCount, metric, ratio
from ragtrial.rankings import Counts

_MANNING = "Manning, Raghavan & Schuetze 2008, Introduction to Information Retrieval, section 8"
_R = "R, the relevant documents of the query, retrieved or not"


class OrderUnawareMetrics(Formulas):
    """Every method but the counts gives one float64 in [0, 1] per query, 0 where nothing is relevant; (queries,).

    Every method raises CutoffError if ``k`` exceeds the depth that was retrieved.
    """

    @metric(
        "order_unaware", "relevant", "relevant hits in the first k / k", f"{_MANNING}.4",
        spans="chunks among the first k that overlap a relevant passage / k",
        aliases=("p", "prec"),
        prefers="relevant", standard=True, divides_by_k=True, columns={"document": 6, "span": 9},
        structure=HitCount(lambda metric, _: np.array(metric.k)),
        denominator="k, even where fewer were retrieved",
        edges=("with R < k even a perfect ranking scores R / k",),
        elsewhere={
            "trec_eval": "P_{k}", "ir_measures": "P@{k}", "ranx": "precision@{k}", "BEIR": "P@{k}",
            "MTEB": "precision_at_{k}",
        },
        unlike=("trec_eval -M k -m set_P divides by the hits there are",),
    )  # fmt: skip
    def precision(self, k: int) -> Scores:
        """Share of the first ``k`` hits that are relevant; fewer than ``k`` still divide by ``k``, as trec_eval's P_k.

        Source: Manning, Raghavan & Schuetze 2008, section 8.4.
        """
        return ratio(self._graded.relevant_units(k), np.float64(k))

    @metric(
        "order_unaware", "relevant", "relevant hits in the first k / R, the relevant documents of the query",
        f"{_MANNING}.4", aliases=("r",),
        spans="relevant passages found in the first k chunks / R, the relevant passages of the query",
        prefers="relevant", standard=True, columns={"document": 2, "span": 2},
        structure=HitCount(lambda _metric, relevant: relevant),
        denominator=_R,
        edges=("with R > k even a perfect ranking scores k / R; capped_recall@k divides by min(k, R)",),
        elsewhere={
            "trec_eval": "recall_{k}", "ir_measures": "R@{k}", "ranx": "recall@{k}", "BEIR": "Recall@{k}",
            "MTEB": "recall_at_{k}",
        },
        unlike=("Haystack's DocumentRecallEvaluator is a hit rate unless its mode is multi_hit",),
    )  # fmt: skip
    def recall(self, k: int) -> Scores:
        """Share of the query's relevant documents that are among the first ``k`` hits; trec_eval's recall_k.

        Source: Manning, Raghavan & Schuetze 2008, section 8.4.
        """
        return ratio(self._found(k), self._groups.relevant_counts)

    @metric(
        "order_unaware", "relevant", "relevant hits in the first k / min(k, R)",
        "Thakur et al. 2021, BEIR, appendix; trec_eval's relative_P_k",
        aliases=(Alias("relative_p", cut="required"), Alias("r_cap", cut="required")),
        prefers="relevant",
        structure=HitCount(lambda metric, relevant: np.minimum(relevant, metric.k or 1)),
        denominator="the most relevant hits that the first k can hold",
        elsewhere={"trec_eval": "relative_P_{k}", "BEIR": "R_cap@{k}"},
        unlike=("BEIR's R_cap breaks off at a query without relevant documents; here it has no value",),
    )  # fmt: skip
    def capped_recall(self, k: int) -> Scores:
        """Relevant hits among the first ``k`` over as many as ``k`` hits can hold, 1 for every perfect ranking.

        Precision while k <= R, recall from there on. Source: Thakur et al. 2021, BEIR.
        """
        return ratio(self._found(k), np.minimum(self._groups.relevant_counts, k))

    @metric(
        "order_unaware", "relevant", "2 x precision@k x recall@k / (precision@k + recall@k)",
        "van Rijsbergen 1979, Information Retrieval, chapter 7", aliases=("f", "f_score", "f1_score"),
        spans="2 x precision@k x recall@k / (precision@k + recall@k), precision of chunks and recall of passages",
        prefers="relevant", standard=True, divides_by_k=True,
        structure=HitCount(lambda metric, relevant: (relevant + (metric.k or 1)) / 2),
        denominator="k + R",
        edges=("equal to 2 x relevant hits / (k + R), where documents are found",),
        elsewhere={"ranx": "f1@{k}"},
        unlike=("trec_eval -M k -m set_F takes the precision of the hits there are, not of k",),
    )  # fmt: skip
    def f1(self, k: int) -> Scores:
        """Harmonic mean of ``precision(k)`` and ``recall(k)``; not trec_eval's set_F, which has no cutoff.

        Source: van Rijsbergen 1979, chapter 7.
        """
        precision, recall = self.precision(k), self.recall(k)
        product, total = np.asarray(2 * precision * recall), np.asarray(precision + recall)
        return ratio(product, total)

    @metric(
        "order_unaware", "relevant", "1 if all R relevant documents are among the first k hits, else 0",
        "recall@k = 1, as the questions of several hops need it (Yang et al. 2018, HotpotQA, EMNLP)",
        spans="1 if all relevant passages are found in the first k chunks, else 0",
        prefers="relevant", standard=True, labels="groups",
        gain="1 for a relevant group of labels with a member in the first k, else 0",
        edges=("with R > k even a perfect ranking scores 0", "alternatives (one group of labels) are needed once"),
    )  # fmt: skip
    def complete(self, k: int) -> Scores:
        """1 where each group of relevant labels has a member among the first ``k`` hits, else 0."""
        needed = self._groups.relevant_counts
        return np.asarray((self._found(k) == needed) & (needed > 0), dtype=np.float64)

    @metric(
        "order_unaware", "forbidden", "1 if any of the first k hits has a grade below 0, else 0",
        "labels that say what must not be found: superseded, or of another tenant", condensable=False,
        spans="1 if any of the first k chunks overlaps a passage with a grade below 0, else 0",
        better="lower", standard=True, labels="forbidden",
        gain="1 for a hit with a grade below 0, else 0",
        edges=("under trec_compat a grade below 0 means that nobody judged, and no query counts",),
    )  # fmt: skip
    def forbidden(self, k: int) -> Scores:
        """1 where any of the first ``k`` hits has a grade below 0, else 0; lower is better."""
        return np.minimum(self._graded.forbidden_units(k), 1.0)

    @metric(
        "order_unaware", "relevant", "1 if any of the first k hits is relevant, else 0",
        "trec_eval, success_k", aliases=("hit", "success", "accuracy"),
        spans="1 if any relevant passage is found in the first k chunks, else 0",
        prefers="relevant", standard=True, columns={"document": 3, "span": 3},
        elsewhere={
            "trec_eval": "success_{k}", "ir_measures": "Success@{k}", "ranx": "hit_rate@{k}",
            "BEIR": "Accuracy@{k}",
        },
        unlike=("ranx's hits@k counts relevant hits", "ir_measures' Accuracy counts pairs in the right order"),
    )  # fmt: skip
    def hit_rate(self, k: int) -> Scores:
        """1 where any of the first ``k`` hits is relevant, else 0; trec_eval's success_k."""
        return np.minimum(self._found(k), 1.0)

    def _found(self, k: int | None) -> Counts:
        """Relevant groups with a member among the first ``k`` hits, shape (queries,)."""
        return self._groups.count(self._groups.relevant & self._groups.within(k))
