"""What people try first: a config that is found, the latest report, `help`, one setting, CSV."""

import csv
import io
from pathlib import Path

import pytest

from ragtrial import load_report
from small_experiment import CONFIG, Capture, ragtrial, refused, small_experiment, succeeded

TWO = CONFIG.replace("latency", "  words: {kind: bm25, top_k: 3}\nlatency")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path) -> None:
    small_experiment(tmp_path, config=TWO)


def test_a_config_is_found_in_a_folder(capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for arguments in (["run", "-q"], ["validate"], ["plan"], ["search", "parcels"], ["validate", "."]):
        succeeded(capsys, *arguments)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    succeeded(capsys, "validate", "..")
    refused(capsys, "run", says="experiment.yaml: there is no such file; name a config, or write one with `ragtrial ")
    several = "error: there are 3 arguments; put the text into quotation marks."
    refused(capsys, "search", "experiment.yaml", "two", "words", says=several)


def test_the_latest_report_is_meant_unless_another_is_named(capsys: Capture) -> None:
    first = ragtrial(capsys, "run", "--json").json["run_id"]
    second = ragtrial(capsys, "run", "--setting", "words", "--json").json["run_id"]
    assert ragtrial(capsys, "show", "--json").json["run_id"] == second
    assert ragtrial(capsys, "show", "latest~1", "--json").json["run_id"] == first
    succeeded(capsys, "compare", "latest~1")
    succeeded(capsys, "report", "small/latest~1", "-o", "page.html")
    assert "there is no report latest~2 in results: it has 2 runs." in ragtrial(capsys, "show", "latest~2").err
    assert "the only setting of latest" in ragtrial(capsys, "compare").err
    listed = ragtrial(capsys, "list", "runs", "--json").json
    assert [(row["name"], row["settings"]) for row in listed] == [(second, 1), (first, 2)]
    assert ragtrial(capsys, "list", "runs").out.splitlines()[0].split()[:2] == ["run", "date"]


def test_only_the_settings_that_are_named_are_run(capsys: Capture) -> None:
    made = ragtrial(capsys, "run", "--setting", "words", "--json").json
    assert [one["name"] for one in made["settings"]] == ["words"]
    word = "error: there is no setting 'word'. Did you mean 'words'? Known: "
    unknown = refused(capsys, "run", "--setting", "word", "--setting", "none", says=word)
    assert "there is no setting 'none'." in unknown.err


def test_help_is_a_command_too(capsys: Capture) -> None:
    assert ragtrial(capsys, "help", "run").out == ragtrial(capsys, "run", "--help").out
    assert ragtrial(capsys, "help").out == ragtrial(capsys, "--help").out


def test_scores_are_printed_as_csv(capsys: Capture) -> None:
    report = ragtrial(capsys, "run", "--json").json
    made = succeeded(capsys, "show", "--csv")
    rows = list(csv.DictReader(io.StringIO(made.out)))
    assert {row["setting"] for row in rows} == {one["name"] for one in report["settings"]}
    mean = float(next(row["ndcg@3"] for row in rows if row["setting"] == "words"))
    each = ragtrial(capsys, "show", "--csv", "--per-query", "--metrics", "ndcg@3").out
    own = [float(row["ndcg@3"]) for row in csv.DictReader(io.StringIO(each)) if row["setting"] == "words"]
    assert sum(own) / len(own) == pytest.approx(mean)
    Path("all.csv").write_text(succeeded(capsys, "show", "--csv", "--per-query").out, encoding="utf-8")
    assert ragtrial(capsys, "compare", "all.csv", "--json").json["primary_metric"] == report["primary_metric"]
    in_order = list(load_report("latest").metrics)
    assert in_order[0] != report["primary_metric"], "in the order of the report another metric would decide"
    for wrong in (["--per-query"], ["--csv", "--json"], ["--csv", "--query", "q1"]):
        assert ragtrial(capsys, "show", *wrong).code == 2
