"""A metric may be a function of the user: it gets what built-in metrics get, and goes wherever these go."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from experiments import DOCUMENTS, QUERIES, Experiment, write_experiment
from ragtrial import RetrievalEvaluator, load_report, run_experiment
from ragtrial.config.load import load_config
from ragtrial.errors import InputError, MetricError
from ragtrial.evaluation.metrics import parse_metric, parse_metrics
from ragtrial.report.model import Report
from ragtrial.scoring.rescore import rescore
from small_experiment import Capture, ragtrial

MINE = """
from math import log2

def rr(query, hits, k):
    return next((1 / hit.rank for hit in hits if hit.grade), 0)

def dcg(query, hits, k):
    return sum((hit.grade or 0) / log2(hit.rank + 1) for hit in hits)

def unread(query, hits, k):
    return k - len(hits) + sum(len(hit.text) for hit in hits) / 1000 + len(query.text) / 1e6

def wrong(query, hits, k):
    return KEEP if query.id == "keep" else 0.5
"""
RETRIEVERS: Mapping[str, Any] = {
    "near": {"kind": "dense", "top_k": 4, "store": {"kind": "chroma"}},
    "words": {"kind": "bm25", "top_k": 3},
}
METRICS = ["mine:rr@3", "mine:rr@1", "mine:dcg(high=99)@3", "mine:unread(better=lower,low=-1,high=9)"]
UNREAD = "mine:unread(better=lower,low=-1,high=9)@3"


def experiment(folder: Path, *metrics: str, keep: str = "1", **evaluators: object) -> Experiment:
    made = write_experiment(
        folder, retrievers=RETRIEVERS, evaluators={"graded": {"k": [3], "metrics": list(metrics)}, **evaluators}
    )
    (folder / "mine.py").write_text(MINE.replace("KEEP", keep))
    return made


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Report]:
    made = experiment(tmp_path_factory.mktemp("mine"), *METRICS, order_aware={"k": [1, 3]})
    return made, run_experiment(made.config())


def values(report: Report, metric: str) -> list[list[float | None]]:
    return [setting.per_query.evaluations[metric] for setting in report.settings]


@pytest.mark.parametrize("k", [1, 3])
def test_a_function_gets_the_ranks_and_grades_that_metrics_get(finished: tuple[Experiment, Report], k: int) -> None:
    assert values(finished[1], f"mine:rr@{k}") == values(finished[1], f"rr@{k}")


def test_it_gets_texts_and_the_query_and_its_losses_are_audited(finished: tuple[Experiment, Report]) -> None:
    report = finished[1]
    assert values(report, "mine:dcg(high=99)@3") == values(report, "dcg@3")
    for setting, rows in zip(report.settings, values(report, UNREAD), strict=True):
        rankings = report.rankings(setting.name, [query["id"] for query in QUERIES])
        for query, row, value in zip(QUERIES, rankings, rows, strict=True):
            places = list(zip(row["docs"], row["starts"], row["ends"], strict=True))[:3]
            length = sum(len(DOCUMENTS[doc][start:end]) for doc, start, end in places)
            expected = 3 - len(places) + length / 1000 + len(query["text"]) / 1e6
            assert value == (pytest.approx(expected) if query["relevant_docs"] else None)
    audit = report.setting("near").audit
    assert audit is not None
    assert audit.lost["mine:rr@3"] == audit.lost["rr@3"]


def test_retrieved_results_and_kept_rankings_score_alike(finished: tuple[Experiment, Report], tmp_path: Path) -> None:
    made, report = finished
    evaluator = RetrievalEvaluator(made.config())
    again = rescore(report, overrides=["evaluators.order_aware.k=3"], config_file=made.file, target=tmp_path / "again")
    for metric in (*METRICS[:3], UNREAD):
        assert values(again, metric) == values(report, metric)
        for results, expected in zip(evaluator.run(evaluator.retrieve()), values(report, metric), strict=True):
            assert [row.evaluations[metric] for row in results.results] == pytest.approx(expected)


def test_a_report_names_no_function_that_is_imported(
    finished: tuple[Experiment, Report], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    folder = finished[1].folder
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text("raise SystemExit('imported')")
    for command in (["show", folder], ["compare", folder], ["report", folder, "-o", "page.html"], ["pool", folder]):
        done = ragtrial(capsys, *map(str, command))
        assert "imported" not in done.out + done.err
        assert done.code == (2 if command[0] == "pool" else 0), done.err
    with pytest.raises(InputError, match=r"functions as metrics \(mine:dcg, mine:rr, mine:unread\), and none is"):
        rescore(finished[1], overrides=["evaluators.no_relevant=zero"])
    (tmp_path / "mine.py").write_text(MINE)
    typed = rescore(finished[1], metrics="mine:rr@2", target=tmp_path / "typed")
    assert typed.primary_metric == "mine:rr@2"
    assert not [name for name in sys.modules if name == "mine"]


@pytest.mark.parametrize(("keep", "told"), [
    ("float('nan')", "returned nan for query 'keep'; it must be a number from 0 to 1. Another range is written "
     "like mine:wrong(low=-1,high=5)@3."),
    ("1.5", "returned 1.5 for query 'keep'; it must be a number from 0 to 1."),
    ("None", "returned None for query 'keep'; it must be a number"),
    ("'much'", "returned 'much' for query 'keep'; it must be a number"),
    ("1 / 0", "raised ZeroDivisionError for query 'keep': division by zero"),
])  # fmt: skip
def test_a_wrong_value_is_an_error_with_its_query(tmp_path: Path, capsys: Capture, keep: str, told: str) -> None:
    done = ragtrial(capsys, "run", experiment(tmp_path, "mine:wrong@3", keep=keep).file)
    assert done.code == 3
    assert f"error: setting 'near': mine:wrong {told}" in done.err
    assert "Traceback" not in done.err


def test_missing_functions_are_found_by_validate_and_score_refuses_all(tmp_path: Path, capsys: Capture) -> None:
    made = experiment(tmp_path, "mine:rr@3", "mine:dgc@3")
    done = ragtrial(capsys, "validate", made.file, "--json")
    (error,) = done.json["errors"]
    line = made.file.read_text().splitlines()[error["line"] - 1]
    assert (done.code, '"mine:dgc@3"' in line) == (2, True)
    assert error["message"] == "mine:dgc: the module mine has no function 'dgc'. Did you mean 'dcg'?"
    with pytest.raises(MetricError, match=r"^a:b is a function, which needs the hits themselves: only a run, "):
        parse_metrics("a:b@3")


def test_gates_and_order_follow_its_direction_and_range(tmp_path: Path, capsys: Capture) -> None:
    made = experiment(tmp_path, UNREAD, primary_metric=UNREAD)
    gates = [f"{UNREAD} worse than baseline", f"near: {UNREAD} > 8", f"words:{UNREAD} < -0.5", f"{UNREAD} < -2"]
    run = ["run", str(made.file), "--baseline", "words", "-q"]
    wrong = ragtrial(capsys, *run, *(part for gate in gates for part in ("--fail-if", gate)))
    assert f"{UNREAD} lies between -1 and 9; a limit of -2 says nothing." in wrong.err
    decided = ragtrial(capsys, *run, *(part for gate in gates[:3] for part in ("--fail-if", gate)))
    assert decided.out.endswith("3 gates: 2 passed, 1 undecided\n")
    assert f"{UNREAD} worse than baseline: near +0.0330 against words, 3 of 3 questions differ" in decided.err
    report = load_report("latest", made.folder / "results")
    means = [setting.scores[UNREAD].mean or 0 for setting in report.ranked_settings()]
    assert means == sorted(means)


def test_reports_by_other_code_are_not_compared(tmp_path: Path, capsys: Capture) -> None:
    made = experiment(tmp_path, "mine:rr@3")
    first = run_experiment(made.config())
    (tmp_path / "mine.py").write_text(MINE.replace("1 / hit.rank", "1 / hit.rank**2"))
    second = run_experiment(load_config(made.file))
    done = ragtrial(capsys, "compare", first.folder, second.folder, "--metrics", "mine:rr@3")
    assert done.code == 2
    assert "other formula (mine:rr@3): the value of mine:rr for the first k hits (code " in done.err


@pytest.mark.parametrize(("text", "spelled"), [
    ("my_metrics:reward@10", "my_metrics:reward@10"),
    ("Pkg.mod:Reward(high=5.0, better=LOWER)@3", "Pkg.mod:Reward(better=lower,high=5)@3"),
    ("a:b(low=0,high=1,better=higher)", "a:b"),
    ("a:b(low=-0.5)@2", "a:b(low=-0.5)@2"),
])  # fmt: skip
def test_a_function_is_spelled_with_its_direction_and_its_range(text: str, spelled: str) -> None:
    assert str(parse_metric(text)) == str(parse_metric(spelled)) == spelled


@pytest.mark.parametrize(("text", "fault"), [
    ("a:b(low=2)@3", "low must be below high"),
    ("a:b(p=1)@3", "a:b has no parameter 'p'; it has: better, low, high."),
    ("a:b(better=more)@3", "better is 'more'; it must be one of: higher, lower."),
    ("a:b@0", "k is '0'"),
    ("a:", "is not a metric"),
])  # fmt: skip
def test_a_function_that_is_spelled_wrong_is_an_error(text: str, fault: str) -> None:
    with pytest.raises(MetricError, match=fault.replace("(", r"\(")):
        parse_metric(text)
