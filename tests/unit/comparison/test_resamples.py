"""The balanced bootstrap-t agrees with plain loops, its standard errors with statsmodels, clusters of one with none."""

import math

import numpy as np
import numpy.typing as npt
import pytest
import statsmodels.api as sm
from hypothesis import given, settings, strategies as st

from family_strategies import against_first, families
from ragtrial.comparison.statistics import resamples
from ragtrial.comparison.statistics.procedures import infer
from ragtrial.comparison.statistics.resamples import draws_of, resampled
from ragtrial.comparison.statistics.samples import LEAST_DIFFERENCES, DrawResult, Family, Inference, Procedure, Sample

Floats = npt.NDArray[np.float64]
QUICK = Procedure(flips=400)
NUMBERS = ("n", "differing", "mean", "deviation", "skewness", "p", "p_corrected", "low", "high", "claims", "criticals")


def bounds_of(family: Family, procedure: Procedure = QUICK) -> DrawResult:
    (bounds,) = resampled([Sample(family)], procedure)
    return bounds


def inferred(family: Family, procedure: Procedure = QUICK) -> Inference:
    (inference,) = infer([family], procedure)
    return inference


def studentised(clusters: list[list[float]], about: float) -> float:
    """|mean - about| over its standard error (CR1), by the book; NaN where the clusters do not vary."""
    values = [value for cluster in clusters for value in cluster]
    mean, count = sum(values) / len(values), sum(bool(cluster) for cluster in clusters)
    spread = sum(sum(value - mean for value in cluster) ** 2 for cluster in clusters) * count / (count - 1)
    return abs(mean - about) * len(values) / math.sqrt(spread) if spread > 1e-12 else math.nan


def critical(values: list[float], level: float) -> float:
    """The smallest value that at most ``level`` of the draws and the observation exceed or equal."""
    ascending = sorted(values)
    allowed = math.floor(level * (len(values) + 1) + 1e-9) - 1
    return ascending[len(values) - 1 - allowed] if allowed >= 0 else math.inf


def share(observed: float, values: list[float]) -> float:
    return (1 + sum(value >= observed * (1 - 1e-6) for value in values)) / (1 + len(values))


def lowered_by(grouped: list[list[list[float]]]) -> list[float]:
    """The factor of each comparison, from its differences by cluster."""
    excess = []
    for is_cluster in (True, False):
        squares = []
        for one in grouped:
            mean = sum(map(sum, one)) / sum(map(len, one))
            rests = [[value - mean for value in cluster] for cluster in one if cluster]
            values = [sum(rest) for rest in rests] if is_cluster else [value for rest in rests for value in rest]
            n, square = len(values), sum(value**3 for value in values) ** 2 / sum(value**2 for value in values) ** 3
            squares.append(n * square - 6 * (n - 2) / ((n + 1) * (n + 3)))
        excess.append(sum(squares) / len(squares))
    factors = []
    for one in grouped:
        mean = sum(map(sum, one)) / sum(map(len, one))
        within = sum((value - sum(cluster) / len(cluster)) ** 2 for cluster in one for value in cluster)
        total = sum((value - mean) ** 2 for cluster in one for value in cluster)
        few = max(0.0, (22 - sum(map(bool, one))) / 12) * min(1.0, 2 * within / total)
        factors.append(1 + 0.5 * few * (1 - min(1.0, max(0.0, max(excess) / 0.7))))
    return factors


def by_loops(family: Family, procedure: Procedure) -> DrawResult:
    """The procedure, one comparison, resample and cluster at a time."""
    differences = family.differences()
    names = np.arange(differences.shape[1]) if family.clusters is None else family.clusters
    grouped = [
        [[float(one) for one in row[names == name] if not math.isnan(one)] for name in np.unique(names)]
        for row in differences
    ]
    grouped = [one for one in grouped if sum(abs(sum(cluster)) > 1e-12 for cluster in one) >= LEAST_DIFFERENCES]
    means = [sum(map(sum, one)) / sum(map(len, one)) for one in grouped]
    drawn: list[list[float]] = []
    for counts in np.vstack(list(draws_of(len(np.unique(names)), procedure.flips, [procedure.seed, 1]))).astype(int):
        row = []
        for one, mean in zip(grouped, means, strict=True):
            clusters = [cluster for cluster, count in zip(one, counts, strict=True) for _ in range(count)]
            differ = sum(abs(sum(cluster)) > 1e-12 for cluster in clusters)
            row.append(studentised(clusters, mean) if differ >= LEAST_DIFFERENCES else math.nan)
        drawn.append(row)
    columns = [[value for value in column if not math.isnan(value)] for column in zip(*drawn, strict=True)]
    own = [critical(column, procedure.level) for column in columns]
    dense = [sum(abs(sum(cluster)) > 1e-12 for cluster in one) >= 0.2 * sum(map(bool, one)) for one in grouped]
    top = sorted(value for value, is_dense in zip(own, dense, strict=True) if is_dense)[-2:]
    sizes = [sum(map(len, one)) for one in grouped]
    weights = [max(value, min(max(top) if size < 50 else min(top), 2.0 * value)) if is_dense else value
               for value, is_dense, size in zip(own, dense, sizes, strict=True)]  # fmt: skip
    ratios = [
        max(known)
        for row in drawn
        if (known := [value / weight for value, weight in zip(row, weights, strict=True) if not math.isnan(value)])
    ]
    limit = critical(ratios, procedure.level)
    ratios, factor = [ratio / min(limit, 1.0) for ratio in ratios], max(1.0, limit)
    lowered = lowered_by(grouped)
    observed = [studentised(one, 0.0) * factor for one, factor in zip(grouped, lowered, strict=True)]
    p = [share(value, column) for value, column in zip(observed, columns, strict=True)]
    corrected = [share(value / weight, ratios) for value, weight in zip(observed, weights, strict=True)]
    return DrawResult(np.array(p), np.maximum(p, corrected), np.array(weights) * factor / lowered)


def skewed(rng: np.random.Generator, comparisons: int, queries: int) -> Floats:
    return np.asarray((rng.exponential(size=(comparisons, queries)) - 0.7) * (rng.random((comparisons, queries)) < 0.6))


KINDS = ("one", "several", "few differences", "not the same queries", "clusters", "few clusters", "hits")


@pytest.mark.parametrize("kind", KINDS)
def test_the_bounds_are_those_of_plain_loops(kind: str) -> None:
    rng, procedure = np.random.default_rng(11), Procedure(level=0.1, flips=199)
    differences = skewed(rng, 1 if kind == "one" else 4, 60 if kind == "few differences" else 30)
    clusters = None
    if kind == "few differences":
        differences[2] *= np.cumsum(differences[2] != 0) <= LEAST_DIFFERENCES
    if kind == "not the same queries":
        differences[1, :7] = differences[2, 3:5] = np.nan
    if kind == "clusters":
        clusters, differences = rng.integers(0, 14, 30), differences + 0.1
        differences[3, clusters == 5] = np.nan
    if kind == "few clusters":
        clusters, differences = rng.integers(0, 13, 30), rng.standard_normal((4, 30)) + 0.3
        differences[3, clusters == 5] = np.nan
        assert (resamples._lowered_by(Sample(Family(differences, None, clusters))) > 1.1).all()
    if kind == "hits":
        differences = rng.choice([-1.0, 0.0, 1.0], (4, 30), p=[0.1, 0.4, 0.5])
    family = Family(differences, None, clusters)
    found, expected = bounds_of(family, procedure), by_loops(family, procedure)
    np.testing.assert_allclose(found.criticals, expected.criticals, rtol=1e-5)
    np.testing.assert_allclose(found.p, expected.p)
    np.testing.assert_allclose(found.p_corrected, expected.p_corrected)


@pytest.mark.parametrize(("skewness", "sizes", "within", "factor"), [
    ("none", [2] * 10, 1.0, 1.5), ("none", [2] * 10, 3.0, 1.5), ("none", [2] * 16, 1.0, 1.25),
    ("none", [2] * 22, 1.0, 1.0), ("none", [2] * 10, 0.0, 1.0), ("none", [2] * 10, 3**-0.5, 1.25),
    ("none", [2] * 2 + [1] * 8, 1.0, 1.25), ("none", [1] * 10, 1.0, 1.0), ("of clusters", [2] * 10, 1.0, 1.0),
    ("of queries", [6] * 10, 1.0, 1.0),
])  # fmt: skip
def test_critical_values_of_few_clusters_are_lowered_unless_differences_are_skewed_or_repeated(
    skewness: str, sizes: list[int], within: float, factor: float
) -> None:
    """Clusters differ by 1 and -1, the queries of one by ``within`` and its negative: 1 is half of the variance."""
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    differences = np.where(clusters % 2, 1.0, -1.0)
    places = np.arange(len(clusters)) - np.searchsorted(clusters, clusters)
    differences += within * np.where(places % 2, -1.0, 1.0) * (np.array(sizes)[clusters] > 1)
    if skewness == "of clusters":
        differences[clusters == 3] = 9.0
    if skewness == "of queries":  # which cancel out in each cluster
        differences += np.tile([5.0, -1.0, -1.0, -1.0, -1.0, -1.0], 10)
    two = Family(np.stack([differences, -differences]), None, clusters)
    assert resamples._lowered_by(Sample(two)) == pytest.approx([factor, factor])


@pytest.mark.parametrize("seed", range(3))
def test_the_standard_error_of_clusters_is_that_of_statsmodels(seed: int) -> None:
    rng = np.random.default_rng(seed)
    clusters = np.sort(rng.integers(0, 15, 60))
    differences = rng.standard_normal(60) + rng.standard_normal(15)[clusters]
    fit = sm.OLS(differences, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": clusters})
    found = inferred(Family(differences[None], None, clusters))
    assert found.mean[0] == pytest.approx(fit.params[0])
    assert found.deviation[0] / math.sqrt(found.n[0]) == pytest.approx(fit.bse[0])
    assert (found.high[0] - found.low[0]) / 2 == pytest.approx(found.criticals[0] * fit.bse[0])


@settings(max_examples=80, deadline=None)
@given(families(), st.integers(0, 3))
def test_a_cluster_for_each_query_gives_the_numbers_of_no_clusters(family: Family, seed: int) -> None:
    procedure = Procedure(flips=199, seed=seed)
    alone = inferred(family, procedure)
    each = inferred(Family(family.columns, family.pairs, np.arange(family.columns.shape[1])), procedure)
    for name in NUMBERS:
        np.testing.assert_array_equal(getattr(alone, name), getattr(each, name), err_msg=name)


@settings(max_examples=60, deadline=None)
@given(families(), st.integers(0, 1000), st.sampled_from([0.05, 0.2]))
def test_with_clusters_too_p_and_interval_agree(family: Family, seed: int, level: float) -> None:
    clusters = np.random.default_rng(seed).integers(0, 1 + family.columns.shape[1], family.columns.shape[1])
    found = inferred(Family(family.columns, family.pairs, clusters), Procedure(level=level, flips=199))
    tested = ~np.isnan(found.p_corrected)
    assert (tested == (found.differing >= LEAST_DIFFERENCES)).all()
    leaves_out = (found.low > 0) | (found.high < 0)
    assert ((found.p_corrected <= level) == leaves_out)[tested].all()
    assert (found.p <= found.p_corrected)[tested].all()


def test_draws_are_balanced_and_no_order_matters_more_than_a_seed() -> None:
    rng = np.random.default_rng(3)
    columns, clusters = skewed(rng, 3, 80), np.repeat(np.arange(20), 4)
    order = rng.permutation(80)
    left = inferred(Family(columns, None, clusters), Procedure())
    right = inferred(Family(columns[:, order], None, (19 - clusters)[order]), Procedure())
    for name in ("mean", "deviation", "skewness"):
        np.testing.assert_allclose(getattr(left, name), getattr(right, name), atol=1e-12, err_msg=name)
    np.testing.assert_allclose(left.criticals, right.criticals, rtol=0.06)
    np.testing.assert_allclose(left.p_corrected, right.p_corrected, atol=0.03)
    counts = np.vstack(list(draws_of(30, 5000, 1)))
    assert (counts.sum(axis=1) == 30).all()
    assert np.abs(counts.mean(axis=0) - 1).max() < 4.5 * np.sqrt(29 / 30 / 5000)
    assert counts.var(axis=0).mean() == pytest.approx(29 / 30, rel=0.02)
    assert len({row.tobytes() for row in counts}) == 5000
    procedure = Procedure()
    assert [procedure.limited_to(count).flips for count in (0, 190, 5_000, 20_000, 124_750)] == [
        10_000, 10_000, 10_000, 2_500, 1_000,
    ]  # fmt: skip
    assert Procedure(flips=500).limited_to(10**6).flips == 500


def test_skewed_differences_have_larger_critical_values_and_others_up_to_a_limit() -> None:
    rng = np.random.default_rng(5)
    symmetric = rng.standard_normal((1, 40))
    assert inferred(Family(symmetric - symmetric.mean())).criticals[0] == pytest.approx(2.05, abs=0.1)
    dense = rng.lognormal(0, 1.3, (1, 40))
    assert inferred(Family(dense - dense.mean())).criticals[0] > 3
    rng = np.random.default_rng(6)
    dense = rng.standard_normal((5, 60))
    beside = bounds_of(Family(np.vstack([dense, rng.lognormal(0, 1.5, 60)])), Procedure()).criticals
    alone = bounds_of(Family(dense), Procedure()).criticals
    assert beside[5] > 1.3 * beside[:5].max()
    np.testing.assert_allclose(beside[:5], alone, rtol=0.08)
    # Comparisons in which fewer than a fifth of the queries differ keep their own.
    rng = np.random.default_rng(7)
    even = rng.standard_normal((1, 60))
    skewed_, more_skewed = rng.lognormal(0, 1, (3, 60)), rng.lognormal(0, 5, (3, 60))
    dense, sparse, far = (
        bounds_of(Family(np.vstack([one, others])), Procedure()).criticals
        for one, others in ((even, skewed_), (even * (np.arange(60) < 11), skewed_), (even, more_skewed))
    )
    assert dense[0] == pytest.approx(np.sort(dense)[-2])
    assert sparse[0] < 0.9 * dense[0]
    assert far[0] < 0.9 * far[1:].min()


@pytest.mark.parametrize(("block", "kept", "dense"), [(50, 100, 0.2), (700, 2, 2.0)])
def test_block_sizes_change_no_number(block: int, kept: int, dense: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of comparisons that are not kept at once, none takes the value of another one."""
    monkeypatch.setattr(resamples, "_DENSE", dense)
    rng = np.random.default_rng(8)
    columns = skewed(rng, 7, 50)
    families_ = [Family(columns, against_first(6)), Family(columns[:, ::-1])]
    whole = infer(families_, QUICK)
    monkeypatch.setattr(resamples, "_BLOCK_VALUES", block)
    monkeypatch.setattr(resamples, "_KEPT_VALUES", kept * QUICK.flips)
    for left, right in zip(whole, infer(families_, QUICK), strict=True):
        for name in NUMBERS:
            np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-6, err_msg=name)
