"""Queries that are held out, never on both sides, enough to say anything; and the difference that they can show."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st
from statsmodels.stats.power import TTestPower

from ragtrial.config.sweep import SearchOptions
from ragtrial.errors import LabelsError
from ragtrial.records import Judgment, Query
from ragtrial.search.search_run import USUAL_DEVIATION, Split, detectable_with, power_sentence, split_queries


def queries(documents: list[list[str]], tags: tuple[str, ...] = ()) -> list[Query]:
    return [
        Query(f"q{number}", "", tuple(Judgment(doc, 1) for doc in docs), tags=tags if number % 3 == 0 else ())
        for number, docs in enumerate(documents)
    ]


@given(st.integers(0, 1000), st.sampled_from([0.3, 0.5]))
def test_a_share_is_drawn_with_the_seed(seed: int, share: float) -> None:
    labels = queries([[f"d{number}"] for number in range(50)])
    options = SearchOptions(held_out=share)
    split = split_queries(labels, options, seed, "labels.json")
    assert len(split.held_out) == round(50 * share)
    assert set(split.held_out).isdisjoint(split.searched)
    assert len(split.searched) + len(split.held_out) == 50
    assert split_queries(labels, options, seed, "labels.json") == split


@given(st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=2), min_size=60, max_size=60), st.integers(0, 99))
def test_queries_with_a_document_in_common_are_never_on_both_sides(documents: list[list[int]], seed: int) -> None:
    labels = queries([[f"d{doc}" for doc in docs] for docs in documents])
    try:
        split = split_queries(labels, SearchOptions(held_out=0.4, group_by="document"), seed, "labels.json")
    except LabelsError as error:
        assert "queries, which stay together" in str(error)  # noqa: PT017 - one or the other
        return
    assert len(split.held_out) <= round(0.4 * 60)
    by_id = {query.id: {judgment.doc for judgment in query.relevant_docs} for query in labels}
    seen, unseen = ({doc for name in side for doc in by_id[name]} for side in (split.searched, split.held_out))
    assert seen.isdisjoint(unseen)


def test_tags_name_held_out_queries_unless_unknown_or_too_few() -> None:
    labels = queries([[f"d{number}"] for number in range(45)], ("test",))
    split = split_queries(labels, SearchOptions(held_out=["test"]), 0, "labels.json")
    assert split.held_out == tuple(f"q{number}" for number in range(0, 45, 3))
    labels = [*queries([[f"d{number}"] for number in range(40)]), Query("none", "", ())]
    split = split_queries(labels, SearchOptions(held_out=0.5), 0, "labels.json")
    assert "none" not in (*split.searched, *split.held_out)
    with pytest.raises(LabelsError, match=r"no query has the tag 'tset' of search.held_out. Did you mean 'test'\?"):
        split_queries(queries([["d"]] * 30, ("test",)), SearchOptions(held_out=["tset"]), 0, "labels.json")
    message = "leaves 14 queries to search by and 6 for the verdict; each takes at least 10"
    with pytest.raises(LabelsError, match=message):
        split_queries(queries([[f"d{number}"] for number in range(20)]), SearchOptions(held_out=0.3), 0, "labels.json")


@given(st.integers(0, 99), st.booleans())
def test_the_queries_of_a_cluster_are_never_on_both_sides(seed: int, by_document: bool) -> None:
    labels = [replace(query, cluster=None if by_document else f"c{place // 4}")
              for place, query in enumerate(queries([[f"d{number // 4}"] for number in range(60)]))]  # fmt: skip
    split = split_queries(labels, SearchOptions(held_out=0.4), seed, "labels.json", by_document=by_document)
    assert {len(split.held_out) % 4, len(split.searched) % 4} == {0}
    assert {int(name[1:]) // 4 for name in split.held_out}.isdisjoint(int(name[1:]) // 4 for name in split.searched)
    assert (
        power_sentence(split, SearchOptions(held_out=0.4)).count("Questions that belong together count for less") == 1
    )


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
