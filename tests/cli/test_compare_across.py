"""ragtrial compare --across: the same settings on several data sets."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragtrial.report.model import load_report, write_folder
from small_experiment import CONFIG, Capture, ragtrial, refused, small_experiment, succeeded

TEXT = CONFIG.replace("  dense: {kind: dense, top_k: 3}", "  bm25: {kind: bm25}\n  long: {kind: bm25, b: 0.0}\n  LAST")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Data sets ``one`` and ``two``: 30 questions each, for which length normalisation finds the short document.

    In ``two`` everything that is found has a label.
    """
    for name, last in (("one", ""), ("two", "dense: {kind: dense}")):
        documents = {f"{name}{at}.txt": f"word{at}" for at in range(30)}
        documents |= {f"{name}-long{at}.txt": f"word{at} word{at} " + "filler " * 80 for at in range(0, 30, 2)}
        queries: list[dict[str, Any]] = [
            {"id": f"q{at}", "text": f"word{at}", "relevant_docs": [{"doc": f"{name}{at}.txt"}]} for at in range(30)
        ]
        for at in range(0, 30 if name == "two" else 0, 2):
            queries[at]["relevant_docs"].append({"doc": f"{name}-long{at}.txt", "relevance": 0})
        config = TEXT.replace("LAST", last).replace("experiment: small", f"experiment: {name}")
        small_experiment(tmp_path / name, config=config, labels={"queries": queries}, documents=documents)
    monkeypatch.setenv("COLUMNS", "120")
    return tmp_path


@pytest.fixture
def reports(folder: Path, capsys: Capture) -> list[str]:
    for name in ("one", "two"):
        succeeded(capsys, "run", f"{name}/experiment.yaml")
    return [str(next((folder / "results" / name).glob("2*"))) for name in ("one", "two")]


def test_the_verdict_is_given_for_each_data_set_and_together(capsys: Capture, reports: list[str]) -> None:
    made = succeeded(capsys, "compare", *reports, "--across", "--baseline", "long", "--json")
    assert [one["name"] for one in made.json["data_sets"]] == ["one", "two"]
    (bm25,) = made.json["settings"]
    assert bm25["better_on"] == ["one", "two"]
    assert bm25["unclear_on"] == ["one"]
    alone = ragtrial(capsys, "compare", reports[0], "--setting", "bm25", "--baseline", "long", "--json").json
    assert alone["conclusion"]["depends_on_unjudged"] == ["bm25"]
    (part,) = (one for one in alone["comparisons"] if one["metric"] == "ndcg@10")
    assert made.json["data_sets"][0]["comparisons"][0]["ci"] == part["ci"]
    assert bm25["difference"] == pytest.approx(part["difference"])  # both data sets are alike
    assert bm25["ci"][1] - bm25["ci"][0] > part["ci"][1] - part["ci"][0]
    assert made.json["left_out"] == ["dense"]
    shown = ragtrial(capsys, "compare", *reports, "--across", "--baseline", "long")
    assert "It is better than long on two; better than long with the current labels on one." in shown.out
    assert "2 data sets are few" in shown.out
    assert shown.out.count("Next: ") == 1


def test_what_cannot_be_compared_across_is_refused(folder: Path, capsys: Capture, reports: list[str]) -> None:
    again = str(shutil.copytree(reports[0], folder / "again"))
    report = load_report(reports[0])
    relabelled = report.dataset.model_copy(update={"labels_fingerprint": "others"})
    write_folder(report.model_copy(update={"dataset": relabelled}), folder / "other", {}, [], {})
    for arguments, message in (
        ((*reports, "--baseline", "dense"), "no setting 'dense' in one. All have: bm25, long."),
        ((*reports, "--queries"), "--across cannot be combined with --queries; remove one of them."),
        ((*reports, "--fail-if", "ndcg@10 < 1"), "--across cannot be combined with gates; remove one of them."),
        ((reports[0],), "--across compares data sets; name two or more reports."),
        ((reports[0], again), "are runs of the same documents and labels; --across compares data sets, and takes "),
        ((reports[0], str(folder / "other")), f"documents and share {len(report.queries)} questions; --across"),
    ):
        refused(capsys, "compare", *arguments, "--across", says=message)


def table(name: str, **systems: float) -> str:
    """A CSV with a column for each system, whose scores are random about its mean."""
    random, questions = np.random.default_rng(len(name)), range(20)
    rows = [",".join([f"{name} {at}?", *(f"{random.normal(mean, 0.1):.4f}" for mean in systems.values())])
            for at in questions]  # fmt: skip
    Path(name).write_text("\n".join([f"question,{','.join(systems)}", *rows, ""]))
    return name


def test_each_table_of_scores_is_a_data_set(folder: Path, capsys: Capture) -> None:
    two = table("one.csv", a=0.5, b=0.9), table("other.csv", b=0.9, a=0.5, c=0.1)
    options = "--across --baseline a --lower-is-better score --json"
    made = succeeded(capsys, "compare", *two, *options.split()).json
    assert [part["name"] for part in made["data_sets"]] == list(two)
    assert [(part["setting"], part["worse_on"]) for part in made["settings"]] == [("b", list(two))]
    assert made["left_out"] == ["c"]
    none = "0 settings are in all reports (one.csv has a, b; third.csv has x, y)"
    done = refused(capsys, "compare", two[0], table("third.csv", x=0.5, y=0.5), "--across", says=none)
    assert "give a system one name in all tables" in done.err
