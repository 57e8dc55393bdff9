"""Qrels and runs as dicts of dicts, graded in trec_eval's order and by what its negative grades mean."""

from collections.abc import Mapping

import numpy as np
from hypothesis import strategies as st

from ragtrial.evaluation.grading import GradedRankings
from ragtrial.runs.qrels import Judgments
from scenarios import Scenario

Labels = Mapping[str, Mapping[str, int]]
Scored = Mapping[str, Mapping[str, float]]


def graded_as_trec_eval_does(qrels: Labels, run: Scored, threshold: int = 1) -> GradedRankings:
    """Every query of ``qrels``, also those that ``run`` lacks; in whole rankings, negative grades only pooled.

    Hits go by score, descending; equal ones by document id, descending in byte order.
    """
    starts, grades, hits, ranks, indices = [0], [], [0], [], []
    for query, known in qrels.items():
        place = {doc: starts[-1] + number for number, doc in enumerate(known)}
        grades += list(known.values())
        starts.append(len(grades))
        scored = run.get(query, {})
        for rank, doc in enumerate(sorted(scored, key=lambda doc: (scored[doc], doc.encode()), reverse=True), start=1):
            if doc in place:
                ranks.append(rank)
                indices.append(place[doc])
        hits.append(len(ranks))
    judgments = Judgments(
        np.array(starts, dtype=np.int64), np.array(grades, dtype=np.int32), np.zeros(len(qrels), dtype=np.bool_)
    )
    return GradedRankings(
        judgments,
        np.array(hits, dtype=np.int64),
        np.array(ranks, dtype=np.int32),
        np.array(indices, dtype=np.int64),
        np.array([len(run.get(query, {})) for query in qrels], dtype=np.int64),
        depth=None,
        threshold=threshold,
        skips_negatives=True,
    )


def as_dicts(case: Scenario) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """A scenario as qrels and a run without ties."""
    qrels = {f"q{index}": dict(known) for index, known in enumerate(case.labels)}
    run = {
        f"q{index}": {doc: float(len(ranking) - place) for place, doc in enumerate(ranking)}
        for index, ranking in enumerate(case.rankings)
    }
    return qrels, run


_DOCUMENTS = [*(f"d{number}" for number in range(12)), "D1", "é", "z9"]


@st.composite
def tied_runs(draw: st.DrawFn) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    """Qrels and a run with few distinct scores; some queries missing from the run, some from the qrels."""
    grades = st.integers(-2, 4)
    qrels, run = {}, {}
    for number in range(draw(st.integers(1, 4))):
        judged = draw(st.lists(st.sampled_from(_DOCUMENTS), unique=True, max_size=10))
        # A query with negative grades alone crashes pytrec_eval; a document that nothing retrieves changes no measure.
        qrels[f"q{number}"] = {doc: draw(grades) for doc in judged} | {"never retrieved": 0}
        if draw(st.booleans()) or number == 0:
            found = draw(st.lists(st.sampled_from(_DOCUMENTS), unique=True, min_size=1, max_size=14))
            run[f"q{number}"] = {doc: draw(st.sampled_from((-1.5, 0.0, 0.5, 2.0))) for doc in found}
    run["nobody's"] = {"d1": 1.0}
    return qrels, run
