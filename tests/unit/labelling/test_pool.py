"""The pool: which unjudged hits or random queries it takes, in which order, and the blind worklist that it writes."""

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from contests import run_into
from edited_reports import edit_report
from expectations import present
from experiments import DOCUMENTS, QUERIES
from ragtrial import load_report
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.judged_rankings import JudgedRankings
from ragtrial.errors import ReportError
from ragtrial.labelling import pooling
from ragtrial.labelling.pooling import Pool, PoolOptions, random_pool_of
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import Worklist, read_worklist
from ragtrial.report.model import Report, read_rows
from scored_runs import scored_report
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def pool_of(report: Report, depth: int | None = None, **options: Any) -> Pool:
    return Pool(input_of([report], may_be_one=True, **options).limited_to([]), depth)


def chosen(pool: Pool) -> list[tuple[str, object]]:
    """The hits that a label of could move a difference by, in their order."""
    queries = {place: query.id for place, query in enumerate(pool._inputs.queries)}
    return [(queries[hit.row], hit.found) for hit in pool.unjudged if hit.weight > 1e-12]


def report_of(folder: Path, metrics: str, runs: Mapping[str, Mapping[str, str]], **labels: Mapping[str, int]) -> Report:
    return scored_report(folder, labels or {"q1": {"r": 1}, "q2": {"r": 1}}, runs, "--metrics", metrics)


Runs = Mapping[str, Mapping[str, str]]
WEIGHED: dict[str, tuple[str, Runs, dict[str, dict[str, int]], list[tuple[str, str, float]], int]] = {
    "a hit that both have at one rank is of no use": (
        "precision@2", {"a": {"q1": "x y", "q2": "r x"}, "b": {"q1": "x z", "q2": "r y"}}, {},
        [("q1", "y", 0.5), ("q1", "z", 0.5), ("q2", "x", 0.5), ("q2", "y", 0.5)], 5,
    ),
    "the discount at its rank": ("rbp(p=0.5)@3", {"a": {"q1": "x r y", "q2": "r n v"}, "b": {"q1": "r", "q2": "r n"}},
                                 {"q1": {"r": 1}, "q2": {"r": 1, "n": 0}},
                                 [("q1", "x", 1 / 2), ("q1", "y", 1 / 8), ("q2", "v", 1 / 8)], 3),
    "the difference of the discounts at two ranks": (
        "dcg@3", {"a": {"q1": "x r y", "q2": "r"}, "b": {"q1": "r x y", "q2": "r"}}, {"q1": {"r": 2}, "q2": {"r": 1}},
        [("q1", "x", 2 - 2 / np.log2(3))], 2,
    ),
    "one setting, for its score": ("precision@2", {"a": {"q1": "x y", "q2": "r y"}}, {},
                                   [("q1", "x", 0.5), ("q1", "y", 0.5), ("q2", "y", 0.5)], 3),
    "a query outside the mean": ("precision@1", {"a": {"q1": "x", "q2": "y"}, "b": {"q1": "y", "q2": "z"}},
                                 {"q1": {"r": 1}, "q2": {"n": 0}}, [("q1", "x", 1.0), ("q1", "y", 1.0)], 2),
}  # fmt: skip
"""The metric, runs and labels; the hits that a label of could move a difference, with their weights; all unjudged."""


@pytest.mark.parametrize("case", WEIGHED)
def test_what_weighs_most_comes_first(tmp_path: Path, case: str) -> None:
    metric, runs, labels, weighed, unjudged = WEIGHED[case]
    pool = pool_of(report_of(tmp_path, metric, runs, **labels))
    assert chosen(pool) == [(query, name) for query, name, _ in weighed]
    weights = [hit.weight for hit in pool.unjudged if hit.weight > 1e-12]
    assert weights == pytest.approx([weight for _, _, weight in weighed])
    assert len(pool.unjudged) == unjudged


def test_pairs_of_the_best_or_the_baseline_and_passages_that_meet(tmp_path: Path) -> None:
    runs = {"good": {"q1": "r s", "q2": "r s"}, "bad": {"q1": "n x", "q2": "n m"}, "worse": {"q1": "n m", "q2": "x n"}}
    judged = {"r": 1, "s": 1, "n": 0, "m": 0}
    report = report_of(tmp_path, "precision@2", runs, q1=judged, q2=judged)
    assert chosen(pool_of(report)) == [("q2", "x"), ("q1", "x")]  # of equal ones the higher ranked
    alike = report_of(tmp_path / "alike", "precision@2", {**runs, "bad": {"q1": "n x", "q2": "x m"}}, q1=judged,
                      q2=judged)  # fmt: skip
    assert chosen(pool_of(alike, settings=["bad", "worse"])) == [("q1", "x")]
    assert chosen(pool_of(alike, baseline="worse")) == [("q2", "x"), ("q1", "x")]
    text = "".join(chr(ord("a") + number % 26) for number in range(100))
    rows = [
        {"doc": "d", "title": "D", "start": start, "end": end, "text": text[start:end]}
        for start, end in ((50, 60), (0, 10), (5, 20), (20, 30), (7, 12))
    ]
    joined = pooling._joined(rows)
    assert joined == [(0, 30, text[:30]), (50, 60, text[50:60])]
    assert [PoolOptions().repeated(new) for new in (1, 4, 8, 20, 100)] == [1, 1, 2, 5, 25]
    assert [PoolOptions(repeats=share).repeated(6) for share in (0.5, 3, 0)] == [6, 3, 0]


def test_only_what_stands_among_the_first_of_any_setting_is_taken(tmp_path: Path) -> None:
    report = report_of(tmp_path, "ap@3", {"a": {"q1": "r x y", "q2": "r x y"}, "b": {"q1": "y r", "q2": "r"}})
    everything = [("q1", "x"), ("q1", "y"), ("q2", "x"), ("q2", "y")]
    for depth, found in ((1, [("q1", "y")]), (2, everything[:3]), (None, everything)):
        pool = pool_of(report, depth)
        assert sorted(chosen(pool)) == found
        assert len(pool.unjudged) == len(found)


def test_rankings_that_do_not_give_the_scores_are_refused(tmp_path: Path) -> None:
    report = report_of(tmp_path, "rr@10", {"a": {"q1": "r x"}, "b": {"q1": "x r"}}, q1={"r": 1})
    edit_report(report.folder, "      0.5\n", "      0.25\n")
    with pytest.raises(ReportError, match=r"do not give its scores \(queries that differ: 1\)"):
        pool_of(load_report(report.folder))


@pytest.fixture
def kitchen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "400")
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


def test_judged_hits_are_mixed_in_and_the_seed_orders_the_items(kitchen: Path, capsys: Capture) -> None:
    judged = {(query["id"], one["doc"]) for query in QUERIES for one in query["relevant_docs"]}
    for repeat, count in (("2", 2), ("0", 0), ("0.5", None)):
        worklist = pooled(capsys, "--repeat", repeat, "--config", "experiment-report/config.yaml", "--force")
        known = sum((item.query, item.doc) in judged for item in worklist.items)
        assert known == (len(worklist.items) - known if count is None else count)
    options = ("--config", "experiment-report/config.yaml", "--repeat", "0", "--force", "--budget", "6")
    first, again, other = (pooled(capsys, *options, "--seed", seed) for seed in ("1", "1", "2"))
    assert first == again
    assert keys(first) == keys(other)
    assert [item.doc for item in first.items] != [item.doc for item in other.items]


def test_labels_that_were_changed_since_are_refused(kitchen: Path, capsys: Capture) -> None:
    options = ("--config", "experiment-report/config.yaml", "--repeat", "0", "--force", "--json", "--budget", "3")
    assert ragtrial(capsys, "pool", "report", *options).json["new"] == 3
    labels = Path("experiment-report/prompt_queries.json")
    content = json.loads(labels.read_text(encoding="utf-8"))
    for query in content["queries"]:
        query["relevant_docs"] += [
            {"doc": item.doc, "relevance": 0} for item in read_worklist("worklist.json").items
            if item.query == query["id"]
        ]  # fmt: skip
    labels.write_text(json.dumps(content), encoding="utf-8")
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


def test_without_a_config_the_file_of_the_labels_must_be_named(kitchen: Path, capsys: Capture) -> None:
    assert "is of no config that is known here: which file shall labels be written into? Name it: --labels" in refusal(
        capsys, "report"
    )
    shutil.copy(kitchen / "experiment-report" / "prompt_queries.json", kitchen / "mine.json")
    worklist = pooled(capsys, "--labels", "mine.json")
    assert (worklist.labels, worklist.config) == (str(kitchen / "mine.json"), None)
    assert json.loads(Path("worklist.json").read_text())["labels"] == "mine.json"


def test_other_documents_and_labels_of_other_queries_are_refused(kitchen: Path, capsys: Capture) -> None:
    (kitchen / "experiment-report" / "documents" / "oven.txt").write_text("Another oven.")
    said = refusal(capsys, "report", "--config", "experiment-report/config.yaml")
    assert "are not those of run" in said
    Path("other.json").write_text(json.dumps({"queries": [{"id": "x", "text": "?", "relevant_docs": []}]}))
    assert refusal(capsys, "report", "--labels", "other.json").startswith(f"{kitchen / 'other.json'}: lacks ")


def test_the_config_is_the_folder_s_own(kitchen: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    folder = kitchen / "experiment-report"
    shutil.move(kitchen / "report", folder / "report")
    monkeypatch.chdir(folder)
    assert "is of no config that is known here" in refusal(capsys, "report")
    config = Path("config.yaml").rename("experiment.yaml")
    assert pooled(capsys).config == str(folder / "experiment.yaml")
    Path("worklist.json").unlink()
    config.write_text(f"{config.read_text()}\n# another text\n")
    assert "is of no config that is known here" in refusal(capsys, "report")


def test_where_all_is_judged_nothing_is_written(tmp_path: Path, capsys: Capture) -> None:
    report = report_of(tmp_path, "rr@10", {"a": {"q1": "r n"}, "b": {"q1": "n r"}}, q1={"r": 1, "n": 0})
    assert refusal(capsys, report.folder) == (
        "nothing is left to label: all hits that the settings have among their first 10 are judged. Look deeper with "
        "--depth, or add settings or queries."
    )


@pytest.mark.parametrize("metric", ["precision@2", "rr"])
def test_settings_that_rank_alike_are_told_and_one_is_enough(tmp_path: Path, capsys: Capture, metric: str) -> None:
    """Below the cutoff they may differ."""
    below = " n" if metric == "precision@2" else ""
    runs = {"a": {"q1": "x r" + below, "q2": "r"}, "b": {"q1": "x r", "q2": "r"}}
    report = report_of(tmp_path, metric, runs, q1={"r": 1, "n": 0}, q2={"r": 1})
    told, _, reference = refusal(capsys, report.folder).rpartition(" ")
    assert told == (
        f"no label could change the difference of the settings by {metric}: they rank the unjudged hits (1 in all) "
        "alike. To pool one setting alone, for its score, give this command the report"
    )
    assert reference == f"{report.folder}:a"
    assert chosen(Pool(input_of([reference], may_be_one=True).limited_to([]))) == [("q1", "x")]


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


def test_labels_for_a_beir_folder_go_to_its_overlay(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "mine.tsv").write_text("query-id\tcorpus-id\tscore\n")
    made = ragtrial(capsys, "run", beir(tmp_path), "-q")
    assert made.code == 0, made.err
    told = ragtrial(capsys, "pool", "latest:one", "--repeat", "0", "--config", "config.yaml")
    assert told.code == 0, told.err
    worklist = read_worklist("worklist.json")
    assert (worklist.kind, worklist.labels, worklist.form) == ("overlay", str(tmp_path / "mine.tsv"), "document")
    assert {(item.doc, item.title, item.text) for item in worklist.items} <= {
        (name, name.upper(), f"{name} tells of {name}.") for name in ("bread", "soup", "oven", "fridge")
    }
    assert not {("q1", "bread"), ("q2", "soup")} & {(item.query, item.doc) for item in worklist.items}


def test_a_beir_folder_without_an_overlay_asks_for_one(tmp_path: Path, capsys: Capture) -> None:
    assert ragtrial(capsys, "run", beir(tmp_path, overlay=""), "-q").code == 0
    said = refusal(capsys, "latest:one", "--config", "config.yaml")
    assert "a BEIR folder stays as it is. Put labels of your own into a file beside it: ragtrial pool " in said
    made = ragtrial(capsys, "pool", "latest:one", "--labels", "own.tsv")
    assert "labels go to own.tsv; next: ragtrial label" in made.out
    assert read_worklist("worklist.json").labels == str(tmp_path / "own.tsv")


def test_a_scored_run_takes_texts_from_a_config(tmp_path: Path, capsys: Capture) -> None:
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


def test_texts_of_runs_and_given_rankings_together_are_those_of_the_documents(kitchen: Path, capsys: Capture) -> None:
    folder = kitchen / "experiment-report"
    rows = [f"{query['id']} Q0 storage.txt 1 1.0 given" for query in QUERIES]
    (kitchen / "given.run").write_text("\n".join(rows) + "\n")
    made = ragtrial(capsys, "score", folder / "prompt_queries.json", "given.run", "-o", "scored",
                    "--metrics", "ndcg@3")  # fmt: skip
    assert made.code == 0, made.err
    options = ("report", "scored", "--config", folder / "config.yaml", "--repeat", "0")
    made = ragtrial(capsys, "pool", *options)
    assert made.code == 0, made.err
    shown = {item.doc: item.text for item in read_worklist("worklist.json").items}
    assert "storage.txt" in shown
    assert all(text == DOCUMENTS[doc] for doc, text in shown.items())


def test_under_unit_span_items_are_passages(tmp_path: Path, capsys: Capture) -> None:
    quoted: list[dict[str, Any]] = [
        {**QUERIES[0], "relevant_docs": [{"doc": "bread/rye.md", "quote": "Bake it for an hour in a hot oven."}]},
        {**QUERIES[1], "relevant_docs": [{"doc": "storage.txt", "quote": "Soup keeps for three days"}]},
    ]
    chunker = {"kind": "recursive", "size": 60, "overlap": 0, "unit": "characters"}
    run_into(tmp_path, "report", quoted, chunker=chunker,
             evaluators={"unit": "span", "primary_metric": "precision@3", "graded": {"k": [3]}})  # fmt: skip
    worklist = pooled(capsys, "--repeat", "1", "--config", "experiment-report/config.yaml")
    assert worklist.form == "quote"
    found = {
        (row["query"], *place)
        for path in (tmp_path / "report" / "rankings").glob("*.gz")
        for row in read_rows(path)
        for place in zip(row["docs"], row["starts"], row["ends"], strict=True)
    }
    for item in worklist.items:
        assert item.text == DOCUMENTS[item.doc][present(item.start) : item.end]
    assert keys(worklist) <= found


def test_where_labels_quote_the_longest_passage_that_was_found_is_shown(tmp_path: Path, capsys: Capture) -> None:
    longest = "How long do I bake rye bread? Bake the rye bread for an hour, and the rolls for less."
    between = "Coffee is grown in Brazil, in the shade of taller trees, and shipped in sacks of jute."
    documents = {**DOCUMENTS, "notes.txt": f"{longest}\n\n{between}\n\nHow long do I bake rye bread?"}
    run_into(tmp_path, "report", documents=documents, evaluators={"primary_metric": "ndcg@3", "graded": {"k": [3]}})
    labels = Path("experiment-report/prompt_queries.json")
    content = json.loads(labels.read_text(encoding="utf-8"))
    for query in content["queries"]:
        for one in query["relevant_docs"]:
            one["quote"] = DOCUMENTS[one["doc"]][:20]
    Path("quoted.json").write_text(json.dumps(content), encoding="utf-8")
    worklist = pooled(capsys, "--labels", "quoted.json", "--repeat", "0")
    assert worklist.form == "quote"
    for item in worklist.items:
        assert item.text == documents[item.doc][present(item.start) : item.end]
    assert longest in {item.text for item in worklist.items}


PLAIN = [
    {"id": f"q{number}", "text": f"{word} of a thing", "relevant_docs": []}
    for number, word in enumerate(["red", "green", "blue", "salt", "bread", "soup", "oven", "stone"])
]


@pytest.fixture
def drawn_from(tmp_path: Path) -> Path:
    return run_into(tmp_path, "report", PLAIN)


def draw(capsys: Capture, drawn_from: Path, *options: str) -> Any:
    config = drawn_from.parent / "experiment-report" / "config.yaml"
    written = drawn_from.parent / "people.json"
    return ragtrial(capsys, "pool", drawn_from, "--config", config, "-o", written, "--force", *options)


def test_all_texts_of_so_many_queries_are_asked_one_query_after_another(drawn_from: Path, capsys: Capture) -> None:
    ended = draw(capsys, drawn_from, "--random-queries", "5", "--json")
    assert (ended.code, json.loads(ended.out)["drawn"]) == (0, "random")
    work = read_worklist(drawn_from.parent / "people.json")
    queries = [item.query for item in work.items]
    assert work.drawn == "random"
    assert len(dict.fromkeys(queries)) == 5
    assert [name for name, _ in Counter(queries).items() for _ in range(Counter(queries)[name])] == queries
    contest = input_of([load_report(drawn_from)], may_be_unlabelled=True)
    rankings = JudgedRankings(contest)
    rows = {query.id: row for row, query in enumerate(contest.queries)}
    for name, count in Counter(queries).items():
        found = {hit for setting in range(2) for hit in rankings.hits(setting)[rows[name]]}
        assert count == len(found)


def test_every_query_is_drawn_about_as_often_and_no_budget_of_labels(drawn_from: Path, capsys: Capture) -> None:
    contest = input_of([load_report(drawn_from)], may_be_unlabelled=True)
    drawn: Counter[str] = Counter()
    for seed in range(40):
        options = PoolOptions(seed=seed, config=drawn_from.parent / "experiment-report" / "config.yaml")
        drawn.update({item.query for item in random_pool_of(contest, 2, options).worklist.items})
    assert len(drawn) == len(PLAIN)
    assert 3 <= min(drawn.values()) <= max(drawn.values()) <= 20
    ended = draw(capsys, drawn_from, "--random-queries", "3", "--budget", "5")
    assert (ended.code, "leave out --budget" in ended.err) == (2, True)


def test_labels_say_that_a_query_was_drawn_and_it_is_not_drawn_again(drawn_from: Path, capsys: Capture) -> None:
    draw(capsys, drawn_from, "--random-queries", "3")
    with Session(drawn_from.parent / "people.json", who="ada") as session:
        while session.answers.current is not None:
            session.grade(0)
        session.save()
        labels = session.file
    tagged = {row["id"] for row in json.loads(labels.read_text())["queries"] if row.get("tags") == ["drawn-at-random"]}
    assert len(tagged) == 3
    again = ragtrial(capsys, "rescore", drawn_from, "--labels", labels, "-o", drawn_from.parent / "again")
    assert again.code == 0, again.err
    others = draw(capsys, drawn_from.parent / "again", "--random-queries", "5")
    assert others.code == 0, others.err
    assert not tagged & {item.query for item in read_worklist(drawn_from.parent / "people.json").items}
    refused = draw(capsys, drawn_from.parent / "again", "--random-queries", "6")
    assert "the report has 8, of which 3 were drawn before. Draw at most 5" in refused.err
