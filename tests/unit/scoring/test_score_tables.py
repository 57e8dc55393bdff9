"""Tables of scores are compared as the same numbers in a report are, whatever their form."""

import csv
import gzip
import io
import json
import random
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hand_made
from ragtrial import compare
from ragtrial.comparison.comparing import options_of
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.comparison_parts import Comparison
from ragtrial.errors import InputError, ReportError
from ragtrial.runs.streams import release
from ragtrial.scoring.tables.reading import read_table
from ragtrial.scoring.tables.table_report import table_reports
from ragtrial.views.analysis import analyse
from ragtrial.views.comparison_tables import comparison_blocks
from ragtrial.views.table import plain_text

RANDOM = np.random.default_rng(5)
QUESTIONS = [f"Where is number {place}?" for place in range(30)]
BASE = RANDOM.random(30)
SCORES: dict[str, Sequence[float]] = {
    "bm25": BASE.tolist(),
    "dense": np.clip(BASE + RANDOM.normal(0.1, 0.15, 30), 0, 1).tolist(),
    "hybrid": np.clip(BASE + RANDOM.normal(0.15, 0.15, 30), 0, 1).tolist(),
}
LONG: list[dict[str, Any]] = [
    {"question": question, "system": system, "metric": "faithfulness", "score": value}
    for system, values in SCORES.items()
    for question, value in zip(QUESTIONS, values, strict=True)
]
ROWS: list[dict[str, Any]] = [
    {"question": question, "system": system, "faithfulness": value, "reference": "42"}
    for system, values in SCORES.items()
    for question, value in zip(QUESTIONS, values, strict=True)
]
WIDE: list[dict[str, Any]] = [
    {"question": question, **{system: values[place] for system, values in SCORES.items()}}
    for place, question in enumerate(QUESTIONS)
]


def text_of(rows: Sequence[Mapping[str, Any]], sign: str = ",") -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, list(rows[0]), delimiter=sign)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def written(folder: Path, name: str, content: str) -> Path:
    (folder / name).write_text(content, encoding="utf-8", newline="")
    return folder / name


def numbers(comparison: Comparison) -> list[Any]:
    """All that is computed from the scores, without the names of the metric and of files."""
    fields = {"baseline", "setting", "difference", "ci", "p", "p_corrected", "n", "clusters", "verdict", "wins"}
    return [part.model_dump(include=fields) for part in comparison.comparisons]


@pytest.fixture(scope="module")
def expected() -> list[Any]:
    report = hand_made.report_of([hand_made.setting_of(name, values) for name, values in SCORES.items()])
    return numbers(compare(report))


FORMS = {
    "long.csv": text_of(LONG),
    "long.tsv": text_of(LONG, "\t"),
    "long.json": json.dumps(LONG),
    "long.jsonl": "".join(f"{json.dumps(row)}\n" for row in LONG),
    # as DataFrame.to_json writes rows by default
    "columns.json": json.dumps({name: {str(place): row[name] for place, row in enumerate(LONG)} for name in LONG[0]}),
    "by-question.csv": text_of(sorted(LONG, key=lambda row: QUESTIONS.index(str(row["question"])))),
    "synonyms.csv": text_of(LONG).replace("question,system,metric,score", "Query,Retriever,Metric_Name,Value", 1),
    "rows.csv": text_of(ROWS),
    "settings.csv": "sep=;\r\n" + text_of(WIDE, ";"),
    "decimal-commas.csv": re.sub(r";(-?\d+)\.(\d)", r";\1,\2", text_of(LONG, ";")),
    "repeat-failed.csv": text_of([*LONG, {**LONG[0], "score": "failed"}]),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_table_of_any_form_gives_the_verdicts_of_a_report(name: str, tmp_path: Path, expected: list[Any]) -> None:
    assert numbers(compare(written(tmp_path, name, FORMS[name]))) == expected


def test_frames_and_rows_in_memory_are_tables(expected: list[Any], tmp_path: Path) -> None:
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    for table in (LONG, pandas.DataFrame(ROWS), polars.DataFrame(LONG), pyarrow.Table.from_pylist(WIDE)):
        assert numbers(compare(table)) == expected
    pandas.DataFrame(LONG).to_parquet(tmp_path / "long.parquet")
    assert numbers(compare(tmp_path / "long.parquet")) == expected


def test_stdin_is_a_table_as_often_as_it_is_named(monkeypatch: pytest.MonkeyPatch, expected: list[Any]) -> None:
    for content in (FORMS["long.csv"].encode(), gzip.compress(FORMS["long.jsonl"].encode())):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert numbers(compare("-")) == numbers(compare("-")) == expected
        with pytest.raises(InputError, match="the only setting of stdin"):
            compare("-:bm25")
        release("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{HEAD}q1,a,f1,1\nq2,a,f1,bad\n".encode())))
    with pytest.raises(ReportError, match=r"^standard input:3: .*'bad'"):
        read_table("-")
    release("-")


def test_a_file_for_each_system_is_a_setting_that_is_called_like_it(tmp_path: Path, expected: list[Any]) -> None:
    files = [
        written(tmp_path, f"{system}.csv", text_of([{"ndcg@10": value} for value in values]))
        for system, values in SCORES.items()
    ]
    with pytest.raises(InputError, match="nothing to compare"):
        compare(files[0])
    by_order = compare(*files)
    assert numbers(by_order) == expected
    assert [warning.code for warning in by_order.warnings] == ["paired-by-order"]
    assert [part["verdict"] for part in numbers(compare(*files[1:], baseline=files[0]))] == ["no worse", "better"]
    short = written(tmp_path, "short.csv", "ndcg@10\n0.5\n")
    with pytest.raises(InputError, match="differ in length"):
        compare(*files, short)


def test_a_report_is_compared_with_a_table_by_ids_or_by_texts(tmp_path: Path) -> None:
    queries = [hand_made.query_of(place, text) for place, text in enumerate(QUESTIONS)]
    report = hand_made.report_of([hand_made.setting_of("dense", SCORES["dense"])], queries)
    before = [{"setting": "dense", "ndcg@10": value} for value in SCORES["bm25"]]
    by_id = [{"query": query.id, **row} for query, row in zip(queries, before, strict=True)]
    by_text = [{"question": f" {query.text} ", **row} for query, row in zip(queries, before, strict=True)][::-1]
    verdicts = []
    for rows in (by_id, by_text):
        comparison = compare(report, baseline=written(tmp_path, "baseline.csv", text_of(rows)))
        (part,) = comparison.comparisons
        verdicts.append((part.verdict, part.n, part.p))
        assert (part.setting, part.baseline) == ("hand-made:dense", "baseline.csv:dense")
        assert not comparison.warnings
    assert verdicts[0] == verdicts[1]
    assert verdicts[0][:2] == ("better", 30)


FOREIGN = Path(__file__).parents[2] / "support" / "foreign_scores"
SYSTEMS = ("plain", "reranked")
CAPITALS: dict[str, tuple[list[str], int, dict[str, int | None]]] = {
    "deepeval": (["deepeval-plain.json", "deepeval-reranked.json"], 12, {"Answer Relevancy": 3, "Hallucination": None}),
    "ragas": (["ragas-plain.csv", "ragas-reranked.csv"], 12, {"exact_match": None, "non_llm_string_similarity": None}),
    "ragas, JSON": (["ragas-plain.json", "ragas-reranked.csv"], 12, {"exact_match": None}),
    "promptfoo": (["promptfoo.json"], 3, {"Correct": 1}),
    "inspect": (["inspect-plain.json", "inspect-reranked.eval"], 4, {"includes": None, "match": None}),
    "lm-eval": (["lm-eval-plain/samples_capitals.jsonl", "lm-eval-reranked"], 12, {"exact_match": None}),
}
"""The files, the number of questions, and metrics with the question that has no value, as made by the tools."""


def right(system: str, count: int) -> list[bool | None]:
    """Which questions a system of benchmarks/foreign_scores.py answers."""
    draw, share = random.Random(system), {"plain": 0.5, "reranked": 0.8}[system]
    return [draw.random() < share for _ in range(count)]


@pytest.mark.parametrize("tool", CAPITALS)
def test_files_of_other_tools_have_the_best_value_where_their_system_is_right(tool: str) -> None:
    files, count, metrics = CAPITALS[tool]
    (report,) = table_reports([read_table(FOREIGN / file, is_alone=len(files) == 1) for file in files], {})
    for setting, system in zip(report.settings, SYSTEMS, strict=True):
        assert system in setting.name or tool == "lm-eval"
        for metric, failed in metrics.items():
            if tool == "promptfoo":  # an error is no score of 0
                assert (setting.per_query.evaluations["score"][1] is None) == (system == "plain")
            best = 0 if metric == "Hallucination" else 1
            assert report.metrics[metric].better == ("higher" if best else "lower")
            expected = right(system, count)
            if failed is not None and (system == "plain" or tool == "deepeval"):
                expected[failed] = None
            found = setting.per_query.evaluations[metric]
            assert [value if value is None else value == best for value in found] == expected, (system, metric)


def test_a_folder_of_lm_eval_has_the_newest_samples_of_each_task_and_model(tmp_path: Path) -> None:
    values = {
        ("b__x", "maths", "2026-01-02"): 1, ("b__x", "words", "2026-01-02"): 0, ("b__x", "maths", "2025-12-31"): 7,
        ("a__y", "maths", "2026-01-01"): 0, ("a__y", "words", "2026-01-03"): 1,
    }  # fmt: skip
    for (model, task, day), value in values.items():
        (tmp_path / model).mkdir(exist_ok=True)
        sample = {"doc_id": 0, "doc_hash": "same", "filter": "none", "metrics": ["acc"], "acc": value}
        name = f"samples_{task}_{day}T10-00-00.123456.jsonl"
        written(tmp_path / model, name, f"{json.dumps(sample)}\n{json.dumps({**sample, 'doc_id': 1})}\n")
        written(tmp_path / model, f"results_{day}T10-00-00.123456.json", "{}")
    (whole,) = table_reports([read_table(tmp_path)], {})
    (apart,) = table_reports([read_table(str(tmp_path / model)) for model in ("a__y", "b__x")], {})
    for report in (whole, apart):
        found = {setting.name: setting.per_query.evaluations["acc"] for setting in report.settings}
        assert found == {"a__y": [0, 0, 1, 1], "b__x": [1, 1, 0, 0]}
        assert [(query.id, query.tags) for query in report.queries][1:3] == [
            ("maths 1-same", ["maths"]), ("words 0-same", ["words"])
        ]  # fmt: skip
    assert [query.tags for query in table_reports([read_table(FOREIGN / "lm-eval-plain")], {})[0].queries] == [[]] * 12


def test_prompts_of_one_provider_are_settings_of_their_own(tmp_path: Path) -> None:
    result = {"promptIdx": 0, "provider": "m", "vars": {"q": "a"}, "score": 1}
    results = [{**result, "prompt": {"label": label}} for label in ("brief", "long")]
    content = json.dumps({"results": {"results": results}})
    (report,) = table_reports([read_table(written(tmp_path, "prompts.json", content))], {})
    assert [setting.name for setting in report.settings] == ["m, brief", "m, long"]
    assert [query.id for query in report.queries] == ["a"]
    results = [{"promptIdx": 0, "provider": "m", "testIdx": number, "score": 1} for number in (0, 1)]
    content = json.dumps({"results": {"results": results}})
    (report,) = table_reports([read_table(written(tmp_path, "rows.json", content))], {})
    assert [query.id for query in report.queries] == ["row 1", "row 2"]


def test_a_metric_has_the_name_of_its_column(tmp_path: Path) -> None:
    table = read_table(written(tmp_path, "named.csv", "Question,System,My F1\nq1,a,1\n"))
    assert [(score.setting, score.metric) for score in table.scores] == [("a", "My F1")]


def test_the_side_of_its_threshold_says_which_values_of_a_deepeval_metric_are_better(tmp_path: Path) -> None:
    cases = [(0.7, True), (0.2, False), (0.2, True), (0.7, False), (0.5, True)]
    data = [{"name": "x", "score": score, "threshold": 0.5, "success": success} for score, success in cases]
    content = json.dumps({"testCases": [{"input": "a", "metricsData": data}]})
    table = read_table(written(tmp_path, "cases.json", content))
    assert [score.better for score in table.scores] == ["higher", "higher", "lower", "lower", None]


@pytest.mark.parametrize(
    ("name", "advice"), [("mteb.json", "ragtrial score"), ("lm-eval-plain/results.json", "samples_")]
)
def test_files_that_have_only_means_name_the_file_to_use(name: str, advice: str) -> None:
    with pytest.raises(ReportError, match=f"has means.*{advice}"):
        read_table(FOREIGN / name)


HEAD = "question,system,metric,score\n"
WRONG = {
    "no table": ("question,response\nWhy?,so\n", "columns question, response"),
    "text": ("hello\n", "no row below its first line"),
    "no number": (f"{HEAD}q1,a,f1,0.5\nq1,b,f1,good\nq2,a,f1,bad\n", ":3:.*'good'(.|\n)*:4:.*'bad'"),
    "no metric": (f"{HEAD}q1,a,,0.5\n", "no name of a metric"),
    "no score": (f"{HEAD}q1,a,f1,\n", "no metric has a score|nothing to compare"),
    "unclear": ("question,system,toxic_share,my_error\nq1,a,0.5,1\n",
                "'toxic_share', 'my_error'.*--lower-is-better 'toxic_share'"),
    "two texts": ("id,question,system,score\n1,A b?,a,1\n1,C d?,b,1\n", "another one before"),
    "rows of two kinds": ('[{"question": "a", "score": 1}, 3]', "must be an object"),
    "infinite": (f"{HEAD}q1,a,f1,inf\n", "no number"),
    "too large": (f"{HEAD}q1,a,f1,1e100\nq2,a,f1,-1e100\nq3,a,f1,1.01e100\n", r"^[^\n]*:4:[^\n]*no number[^\n]*$"),
    "a typo in system": ("question,sytem,f1\nA b?,x,1\nA b?,y,0\nC d?,x,1\nC d?,y,0\n",
                         ":2: the row differs in 'sytem' .*Did you mean 'system'.*`repeat`"),
    "unnamed systems in long rows": (
        "id,engine,metric,score\n1,x,f1,1\n1,x,cost,1\n1,y,f1,1\n1,y,cost,1\n2,x,f1,0\n2,y,f1,1\n",
        ":2:.*'engine'",
    ),
    "unnamed scores": ("question,system,metric,points,repeat\nq1,a,f1,1,1\nq1,b,f1,0,1\n",
                       "^[^:]*wrong.csv: 'metric' names metrics, .*Rename 'points' to `score`"),
    "unnamed scores among others": ("question,system,metric,points,tokens\nq1,a,f1,1,9\nq1,a,cost,1,9\n",
                                    "Rename 'points' or 'tokens' to `score`"),
    "unnamed metrics": (
        "question,system,kind,score,repeat\n"
        + "".join(f"q{place},{system},{kind},1,{repeat}\n"
                  for place in (1, 2) for system in "ab" for kind in ("f1", "cost") for repeat in (1, 2)),
        "^[^:]*:2: the row differs in 'kind' .*to `metric`, or to `repeat`",
    ),
    "unnamed questions": (
        "frage,part,system,metric,score\nA b?,x,a,f1,1\nC d?,y,a,f1,0\nE f?,x,a,f1,0\nC d?,y,b,f1,1\nA b?,x,b,f1,1\n",
        "^[^:]*wrong.csv: no column names the questions. Rename 'frage' to `question`",
    ),
    "repeats of unnamed questions": ("system,f1,seed\na,1,1\na,0,2\nb,1,1\n", "Add a column `question`"),
    "an empty question": ("question,system,f1\nA b?,a,1\n,a,0\nA b?,b,1\n,b,0\n",
                          "^[^:]*:3: the row has an empty .*question.\n[^:]*:5: .*question.$"),
    "an empty system": ("question,system,f1\nA b?,a,1\nA b?,,0\n", "^[^:]*:3: the row has an empty .*system.$"),
    "no question in common": ("id,system,f1\nq1,a,1\nq2,a,1\nQ-1,b,1\nq1,c,1\n",
                              "'b' has no question in common with 'a', 'c'.*'Q-1' and 'q1'"),
    "points and commas": ("id;system;f1\n1;a;1\n2;a;0,5\n1;b;0.5\n2;b;0,7\n",
                          "'f1' has decimal commas .line 3. and points .line 4."),
    "too many cells": ("question,system,score\nq1,a,1,2\n", "more cells"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_table_is_one_error_with_all_faults(case: str, tmp_path: Path) -> None:
    content, message = WRONG[case]
    with pytest.raises(InputError, match=message):
        compare(written(tmp_path, "wrong.csv", content))


def test_columns_that_name_nothing_are_no_fault(tmp_path: Path) -> None:
    """They are about a system, a metric or a repeat, or each system has the rows of its questions in one order."""
    rows = [
        {"system": system, "metric": metric, "score": place, "unit": f"of {metric}", "version": f"of {system}"}
        for place in range(12) for system in "ab" for metric in ("f1", "recall")
    ]  # fmt: skip
    (report,) = table_reports([read_table(rows)], {})
    assert len(report.queries) == 12
    assert [warning.code for warning in report.warnings] == ["paired-by-order"]
    judged = [{"question": f"q{place % 6}", "system": "a", "evaluator": "gpt", "f1": 1, "recall": 0}
              for place in range(12)]  # fmt: skip
    assert {score.metric for score in read_table(judged).scores} == {"f1", "recall"}
    ids_of_some = [{"id": "" if place else "1", "question": f"Is it {place}?", "f1": 1} for place in range(3)]
    assert read_table(ids_of_some, is_alone=False).keys == {"text", "row"}


def test_names_that_sound_like_a_loss_are_asked_about() -> None:
    asked = "response_time my_error failure_rate token_cost total_seconds miss_rate false_alarms brier mean_rank"
    for name in (*asked.split(), "Bias [GEval]"):
        with pytest.raises(InputError, match=re.escape(name)):
            compare([{"question": "q1", "system": "a", "metric": name, "score": 1}])
    for name in ("sentiment", "correctness", "my_score", "noise_sensitivity(mode=relevant)", "WER", "latency"):
        with pytest.raises(InputError, match="nothing to compare"):
            compare([{"question": "q1", "system": "a", "metric": name, "score": 1}])


def test_nothing_is_read_in_the_wrong_direction(tmp_path: Path) -> None:
    rows = [{**row, "latency_ms": -1000 * row["faithfulness"]} for row in ROWS]
    path = written(tmp_path, "speed.csv", text_of(rows).replace("faithfulness", "my_loss"))
    with pytest.raises(InputError, match="my_loss"):
        compare(path)
    (speed,) = [part for part in compare(path, metric="latency_ms", lower_is_better=["my_loss"], baseline="bm25",
                                         settings=["hybrid"]).comparisons if part.family == "primary"]  # fmt: skip
    assert (speed.better, speed.verdict) == ("lower", "better")
    assert compare(path, lower_is_better=["my_loss"]).conclusion.top == ["bm25"]
    assert compare(path, higher_is_better=["my_loss"]).conclusion.top == ["hybrid"]
    for lower, higher in ((["my_los"], []), (["my_loss"], ["my_loss"])):
        with pytest.raises(InputError, match="my_los"):
            compare(path, lower_is_better=lower, higher_is_better=higher)


def test_scores_of_one_question_are_averaged_first_and_failures_are_never_zero(tmp_path: Path) -> None:
    rows = [
        {"question": question, "system": system, "metric": "passed", "score": cell, "cluster": f"c{place % 7}"}
        for place, question in enumerate(QUESTIONS)
        for system, cells in (("a", ["pass", "fail"]), ("b", ["true", "TRUE"] if place else ["error", ""]))
        for cell in cells
    ]
    comparison = compare(written(tmp_path, "repeats.csv", text_of(rows)))
    (part,) = comparison.comparisons
    assert (part.mean, part.mean_baseline, part.n, part.clusters) == (0.5, 1.0, 29, 7)
    columns = {"seed": ("1", "2"), "reply": ("so", "or so"), "topic": ("a", "a"), "unit": ("", "")}
    own = [{"question": row["question"], "f1": place, **{name: f"{two[place % 2]}{row['question'] * (name == 'reply')}"
            for name, two in columns.items()}} for place, row in enumerate(rows)]  # fmt: skip
    assert read_table(own, is_alone=False).settings == ["table-1"]
    codes = {warning.code for warning in comparison.warnings}
    assert {"repeats-averaged", "scores-missing", "queries-left-out"} <= codes


def test_words_that_stand_for_no_score_may_be_ids_and_names_of_systems(tmp_path: Path) -> None:
    """Only an empty cell is no id: a question without one is known by its row, which pairs nothing."""
    names = ["NA", "none", "-", "null", "n/a"]
    rows = [{"id": name, "system": system, "recall": 1} for name in names for system in ("none", "NA")]
    content = text_of(rows)
    assert [len(comparison.settings) for comparison in [compare(written(tmp_path, "a.csv", content))]] == [2]
    (report,) = table_reports([read_table(tmp_path / "a.csv")], {})
    assert [query.id for query in report.queries] == names
    assert [setting.name for setting in report.settings] == ["none", "NA"]
    assert [setting.scores["recall"].n for setting in report.settings] == [5, 5]
    (report,) = table_reports([read_table(written(tmp_path, "b.csv", content.replace(",1", ",none", 1)))], {})
    assert [setting.scores["recall"].n for setting in report.settings] == [4, 5], "a score is another matter"


def test_times_and_amounts_have_no_margin_unless_one_is_set(tmp_path: Path) -> None:
    def table(metric: str, high: float) -> list[dict[str, Any]]:
        return [{"question": f"q{place}", "system": system, metric: high * value}
                for system, values in SCORES.items() for place, value in enumerate(values)]  # fmt: skip

    for metric, high in (("faithfulness", 1), ("stars", 5), ("latency_ms", 1), ("cost", 1)):
        margin = 0.02 if metric == "faithfulness" else 0.0
        compared = compare(table(metric, high))
        assert compared.procedure.margin == margin, metric
        assert ("no margin is set: --margin" in str(compared)) == (not margin)
        assert ("questions needed" in str(compared)) == bool(margin)
        assert compare(table(metric, high), margin=0.02).procedure.margin == 0.02
    pages = [{**row, "latency_ms": 1_000 + row["latency_ms"]} for row in table("latency_ms", 100)]
    inputs = input_of([pages], may_be_one=True)
    analysis = analyse(inputs, options_of(inputs))
    text = plain_text(comparison_blocks(analysis, 200, everything=True, every_metric=True), 200)
    means = re.findall(r"1,0\d\d\.\d{3}", text)
    assert len(means) > 4, text
    assert not re.search(r"\d{4}\.\d", text), "all numbers have one form"


@pytest.mark.parametrize(("name", "metric", "worse"), [("latency_ms", "latency_ms", "new"), ("march", "score", "old")])
def test_columns_of_systems_have_their_file_s_metric(name: str, metric: str, worse: str, tmp_path: Path) -> None:
    path = tmp_path / f"{name}.csv"
    path.write_text("question,old,new\n" + "".join(f"q{row},{row},{row + 5 + row % 3}\n" for row in range(30)))
    compared = compare(path)
    assert compared.primary_metric == metric
    assert [part.setting for part in compared.comparisons] == [worse]
    assert ("higher values of score are" in str(compared.warnings)) == (metric == "score")


def test_the_order_of_rows_makes_no_cost_the_metric_that_decides() -> None:
    def warned(metrics: dict[str, float], **options: Any) -> tuple[str, dict[str, str]]:
        """The metric that decides, and the warnings, if hybrid differs from bm25 in ``metrics`` by these amounts."""
        rows = [
            {"question": f"q{place}", "system": system, "metric": metric, "score": value + change * (system != "bm25")}
            for place, value in enumerate(SCORES["bm25"])
            for metric, change in metrics.items()
            for system in ("bm25", "hybrid")
        ]
        compared = compare(rows, **options)
        return compared.primary_metric, {warning.code: warning.message for warning in compared.warnings}

    decisive, warnings = warned({"latency_ms": 20, "faithfulness": 0.1, "cost": 2})
    assert decisive == "faithfulness"
    assert "faithfulness decides, the first of 3 metrics that is not a time or a cost" in str(warnings)
    assert "metrics-disagree" not in warnings, "a cost may be higher where the scores are"
    decisive, warnings = warned({"faithfulness": 0.1, "latency_ms": 20, "relevance": -0.1, "my_loss": 1},
                                lower_is_better=["my_loss"])  # fmt: skip
    assert "faithfulness decides, the first of 4 metrics;" in warnings["first-metric-decides"]
    pair = "hybrid against bm25" if "hybrid against bm25" in warnings["metrics-disagree"] else "bm25 against hybrid"
    assert warnings["metrics-disagree"].startswith(
        f"other metrics show the opposite of faithfulness: relevance for {pair}, my_loss for {pair}. "
    )
    assert warned({"latency_ms": 20, "cost": -1})[0] == "latency_ms", "there is nothing but costs"
    assert warned({"tokens_f1": 0.1, "f1": 0.1}, higher_is_better=["tokens_f1"])[0] == "tokens_f1"
    assert "metrics-disagree" not in warned({"faithfulness": 0.1, "relevance": 0, "recall": 0.1})[1]


def test_a_setting_of_a_table_is_named_like_that_of_a_report(tmp_path: Path) -> None:
    path = written(tmp_path, "long.csv", text_of(LONG))
    comparison = compare(f"{path}:bm25", f"{path}:hybrid", baseline=f"{path}:bm25")
    assert [(part.setting, part.baseline) for part in comparison.comparisons] == [("hybrid", "bm25")]
    earlier = written(tmp_path, "earlier.csv", text_of([{**row, "score": row["score"] / 2} for row in LONG]))
    assert {part.verdict for part in compare(path, baseline=earlier).comparisons} == {"better"}
