"""What a search says before it begins: the difference that its questions can show."""

import pytest
from statsmodels.stats.power import TTestPower

from ragtrial.config.sweep import SearchOptions
from ragtrial.search.split import USUAL_DEVIATION, Split, detectable_with, power_sentence


@pytest.mark.parametrize(("queries", "comparisons"), [(20, 1), (60, 1), (60, 40), (300, 100)])
def test_the_difference_is_that_of_a_t_test_corrected_for_the_comparisons(queries: int, comparisons: int) -> None:
    effect = TTestPower().solve_power(nobs=queries, alpha=0.05 / comparisons, power=0.8, alternative="two-sided")
    assert detectable_with(queries, comparisons) == pytest.approx(effect * USUAL_DEVIATION, rel=0.001)


@pytest.mark.parametrize(("searched", "held_out"), [(48, 0), (36, 12), (12, 36), (600, 200)])
def test_the_sentence_is_about_the_questions_that_decide(searched: int, held_out: int) -> None:
    names = [f"q{number}" for number in range(searched + held_out)]
    split = Split(tuple(names[:searched]), tuple(names[searched:]))
    options = SearchOptions.model_validate({"settings": 10, **({"held_out": 0.5, "method": "tpe"} if held_out else {})})
    sentence = power_sentence(split, options)
    found = detectable_with(held_out, 1) if held_out else detectable_with(searched, 10)
    counted = f"With {held_out} held-out questions" if held_out else f"With {searched} questions, and corrected for 10"
    assert sentence.startswith(counted)
    assert f"a difference from the baseline of about {found:.2f} can be shown" in sentence
    assert ("To see smaller ones" in sentence) == (0 < held_out < 128)
