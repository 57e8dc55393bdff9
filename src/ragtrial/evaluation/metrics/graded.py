"""Metrics that use the grades themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ragtrial.errors import MetricError
from ragtrial.evaluation.grading import Scores
from ragtrial.evaluation.metrics import base
from ragtrial.rankings import Counts
from ragtrial.runs.qrels import Grades

Gain = Literal["linear", "exp"]

_GAIN = {"gain": base.MetricParameter("linear", choices=("linear", "exp"))}
_GAINS = "the grade (linear), or 2^grade - 1 (exp), or what is given for the grade; below 0 and unjudged: 0"


def discount(ranks: npt.NDArray[Any]) -> Scores:
    """1 / log2(rank + 1), for ranks from 1 on."""
    return np.asarray(1 / np.log2(ranks + 1.0))


class GradedMetrics(base.Formulas):
    """Every method gives one float64 of at least 0 per query, shape (queries,).

    The gain of a hit is its grade; grades below 0 and missing judgments gain 0, and the relevance threshold plays no
    part. Where ``k`` is None the whole ranking counts; CutoffError if ``k`` exceeds the depth that was retrieved.
    """

    @base.metric(
        "graded", "gain", "sum over the first k hits of grade / log2(rank + 1)",
        "Jarvelin & Kekalainen 2002, ACM TOIS 20(4), with the discount log2(rank + 1); Burges et al. 2005 for exp",
        parameters=_GAIN, cut="optional", highest=None, gains=True,
        spans="sum over passages found at the first k positions of grade / log2(position + 1)",
        aliases=(base.Alias("dcg_burges", {"gain": "exp"}),),
        prefers="gain", standard=True, structure=base.WeightedSum(lambda _metric, ranks: discount(ranks)),
        gain=_GAINS,
        edges=("no upper bound: a mean over queries leans towards those with many or high grades",),
        elsewhere={"ranx": "dcg@{k}"}, uncut={"trec_eval": "dcg", "ranx": "dcg"},
        exponential={"ranx": "dcg_burges@{k}"},
    )  # fmt: skip
    def dcg(self, k: int | None = None, gain: Gain = "linear", gains: Mapping[int, float] | None = None) -> Scores:
        """Discounted cumulative gain of the first ``k`` hits; not bounded by 1.

        ``gain`` is the gain of a grade, the grade or 2^grade - 1; ``gains`` overrides it for some grades. Raises
        MetricError for grades too high for 2^grade. Source: Jarvelin & Kekalainen 2002; the discount is log2(rank + 1),
        as in trec_eval.
        """
        graded = self._groups
        worth = graded.level_rises(self._worth(graded.grades, gain, gains))
        positions = graded.positions(worth > 0)
        return graded.total(worth * discount(positions), graded.within(k, positions))

    @base.metric(
        "graded", "gain", "dcg@k / dcg@k of all judged documents in the order of their gains",
        "Jarvelin & Kekalainen 2002, ACM TOIS 20(4); trec_eval's ndcg_cut_k; Burges et al. 2005 for exp",
        parameters=_GAIN, cut="optional", gains=True,
        spans="dcg@k / dcg@k of all judged passages, one at each rank, in the order of their gains",
        aliases=(
            base.Alias("ndcg_cut", cut="required"), base.Alias("ndcg_burges", {"gain": "exp"}),
            base.Alias("document_ndcg", cut="none"), base.Alias("documentndcgevaluator", cut="none"),
        ),
        prefers="gain", standard=True, columns={"document": 1, "span": 1},
        structure=base.WeightedSum(lambda _metric, ranks: discount(ranks), normalised=True),
        gain=_GAINS,
        denominator="the DCG, cut at k, of the best order of all judged documents, retrieved or not",
        edges=(
            "with R > k the ideal is cut at k, too, so a perfect first page scores 1",
            "a relevance threshold plays no part: low grades gain little, not nothing",
            "gains for grades, ndcg(1=3,2=9)@10, leave the other grades their own",
        ),
        elsewhere={
            "trec_eval": "ndcg_cut_{k}", "ir_measures": "nDCG@{k}", "ranx": "ndcg@{k}", "BEIR": "NDCG@{k}",
            "MTEB": "ndcg_at_{k}",
        },
        uncut={
            "trec_eval": "ndcg", "ir_measures": "nDCG", "ranx": "ndcg", "Haystack": "DocumentNDCGEvaluator",
        },
        exponential={"ir_measures": "nDCG(dcg='exp-log2')@{k}", "ranx": "ndcg_burges@{k}"},
        unlike=(
            "trec_eval -M k -m ndcg divides by the ideal that is not cut",
            "Haystack's, given a list that was cut, divides by the ideal that is not cut",
            "ranx's ndcg@k-l2 takes the gain from grades below 2: here ndcg(1=0)@k",
            "scikit-learn's ndcg_score averages over ties",
        ),
    )  # fmt: skip
    def ndcg(self, k: int | None = None, gain: Gain = "linear", gains: Mapping[int, float] | None = None) -> Scores:
        """``dcg`` over the value of the ideal ranking, both cut at ``k``, in [0, 1]; trec_eval's ndcg_cut_k, or ndcg.

        Exactly 1 for an ideal order. Source: Jarvelin & Kekalainen 2002, section 3.
        """
        # Far down, two discounts differ by less than the sums are rounded.
        return np.minimum(base.ratio(self.dcg(k, gain, gains), self._ideal(k, gain, gains)), 1.0)

    @base.metric(
        "graded", "gain",
        "sum over the first k hits of (probability to be content with the hit and none above) / rank",
        "Chapelle, Metzler, Zhang & Grinspan 2009, Expected Reciprocal Rank for Graded Relevance, CIKM",
        parameters={"max": base.MetricParameter(4, low=1, high=100, whole=True, always=True)}, cut="optional",
        prefers="gain", alternatives=False,
        gain="the probability (2^grade - 1) / 2^max that a hit contents the reader; below 0 and unjudged: 0",
        edges=(
            "max is the highest grade of the scale, not of the query; a grade above it is an error",
            "even a perfect ranking stays below 1",
        ),
        elsewhere={"ir_measures": "ERR@{k} (max is always 4)", "gdeval": "err@{k} (max is always 4)"},
    )  # fmt: skip
    def err(self, k: int | None = None, max: int = 4) -> Scores:  # noqa: A002 - as it is in the spelling
        """Expected reciprocal rank of the hit that contents the reader, in [0, 1).

        Raises MetricError for a grade above ``max``. Source: Chapelle et al. 2009, equations 4 and 5.
        """
        graded = self._graded
        highest = int(graded.judgments.best.max(initial=0))
        if highest > max:
            raise MetricError(
                f"err(max={max}): a document has grade {highest}; "
                f"max must be the highest grade of the scale, as in err(max={highest})."
            )
        seen = graded.within(k) & (graded.grades > 0)
        contents = (np.exp2(np.maximum(graded.grades, 0)) - 1) / 2.0**max
        reached = np.zeros(len(contents))
        reached[seen] = products_above(1 - contents[seen], graded.count(seen))
        return np.minimum(graded.total(contents * reached / graded.ranks, seen), 1.0)

    @base.metric(
        "graded", "gain", "judged hits in the first k / min(k, hits)",
        "Lu, Moffat & Culpepper 2016, Information Retrieval Journal 19(4)", cut="optional", condensable=False,
        aliases=("labelled",), spans="chunks among the first k that overlap a judged passage / min(k, chunks)",
        prefers="judged", standard=True, columns={"document": 9},
        gain="1 for a hit with a judgment of any grade, else 0",
        denominator="k, or the number of hits if there are fewer",
        edges=("0 where nothing was retrieved",),
        elsewhere={"ir_measures": "Judged@{k}"},
    )  # fmt: skip
    def judged(self, k: int | None = None) -> Scores:
        """Share of the first ``k`` hits that have a judgment of any grade, in [0, 1]; 0 where nothing was retrieved.

        Fewer than ``k`` hits divide by their number. A low share says that the graded scores rest on guesses.
        """
        graded = self._graded
        return base.ratio(graded.judged_units(k), graded.retrieved(k))

    @base.metric(
        "graded", "gain", "hits among the first k that nobody judged / k",
        "trec_eval 10, unj_k", aliases=(base.Alias("unj", cut="required"),), condensable=False,
        better="lower", prefers="unjudged", ideal="judged",
        gain="1 for a hit without a judgment, else 0",
        denominator="k, even where fewer were retrieved",
        edges=(
            "places that are missing count as judged: with fewer than k hits judged@k + unjudged@k is not 1",
        ),
        elsewhere={"trec_eval": "unj_{k}"},
        unlike=("BEIR's Hole@k counts hits judged for no query at all",),
    )  # fmt: skip
    def unjudged(self, k: int) -> Scores:
        """Share of the first ``k`` positions with an unjudged hit, in [0, 1]; trec_eval's unj_k.

        Fewer than ``k`` hits still divide by ``k``.
        """
        graded = self._graded
        known = graded.count(graded.is_judged & graded.within(k))
        return base.ratio(graded.retrieved(k) - known, np.float64(k))

    def _worth(self, grades: Grades, gain: Gain, gains: Mapping[int, float] | None) -> Scores:
        highest = int(self._graded.judgments.best.max(initial=0))
        if gain == "exp" and highest > base.LARGEST_POWER:
            raise MetricError(f"gain=exp: a document has grade {highest}, and 2^{highest} is beyond all numbers.")
        return base.gains_of(grades, gains or {}, exponential=gain == "exp")

    def _ideal(self, k: int | None, gain: Gain, gains: Mapping[int, float] | None) -> Scores:
        judgments, groups = self._groups.judgments, self._graded.judgments.groups
        worth = self._worth(judgments.descending, gain, gains)
        if groups is not None:
            worth = groups.highest(self._worth(groups.grades, gain, gains))
        if gains or groups is not None:  # which may be in another order
            worth = worth[np.lexsort((-worth, judgments.rows))]
        ranks = np.arange(len(judgments.rows)) - judgments.starts[:-1][judgments.rows] + 1
        terms = worth * discount(ranks)
        if k is not None:
            terms[ranks > k] = 0.0
        return np.bincount(judgments.rows, weights=terms, minlength=len(judgments)).astype(np.float64)


def products_above(factors: Scores, counts: Counts) -> Scores:
    """For each factor the product of those above it in its query, 1 for the first; shape (factors,).

    ``counts`` says how many factors each query has, shape (queries,). Multiplied from the first on, so that the last
    bit does not depend on other queries.
    """
    starts = np.cumsum(counts) - counts
    products = np.ones(len(factors))
    for above in range(1, int(counts.max(initial=0))):
        places = starts[counts > above] + above
        products[places] = products[places - 1] * factors[places - 1]
    return products
