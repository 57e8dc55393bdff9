"""What is compared: reports and settings by the names that a user writes, and what each pair is."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest

from contests import report_of, run_into, with_metric
from expectations import message_of
from ragtrial import compare, load_report
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.errors import ComparisonError, MetricError, ReportError
from ragtrial.report.schema import FailurePart


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two reports of real runs: main and branch, each with dense and bm25; branch with new besides."""
    folder = tmp_path_factory.mktemp("shelf")
    run_into(folder, "main")
    more = {"new": {"kind": "dense", "top_k": 3, "chunker": {"kind": "document"}}}
    base = {"dense": {"kind": "dense", "top_k": 3}, "bm25": {"kind": "bm25", "top_k": 3}}
    run_into(folder, "branch", retrievers={**base, **more})
    return folder


@pytest.fixture
def here(shelf: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(shelf)
    return shelf


def shown(inputs: ComparisonInput, baseline: str | None = None) -> list[str]:
    pairs = inputs.pairs(baseline or inputs.baseline)
    return [f"{inputs.names[pair.setting]} - {inputs.names[pair.baseline]}" for pair in pairs]


def test_settings_of_several_reports_are_called_after_them_and_pair_up_by_name(here: Path) -> None:
    inputs = input_of(["main", "branch"])
    assert inputs.names == ("main:dense", "main:bm25", "branch:dense", "branch:bm25", "branch:new")
    assert inputs.report_names == ("main", "branch")
    assert inputs.baseline == "main"
    assert shown(inputs) == ["branch:dense - main:dense", "branch:bm25 - main:bm25"]
    assert [warning.message for warning in inputs.warnings] == [
        "without a setting of the same name to compare with, main being the baseline: branch:new."
    ]
    of_all = input_of(["main", "branch"], all_pairs=True)
    assert (of_all.baseline, len(of_all.pairs()), of_all.warnings) == (None, 10, ())


@pytest.mark.parametrize(("references", "names"), [
    (["./main/", "branch/report.json"], ("main", "branch")), (["main", "copy/main"], ("main", "copy/main")),
    (["copy/main", "main"], ("copy/main", "main")), (["one", "two"], ("one", "two")),
])  # fmt: skip
def test_reports_are_called_by_short_names_that_tell_them_apart(
    references: list[str], names: tuple[str, ...], shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for copy in ("main", "copy/main", "one", "two", "branch"):
        shutil.copytree(shelf / "main", copy)
    inputs = input_of(references)
    assert len(set(inputs.report_names)) == 2
    if "copy/main" in references:
        plain = references.index("main")
        assert inputs.report_names[1 - plain] == "copy/main"
    else:
        assert inputs.report_names == names


def test_runs_are_called_by_times_or_experiments(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ids = ["20260101T000000Z-0a0a0a", "20260102T000000Z-0b0b0b", "20260102T000000Z-0c0c0c"]
    written = json.loads((shelf / "main" / "report.json").read_text())
    for experiment, run in [("kitchen", ids[0]), ("kitchen", ids[1]), ("garden", ids[2])]:
        folder = tmp_path / "results" / experiment / run
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(
            json.dumps({**written, "experiment": experiment, "run_id": run, "checksum": ""})
        )
    assert input_of(ids).report_names == ("20260101T000000Z", ids[1], "garden")
    assert input_of([ids[0], "latest"]).report_names == ("kitchen", "latest")
    assert input_of([ids[0], f"{ids[2]}:dense"]).names == ("kitchen:dense", "kitchen:bm25", "garden:dense")
    assert input_of(ids, baseline=ids[2]).baseline == "garden"
    assert input_of(ids, baseline=f"{ids[1]}:bm25").baseline == f"{ids[1]}:bm25"


def test_reports_are_numbered_and_settings_and_metrics_chosen_by_name(here: Path) -> None:
    values = {"a": [0.5, 0.6]}
    assert input_of([report_of(values), report_of(values)]).names == ("report-1:a", "report-2:a")
    inputs = input_of(["main", "./main"])
    assert inputs.names == ("dense", "bm25")
    report = load_report("main")
    assert input_of([report, report]).names == ("dense", "bm25")
    named = input_of(["main", "branch"], baseline="main")
    assert [warning.code for warning in named.warnings] == ["no-partner"]
    assert input_of(["main", "branch"], settings=["dense"]).names == ("main:dense", "branch:dense")
    one = input_of(["main", "branch"], settings=["dense", "branch:bm25"])
    assert one.names == ("main:dense", "branch:dense", "branch:bm25")
    assert input_of(["branch:new", "main", "branch:bm25"]).names == (
        "branch:bm25", "branch:new", "main:dense", "main:bm25",
    )  # fmt: skip
    assert input_of(["main"], primary="recall@3").metrics[0] == "recall@3"
    assert input_of(["main"], ["NDCG@3", "MRR@3"]).metrics == ("ndcg@3", "rr@3")
    assert input_of(["main"]).limited_to(["recall@3", "rr@3"]).metrics == ("ndcg@3", "recall@3", "rr@3")


@pytest.mark.parametrize(("references", "baseline", "name", "pairs"), [
    (["main"], "bm25", "bm25", ["dense - bm25"]),
    (["main", "branch:new"], "main:dense", "main:dense", ["main:bm25 - main:dense", "branch:new - main:dense"]),
    (["main", "branch:new"], "new", "branch:new", ["main:dense - branch:new", "main:bm25 - branch:new"]),
    (["main", "branch"], "branch", "branch", ["main:dense - branch:dense", "main:bm25 - branch:bm25"]),
    (["branch"], "main:bm25", "main:bm25",
     ["branch:dense - main:bm25", "branch:bm25 - main:bm25", "branch:new - main:bm25"]),
    (["branch:dense"], "./main", "main", ["branch:dense - main:dense"]),
    (["branch:dense"], "branch:new", "new", ["dense - new"]),
])  # fmt: skip
def test_a_baseline_is_a_setting_or_a_report_and_is_read_where_it_is_not_among_the_others(
    references: list[str], baseline: str, name: str, pairs: list[str], here: Path
) -> None:
    inputs = input_of(references, baseline=baseline)
    assert inputs.baseline == name
    assert shown(inputs) == pairs


def test_reports_in_memory_are_compared_as_those_on_disk(here: Path) -> None:
    main, branch = load_report("main"), load_report("branch")
    assert shown(input_of([branch, main], baseline=main)) == shown(input_of(["branch", "main"], baseline="main"))
    added = input_of([branch], baseline=main)
    assert (added.report_names, added.baseline) == (("branch", "main"), "main")
    assert compare("branch", baseline="dense") == compare(load_report("branch"), baseline="dense")
    made = compare("main", "branch", metrics=["rr@3", "ndcg@3"], margin=0.1)
    assert (made.primary_metric, made.metrics) == ("rr@3", ["rr@3", "ndcg@3"])
    assert [(part.baseline, part.setting) for part in made.comparisons[:2]] == [
        ("main:dense", "branch:dense"), ("main:bm25", "branch:bm25"),
    ]  # fmt: skip
    assert [part.verdict for part in made.comparisons[:2]] == ["identical", "identical"]
    assert made.procedure.margin == 0.1


@pytest.mark.parametrize(("references", "asked", "message"), [
    (["main"], {"baseline": "dens"},
     "the baseline 'dens' is neither a setting that is compared nor a report. Did you mean 'dense'? The settings "
     "are: dense, bm25."),
    (["main"], {"baseline": "man:dense"},
     "the baseline 'man:dense' is neither a setting that is compared nor a report. Did you mean 'dense'? The "
     "settings are: dense, bm25."),
    (["main"], {"baseline": "main"},
     "no report has a setting of the same name as one of main, which is the baseline. Name one of its settings: "
     "dense, bm25."),
    (["branch:new"], {"baseline": "main"},
     "no report has a setting of the same name as one of main, which is the baseline. Name one of its settings: "
     "main:dense, main:bm25."),
    (["main", "branch"], {"baseline": "dense"},
     "several reports have a setting 'dense'; write main:dense or branch:dense."),
    (["main", "branch"], {"settings": ["dens", "main:new"]},
     "no setting 'dens'. Did you mean 'dense'? There are: dense, bm25, new.\n"
     "no setting 'main:new'. There are: dense, bm25."),
    (["main", "branch"], {"settings": ["new"]}, "main has none of the settings new; it has: dense, bm25."),
    (["main:dense"], {},
     "there is nothing to compare 'dense' with, the only setting of main that is chosen. Name another setting "
     "(bm25), or name another report; `ragtrial list runs` shows them."),
    ([], {}, "no report is given; name one or more: a folder, a run id, or `latest`."),
    (["main"], {"primary": "recal@3"}, "'recal@3': there is no metric 'recal'. Did you mean 'recall'? Known: "),
    (["main"], {"primary": "recall@2"}, "main has no recall@2, the metric that decides. All have: precision@1"),
    (["main"], {"metrics": ["ndcg@3", "rr@9"]}, "main has no rr@9. All have: precision@1, precision@3, "),
])  # fmt: skip
def test_what_is_missing_is_refused(references: list[str], asked: dict[str, str], message: str, here: Path) -> None:
    with pytest.raises((ComparisonError, MetricError)) as caught:
        input_of(references, **asked)  # type: ignore[arg-type]
    assert str(caught.value).startswith(message)


def test_reports_that_are_not_there_are_named_at_once_with_what_there_is(here: Path, tmp_path: Path) -> None:
    first, second, third = message_of(ReportError, input_of, ["nowhere", "main:dens", ":dense"]).splitlines()
    assert first.startswith("'nowhere' is not a report: neither a folder with report.json nor a run in ")
    assert second.endswith("has no setting 'dens'. Did you mean 'dense'? It has: dense, bm25.")
    assert third.startswith("':dense' is not a report")
    message = message_of(ReportError, input_of, [tmp_path])
    assert message.startswith(f"'{tmp_path}' is not a report: neither a folder with report.json nor ")
    assert " It holds branch, main. " in message_of(ReportError, input_of, [here])


def test_a_failed_setting_is_told_and_absent_values_are_nan() -> None:
    failed = [FailurePart(name="bm25", error="out of memory")]
    inputs = input_of([report_of({"dense": [0.5, 0.25], "rrf": [1.0, 0.5]}, failures=failed)])
    assert [(one.code, one.message) for one in inputs.warnings] == [
        ("setting-failed", "kitchen: bm25 failed when it was run, and is not compared.")
    ]
    inputs = input_of([report_of({"a": [0.5, None, 0.25], "b": [1.0, 0.75, 0.0]})])
    nan = math.nan
    np.testing.assert_array_equal(inputs.scores("ndcg@3").values, [[0.5, nan, 0.25], [1.0, 0.75, 0.0]])
    np.testing.assert_array_equal(inputs.scores("ndcg@3").differences(inputs.pairs("a")), [[0.5, nan, -0.25]])


def test_queries_that_a_setting_skipped_count_in_none_of_its_comparisons_and_that_is_said() -> None:
    report = report_of({"a": [0.5, None, 0.25, None], "b": [1.0, 0.75, 0.0, None]})
    skipped = report.settings[0].per_query.model_copy(update={"skipped": [False, True, False, False]})
    first = report.settings[0].model_copy(update={"per_query": skipped})
    inputs = input_of([report.model_copy(update={"settings": [first, report.settings[1]]})])
    assert [(warning.code, warning.message) for warning in inputs.warnings] == [
        ("queries-left-out", "a: queries could not be answered, left out of every comparison with it: 1 of 3 "
         "('q2'). They may be the harder ones.")
    ]  # fmt: skip
    assert compare(report.model_copy(update={"settings": [first, report.settings[1]]})).comparisons[0].n == 2
    unknown = skipped.model_copy(update={"evaluations": {"ndcg@3": [None, None, 0.25, None]}})
    both = first.model_copy(update={"per_query": unknown})
    mixed = input_of([report.model_copy(update={"settings": [both, report.settings[1]]})])
    assert "a: queries without ndcg@3, left out of every comparison with it: 2 of 3" in mixed.warnings[0].message
    unskipped = input_of([report])
    assert "a: queries without ndcg@3, left out of every comparison with it: 1 of 3" in unskipped.warnings[0].message


def test_a_metric_without_a_value_is_left_out_and_refused_as_the_primary() -> None:
    report = report_of({"a": [1.0], "b": [0.0]})
    ordered = with_metric(report, "rbo(p=0.9)@3", {"a": [None], "b": [None]})
    assert input_of([ordered]).metrics == ("ndcg@3",)
    assert input_of([ordered], ["ndcg@3", "rbo@3"]).metrics == ("ndcg@3", "rbo(p=0.9)@3")
    assert message_of(ComparisonError, input_of, [report_of({"a": [None, None], "b": [None, None]})]) == (
        "ndcg@3 has no value for any query: it counts queries with at least one document of a grade above 0. No other "
        'metric has one: label answers, for example with `ragtrial search CONFIG "a question" --label`, and run again.'
    )


@pytest.mark.parametrize(("asked", "message"), [
    ({"margin": math.nan}, "margin is nan; it must be a number from 0 on."),
    ({"confidence": 95}, "confidence is 95; it must be from 0.5 to 0.9999."),
    ({"flips": 9998, "confidence": 0.9999},
     "flips is 9998; it must be at least 9,999, so that a difference can be shown."),
])  # fmt: skip
def test_numbers_out_of_range_are_refused(asked: dict[str, float], message: str) -> None:
    report = report_of({"a": [0.5], "b": [1.0]})
    assert message_of(ComparisonError, compare, report, **asked) == message  # type: ignore[arg-type]
