"""The pool: which unjudged hits it takes, what it says they settle, and the blind worklist that it writes."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contests import run_into
from experiments import DOCUMENTS, QUERIES
from ragtrial import load_report
from ragtrial.comparison.comparing import ComparisonOptions
from ragtrial.comparison.contest import contest_of
from ragtrial.errors import ComparisonError, InputError
from ragtrial.labelling.pooling import item_texts, pooling
from ragtrial.labelling.pooling.pool import Repeats, parse_repeats
from ragtrial.labelling.pooling.pooling import Choice, Pool
from ragtrial.labelling.pooling.worklist import Worklist, read_worklist
from ragtrial.report.model import Report, read_lines
from scored_runs import scored_report
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]
LABELS = {"q1": {"r": 1}, "q2": {"r": 1}}


def pool_of(report: Report, depth: int | None = None, **options: Any) -> Pool:
    contest = contest_of([report], may_be_one=True, **options)
    return Pool(contest.limited_to([]), ComparisonOptions(contest.baseline), depth)


def chosen(pool: Pool, choice: Choice) -> list[tuple[str, object]]:
    return [(pool.contest.queries[hit.row].id, pool.lists.unit_of(hit.code)) for hit in choice.hits]


def report_of(folder: Path, metrics: str, runs: Mapping[str, Mapping[str, str]], **labels: Mapping[str, int]) -> Report:
    return scored_report(folder, labels or LABELS, runs, "--metrics", metrics)


def test_a_hit_that_both_settings_have_at_one_rank_is_of_no_use_to_the_verdict(tmp_path: Path) -> None:
    report = report_of(tmp_path, "precision@2", {"a": {"q1": "x y", "q2": "r x"}, "b": {"q1": "x z", "q2": "r y"}})
    pool = pool_of(report)
    choice = pool.choose(10)
    assert sorted(chosen(pool, choice)) == [("q1", "y"), ("q1", "z"), ("q2", "x"), ("q2", "y")]
    assert choice.unjudged == 5
    (settled,) = choice.settled
    assert (settled.width, settled.at_most, settled.if_likeliest, settled.labels) == (1.0, 0.0, 0.0, 4)


def test_what_weighs_most_comes_first(tmp_path: Path) -> None:
    """By rbp a rank weighs half of the one above; the first query has the higher ranks open, the second the lower."""
    report = report_of(tmp_path, "rbp(p=0.5)@3", {"a": {"q1": "x r y", "q2": "r n v"}, "b": {"q1": "r", "q2": "r n"}},
                       q1={"r": 1}, q2={"r": 1, "n": 0})  # fmt: skip
    pool = pool_of(report)
    assert chosen(pool, pool.choose(3)) == [("q1", "x"), ("q1", "y"), ("q2", "v")]
    assert chosen(pool, pool.choose(1)) == [("q1", "x")]


def test_of_hits_that_settle_as_much_that_which_more_settings_found_comes_first(tmp_path: Path) -> None:
    runs = {"a": {"q1": "r x", "q2": "r y"}, "b": {"q1": "r", "q2": "r"}, "c": {"q1": "n", "q2": "y n"}}
    report = report_of(tmp_path, "precision@2", runs, q1={"r": 1, "n": 0}, q2={"r": 1, "n": 0})
    pool = pool_of(report)
    assert chosen(pool, pool.choose(1)) == [("q2", "y")]


def test_after_the_comparison_that_decides_the_others_follow(tmp_path: Path) -> None:
    """a and b tie for the best; what is open is only in c, which is the worst."""
    runs = {"a": {"q1": "r n", "q2": "r n"}, "b": {"q1": "r m", "q2": "r m"}, "c": {"q1": "n x", "q2": "m n"}}
    report = report_of(tmp_path, "precision@2", runs, q1={"r": 1, "n": 0, "m": 0}, q2={"r": 1, "n": 0, "m": 0})
    pool = pool_of(report)
    choice = pool.choose(5)
    assert chosen(pool, choice) == [("q1", "x")]
    assert {(one.baseline, one.setting) for one in choice.settled if one.labels} == {("a", "c")}


def test_a_verdict_that_holds_whatever_the_grades_are_waits_for_those_that_are_open(tmp_path: Path) -> None:
    queries = [f"q{number}" for number in range(12)]
    good = dict.fromkeys(queries, "r s t u")
    bad = {query: f"n m k o{number % 3}" for number, query in enumerate(queries)}
    near = {**good, "q0": "r s x t", "q1": "r s t y"}
    labels = {query: {"r": 1, "s": 1, "t": 1, "u": 1, "n": 0, "m": 0, "k": 0} for query in queries}
    report = scored_report(tmp_path, labels, {"bad": bad, "good": good, "near": near}, "--metrics", "precision@4")
    pool = pool_of(report, baseline="bad")
    choice = pool.choose(50)
    assert [(one.setting, one.is_settled) for one in choice.settled] == [("good", True), ("near", True)]
    pool = pool_of(report)
    choice = pool.choose(1)
    assert [(one.baseline, one.setting, one.is_settled) for one in choice.settled] == [("good", "near", False)]
    assert chosen(pool, choice)[0] in [("q0", "x"), ("q1", "y")]


def test_of_settled_and_open_verdicts_the_open_ones_come_first(tmp_path: Path) -> None:
    queries = [f"q{number}" for number in range(12)]
    runs = {
        "bad": dict.fromkeys(queries, "n m"),
        "good": {**dict.fromkeys(queries, "r s"), "q0": "r x"},
        "like": {**dict.fromkeys(queries, "n m"), "q1": "n y"},
    }
    labels = {query: {"r": 1, "s": 1, "n": 0, "m": 0} for query in queries}
    pool = pool_of(scored_report(tmp_path, labels, runs, "--metrics", "precision@2"), baseline="bad")
    choice = pool.choose(2)
    assert chosen(pool, choice) == [("q1", "y"), ("q0", "x")]
    assert [(one.setting, one.is_settled) for one in choice.settled] == [("like", False), ("good", True)]


def test_a_choice_changes_what_the_other_hits_of_its_query_are_worth(tmp_path: Path) -> None:
    """One of two open hits tells little of a hit rate, unless it is relevant; then the other one tells all."""
    runs = {
        "a": {"q1": "x y", "q2": "v w", **{f"n{number}": "n m" for number in range(9)}},
        "b": {"q1": "r", "q2": "r", **{f"n{number}": "n m" for number in range(9)}},
    }
    labels = {"q1": {"r": 1}, "q2": {"r": 1}, **{f"n{number}": {"r": 1, "n": 0, "m": 0} for number in range(9)}}
    pool = pool_of(scored_report(tmp_path, labels, runs, "--metrics", "hit_rate@2"))
    found = chosen(pool, pool.choose(2))
    assert {query for query, _ in found} in ({"q1"}, {"q2"})
    assert len(set(found)) == 2


def test_no_hit_is_chosen_twice_for_two_comparisons(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    queries = [f"q{number}" for number in range(6)]
    runs = {name: {query: " ".join(rng.permutation(list("abcdefgh"))[:4]) for query in queries} for name in "wxyz"}
    pool = pool_of(scored_report(tmp_path, {query: {"a": 1, "b": 0} for query in queries}, runs, "--metrics", "ap@4"))
    choice = pool.choose(1_000)
    assert len(set(choice.hits)) == len(choice.hits)
    assert len([one for one in choice.settled if one.labels]) > 1
    everything = {(query, name) for query in queries for run in runs.values() for name in run[query].split()}
    assert set(chosen(pool, choice)) <= {(query, name) for query, name in everything if name not in "ab"}
    assert all(one.if_likeliest == pytest.approx(0, abs=1e-9) for one in choice.settled)


def test_passages_of_a_document_that_meet_are_shown_as_one() -> None:
    text = "".join(chr(ord("a") + number % 26) for number in range(100))
    rows = [
        {"doc": "d", "title": "D", "start": start, "end": end, "text": text[start:end]}
        for start, end in ((50, 60), (0, 10), (5, 20), (20, 30), (7, 12))
    ]
    joined = item_texts._joined(rows)
    assert [(one.start, one.end) for one in joined.stretches] == [(0, 30), (50, 60)]
    assert all(one.text == text[one.start : one.end] for one in joined.stretches)
    assert joined.text == f"{text[:30]}\n\n[...]\n\n{text[50:60]}"


def test_only_what_stands_among_the_first_of_any_setting_is_taken(tmp_path: Path) -> None:
    report = report_of(tmp_path, "ap@3", {"a": {"q1": "r x y", "q2": "r x y"}, "b": {"q1": "y r", "q2": "r"}})
    everything = [("q1", "x"), ("q1", "y"), ("q2", "x"), ("q2", "y")]
    for depth, count, found in ((1, 1, [("q1", "y")]), (2, 3, everything[:3]), (None, 4, everything)):
        pool = pool_of(report, depth)
        choice = pool.choose(10)
        assert sorted(chosen(pool, choice)) == found
        assert choice.unjudged == count


def test_one_setting_alone_is_pooled_for_the_range_of_its_score(tmp_path: Path) -> None:
    pool = pool_of(report_of(tmp_path, "precision@2", {"a": {"q1": "x y", "q2": "r y"}}))
    choice = pool.choose(10)
    assert sorted(chosen(pool, choice)) == [("q1", "x"), ("q1", "y"), ("q2", "y")]
    (settled,) = choice.settled
    assert (settled.baseline, settled.setting, settled.width, settled.at_most) == (None, "a", 0.75, 0.0)


def test_queries_outside_the_mean_are_not_pooled(tmp_path: Path) -> None:
    runs = {"a": {"q1": "x", "q2": "y"}, "b": {"q1": "y", "q2": "z"}}
    pool = pool_of(report_of(tmp_path, "precision@1", runs, q1={"r": 1}, q2={"n": 0}))
    choice = pool.choose(10)
    assert sorted(chosen(pool, choice)) == [("q1", "x"), ("q1", "y")]
    assert choice.unjudged == 2


def test_screening_many_hits_keeps_the_first_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    queries = [f"q{number}" for number in range(30)]
    runs = {name: {query: " ".join(rng.permutation(list("abcdefgh"))[:6]) for query in queries} for name in "xyz"}
    labels = {query: {"a": 1, "b": 2, "r": 3, "n": 0} for query in queries}
    pool = pool_of(scored_report(tmp_path, labels, runs, "--metrics", "ndcg@5"))
    whole = pool.choose(5)
    monkeypatch.setattr(pooling, "_MANY", 30)
    monkeypatch.setattr(pooling, "_PER_LABEL", 6)
    assert pool.choose(5) == whole


def test_a_metric_without_a_range_names_those_that_have_one(tmp_path: Path) -> None:
    report = report_of(tmp_path, "err@5,rr@10,ndcg@5", {"a": {"q1": "x"}, "b": {"q1": "y"}})
    with pytest.raises(InputError) as refused:
        pool_of(report)
    assert str(refused.value) == (
        "what labels would settle of err(max=4)@5 is not known: no way to its extremes is known here but to try all "
        "grades. Pool by another metric: --metric ndcg@5 (or rr@10)."
    )


def test_rankings_that_do_not_give_the_scores_are_refused(tmp_path: Path) -> None:
    report = report_of(tmp_path, "rr@10", {"a": {"q1": "r x"}, "b": {"q1": "x r"}}, q1={"r": 1})
    path = report.folder / "report.json"
    path.write_text(path.read_text().replace('"rr@10": 0.5', '"rr@10": 0.25'))
    with pytest.raises(ComparisonError, match=r"do not give its scores \(1 queries differ\)"):
        pool_of(load_report(report.folder)).choose(1)


@pytest.mark.parametrize(("text", "repeats"), [("0.2", Repeats(share=0.2)), ("0", Repeats(0)), ("7", Repeats(7))])
def test_repeats_are_a_share_or_a_number(text: str, repeats: Repeats) -> None:
    assert parse_repeats(text) == repeats


def test_one_in_five_is_one_of_five_items() -> None:
    assert [Repeats().of(new) for new in (1, 4, 8, 20, 100)] == [1, 1, 2, 5, 25]
    assert [Repeats(share=0.5).of(6), Repeats(count=3).of(100), Repeats(share=0.0).of(9)] == [6, 3, 0]


@pytest.mark.parametrize("text", ["1.0", "-1", "many", "nan"])
def test_other_repeats_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="--repeat is"):
        parse_repeats(text)


# The command, on a run of the kitchen


@pytest.fixture
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    run_into(tmp_path, "report", evaluators={"primary_metric": "ndcg@3", "graded": {"k": [3]}})
    return tmp_path


def pooled(capsys: Capture, *options: str) -> Worklist:
    made = ragtrial(capsys, "pool", "report", *options)
    assert made.code == 0, made.err
    return read_worklist("worklist.json")


def keys(worklist: Worklist) -> set[tuple[object, ...]]:
    return {(one.query, one.doc, one.start, one.end) for one in worklist.items}


def test_the_worklist_says_what_was_found_and_nothing_of_who_found_it(kitchen: Path, capsys: Capture) -> None:
    worklist = pooled(capsys, "--repeat", "2", "--config", "experiment-report/config.yaml")
    assert worklist.kind == "prompt_queries"
    assert worklist.labels == str(kitchen / "experiment-report" / "prompt_queries.json")
    assert worklist.config == str(kitchen / "experiment-report" / "config.yaml")
    assert worklist.report == str(kitchen / "report")
    assert (worklist.form, worklist.metric, worklist.highest_grade) == ("document", "ndcg@3", 3)
    texts = {query["id"]: query["text"] for query in QUERIES}
    for item in worklist.items:
        assert item.question == texts[item.query]
        assert (item.start, item.end) == (None, None)
        for stretch in item.text.split("\n\n[...]\n\n"):
            assert stretch in DOCUMENTS[item.doc]
    written = json.loads(Path("worklist.json").read_text(encoding="utf-8"))
    assert {key for item in written["items"] for key in item} == {
        "query", "question", "doc", "title", "start", "end", "text"
    }  # fmt: skip
    assert not {"dense", "bm25"} & set(Path("worklist.json").read_text(encoding="utf-8").split('"'))


def test_judged_hits_are_mixed_in_and_all_others_are_unjudged(kitchen: Path, capsys: Capture) -> None:
    judged = {(query["id"], one["doc"]) for query in QUERIES for one in query["relevant_docs"]}
    for repeat, count in (("2", 2), ("0", 0), ("0.5", None)):
        worklist = pooled(capsys, "--repeat", repeat, "--config", "experiment-report/config.yaml", "--force")
        known = sum((item.query, item.doc) in judged for item in worklist.items)
        assert known == (len(worklist.items) - known if count is None else count)


def test_the_seed_orders_the_items_and_does_not_choose_the_unjudged(kitchen: Path, capsys: Capture) -> None:
    options = ("--config", "experiment-report/config.yaml", "--repeat", "0", "--force", "--budget", "6")
    first, again, other = (pooled(capsys, *options, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert keys(first) == keys(other)
    assert [item.doc for item in first.items] != [item.doc for item in other.items]


def test_the_order_is_not_that_of_the_choice(kitchen: Path, capsys: Capture) -> None:
    options = ("--config", "experiment-report/config.yaml", "--repeat", "0", "--force")
    whole = pooled(capsys, *options, "--budget", "6")
    best = pooled(capsys, *options, "--budget", "3")
    assert keys(best) < keys(whole)
    assert keys(best) != {(one.query, one.doc, one.start, one.end) for one in whole.items[:3]}


def test_a_depth_beyond_where_the_metric_looks_is_warned_of(kitchen: Path, capsys: Capture) -> None:
    options = ("--config", "experiment-report/config.yaml", "--force")
    message = (
        "--depth 100 goes beyond where ndcg@3 looks, the first 3: of the unjudged hits below only such are chosen as "
        "change how many relevant ones there are to find, if the metric asks that."
    )
    made = ragtrial(capsys, "pool", "report", *options, "--depth", "100")
    assert message in made.err
    told = ragtrial(capsys, "pool", "report", *options, "--depth", "100", "--json").json
    assert {"code": "depth", "message": message} in told["warnings"]
    for depth in ("3", "2"):
        told = ragtrial(capsys, "pool", "report", *options, "--depth", depth, "--json").json
        assert "depth" not in [one["code"] for one in told["warnings"]]


def test_the_terminal_says_what_it_would_settle(kitchen: Path, capsys: Capture) -> None:
    options = ("--config", "experiment-report/config.yaml", "--budget", "2", "--repeat", "1")
    made = ragtrial(capsys, "pool", "report", *options)
    told = ragtrial(capsys, "pool", "report", *options, "--force", "--json").json
    (settled,) = [one for one in told["settled"] if one["labels"]]
    assert told["items"] == 3
    assert (told["new"], told["repeated"], told["depth"]) == (2, 1, 3)
    assert 0 <= settled["if_likeliest"] <= settled["at_most"] <= settled["width"]
    assert made.out.splitlines() == [
        "worklist.json: 3 texts of 1 query to label; among them is one that is judged already, to measure agreement",
        f"2 of {told['unjudged']} unjudged hits among the first 3 were chosen: those that settle most",
        "",
        "range of ndcg@3  width now  then at most  likely  labels",
        f"dense less bm25     {settled['width']:.4f}        {settled['at_most']:.4f}  {settled['if_likeliest']:.4f}"
        "       2",
        "",
        f"labels go to {told['labels']}; next: ragtrial label worklist.json",
    ]


def test_what_labels_settle_is_what_rescoring_finds(kitchen: Path, capsys: Capture) -> None:
    options = ("--config", "experiment-report/config.yaml", "--repeat", "0", "--force", "--json", "--budget", "3")
    before = ragtrial(capsys, "pool", "report", *options).json["settled"][0]
    labels = Path("experiment-report/prompt_queries.json")
    content = json.loads(labels.read_text(encoding="utf-8"))
    for query in content["queries"]:
        query["relevant_docs"] += [
            {"doc": item.doc, "relevance": 0} for item in read_worklist("worklist.json").items
            if item.query == query["id"]
        ]  # fmt: skip
    labels.write_text(json.dumps(content), encoding="utf-8")
    assert ragtrial(capsys, "rescore", "report", "--labels", labels, "-o", "after").code == 0
    width = pool_of(load_report("after")).choose(1).settled[0].width
    assert width == pytest.approx(before["if_likeliest"], abs=1e-12)
    assert width <= before["at_most"] + 1e-12
    stale = ragtrial(capsys, "pool", "report", *options)
    assert stale.code == 2
    message = stale.json["errors"][0]
    assert message["file"] == str(labels.absolute())
    assert message["message"].startswith("judges 3 of the hits that run ")
    assert message["message"].endswith(f": ragtrial rescore report --labels {labels.absolute()}")


def refusal(capsys: Capture, *arguments: str | Path) -> str:
    made = ragtrial(capsys, "pool", *arguments)
    assert made.code == 2
    assert not Path("worklist.json").exists()
    return made.err.removeprefix("error: ").rstrip("\n")


def test_without_a_config_nearby_the_file_of_the_labels_must_be_named(kitchen: Path, capsys: Capture) -> None:
    shutil.move(kitchen / "experiment-report", kitchen / "deep" / "er")
    assert "has no config nearby: which file shall labels be written into? Name it: --labels FILE" in refusal(
        capsys, "report"
    )
    shutil.copy(kitchen / "deep" / "er" / "prompt_queries.json", kitchen / "mine.json")
    worklist = pooled(capsys, "--labels", "mine.json")
    assert (worklist.labels, worklist.config) == (str(kitchen / "mine.json"), None)
    assert json.loads(Path("worklist.json").read_text())["labels"] == "mine.json"


def test_a_config_nearby_is_found(kitchen: Path, capsys: Capture) -> None:
    assert pooled(capsys).config == str(kitchen / "experiment-report" / "config.yaml")


def test_a_config_of_other_documents_is_refused(kitchen: Path, capsys: Capture) -> None:
    (kitchen / "experiment-report" / "documents" / "oven.txt").write_text("Another oven.")
    said = refusal(capsys, "report", "--config", "experiment-report/config.yaml")
    assert "are not those of run" in said


def test_labels_of_other_queries_are_refused(kitchen: Path, capsys: Capture) -> None:
    Path("other.json").write_text(json.dumps({"queries": [{"id": "x", "text": "?", "relevant_docs": []}]}))
    assert refusal(capsys, "report", "--labels", "other.json").startswith(f"{kitchen / 'other.json'}: lacks ")


def test_a_file_that_is_there_is_refused_before_anything_is_read(kitchen: Path, capsys: Capture) -> None:
    Path("mine.json").write_text("{}")
    assert "is there already" in refusal(capsys, "nowhere", "-o", "mine.json")


def test_where_all_is_judged_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                capsys: Capture) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    report = report_of(tmp_path, "rr@10", {"a": {"q1": "r n"}, "b": {"q1": "n r"}}, q1={"r": 1, "n": 0})
    assert refusal(capsys, report.folder) == (
        "nothing is left to label: all hits that the settings have among their first 10 are judged. Look deeper with "
        "--depth, or add settings or queries."
    )


def test_where_no_label_weighs_that_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    runs = {"a": {"q1": "x y"}, "b": {"q1": "y x"}}
    report = report_of(tmp_path, "precision@2", runs)
    assert refusal(capsys, report.folder).startswith(
        "no label could change precision@2: of what is unjudged (2 in all)"
    )


@pytest.mark.parametrize(("metric", "far"), [("precision@2", "in their first 2"), ("rr", "all the way down")])
def test_settings_that_rank_the_same_are_told_and_one_can_be_pooled_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, metric: str, far: str
) -> None:
    """Below the cutoff they may differ."""
    monkeypatch.chdir(tmp_path)
    below = " n" if metric == "precision@2" else ""
    runs = {"a": {"q1": "x r" + below, "q2": "r"}, "b": {"q1": "x r", "q2": "r"}}
    report = report_of(tmp_path, metric, runs, q1={"r": 1, "n": 0}, q2={"r": 1})
    told, _, reference = refusal(capsys, report.folder).rpartition(" ")
    assert told == (
        f"the 2 settings rank the same hits in the same order {far}, for every query: no label can tell them apart by "
        f"{metric}. Pool one alone, for the range of its score: ragtrial pool"
    )
    assert reference == f"{report.folder}:a"
    alone = Pool(contest_of([reference], may_be_one=True).limited_to([]), ComparisonOptions())
    assert chosen(alone, alone.choose(5)) == [("q1", "x")]


def test_settings_of_which_one_has_more_hits_where_the_metric_looks_do_not_rank_the_same(tmp_path: Path) -> None:
    runs = {"a": {"q1": "x r n", "q2": "r"}, "b": {"q1": "x r", "q2": "r"}}
    report = report_of(tmp_path, "precision@2,precision@3", runs, q1={"r": 1, "n": 0}, q2={"r": 1})
    assert pool_of(report, primary="precision@2").rank_alike()
    assert not pool_of(report, primary="precision@3").rank_alike()


def beir(folder: Path, overlay: str = "overlay: mine.tsv, ") -> Path:
    """A BEIR folder and a config of it, with two settings."""
    for path, text in {
        "corpus.jsonl": "".join(
            json.dumps({"_id": name, "title": name.upper(), "text": f"{name} tells of {name}."}) + "\n"
            for name in ("bread", "soup", "oven", "fridge")
        ),
        "queries.jsonl": '{"_id": "q1", "text": "bread oven"}\n{"_id": "q2", "text": "soup fridge"}\n',
        "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\tbread\t1\nq2\tsoup\t1\n",
    }.items():
        (folder / "set" / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / "set" / path).write_text(text)
    config = folder / "config.yaml"
    config.write_text(
        f"experiment: set\ndataset: {{beir: set, {overlay}split: test}}\nchunker: {{kind: document}}\n"
        "retrievers:\n  one: {kind: bm25, top_k: 3}\n  two: {kind: bm25, top_k: 3, k1: 0.1}\nlatency: false\n"
        "evaluators: {primary_metric: precision@3, order_unaware: {k: [3]}, order_aware: {k: [3]}, graded: {k: [3]}}\n"
        "output: {directory: results}\n"
    )
    return config


def test_labels_for_a_beir_folder_go_to_its_overlay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                   capsys: Capture) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.tsv").write_text("query-id\tcorpus-id\tscore\n")
    made = ragtrial(capsys, "run", beir(tmp_path), "-q")
    assert made.code == 0, made.err
    told = ragtrial(capsys, "pool", "latest:one", "--repeat", "0")
    assert told.code == 0, told.err
    worklist = read_worklist("worklist.json")
    assert (worklist.kind, worklist.labels, worklist.form) == ("overlay", str(tmp_path / "mine.tsv"), "document")
    assert {(item.doc, item.title, item.text) for item in worklist.items} <= {
        (name, name.upper(), f"{name} tells of {name}.") for name in ("bread", "soup", "oven", "fridge")
    }
    assert not {("q1", "bread"), ("q2", "soup")} & {(item.query, item.doc) for item in worklist.items}


def test_a_beir_folder_without_an_overlay_asks_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                      capsys: Capture) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert ragtrial(capsys, "run", beir(tmp_path, overlay=""), "-q").code == 0
    said = refusal(capsys, "latest:one")
    assert "a BEIR folder stays as it is; name a file for labels of your own" in said
    assert ragtrial(capsys, "pool", "latest:one", "--labels", "own.tsv").code == 0
    assert read_worklist("worklist.json").labels == str(tmp_path / "own.tsv")


def test_a_scored_run_takes_texts_from_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                                capsys: Capture) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    config = beir(tmp_path)
    runs = {"a": {"q1": "oven bread", "q2": "soup"}, "b": {"q1": "bread", "q2": "fridge"}}
    report = report_of(tmp_path / "scored", "rr@10", runs, q1={"bread": 1}, q2={"soup": 1})
    shutil.move(report.folder, tmp_path / "report")
    assert "was scored from rankings alone: which file shall labels be written into?" in refusal(capsys, "report")
    said = refusal(capsys, "report", "--labels", "own.tsv")
    assert "was scored from rankings alone, without texts to label. Name a config with the documents" in said
    worklist = pooled(capsys, "--config", str(config), "--repeat", "0")
    assert {(item.query, item.question, item.doc, item.text) for item in worklist.items} == {
        ("q1", "bread oven", "oven", "oven tells of oven."),
        ("q2", "soup fridge", "fridge", "fridge tells of fridge."),
    }
    rows = [json.loads(line) for line in (tmp_path / "set" / "corpus.jsonl").read_text().splitlines()]
    kept = [row for row in rows if row["_id"] != "oven"]
    (tmp_path / "set" / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in kept))
    Path("worklist.json").unlink()
    assert "lacks documents of run" in refusal(capsys, "report", "--config", config)


def test_under_unit_span_items_are_passages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                            capsys: Capture) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    quoted: list[dict[str, Any]] = [
        {**QUERIES[0], "relevant_docs": [{"doc": "bread/rye.md", "quote": "Bake it for an hour in a hot oven."}]},
        {**QUERIES[1], "relevant_docs": [{"doc": "storage.txt", "quote": "Soup keeps for three days"}]},
    ]
    chunker = {"kind": "recursive", "size": 60, "overlap": 0, "unit": "characters"}
    run_into(tmp_path, "report", quoted, chunker=chunker,
             evaluators={"unit": "span", "primary_metric": "precision@3", "graded": {"k": [3]}})  # fmt: skip
    worklist = pooled(capsys, "--repeat", "1")
    assert worklist.form == "quote"
    found = {
        (row["query"], *place)
        for path in (tmp_path / "report" / "rankings").glob("*.gz")
        for row in read_lines(path)
        for place in zip(row["docs"], row["starts"], row["ends"], strict=True)
    }
    for item in worklist.items:
        assert item.start is not None
        assert item.text == DOCUMENTS[item.doc][item.start : item.end]
    assert keys(worklist) <= found


def test_where_labels_quote_the_longest_passage_that_was_found_is_shown(kitchen: Path, capsys: Capture) -> None:
    labels = Path("experiment-report/prompt_queries.json")
    content = json.loads(labels.read_text(encoding="utf-8"))
    for query in content["queries"]:
        for one in query["relevant_docs"]:
            one["quote"] = DOCUMENTS[one["doc"]][:20]
    Path("quoted.json").write_text(json.dumps(content), encoding="utf-8")
    worklist = pooled(capsys, "--labels", "quoted.json", "--repeat", "0")
    assert worklist.form == "quote"
    for item in worklist.items:
        assert item.start is not None
        assert item.text == DOCUMENTS[item.doc][item.start : item.end]
