"""The card of a metric says what it computes with its cutoff and parameters, and is right about other tools."""

import re

import pytest

from ragtrial.evaluation.metrics import METRICS, parse_metric
from ragtrial.evaluation.metrics.cards import card, card_text
from ragtrial.records import Unit
from scenarios import example
from small_experiment import Capture, ragtrial

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


@pytest.mark.parametrize(
    ("written", "called"),
    [
        ("ndcg@10", {"trec_eval": "ndcg_cut_10", "MTEB": "ndcg_at_10", "BEIR": "NDCG@10"}),
        ("ndcg", {"trec_eval": "ndcg", "ir_measures": "nDCG", "Haystack": "DocumentNDCGEvaluator"}),
        ("ndcg(gain=exp)@10", {"ir_measures": "nDCG(dcg='exp-log2')@10", "ranx": "ndcg_burges@10"}),
        ("recall", {"trec_eval": "recall_k"}),
        ("recall(rel=2)@5", {"trec_eval": "-l 2, recall_5"}),
        ("rbp(p=0.5)@10", {"ir_measures": "RBP(p=0.5,rel=1)@10"}),
    ],
)
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
