"""Agreement with trec_eval and with another rank-biased overlap, on random data whose scores have no ties."""

import ir_measures
import pytest
from hypothesis import given, strategies as st

from scenarios import Scenario, scores
from strategies import falling_labels, rankings


def falling_scores(ranking: tuple[str, ...]) -> dict[str, float]:
    """Scores without ties that trec_eval sorts into the order of the ranking."""
    return {doc: float(len(ranking) - place) for place, doc in enumerate(ranking)}


def compatibility(ranking: tuple[str, ...], known: dict[str, int], p: float) -> float:
    """Clarke, Vtyurina & Smucker's compatibility: rank-biased overlap with the order of the grades, normalised."""
    measure = ir_measures.Compat(p=p)
    (value,) = ir_measures.iter_calc([measure], {"q": known}, {"q": falling_scores(ranking)})
    return float(value.value)


@given(ranking=rankings(), known=falling_labels(), p=st.sampled_from((0.5, 0.8, 0.9, 0.95)))
def test_rank_biased_overlap_is_compatibility(ranking: tuple[str, ...], known: dict[str, int], p: float) -> None:
    relevant = sum(value > 0 for value in known.values())
    k = max(len(ranking), relevant)  # the depth to which compatibility looks
    (value,) = scores(f"rbo(p={p})@{k}", Scenario((ranking,), (known,), (True,)).graded())
    assert value == pytest.approx(compatibility(ranking, known, p), abs=1e-12)
