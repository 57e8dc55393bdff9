"""Two rankings of one query each, joined the way a comparison joins them, and all ways of grading what is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from ragtrial.comparison.unjudged.joint_hits import NOWHERE, JointHits, Labels
from ragtrial.evaluation.metrics import METRICS, Metric, Scores
from scenarios import Scenario, scores
from strategies import gains_for, parameters_of

Case = tuple[Sequence[str], Sequence[str], Mapping[str, int]]
"""The first ranking, the second, the labels."""

NAMES = tuple("abcdefgh")

WITH_JOINT_BOUNDS = tuple(
    name for name, one in METRICS.members() if one.structure is not None and one.aggregate != "geometric"
)
"""The metrics for whose difference a range is known."""


def joined(cases: Sequence[Case], threshold: int = 1) -> JointHits:
    """The hits of each case, one query each."""
    rows, first, second, grades, is_open = [], [], [], [], []
    labels: list[tuple[int, int, int]] = []
    for row, (one, other, judged) in enumerate(cases):
        names = sorted({*one, *other})
        for name in names:
            rows.append(row)
            first.append(one.index(name) + 1 if name in one else NOWHERE)
            second.append(other.index(name) + 1 if name in other else NOWHERE)
            grades.append(judged.get(name, 0))
            is_open.append(name not in judged)
        labels += [(row, place, grade) for place, grade in enumerate(judged.values())]
    table = np.array(labels, dtype=np.int64).reshape(-1, 3)
    return JointHits(
        queries=len(cases),
        rows=np.array(rows, dtype=np.int64),
        codes=np.arange(len(rows), dtype=np.int64),
        first=np.array(first, dtype=np.int64),
        second=np.array(second, dtype=np.int64),
        is_open=np.array(is_open, dtype=np.bool_),
        grades=np.array(grades, dtype=np.int32),
        lengths=np.array([[len(case[side]) for case in cases] for side in (0, 1)], dtype=np.int64),
        labels=Labels(table[:, 0] * 100 + table[:, 1], table[:, 0], table[:, 2].astype(np.int32)),
        threshold=threshold,
    )


def differences(metric: Metric, case: Case, labellings: Sequence[Mapping[str, int]], threshold: int = 1) -> Scores:
    """The second ranking's score less the first's under each of these labels, by the package's own scoring."""
    found = []
    for ranking in case[:2]:
        graded = Scenario((tuple(ranking),) * len(labellings), tuple(labellings), (True,) * len(labellings)).graded(
            threshold=threshold
        )
        found.append(scores(metric, graded))
    return np.asarray(found[1] - found[0])


def all_labellings(case: Case, highest: int) -> list[dict[str, int]]:
    """The labels with every way of grading what nobody judged, from not at all to the highest grade."""
    free = sorted({*case[0], *case[1]} - case[2].keys())
    ways = product((None, *range(highest + 1)), repeat=len(free))
    return [
        {**case[2], **{name: grade for name, grade in zip(free, way, strict=True) if grade is not None}} for way in ways
    ]


@st.composite
def pairs(draw: st.DrawFn, most_open: int, grades: Sequence[int] = (-1, 0, 0, 1, 1, 2, 3)) -> Case:
    """Two rankings that share some documents, with few that nobody judged, and labels of documents found and not.

    Drawn evenly: what Hypothesis likes best, short rankings without anything open, tells least here.
    """
    drawn = draw(st.randoms(use_true_random=True))
    names = NAMES[: drawn.randint(2, len(NAMES))]
    one, other = (drawn.sample(names, drawn.randint(1, len(names))) for _ in range(2))
    free = drawn.sample(names, min(len(names), drawn.randint(1, most_open)))
    judged = {name: drawn.choice(grades) for name in names if name not in free}
    return (
        one,
        other,
        {**judged, **{f"elsewhere-{place}": drawn.choice(grades) for place in range(drawn.randint(0, 2))}},
    )


@st.composite
def metrics_of(draw: st.DrawFn, names: Sequence[str]) -> list[Metric]:
    """Each of these metrics, with any parameters, with and without a cutoff where it can be either."""
    k = draw(st.integers(1, 6))
    metrics = []
    for name in names:
        definition = METRICS[name]
        given = tuple(one for one in draw(parameters_of(definition)) if one[0] not in ("judged_only", "rel"))
        cuts = {"required": (k,), "optional": (k, None), "none": (None,)}[definition.cut]
        metrics += [Metric(name, cut, given, draw(gains_for(definition))) for cut in cuts]
    return metrics
