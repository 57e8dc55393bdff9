"""A metric is a value with one spelling; other tools' spellings lead to it, and a wrong one says what is wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragtrial.errors import MetricError
from ragtrial.metrics import METRICS, Metric, parse_metric

KNOWN = f"Known: {', '.join(sorted(METRICS.names()))}."


@pytest.mark.parametrize(
    "spelling",
    [
        *("precision@5", "recall@10", "f1@5", "hit_rate@10", "rr@10", "ap@10", "dcg@10", "ndcg@10", "judged@10"),
        *("rbp(p=0.8)@10", "rbo(p=0.9)@10", "ndcg", "rbp(p=0.8)"),
    ],
)
def test_the_one_spelling_parses_and_prints_back(spelling: str) -> None:
    assert str(parse_metric(spelling)) == spelling


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("nDCG@10", "ndcg@10"),
        ("NDCG@10", "ndcg@10"),
        ("ndcg_cut_10", "ndcg@10"),
        ("ndcg_cut.10", "ndcg@10"),
        ("ndcg_cut@10", "ndcg@10"),
        ("ndcg_at_10", "ndcg@10"),
        ("MRR@10", "rr@10"),
        ("RR@10", "rr@10"),
        ("mrr_at_10", "rr@10"),
        ("recip_rank", "rr"),
        ("MAP", "ap"),
        ("map@10", "ap@10"),
        ("map_cut_10", "ap@10"),
        ("map_cut.10", "ap@10"),
        ("AP@5", "ap@5"),
        ("P@5", "precision@5"),
        ("P_5", "precision@5"),
        ("P.5", "precision@5"),
        ("precision_at_5", "precision@5"),
        ("R@100", "recall@100"),
        ("recall_100", "recall@100"),
        ("success_1", "hit_rate@1"),
        ("Success@1", "hit_rate@1"),
        ("hit-rate@3", "hit_rate@3"),
        ("Accuracy@1", "hit_rate@1"),
        ("f1_5", "f1@5"),
        ("F1@5", "f1@5"),
        ("f_score@5", "f1@5"),
        ("f1", "f1"),
        ("  ndcg @ 10 ", "ndcg@10"),
        ("rbp@10", "rbp(p=0.8)@10"),
        ("rbp()@10", "rbp(p=0.8)@10"),
        ("RBP( p = .95 )@10", "rbp(p=0.95)@10"),
        ("rbo@10", "rbo(p=0.9)@10"),
        ("ndcg@007", "ndcg@7"),
    ],
)
def test_another_spelling_means_the_one_spelling(written: str, meant: str) -> None:
    assert str(parse_metric(written)) == meant


@pytest.mark.parametrize("written", ["NDCG_AT_10", "nDCG_At_10"])
def test_other_tools_cutoffs_are_read_in_capitals_too(written: str) -> None:
    assert str(parse_metric(written)) == "ndcg@10"


def test_two_spellings_of_one_metric_are_equal_and_hash_alike() -> None:
    assert {parse_metric("rbp@10"), parse_metric("RBP(p=0.80)@10")} == {parse_metric("rbp(p=0.8)@10")}


def test_a_metric_without_a_cutoff_gets_one_and_keeps_its_parameters() -> None:
    metric = parse_metric("rbp(p=0.5)")
    assert metric.k is None
    assert str(metric.at(3)) == "rbp(p=0.5)@3"
    assert str(metric) == "rbp(p=0.5)"


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("ndgc@10", f"'ndgc@10': there is no metric 'ndgc'. Did you mean 'ndcg'? {KNOWN}"),
        ("Recal@5", f"'Recal@5': there is no metric 'Recal'. Did you mean 'recall'? {KNOWN}"),
        ("utility", f"'utility': there is no metric 'utility'. {KNOWN}"),
        ("MPA@10", f"'MPA@10': there is no metric 'MPA'. Did you mean 'map'? {KNOWN}"),
        ("ndcg@0", "'ndcg@0': k is '0'; it must be a whole number, at least 1."),
        ("ndcg@-1", "'ndcg@-1': k is '-1'; it must be a whole number, at least 1."),
        ("ndcg@2.5", "'ndcg@2.5': k is '2.5'; it must be a whole number, at least 1."),
        ("ndcg@ten", "'ndcg@ten': k is 'ten'; it must be a whole number, at least 1."),
        ("ndcg@\u0663", "'ndcg@\u0663': k is '\u0663'; it must be a whole number, at least 1."),
        ("", "'' is not a metric; write it like ndcg@10 or rbp(p=0.8)@10."),
        ("@10", "'@10' is not a metric; write it like ndcg@10 or rbp(p=0.8)@10."),
        ("ndcg@", "'ndcg@' is not a metric; write it like ndcg@10 or rbp(p=0.8)@10."),
        ("ndcg@5@10", "'ndcg@5@10' is not a metric; write it like ndcg@10 or rbp(p=0.8)@10."),
        ("rbp(p=0.8@10", "'rbp(p=0.8@10' is not a metric; write it like ndcg@10 or rbp(p=0.8)@10."),
        ("ndcg(p=0.5)@5", "'ndcg(p=0.5)@5': ndcg has no parameter 'p'; it has: gain, judged_only."),
        ("rbp(q=0.5)@5", "'rbp(q=0.5)@5': rbp has no parameter 'q'; it has: p, rel, judged_only."),
        ("rbp(0.5)@5", "'rbp(0.5)@5': rbp has no parameter '0.5'; it has: p, rel, judged_only."),
        ("rbp(p=0.5,p=0.6)@5", "'rbp(p=0.5,p=0.6)@5': parameter 'p' stands twice."),
        ("rbp(p=high)@5", "'rbp(p=high)@5': p is 'high'; it must be a number."),
        ("rbp(p)@5", "'rbp(p)@5': p is ''; it must be a number."),
        ("rbp(p=0)@5", "'rbp(p=0)@5': p is '0'; it must be above 0 and below 1."),
        ("rbp(p=1.0)@5", "'rbp(p=1.0)@5': p is '1.0'; it must be above 0 and below 1."),
        ("rbp(p=nan)@5", "'rbp(p=nan)@5': p is 'nan'; it must be above 0 and below 1."),
    ],
)
def test_a_wrong_spelling_says_what_is_wrong(written: str, message: str) -> None:
    with pytest.raises(MetricError) as caught:
        parse_metric(written)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


def test_a_message_quotes_what_was_written() -> None:
    with pytest.raises(MetricError) as caught:
        parse_metric("ndgc_cut_10")
    assert str(caught.value).startswith("'ndgc_cut_10': ")


def test_two_parameters_that_differ_have_two_spellings() -> None:
    assert str(parse_metric("rbp(p=0.9999999)@10")) != str(parse_metric("rbp(p=0.9999998)@10"))


@given(st.text(alphabet="abrp1@_.()=,- 0\u0663", max_size=12))
def test_any_text_is_a_metric_or_a_metric_error(text: str) -> None:
    try:
        metric = parse_metric(text)
    except MetricError:
        return
    assert metric.name in METRICS
    assert parse_metric(str(metric)) == metric


@given(st.sampled_from(METRICS.names()), st.integers(1, 10**9))
def test_case_hyphens_and_spaces_do_not_matter(name: str, k: int) -> None:
    written = name.upper().replace("_", "-")
    assert parse_metric(f" {written} ") == parse_metric(name)
    if METRICS[name].cut != "none":
        assert parse_metric(f" {written} @ {k} ") == parse_metric(name).at(k)
        assert parse_metric(name).at(k) == Metric(name, k, parse_metric(name).parameters)
