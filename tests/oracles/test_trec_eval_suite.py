"""The scores behind trec_eval's lines are those that its own test files have, line by line."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragtrial.errors import MetricError
from ragtrial.evaluation.metrics import parse_metrics
from ragtrial.runs.inputs import RunInput
from ragtrial.scoring.score_runs import Protocol
from trec_eval_lines import parse_measures, trec_lines

PARAMETERS = (
    "iprec_at_recall..10,.20,.25,.75,.50 P.5,7,3 recall.20,2000 Rprec_mult.5.0,0.2,0.35 utility.2,-1,0,0 "
    "11pt_avg..25,.5,.75 ndcg.1=3,2=9,4=4.5 ndcg_cut.10,20,23.4 success.2,5,20"
)
EACH = ["--per-query", "-"]
CASES = {
    1: ("qrels.test", "results.test", "out.test", []),
    2: ("qrels.test.with-comments", "results.test", "out.test", []),
    3: ("qrels.comment.test", "results.comment.test.gz", "out.comment.test", []),
    4: ("qrels.test", "results.test", "out.test.a", ["--metrics", "all_trec"]),
    5: ("qrels.test", "results.test", "out.test.aq", ["--metrics", "all_trec", *EACH]),
    6: ("qrels.test", "results.trunc", "out.test.aqc", ["--metrics", "all_trec", *EACH]),
    7: ("qrels.test", "results.trunc", "out.test.aqcM", ["--metrics", "all_trec", *EACH, "--depth", "100"]),
    8: (
        "qrels.rel_level", "results.test", "out.test.aql",
        ["--metrics", "all_trec relstring.20", *EACH, "--relevance-threshold", "2"],
    ),
    14: ("qrels.test", "results.test", "out.test.meas_params", ["--metrics", PARAMETERS, *EACH]),
}  # fmt: skip


def printed(qrels: str, run: str, *arguments: str) -> list[str]:
    options = dict(zip(arguments[::2], arguments[1::2], strict=True))
    depth, threshold = options.get("--depth"), options.get("--relevance-threshold", "1")
    protocol = Protocol(tuple(parse_metrics("map", trec=True)), int(threshold), depth=int(depth) if depth else None)
    names = options.get("--metrics", "official")
    return list(trec_lines(RunInput(qrels, (run,)), protocol, names, per_query="--per-query" in options))


@pytest.mark.parametrize("case", CASES)
def test_every_line_of_trec_evals_own_suite(shared_data: Path, case: int) -> None:
    folder = shared_data / "trec_eval_suite"
    qrels, run, expected, options = CASES[case]
    lines = (folder / expected).read_text().splitlines()
    assert len(lines) >= 30
    assert printed(str(folder / qrels), str(folder / run), *options) == lines


def test_measures_of_a_query_worked_by_hand(tmp_path: Path) -> None:
    """Found are 0, 2, nothing known, 1; another of grade 1 is not found. Ideal gains 2, 1, 1; R = 3."""
    (tmp_path / "qrels").write_text("q 0 a 0\nq 0 b 2\nq 0 d 1\nq 0 e 1\n")
    (tmp_path / "run").write_text("".join(f"q Q0 {name} 0 {9 - place} tag\n" for place, name in enumerate("abcd")))
    expected = {
        "relstring": "'02-1'",
        "Rprec_mult_0.40": "0.5000",  # the cut is 2 = int(1.2 + 0.9)
        "Rprec_mult_2.00": "0.3333",  # 2 of 6
        "utility": "0.0000",
        "binG": "0.3770",  # (1 / log2 3 + 1 / log2 4) / 3
        "G": "0.4405",  # (2 / log2(2 + 3 - 2) + 1 / log2(2 + 5 - 3)) / 4
        "ideal_dcg": "3.1309",
        "ndcg_rel": "0.5203",  # (1.2619 / 2.6309 + 1.6926 / 3.1309 twice) / 3
        "Rndcg": "0.2015",  # (0 / 2 + 1.2619 / 3.1309) / 2
        "set_relative_P": "0.6667",
        "set_map": "0.3333",
        "num_nonrel_judged_ret": "1",
        "rbp_p=0.8": "0.2112",  # 0.2 x (2/2 x 0.8 + 1/2 x 0.8^3)
        "rbp_resid": "0.7371",  # 0.9^4 + 0.1 x 0.9^2
    }
    metrics = "relstring Rprec_mult utility binG G ideal_dcg ndcg_rel Rndcg set_relative_P set_map"
    metrics += " num_nonrel_judged_ret rbp.p=0.8 rbp_resid"
    lines = printed(str(tmp_path / "qrels"), str(tmp_path / "run"), "--metrics", metrics, "--per-query", "-")
    found = {name.strip(): value for name, query, value in (line.split("\t") for line in lines) if query == "q"}
    assert expected.items() <= found.items()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("all_prefs", "'all_prefs' is not computed: preferences compare pairs of documents; ragtrial scores grades."),
        ("map_avgjg", "'map_avgjg' is not computed: several groups of judgments for one query are not read; "),
        ("mapp", "'mapp' is not a measure of trec_eval. Did you mean 'map'? "),
        ("map.5", "'map.5': map takes nothing behind its name."),
        ("P.0", "'P.0': cutoffs are whole numbers from 1 on, recalls are from 0 on."),
        ("P.x", "'x' must be comma-separated numbers."),
        ("", "no measure is named; `official` and `all_trec` are trec_eval's sets."),
    ],
)
def test_what_is_not_computed_is_said(text: str, why: str) -> None:
    with pytest.raises(MetricError) as caught:
        parse_measures(text)
    assert str(caught.value).startswith(why)


def test_cutoffs_may_be_written_as_they_are_printed() -> None:
    assert parse_measures("map,P_10,P_5 ndcg_cut.10") == {"map": "", "P": "10,5", "ndcg_cut": "10"}
