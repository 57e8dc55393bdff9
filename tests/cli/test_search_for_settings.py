"""A search by the command line: what it says, what it writes, what it refuses, and that it goes on after a kill."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from commands import Outcome
from ragtrial.report.model import load_report
from small_experiment import Capture, ragtrial, refused, small_experiment, succeeded

WORDS = ["apple", "brick", "cloud", "delta", "ember", "flint", "grape", "haze"]
DOCUMENTS = {
    f"d{number}.txt": f"{WORDS[number % 8]} {WORDS[number // 8 % 8]} item{number}. {WORDS[(number * 3) % 8]} " * 4
    for number in range(48)
}
DOCUMENTS |= {f"other{number}.txt": f"{WORDS[number % 8]} {WORDS[number % 5]}. " * 3 for number in range(10)}
LABELS = {
    "queries": [
        {
            "id": f"q{number}", "text": f"{WORDS[number % 8]} {WORDS[number // 8 % 8]}",
            "relevant_docs": [{"doc": f"d{number}.txt"}], "tags": ["late"] if number >= 24 else [],
        }
        for number in range(48)
    ]
}  # fmt: skip
CONFIG = """\
experiment: small
dataset: {corpus: documents, queries: prompt_queries.json}
chunker: {kind: recursive, size: 12, overlap: 0, tokenizer: words}
embedder: {kind: custom, function: "hashing:embed"}
store: {kind: exact}
retrievers:
  dense: {kind: dense}
  bm25: {kind: bm25}
  both: {kind: fusion, inputs: [dense, bm25]}
sweep:
  matrix:
    chunker.size: [6, 12, 24]
    retrievers.bm25.k1: {between: [0.2, 2.0]}
    retrievers.both.candidates: {between: [10, 100], log: true}
latency: false
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_experiment(tmp_path, config=CONFIG, labels=LABELS, documents=DOCUMENTS)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


def test_a_plan_takes_clusters_by_document_as_the_search_does(folder: Path, capsys: Capture) -> None:
    labels = {"queries": [{**query, "relevant_docs": [{"doc": f"d{number // 2}.txt"}]}
                          for number, query in enumerate(LABELS["queries"])]}  # fmt: skip
    (folder / "prompt_queries.json").write_text(json.dumps(labels))
    for clusters in ("null", "document"):
        options = ("search={method: random, settings: 4}", f"evaluators.clusters={clusters}")
        plan = ragtrial(capsys, "plan", "experiment.yaml", *(word for option in options for word in ("--set", option)))
        assert ("belong together" in plan.out) == (clusters == "document")


def search(capsys: Capture, text: str, *more: str) -> Outcome:
    return ragtrial(capsys, "run", "experiment.yaml", "--set", f"search={text}", *more)


def test_a_search_says_its_winner_and_is_compared_on_held_out_questions(folder: Path, capsys: Capture) -> None:
    made = search(capsys, "{method: tpe, settings: 12, held_out: 0.5, baseline: bm25}")
    assert made.code == 0
    assert "With 24 held-out questions a difference from the baseline of about 0.12 can be shown" in made.err
    assert "\nBest: " in made.out
    assert "On 24 held-out questions: " in made.out
    assert made.out.count("Next: ") == 1
    assert " settings tried by tpe search, seed 0: " in made.out
    assert f"\nwinner: {load_report('latest').folder / 'winner.yaml'}\n" in made.out
    report = load_report("latest")
    assert report.search is not None
    made = ragtrial(capsys, "compare", "latest", "--json")
    assert made.json["queries"] == len(report.search.held_out) == 24
    assert any(warning["code"] == "held-out" for warning in made.json["warnings"])
    full, short = (ragtrial(capsys, "compare", "latest", "--search", *more).out for more in (["--full"], []))
    assert "12 settings tried by tpe search" in full
    assert "best so far" in full
    assert [len(re.findall(r"^\S+ +24 +0\.", screen, re.MULTILINE)) for screen in (full, short)] == [15, 10]
    assert "\n5 more rows: ragtrial compare REPORT --search --full.\n" in short


def test_the_winner_is_a_config_that_runs_and_scores_the_same(folder: Path, own_cache: Path, capsys: Capture) -> None:
    made = search(capsys, "{settings: 12}", "--json")
    winner = made.json["search"]["winner"]
    assert {trial["held_out"] for trial in made.json["search"]["trials"]} == {None}
    report = load_report("latest")
    again = succeeded(capsys, "run", report.folder / "winner.yaml", "--json")
    (setting,) = again.json["settings"]
    assert setting["scores"]["ndcg@10"]["mean"] == pytest.approx(winner["searched"])


@pytest.mark.parametrize("text", ["{settings: 8}", "{method: tpe, settings: 8, held_out: 0.5}"])
def test_the_report_has_of_each_setting_what_a_run_of_it_has(folder: Path, capsys: Capture, text: str) -> None:
    """With a part that is no setting of its own, whose rankings the report keeps, too."""
    alone = ["--set", "retrievers.dense.score=false"]
    assert search(capsys, text, *alone).code == 0
    searched = load_report("latest")
    (folder / "sweep.yaml").write_text(json.dumps({**searched.config, "workspace": "other", "experiment": "sweep"}))
    names = [option for setting in searched.settings for option in ("--setting", setting.name)]
    succeeded(capsys, "run", "sweep.yaml", *names)
    run = load_report("latest")
    assert run.search is None
    seconds: Any = {"timings": True, "costs": {"embedding_seconds", "indexing_seconds"}}
    settings = [
        sorted((one.model_dump(exclude=seconds) for one in report.settings), key=lambda one: str(one["name"]))
        for report in (searched, run)
    ]
    assert settings[0] == settings[1]
    folders = [report.folder / "rankings" for report in (searched, run)]
    files = [
        {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
        for folder in folders
    ]
    assert any("dense" in name for name in files[0])
    assert files[0] == files[1]


def test_a_search_run_again_makes_nothing_and_is_the_same(folder: Path, own_cache: Path, capsys: Capture) -> None:
    text = "{method: tpe, settings: 8, held_out: [late]}"
    first = search(capsys, text, "--json")
    stages = set((own_cache / "rankings").iterdir())
    again = search(capsys, text, "--json")
    assert set((own_cache / "rankings").iterdir()) == stages
    drop = {"seconds"}
    trials = [[{key: one for key, one in trial.items() if key not in drop} for trial in made.json["search"]["trials"]]
              for made in (first, again)]  # fmt: skip
    assert trials[0] == trials[1]
    assert first.json["search"]["winner"] == again.json["search"]["winner"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{method: tpe}", "search.method is tpe, which looks at the labels while it searches, so that the verdict"),
        ("{method: tpe, held_out: 0.1}", "leaves 43 queries to search by and 5 for the verdict"),
        ("{group_by: document}", "search.group_by has no effect without a share in search.held_out"),
        ("{within: {speed: 3}}", "search.within.speed: there is no such limit. It must be one of latency.p50"),
        ("{within: {latency.p95: 3}}", "search.within.latency.p95 needs the latency, and latency is false"),
        ("{within: {tokens@7: 3}}", "no metric is cut at 7"),
        ("{baseline: best}", "search.baseline is 'best'. It must be one of dense, bm25, both"),
        ("{settings: 1}", "search.settings is 1; it must be at least 2"),
        ("{method: bayes}", "search.method: there is no search method 'bayes'. Known: random, tpe."),
        ("null", "retrievers.bm25.k1 is any value between two; that takes a search, or list the values."),
    ],
)
def test_a_search_that_cannot_be_meant_is_refused(folder: Path, capsys: Capture, text: str, message: str) -> None:
    refused(capsys, "run", "experiment.yaml", "--set", f"search={text}", says=message)


def test_gates_are_refused_with_what_to_do(folder: Path, capsys: Capture) -> None:
    searched = ("run", "experiment.yaml", "--set", "search={settings: 4}", "--fail-if", "ndcg@10 < 0.1")
    refused(capsys, *searched, says="run the winner's config with gates")


def test_values_for_no_combination_and_limits_leave_settings_out(folder: Path, capsys: Capture) -> None:
    wrong = ("--set", "search={settings: 4}", "--set", "sweep.matrix.chunker.size=[0, 12]")
    refused(capsys, "run", "experiment.yaml", *wrong, says="chunker.size is 0; it must be at least 1")
    left_out = search(capsys, "{settings: 20}", "--set", "sweep.matrix.chunker.overlap=[6, 7, 8, 9, 10, 11]", "--json")
    assert left_out.code == 0
    assert ["overlap" in reason for reason in left_out.json["search"]["refused"]] == [True] * 5
    made = search(capsys, "{settings: 6, within: {characters@10: 0}}", "--json")
    assert made.json["search"]["winner"] is None
    assert made.json["search"]["sentences"][0].endswith(" meets the limits of search.within.")
    assert not (load_report("latest").folder / "winner.yaml").exists()


FAILING = """
from pathlib import Path

TEXTS = {path.name: set(path.read_text().split()) for path in sorted((Path(__file__).parent / "documents").iterdir())}


def find(queries, top_k, boost=1, words=1):
    if boost > 2:
        raise ValueError("boost too high")
    asked = [set(query.split()) for query in queries]
    return [sorted(TEXTS, key=lambda name: -boost * len(query & TEXTS[name]))[: top_k - words + 1] for query in asked]
"""
OWN = """\
experiment: small
dataset: {corpus: documents, queries: prompt_queries.json}
latency: false
retrievers: {mine: {kind: custom, function: "own:find", options: {boost: 1, words: 1}}}
sweep: {matrix: {retrievers.mine.options.boost: [1, 2, 3], retrievers.mine.options.words: [1, 4]}}
"""


@pytest.mark.parametrize(
    "text",
    ["{method: random, settings: 9}", "{method: random, settings: 9, held_out: 0.5}", "{settings: 9, held_out: [late]}",
     "{method: tpe, settings: 9, held_out: 0.25}"],
)  # fmt: skip
def test_a_search_with_failed_settings_counts_them_and_exits_with_4(text: str, folder: Path, capsys: Capture) -> None:
    (folder / "experiment.yaml").write_text(OWN)
    (folder / "own.py").write_text(FAILING)
    made = search(capsys, text, "--json")
    assert made.code == made.json["exit_code"] == 4, made.err
    found = made.json["search"]
    failed = found["failed"]
    assert failed
    assert (found["settings"], found["possible"]) == (5, 6)  # without the config itself; nine may be
    assert all("boost3" in name for name in failed)
    assert sorted(one["name"] for one in made.json["failures"]) == sorted(failed)
    assert any(sentence.startswith(f"{len(failed)} of ") for sentence in found["sentences"])
    assert found["winner"]["setting"] not in failed
    report = load_report("latest")
    assert sorted(one.name for one in report.failures) == sorted(failed)
    assert not any("boost3" in one.name for one in report.settings)
