"""Metrics of where the relevant documents are in the ranking."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import base
from ragtrial.evaluation.metrics.base import Alias, WeightedSum, metric, ratio

_BUCKLEY = "Buckley & Voorhees 2005, TREC: Experiment and Evaluation in IR, chapter 3"
_MOFFAT = "Moffat & Zobel 2008, Rank-Biased Precision, ACM TOIS 27(1)"
_PERSISTENCE = {"p": base.MetricParameter(0.8, 0, 1, always=True)}

EPSILON = 1e-5
"""Keeps inferred precision defined if no hit above is judged, as in trec_eval."""


def _persistence(metric: base.Metric, ranks: npt.NDArray[Any]) -> Scores:
    p = float(metric.value_of("p") or 0)
    return np.asarray((1 - p) * p ** (ranks - 1.0), dtype=np.float64)


class OrderAwareMetrics(base.Formulas):
    """Every method gives one float64 in [0, 1] per query, shape (queries,), 0 where nothing is relevant.

    Where ``k`` is None the whole ranking counts; CutoffError if ``k`` exceeds the depth that was retrieved.
    """

    @metric(
        "order_aware", "relevant", "1 / rank of the first relevant hit, 0 if it is beyond k",
        "Voorhees 1999, The TREC-8 Question Answering Track Report", cut="optional",
        spans="1 / rank of the chunk with which the first relevant passage is found, 0 if it is beyond k",
        aliases=(
            "mrr", Alias("recip_rank", cut="none"), Alias("document_mrr", cut="none"),
            Alias("documentmrrevaluator", cut="none"),
        ),
        prefers="relevant", standard=True, columns={"document": 4, "span": 4},
        denominator="the rank of the first relevant hit", edges=("its mean is MRR@k",),
        elsewhere={"ir_measures": "RR@{k}", "ranx": "mrr@{k}", "BEIR": "MRR@{k}", "MTEB": "mrr_at_{k}"},
        uncut={
            "trec_eval": "recip_rank", "ir_measures": "RR", "ranx": "mrr", "Haystack": "DocumentMRREvaluator",
        },
        unlike=(
            "where scores are equal, ir_measures' RR@k and BEIR's MRR@k order them another way than their RR and "
            "NDCG@k",
        ),
    )  # fmt: skip
    def rr(self, k: int | None = None) -> Scores:
        """Reciprocal of the rank of the first relevant hit; 0 if none is among the first ``k``. Its mean is MRR@k.

        Source: Voorhees 1999.
        """
        graded = self._graded
        first = graded.relevant & graded.within(k) & (graded.relevant_so_far == 1)
        return graded.total(1.0 / graded.ranks, first)

    @metric(
        "order_aware", "relevant", "sum over relevant hits in the first k of precision at their rank, / R",
        _BUCKLEY, cut="optional",
        spans="sum over relevant passages found in the first k chunks of those found so far / position, / R",
        aliases=(
            "map", Alias("map_cut", cut="required"), Alias("document_map", cut="none"),
            Alias("documentmapevaluator", cut="none"),
        ),
        prefers="relevant", standard=True, columns={"document": 5, "span": 8},
        denominator="R, the relevant documents of the query, retrieved or not",
        edges=("with R > k even a perfect ranking stays below 1; capped_ap@k divides by min(k, R)",),
        elsewhere={
            "trec_eval": "map_cut_{k}", "ir_measures": "AP@{k}", "ranx": "map@{k}", "BEIR": "MAP@{k}",
            "MTEB": "map_at_{k}",
        },
        uncut={
            "trec_eval": "map", "ir_measures": "AP", "ranx": "map", "Haystack": "DocumentMAPEvaluator",
        },
    )  # fmt: skip
    def ap(self, k: int | None = None) -> Scores:
        """Average precision of the first ``k`` hits over all relevant documents (R); trec_eval's map_cut_k, or map.

        Relevant documents beyond ``k`` count as not found, so with R > k even a perfect ranking is below 1.
        """
        return ratio(self._precisions(k), self._groups.relevant_counts)

    @metric(
        "order_aware", "relevant", "sum over relevant hits in the first k of precision at their rank, / min(k, R)",
        f"{_BUCKLEY}; over min(k, R) as in the competitions of Kaggle (MAP@k)",
        prefers="relevant",
        denominator="the most relevant hits that the first k can hold",
        elsewhere={"Kaggle": "MAP@{k}", "ml_metrics": "mapk(k={k})"},
        unlike=("trec_eval's map_cut_k, and everybody else's MAP@k, divides by R: ap@k",),
    )  # fmt: skip
    def capped_ap(self, k: int) -> Scores:
        """Average precision of the first ``k`` hits over as many as ``k`` can hold, 1 for every perfect ranking."""
        return ratio(self._precisions(k), np.minimum(self._groups.relevant_counts, k))

    @metric(
        "order_aware", "relevant", "relevant hits in the first R / R, the relevant documents of the query", _BUCKLEY,
        cut="none", aliases=("rprec", "r_prec"),
        prefers="relevant",
        denominator="R, the relevant documents of the query, retrieved or not",
        edges=("precision and recall are equal at this rank",),
        elsewhere={"trec_eval": "Rprec", "ir_measures": "Rprec", "ranx": "r-precision"},
    )  # fmt: skip
    def r_precision(self) -> Scores:
        """Precision of the first R hits, for R relevant documents; trec_eval's Rprec."""
        graded = self._groups
        early = graded.relevant & (graded.ranks <= graded.relevant_counts[graded.rows])
        return ratio(graded.count(early), graded.relevant_counts)

    @metric(
        "order_aware", "relevant", "(1 - p) x sum over relevant hits in the first k of p^(rank - 1); at most 1 - p^k",
        _MOFFAT, cut="optional", parameters=_PERSISTENCE,
        spans="(1 - p) x sum over relevant passages found at the first k positions of p^(position - 1)",
        prefers="relevant", columns={"document": 8}, structure=WeightedSum(_persistence),
        edges=("p is the probability to read on after each hit", "rbp_residual says what is not known"),
        elsewhere={"ir_measures": "RBP(p={p},rel=1)@{k}"},
        uncut={"trec_eval": "rbp.p={p} (grades 0 and 1 only)", "ir_measures": "RBP(p={p},rel=1)"},
        unlike=(
            "trec_eval's default p is 0.9, and grades above 1 become gains there",
            "ranx's rbp.80 adds up grades, and can exceed 1",
        ),
    )  # fmt: skip
    def rbp(self, k: int | None = None, p: float = 0.8) -> Scores:
        """Rank-biased precision of the first ``k`` hits, in [0, 1 - p^k]; ``p`` is the reader's persistence.

        Source: Moffat & Zobel 2008, equation 4.
        """
        graded = self._groups
        positions = graded.positions(graded.relevant)
        counted = graded.relevant & graded.within(k, positions)
        return np.minimum((1 - p) * graded.total(p ** (positions - 1.0), counted), 1.0)

    @metric(
        "order_aware", "relevant",
        "(1 - p) x sum of p^(rank - 1) over all ranks without a judged hit, those below the first k included",
        f"{_MOFFAT}, section 5", cut="optional", parameters=_PERSISTENCE, condensable=False,
        aliases=(Alias("rbp_resid", sets={"p": 0.9}, cut="none"),),
        better="lower", prefers="unjudged", ideal="judged",
        gain="1 for a rank that nobody judged or that was not retrieved, else 0",
        edges=(
            "rbp may be anything from rbp to rbp + rbp_residual",
            "never 0: what lies below the last hit weighs p^n",
        ),
        unlike=("trec_eval's rbp_resid, always at p 0.9, is 0 where every hit is judged",),
    )  # fmt: skip
    def rbp_residual(self, k: int | None = None, p: float = 0.8) -> Scores:
        """The increase of ``rbp`` if all unjudged documents were relevant, in (0, 1].

        Source: Moffat & Zobel 2008, section 5.
        """
        graded = self._graded
        known = graded.is_judged & graded.within(k)
        ranks, rows = graded.ranks[known], graded.rows[known]
        above = np.where(np.diff(rows, prepend=-1) > 0, 0, np.roll(ranks, 1))  # the judged hit before
        gaps = np.zeros(len(known))
        gaps[known] = p ** (above * 1.0) - p ** (ranks - 1.0)  # the ranks between the two weigh this
        last = graded.highest(graded.ranks, known)
        return np.minimum(graded.total(gaps, known) + p**last, 1.0)

    @metric(
        "order_aware", "order",
        "rank-biased overlap of the first k hits with the ordered labels, / the best attainable at k",
        "Webber, Moffat & Zobel 2010, ACM TOIS 28(4); normalised as in Clarke, Vtyurina & Smucker 2021, ACM TOIS 39(4)",
        parameters={"p": base.MetricParameter(0.9, 0, 1, always=True)},
        spans="rank-biased overlap of the first k positions with the ordered labels, / the best attainable at k",
        standard=True, labels="order", columns={"document": 7},
        ideal="relevant",  # where a hit belongs depends on all the others
        gain="the agreement of the first hits and the first labels, at each depth",
        denominator="what the labels in their own order would get",
        edges=("only for queries whose labels are an order", "the order of the labels counts, not their grades"),
        unlike=("ir_measures' Compat takes the order from the grades, and looks as deep as the lists go",),
    )  # fmt: skip
    def rbo(self, k: int, p: float = 0.9) -> Scores:
        """Agreement of the order of the first ``k`` hits with the order of the labels, 1 for the best ranking.

        At each depth the agreement is the number of relevant documents among both the first hits and the first labels,
        over the depth; depths have the weight ``p^(depth - 1)``. It is divided by the value of the labels in their own
        order, because short lists cannot reach 1 otherwise. Relevant documents are in the order of the labels. Source:
        Webber, Moffat & Zobel 2010, equation 7; Clarke, Vtyurina & Smucker 2021, section 3.
        """
        graded = self._graded
        # A document is in both lists from the depth on that reaches both its rank and its place in the labels.
        depth_of = np.maximum(graded.positions(graded.relevant), graded.label_positions + 1)
        counted = graded.relevant & graded.within(k) & (depth_of <= k)
        order = np.lexsort((depth_of[counted], graded.rows[counted]))
        depths = np.arange(1, k + 1)
        weights = np.cumsum((p ** (depths - 1.0) / depths)[::-1])[::-1]  # of a depth and all below it
        agreed = np.zeros(len(graded.ranks))
        agreed[counted] = weights[depth_of[counted][order] - 1]
        attainable = np.concatenate(([0.0], np.cumsum(weights)))
        return ratio(graded.total(agreed, counted), attainable[np.minimum(graded.relevant_counts, k)])

    @metric(
        "order_aware", "relevant",
        "1/R x sum over relevant hits of 1 - min(judged non-relevant hits above, R) / min(N, R)",
        "Buckley & Voorhees 2004, Retrieval Evaluation with Incomplete Information, SIGIR; as in trec_eval",
        cut="none", condensable=False, alternatives=False,
        prefers="relevant",
        denominator="R, the relevant documents; N are those judged not relevant, retrieved or not",
        edges=(
            "hits that nobody judged play no part",
            "a relevant hit with no judged one above it counts 1, also where N is 0",
            "negative grades are judged; under trec_compat they are not",
        ),
        elsewhere={"trec_eval": "bpref", "ir_measures": "Bpref"},
        unlike=("ranx's bpref is not a number where no judged document is non-relevant",),
    )  # fmt: skip
    def bpref(self) -> Scores:
        """Binary preference: how rarely judged non-relevant hits are above relevant hits.

        Source: Buckley & Voorhees 2004, in the form of trec_eval's bpref.
        """
        graded = self._graded
        judgments, most = graded.judgments, graded.relevant_counts
        known = judgments.grades >= 0 if graded.skips_negatives else np.ones(len(judgments.grades), dtype=np.bool_)
        unwanted = known & (judgments.grades < graded.threshold)
        available = np.minimum(np.bincount(judgments.rows[unwanted], minlength=len(graded)), most)[graded.rows]
        above = np.minimum(graded.so_far(graded.is_judged & ~graded.relevant), most[graded.rows])
        return ratio(graded.total(1 - ratio(above, available), graded.relevant), most)

    @metric(
        "order_aware", "relevant", "sum over relevant hits of the precision expected at their rank, / R",
        "Yilmaz & Aslam 2006, Estimating Average Precision with Incomplete and Imperfect Judgments, CIKM",
        cut="none", alternatives=False,
        ideal="relevant",  # pooled hits above help a relevant hit, judged hits harm it
        denominator="R, the relevant documents",
        edges=(
            "made for judgments that sample a pool: a negative grade means in the pool, and not judged",
            "hits that have no grade count as not relevant",
            "smoothed by 0.00001: a perfect ranking of more than one document stays just below 1",
        ),
        elsewhere={"trec_eval": "infAP", "ir_measures": "infAP"},
    )  # fmt: skip
    def infap(self) -> Scores:
        """Average precision inferred from a judged sample of a pool; negative grades mark unsampled documents.

        Source: Yilmaz & Aslam 2006, equation 4, with the smoothing of trec_eval.
        """
        graded = self._graded
        relevant = graded.relevant
        pooled = (graded.grades < 0) & ~relevant
        found = graded.relevant_so_far - 1.0  # above a relevant hit
        judged_above = found + graded.so_far(~relevant & ~pooled)
        seen_above = judged_above + graded.so_far(pooled)
        expected = (found + EPSILON) / (judged_above + 2 * EPSILON)
        at_rank = (1 + seen_above * expected) / graded.ranks
        return ratio(graded.total(at_rank, relevant), graded.relevant_counts)

    def _precisions(self, k: int | None) -> Scores:
        """The sum of the precision at each relevant hit among the first ``k``, shape (queries,)."""
        graded = self._groups
        precisions = graded.relevant_so_far / graded.positions(graded.relevant)
        return graded.total(precisions, graded.relevant & graded.within(k))
