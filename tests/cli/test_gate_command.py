"""Gates on the command line: `ragtrial run` with twelve questions that two retrievers answer unlike well."""

import csv
import html
import io
import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from commands import Outcome
from experiments import Experiment, write_experiment
from ragtrial.report.model import load_report
from small_experiment import Capture, ragtrial, refused

FINDING = """
def find(queries, top_k, late):
    if late == "broken":
        raise ConnectionError("no key")
    rows = []
    for query in queries:
        number = int(query.split()[-1])
        wrong = [f"d{(number + step) % 12}.txt" for step in range(1, 3)]
        place = late * (1 + number % 2) // 2
        rows.append([{"doc": doc} for doc in [*wrong[:place], f"d{number}.txt", *wrong[place:]]])
    return rows
"""


def experiment(folder: Path, **lateness: object) -> Experiment:
    """A setting for each argument; of odd questions it finds the document that many ranks late, of even ones half."""
    (folder / "finding.py").write_text(FINDING, encoding="utf-8")
    retrievers = {
        name: {"kind": "custom", "function": "finding:find", "top_k": 3, "options": {"late": late}}
        for name, late in lateness.items()
    }
    documents = {f"d{number}.txt": f"text {number}" for number in range(12)}
    queries = [{"id": f"q{n}", "text": f"question {n}", "relevant_docs": [{"doc": f"d{n}.txt"}]} for n in range(12)]
    return write_experiment(folder, documents, queries, retrievers=retrievers)


def run(capsys: Capture, *options: str) -> Outcome:
    return ragtrial(capsys, "run", "config.yaml", *options)


WORSE = ("--baseline", "good", "--fail-if", "rr@3 worse than baseline")


def test_a_gate_that_fails_is_exit_code_1_and_a_line_on_stderr(tmp_path: Path, capsys: Capture) -> None:
    experiment(tmp_path, good=0, bad=2)
    done = run(capsys, "--fail-if", "bad: rr@3 < 0.5", *WORSE, "--report")
    assert done.code == 1
    (file,) = tmp_path.glob("results/*/*/report.html")
    head = html.unescape(file.read_text(encoding="utf-8").partition('<section id="plot">')[0])
    assert '<p class="gate ">2 gates: 2 failed</p>' in head
    assert '<p class="gate failed">gate failed: bad: rr@3 < 0.5: bad 0.4167</p>' in head
    asked, compared = [line for line in done.err.splitlines() if line.startswith("gate ")]
    assert asked == "gate failed: bad: rr@3 < 0.5: bad 0.4167"
    assert compared.startswith("gate failed: rr@3 worse than baseline: bad -0.5833 against good, 95% interval -0.")
    assert "worse (rr@3 is not the primary metric: compared by itself)" in compared
    assert done.out.splitlines()[-1] == "2 gates: 2 failed"
    assert re.search(r"^bad +0\.56\d +- worse", done.out, re.MULTILINE)
    assert load_report("latest").settings


def test_what_is_wrong_is_told_at_once_and_nothing_is_run(tmp_path: Path, capsys: Capture) -> None:
    experiment(tmp_path, good=0, bad=2)
    done = run(capsys, "--fail-if", "ndgc@3 < 0.5", "--fail-if", "bda: ndcg@3 < 0.5", "--fail-if", "latency.p95 > 1",
               "--baseline", "goood", "--junit", "nowhere/junit.xml", "--csv", "one")  # fmt: skip
    assert (done.code, done.out) == (2, "")
    places = [line.removeprefix("error: ").split(": ")[0] for line in done.err.splitlines()]
    assert places == ["--baseline", "--fail-if #1", "--fail-if #2", "nowhere/junit.xml"]
    assert "there is no setting 'goood'. Did you mean 'good'?" in done.err
    assert not (tmp_path / "results").exists()


@pytest.fixture
def baseline(tmp_path: Path, capsys: Capture) -> Experiment:
    """An experiment of one setting, whose scores are in baseline.csv."""
    made = experiment(tmp_path, dense=1)
    run(capsys)
    assert ragtrial(capsys, "export", "latest", "baseline.csv", "--baseline").code == 0
    return made


def test_a_committed_file_of_scores_is_a_baseline_as_its_report_is(
    baseline: Experiment, tmp_path: Path, capsys: Capture
) -> None:
    first = load_report("latest").run_id
    lines = Path("baseline.csv").read_text(encoding="utf-8").splitlines()
    assert lines[0].startswith("query_id,setting,fingerprint,ndcg@3,")
    ids = [line.partition(",")[0] for line in lines[1:]]
    assert ids == sorted(f"q{number}" for number in range(12))
    worse = "ndcg@3 worse than baseline"
    same = run(capsys, "--baseline", "baseline.csv", "--fail-if", "ndcg@3 not within 0 of baseline", "--report")
    assert (same.code, "identical  dense" in same.out) == (0, True), same.err
    assert list(tmp_path.glob("results/*/*/report.html"))
    experiment(tmp_path, dense=2)
    by_report, by_file, named = (
        run(capsys, "--baseline", name, "--fail-if", worse, "--json")
        for name in (f"{first}:dense", "baseline.csv", f"{tmp_path}/baseline.csv:dense")
    )
    assert (by_report.code, by_file.code, named.code) == (1, 1, 1)
    assert by_report.json["comparison"]["procedure"]["baseline"] == f"{first}:dense"

    def numbers(done: Outcome) -> list[object]:
        parts = done.json["comparison"]["comparisons"]
        kept = [{**part, "baseline": ""} for part in parts if part["metric"] in lines[0].split(",")]
        return [kept, [gate["outcome"] for gate in done.json["gates"]]]

    assert json.dumps(numbers(by_report)).replace(first, "") == json.dumps(numbers(by_file)).replace("baseline.csv", "")
    assert numbers(by_file) == numbers(named)
    compared = ragtrial(capsys, "compare", "latest", "--baseline", "baseline.csv", "--fail-if", worse)
    assert (compared.code, "gate failed: ndcg@3 worse than baseline: latest:dense -0." in compared.err) == (1, True)


def test_a_baseline_with_other_questions_is_refused_and_the_run_is_kept(baseline: Experiment, capsys: Capture) -> None:
    labels = json.loads(Path("prompt_queries.json").read_text(encoding="utf-8"))["queries"]
    added = {"id": "=new", "text": "question 3", "relevant_docs": [{"doc": "d3.txt"}]}
    baseline.write_queries([*labels, added])
    done = run(capsys, "--baseline", "baseline.csv")
    assert (done.code, "1 of 13 queries is only in kitchen ('=new')" in done.err) == (0, True), done.err
    assert ragtrial(capsys, "export", "latest", "more.csv", "--baseline").code == 0
    assert "only in" not in run(capsys, "--baseline", "more.csv").err, "an id like a formula is read as it was"
    earlier = f"{load_report('latest').run_id}:dense"
    labels[3]["relevant_docs"].append({"doc": "d5.txt", "relevance": 2})
    labels[4]["text"] = "another question 4"
    labels[5]["relevant_docs"][0]["relevance"] = 1  # as before
    baseline.write_queries(labels)
    done = run(capsys, "--baseline", "baseline.csv")
    assert done.code == 3
    assert "(query 'q3' has other labels or rules of scoring, query 'q4' has another text)" in done.err
    assert "`ragtrial export REPORT FILE --baseline`" in done.err
    done = run(capsys, "--baseline", earlier)
    assert (done.code, "query 'q3' has other labels of 'd5.txt'" in done.err) == (3, True), done.err
    assert f"The report is written: {load_report('latest').folder.resolve()}" in done.err
    common = ragtrial(capsys, "compare", "latest", "--baseline", "baseline.csv", "--common", "--json").json
    assert {part["n"] for part in common["comparisons"]} == {10}
    stricter = run(capsys, "--baseline", "baseline.csv", "--set", "evaluators.relevance_threshold=2")
    assert "12 queries have other labels in baseline.csv" in stricter.err
    old, new = "baseline.csv", Path("new.csv")
    ragtrial(capsys, "export", "latest", str(new), "--baseline")
    new.write_text(new.read_text(encoding="utf-8").replace(",dense,", ",late,"), encoding="utf-8")
    mixed = ragtrial(capsys, "compare", old, str(new))
    assert (mixed.code, mixed.err.count("Its labels or its text changed in between.")) == (2, 12)


WRONG = {
    "run config.yaml --baseline latest:dnse": "has no setting 'dnse'. Did you mean 'dense'?",
    "run config.yaml --baseline 20200101:dense": "20200101",
    "run config.yaml --baseline latest:dense --set evaluators.graded.k=[1,2,3] --fail-if 'ndcg@2 worse than baseline'":
        " has no ndcg@2.",
    "run config.yaml --baseline gone.csv": "a file of scores is written by `ragtrial export --baseline`.",
    "run config.yaml --baseline baseline.csv:late": "and not 'late'; name one: baseline.csv:dense.",
    "run config.yaml --baseline two.csv": "two.csv has the settings dense, late; name one: two.csv:dense.",
    "run config.yaml --baseline config.yaml": "config.yaml: ",
    "run config.yaml --baseline baseline.csv --set evaluators.primary_metric=precision@3": "csv has no precision@3.",
    "export latest a.csv --metrics all": "--metrics needs it.",
    "export latest a.csv --baseline --qrels": "--baseline cannot be combined with --qrels and",
    "export latest a.csv --baseline --metrics ndgc@3": "ndgc@3",
    "export latest a.csv --baseline --run late": "has no setting 'late'",
}  # fmt: skip


def test_a_wrong_baseline_is_refused_at_once(baseline: Experiment, capsys: Capture) -> None:
    text = Path("baseline.csv").read_text(encoding="utf-8")
    Path("two.csv").write_text(text + text.partition("\n")[2].replace(",dense,", ",late,"), encoding="utf-8")
    for line, message in WRONG.items():
        refused(capsys, *shlex.split(line), says=message)
    assert not Path("a.csv").exists()
    assert len(list(Path("results/kitchen").iterdir())) == 2  # with `latest`


def test_a_gate_that_fails_goes_before_a_setting_that_could_not_be_run(tmp_path: Path, capsys: Capture) -> None:
    experiment(tmp_path, good=0, bad=2, broken="broken")
    assert run(capsys, "--fail-if", "ndcg@3 < 0.9").code == 1
    done = run(capsys, "--fail-if", "ndcg@3 < 0.1", "--json")
    assert (done.code, done.json["exit_code"]) == (4, 4)
    assert "gate passed: ndcg@3 < 0.1: good 1.0000; bad 0.5655; broken could not be run" in done.err
    lost = run(capsys, "--baseline", "broken", "--fail-if", "ndcg@3 worse than baseline")
    assert lost.code == 4
    assert "gate not checked: ndcg@3 worse than baseline: good has nothing to be compared with" in lost.err


def test_files_hold_the_verdict_whether_a_gate_fails_or_not(tmp_path: Path, capsys: Capture) -> None:
    experiment(tmp_path, good=0, bad=2)
    files = ("--junit", "junit.xml", "--markdown", "out.md", "--csv", "out.csv")
    assert run(capsys, *WORSE, *files).code == 1
    names = [(suite.attrib["name"], suite.attrib["failures"]) for suite in ET.parse("junit.xml").getroot()]
    assert names == [("gates", "1"), ("comparison", "0")]
    assert Path("out.md").read_text(encoding="utf-8").startswith("### kitchen: failed (1 gate: 1 failed)\n")
    rows = list(csv.DictReader(io.StringIO(Path("out.csv").read_text(encoding="utf-8"))))
    assert {(row["setting"], row["baseline"]) for row in rows} == {("bad", "good")}
    assert rows[0]["metric"] == "ndcg@3"
    assert not list(tmp_path.glob(".partial-*"))
    done = run(capsys, "--csv", "-")
    assert {row["setting"] for row in csv.DictReader(io.StringIO(done.out))} == {"bad"}
    assert "setting  ndcg@3" in done.err
    both = "--csv and --json would both go to standard output; give all but one a file."
    refused(capsys, "run", "config.yaml", "--csv", "-", "--json", says=both)
    done = run(capsys, "--baseline", "good", "--markdown", "gates.md", "--junit", "gates.xml")
    compared = ragtrial(capsys, "compare", "latest", "--baseline", "good", "--markdown", "compared.md")
    (line,) = [line for line in compared.out.splitlines() if line.startswith("Baseline: good, ndcg@3 1.000")]
    assert line in done.out.splitlines()
    for file in ("gates.md", "gates.xml", "compared.md"):
        assert line in html.unescape(Path(file).read_text(encoding="utf-8"))


def test_a_comparison_of_reports_is_gated_likewise(tmp_path: Path, capsys: Capture) -> None:
    experiment(tmp_path, good=0, bad=2, broken="broken")
    run(capsys)
    compare, low = ("compare", "latest", "--baseline", "good", "--fail-if"), "ndcg@3 < 0.1"
    done = ragtrial(capsys, *compare, "rr@3 worse than baseline", "--fail-if", low, "--markdown", "out.md")
    assert (done.code, done.out.endswith("\n2 gates: 1 passed, 1 failed\n")) == (1, True)
    assert "\ngate failed: rr@3 worse than baseline: bad -0.5833 against good" in f"\n{done.err}"
    assert Path("out.md").is_file()
    assert ragtrial(capsys, *compare, low).code == 0, "what failed in the run is not compared"
    assert "there is no setting 'broken'" in ragtrial(capsys, *compare, "broken: ndcg@3 < 0.1").err
