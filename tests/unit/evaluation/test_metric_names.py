"""A metric is a value with one spelling, to which other tools' lead, and its card says what it computes."""

import re

import pytest
from hypothesis import given, strategies as st

from ragtrial.errors import MetricError
from ragtrial.evaluation.metrics import METRICS, Metric, parse_metric, parse_metrics
from ragtrial.evaluation.metrics.cards import card, card_text
from ragtrial.records import Unit
from scenarios import example
from small_experiment import Capture, ragtrial

KNOWN = f"Known: {', '.join(sorted(METRICS.names()))}."


@pytest.mark.parametrize("spelling", [
    *("precision@5", "recall@10", "f1@5", "hit_rate@10", "rr@10", "ap@10", "dcg@10", "ndcg@10", "judged@10"),
    *("rbp(p=0.8)@10", "rbo(p=0.9)@10", "ndcg", "rbp(p=0.8)", "err(max=4)@20"),
    *("r_precision", "bpref", "infap"),
    *("capped_recall@10", "capped_ap@10", "unjudged@10", "rbp_residual(p=0.8)"),
    *("precision(rel=2)@5", "ap(rel=2,judged_only=true)@10", "ndcg(gain=exp)@10", "ndcg(1=3,2=9.5,gain=exp)"),
    *("ndcg(1=3,2=9,4=4.5)@10", "rbp(p=0.5,rel=3,judged_only=true)@10"),
])  # fmt: skip
def test_the_one_spelling_parses_and_prints_back(spelling: str) -> None:
    assert str(parse_metric(spelling)) == spelling


OF_OTHER_TOOLS = {
    "trec_eval": """
        P.5 -> precision@5 | ndcg_cut.10 -> ndcg@10 | ndcg.1=3,2=9 -> ndcg(1=3,2=9) | rbp.p=0.9 -> rbp(p=0.9)
        unj_10 -> unjudged@10
    """,
    "ir_measures": """
        nDCG(dcg='log2')@10 -> ndcg@10 | nDCG(dcg="exp-log2",judged_only=True)@10 -> ndcg(gain=exp,judged_only=true)@10
        P(rel=2)@5 -> precision(rel=2)@5 | AP(judged_only=False)@100 -> ap@100 | Rprec(rel=2) -> r_precision(rel=2)
        RBP(rel=1) -> rbp(p=0.8,rel=1)
    """,
    "ranx": "dcg_burges@10 -> dcg(gain=exp)@10 | r-precision -> r_precision",
    "Haystack": "document_mrr -> rr | document_map -> ap",
    "others": """
        ndcg_cut@10 -> ndcg@10 | MAP -> ap | map@10 -> ap@10 | map_cut.10 -> ap@10 | AP@5 -> ap@5
        P_5 -> precision@5 | hit-rate@3 -> hit_rate@3 | Accuracy@1 -> hit_rate@1 | f1_5 -> f1@5 | F1@5 -> f1@5
        f_score@5 -> f1@5 | f1 -> f1 |   ndcg @ 10  -> ndcg@10 | rbp@10 -> rbp(p=0.8)@10 | rbp()@10 -> rbp(p=0.8)@10
        RBP( p = .95 )@10 -> rbp(p=0.95)@10 | rbo@10 -> rbo(p=0.9)@10 | ndcg@007 -> ndcg@7
    """,
}
"""By tool, its spellings with the metric that each one means; those on the cards of metrics are read elsewhere."""


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        pytest.param(*pair.strip("\n").split(" -> "), id=f"{tool} {pair.strip()}")
        for tool, names in OF_OTHER_TOOLS.items()
        for line in names.strip().splitlines()
        for pair in line.removeprefix("        ").split(" | ")
    ],
)
def test_the_names_of_other_tools_mean_the_metric_with_the_same_number(written: str, meant: str) -> None:
    assert parse_metric(written) == parse_metric(meant)
    assert str(parse_metric(written)) == str(parse_metric(meant))
    assert parse_metric(str(parse_metric(written))) == parse_metric(written)


@pytest.mark.parametrize(("written", "meant"), [
    ("ndcg@10,ap", ["ndcg@10", "ap"]),
    ("ndcg@10, nDCG@10 ,ndcg_cut_10", ["ndcg@10"]),
    ("P.5,P.10,map", ["precision@5", "precision@10", "ap"]),
    ("ndcg_cut.10,rbp(p=0.5,rel=2)@10,P(rel=2)@5", ["ndcg@10", "rbp(p=0.5,rel=2)@10", "precision(rel=2)@5"]),
    ("ap,", ["ap"]),
])  # fmt: skip
def test_a_list_has_commas_between(written: str, meant: list[str]) -> None:
    assert [str(metric) for metric in parse_metrics(written)] == meant


@given(st.text(alphabet="abrp1@_.()=,-{}: 0P5\u0663", max_size=14))
def test_any_text_is_a_list_of_metrics_or_a_metric_error(text: str) -> None:
    try:
        metrics = parse_metrics(text)
    except MetricError:
        return
    assert parse_metrics(",".join(map(str, metrics))) == metrics


@pytest.mark.parametrize(("written", "message"), [
    ("ndgc@10", f"'ndgc@10': there is no metric 'ndgc'. Did you mean 'ndcg'? {KNOWN}"),
    ("ndcg@0", "'ndcg@0': k is '0'; it must be a whole number from 1 to 1,000,000."),
    ("ndcg@2.5", "'ndcg@2.5': k is '2.5'; it must be a whole number from 1 to 1,000,000."),
    ("ndcg@\u0663", "'ndcg@\u0663': k is '\u0663'; it must be a whole number from 1 to 1,000,000."),
    ("", "'' is not a metric; write it like ndcg@10 or rbp(p=0.8)@10."),
    ("rbp(p=0.8@10", "'rbp(p=0.8@10' is not a metric; write it like ndcg@10 or rbp(p=0.8)@10."),
    ("ndcg(p=0.5)@5", "'ndcg(p=0.5)@5': ndcg has no parameter 'p'; it has: gain, judged_only."),
    ("rbp(0.5)@5", "'rbp(0.5)@5': rbp has no parameter '0.5'; it has: p, rel, judged_only."),
    ("rbp(p=0.5,p=0.6)@5", "'rbp(p=0.5,p=0.6)@5': duplicate parameter 'p'."),
    ("rbp(p=high)@5", "'rbp(p=high)@5': p is 'high'; it must be a number."),
    ("rbp(p=0)@5", "'rbp(p=0)@5': p is '0'; it must be above 0 and below 1."),
    ("ndcg_cut", "'ndcg_cut' has no cutoff; write ndcg@k."),
    ("recip_rank_10", "'recip_rank_10': recip_rank has no cutoff; write rr@10."),
    ("bpref@10", "'bpref@10': bpref has no cutoff; write bpref."),
    ("precision(rel=0)@5", "'precision(rel=0)@5': rel is '0'; it must be from 1 to 2,147,483,647."),
    ("precision(rel=1.5)@5", "'precision(rel=1.5)@5': rel is '1.5'; it must be a whole number."),
    ("ap(judged_only=yes)", "'ap(judged_only=yes)': judged_only is 'yes'; it must be true or false."),
    ("ndcg(gain=cubic)@5", "'ndcg(gain=cubic)@5': gain is 'cubic'; it must be one of: linear, exp."),
    ("nDCG(dcg='log3')@5", "\"nDCG(dcg='log3')@5\": gain is 'log3'; it must be one of: linear, exp."),
    ("ndcg(1=-2)@5", "'ndcg(1=-2)@5': the gain of grade 1 is '-2'; it must be from 0 to 1e+100."),
    ("ndcg(1=2,1=3)@5", "'ndcg(1=2,1=3)@5': duplicate parameter '1'."),
    ("ap(1=2)@5", "'ap(1=2)@5': ap has no parameter '1'; it has: rel, judged_only."),
    ("rbp.95", "'rbp.95' may mean p or k; write rbp(p=0.8), or rbp@10."),
    ("hits@5",
     "'hits@5' is the name of another number: ranx counts relevant hits with it; hit_rate@k says whether there "
     "is one, recall@k how many of all."),
    ("Hole@10",
     "'Hole@10' is the name of another number: BEIR counts hits judged for no query at all; unjudged@k counts "
     "those not judged for the query itself."),
    ("DocumentRecallEvaluator",
     "'DocumentRecallEvaluator' is the name of another number: Haystack's mode single_hit is 1 where anything "
     "relevant was retrieved, its mode multi_hit is recall."),
    ("rbp(p=nan)@5", "'rbp(p=nan)@5': p is 'nan'; it must be above 0 and below 1."),
])  # fmt: skip
def test_a_wrong_spelling_says_what_is_wrong(written: str, message: str) -> None:
    with pytest.raises(MetricError) as caught:
        parse_metric(written)
    assert str(caught.value) == message
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(("written", "shown"), [
    ("ndcg(1=1,2=5)@3", "ndcg(2=5)@3"), ("ndcg(0=0,3=3.0)@3", "ndcg@3"),
    ("ndcg(2=3,gain=exp)@3", "ndcg(gain=exp)@3"), ("ndcg(2=2,gain=exp)@3", "ndcg(2=2,gain=exp)@3"),
    ("ndcg(2=3)@3", "ndcg(2=3)@3"),
])  # fmt: skip
def test_a_gain_that_a_grade_has_anyway_is_not_spelled_out(written: str, shown: str) -> None:
    assert str(parse_metric(written)) == shown


@given(st.sampled_from(METRICS.names()), st.integers(1, 10**6))
def test_case_hyphens_and_spaces_do_not_matter(name: str, k: int) -> None:
    written = name.upper().replace("_", "-")
    assert parse_metric(f" {written} ") == parse_metric(name)
    if METRICS[name].cut != "none":
        assert parse_metric(f" {written} @ {k} ") == parse_metric(name).at(k)
        assert parse_metric(name).at(k) == Metric(name, k, parse_metric(name).parameters)


CARD = """\
capped_ap(rel=2)@5 (order_aware)
  formula       sum over relevant hits in the first 5 of precision at their rank, / min(5, R)
  gain          1 for a relevant hit, else 0
  denominator   the most relevant hits that the first 5 can hold
  range         0 to 1
  relevant      from grade 2 on
  defined for   queries with at least one relevant document
  over queries  the mean
  parameter     rel=2
                judged_only=false
  unlike        trec_eval's map_cut_k, and everybody else's MAP@5, divides by R: ap@5
  source        Buckley & Voorhees 2005, TREC: Experiment and Evaluation in IR, chapter 3; over
                min(k, R) as in the competitions of Kaggle (MAP@k)"""

every_metric = pytest.mark.parametrize("name", METRICS.names())


def test_a_card_is_text_and_tells_gains_as_they_are_given() -> None:
    assert card_text(card(parse_metric("capped_ap(rel=2)@5"))) == CARD
    assert card(parse_metric("ndcg(1=3,2=9.5)@10"))["gain"] == (
        "3 for grade 1, 9.5 for grade 2, else the grade; 0 for grades below 0 and what nobody judged"
    )
    assert card(parse_metric("dcg(gain=exp)@10"))["gain"] == "2^grade - 1; 0 for grades below 0 and what nobody judged"


@every_metric
def test_every_metric_has_a_card_without_gaps_or_brackets_left_to_fill(name: str) -> None:
    for k in (None, 7):
        made = card(example(name, k))
        text = card_text(made, width=80)
        assert made["formula"]
        assert made["gain"]
        assert made["denominator"]
        assert made["source"]
        assert "{" not in text
        assert "None" not in text
        assert max(len(line) for line in text.splitlines()) <= 80
        if k and METRICS[name].cut != "none":
            assert not re.search(r"\bk\b", made["formula"] + made["denominator"] + "".join(made["edge_cases"]))


@every_metric
def test_what_a_card_says_a_metric_is_called_elsewhere_is_read_as_that_metric(name: str) -> None:
    """Haystack's and Kaggle's spellings, and notes in brackets, are not for reading."""
    for metric in (example(name, None), example(name, 7)):
        for tool, spelling in card(metric)["same_as"].items():
            readable = spelling.split(" (")[0]
            if tool not in ("Kaggle", "ml_metrics", "gdeval"):
                if metric.k is None and METRICS[name].cut == "required":
                    readable = re.sub(r"k$", "7", readable)
                read = parse_metric(readable)
                assert (read.name, read.parameters) in {
                    (name, parse_metric(name).parameters),
                    (name, tuple((key, value) for key, value in (("p", 0.8), ("rel", 1)) if name == "rbp")),
                }


@pytest.mark.parametrize(("written", "called"), [
    ("ndcg@10", {"trec_eval": "ndcg_cut_10", "MTEB": "ndcg_at_10", "BEIR": "NDCG@10"}),
    ("ndcg", {"trec_eval": "ndcg", "ir_measures": "nDCG", "Haystack": "DocumentNDCGEvaluator"}),
    ("ndcg(gain=exp)@10", {"ir_measures": "nDCG(dcg='exp-log2')@10", "ranx": "ndcg_burges@10"}),
    ("recall", {"trec_eval": "recall_k"}),
    ("recall(rel=2)@5", {"trec_eval": "-l 2, recall_5"}),
    ("rbp(p=0.5)@10", {"ir_measures": "RBP(p=0.5,rel=1)@10"}),
])  # fmt: skip
def test_what_other_tools_call_it(written: str, called: dict[str, str]) -> None:
    assert called.items() <= card(parse_metric(written))["same_as"].items()


@pytest.mark.parametrize("written", ["ndcg(1=3)@10", "ap(judged_only=true)@10", "ndcg(gain=exp)", "rbo@10"])
def test_where_no_other_tool_has_the_number_none_is_named(written: str) -> None:
    assert card(parse_metric(written))["same_as"] == {}


def test_explain_gives_the_card_as_json_and_refuses_what_is_no_metric(capsys: Capture) -> None:
    made = ragtrial(capsys, "explain", "MRR@10", "--json")
    assert (made.code, made.err) == (0, "")
    assert made.json["metric"] == "rr@10"
    assert made.json["same_as"]["MTEB"] == "mrr_at_10"
    assert made.json["parameters"] == {"judged_only": "false"}
    made = ragtrial(capsys, "explain", "bpref@3")
    assert (made.code, made.out, made.err) == (2, "", "error: 'bpref@3': bpref has no cutoff; write bpref.\n")


@pytest.mark.parametrize("unit", ["document", "span"])
def test_each_column_of_a_table_has_one_metric(unit: Unit) -> None:
    columns = sorted(own.columns[unit] for _, own in METRICS.registered() if unit in own.columns)
    assert columns == list(range(1, 10))
