"""Families of comparisons as hostile as scores can be: ties, constants, clones, few values, tiny and huge scales."""

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st

from ragtrial.comparison.statistics.samples import Family

SCALES = (1.0, 1e-12, 1e-160, 1e9, 1e150)
KINDS = ("normal", "hits", "grid", "constant", "zeros", "nearly constant", "clone", "one spike")


@st.composite
def families(draw: st.DrawFn, most_queries: int = 40) -> Family:
    """Up to 5 settings against the first, some of them clones of another."""
    queries = draw(st.integers(1, most_queries))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    baseline = rng.random(queries)
    columns = [baseline]
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5)):
        columns.append(baseline + added(rng, kind, queries))
        if kind == "clone":
            columns[-1] = columns[draw(st.integers(0, len(columns) - 2))].copy()
    made = np.array(columns) * draw(st.sampled_from(SCALES))
    made[:, rng.random(queries) < draw(st.sampled_from([0.0, 0.1]))] = np.nan
    made[rng.random(made.shape) < draw(st.sampled_from([0.0, 0.0, 0.05]))] = np.nan
    return Family(made, against_first(len(columns) - 1))


def added(rng: np.random.Generator, kind: str, queries: int) -> npt.NDArray[np.float64]:
    made: dict[str, npt.NDArray[np.float64]] = {
        "normal": rng.standard_normal(queries) + 0.4,
        "hits": rng.choice([-1.0, 0.0, 1.0], queries, p=[0.1, 0.5, 0.4]),
        "grid": rng.integers(-2, 4, queries) / 10,
        "constant": np.full(queries, 0.3),
        "nearly constant": 0.3 + 1e-9 * rng.standard_normal(queries),
        "one spike": np.where(np.arange(queries) == 0, 1.0, 1e-6 * rng.standard_normal(queries)),
    }
    return made.get(kind, np.zeros(queries))


def against_first(settings: int) -> npt.NDArray[np.int64]:
    """The pairs of each of so many settings with the first column."""
    return np.array([(setting, 0) for setting in range(1, settings + 1)])
