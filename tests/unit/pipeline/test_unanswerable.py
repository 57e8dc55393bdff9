"""Unanswerable questions in a run: separation, thresholds for abstaining, and where they are shown."""

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from sklearn.metrics import roc_auc_score

from expectations import present
from ragtrial.config.load import load_config
from ragtrial.experiment import run_experiment
from ragtrial.report.model import Report
from ragtrial.scoring.rescore import rescore
from small_experiment import Capture, succeeded

WORDS = [f"word{place}" for place in range(60)]
RETRIEVERS: dict[str, dict[str, Any]] = {
    "words": {"kind": "bm25"},
    "short": {"kind": "bm25", "k1": 0.1, "b": 1},
    "ranks": {"kind": "fusion", "inputs": ["words", "short"]},
    "scores": {"kind": "fusion", "inputs": ["words", "short"], "method": "weighted", "normalisation": "none"},
    "scaled": {"kind": "fusion", "inputs": ["words", "short"], "method": "weighted", "normalisation": "min_max"},
    "fused": {"kind": "parent", "inputs": "ranks"},
}


def written(
    folder: Path, answerable: int, unanswerable: int, *, tags: tuple[str, ...] = (), known_words: int = 1, size: int = 1
) -> Path:
    """A config with documents, answerable questions, and unanswerable ones with fewer words of the documents."""
    random, queries = Random(5), list[dict[str, Any]]()
    (folder / "documents").mkdir(parents=True)
    for place in range(answerable):
        words = random.sample(WORDS, 8 + place % 5)
        (folder / "documents" / f"d{place}.txt").write_text(" ".join(words))
        text = " ".join([*words[: 1 + place % 3], "what"])
        queries.append({"id": f"a{place}", "text": text, "relevant_docs": [{"doc": f"d{place}.txt"}]})
    for place in range(unanswerable):
        text = " ".join([*random.sample(WORDS, known_words and place % 3), f"unknown{place}"])
        queries.append({"id": f"u{place}", "text": text, "tags": ["unanswerable", *tags], "relevant_docs": []})
    if size > 1:
        queries = [{**query, "cluster": query["id"][0] + str(place // size)} for place, query in enumerate(queries)]
    (folder / "queries.json").write_text(json.dumps({"queries": queries}))
    dataset = {"corpus": "documents", "queries": "queries.json"}
    places = {"output": {"directory": str(folder / "results")}, "workspace": str(folder / "workspace")}
    config = {"experiment": "abstain", "dataset": dataset, "retrievers": RETRIEVERS, "latency": False, **places}
    (folder / "config.yaml").write_text(json.dumps(config))
    return folder / "config.yaml"


def codes(report: Report) -> list[str]:
    return [warning.code for warning in report.warnings]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return run_experiment(load_config(written(tmp_path_factory.mktemp("many"), 40, 30)))


def test_differences_are_from_the_best_and_the_same_scored_again(report: Report) -> None:
    parts = {setting.name: setting.separation for setting in report.settings if setting.separation}
    (top,) = {part.against for part in parts.values()} - {None}
    assert top == max(parts, key=lambda name: report.setting(name).scores[report.primary_metric].mean or 0)
    for name, part in parts.items():
        if name == top:
            assert (part.against, part.difference, part.ci) == (None, None, None)
        else:
            assert part.difference == pytest.approx(part.area - parts[top].area)
            low, high = present(part.ci)
            assert low <= part.area - parts[top].area <= high
    again = rescore(report, metrics="precision@2")
    assert [setting.separation for setting in again.settings] == [setting.separation for setting in report.settings]
    again = rescore(report, overrides=["evaluators.unanswerable_share=0.02"])
    rare, usual = (present(each.setting("words").separation) for each in (again, report))
    assert rare.share == 0.02
    assert rare.threshold <= usual.threshold
    assert rare.false_refusals < usual.false_refusals
    assert rare.coverage == pytest.approx(0.98 * (1 - rare.false_refusals) + 0.02 * rare.false_answers)
    for name in ("words", "short", "scores"):
        rows = report.rankings(name, [query.id for query in report.queries])
        first = [row["scores"][0] if row["scores"] else -1e9 for row in rows]
        separation = present(report.setting(name).separation)
        assert separation.area == pytest.approx(roc_auc_score([query.id[0] == "a" for query in report.queries], first))
        assert 0.5 < separation.area < 1
        assert (separation.answerable, separation.unanswerable) == (40, 30)
        assert separation.share == pytest.approx(3 / 7)


@pytest.mark.parametrize("name", ["ranks", "scaled", "fused"])
def test_scores_of_ranks_and_scores_of_one_question_alone_have_none(report: Report, name: str) -> None:
    assert report.setting(name).separation is None
    assert not report.setting(name).comparable


def test_where_it_is_shown(report: Report, capsys: Capture, tmp_path: Path) -> None:
    shown = succeeded(capsys, "show", report.folder).out
    part = present(report.setting("short").separation)
    (row,) = [line.split() for line in shown.split("unanswerable  ")[1].splitlines() if line.startswith("short")][:1]
    assert row[1] == f"{part.area:.3f}"
    assert "30 unanswerable questions, 40 answerable with labels." in shown
    page = (Path(__file__).parents[3] / "docs" / "unanswerable.md").read_text(encoding="utf-8")
    columns = [name for row in re.findall(r"^\| (`.*?) \|", page, re.MULTILINE) for name in re.findall("`(.*?)`", row)]
    assert re.sub(" {2,}", "  ", shown).count("  ".join(columns[:3])) == 1
    assert re.sub(" {2,}", "  ", shown).count("  ".join(columns[3:])) == 1
    assert "Thresholds for 43% unanswerable questions in use; no question is decided by its own score." in shown
    printed = json.loads(succeeded(capsys, "show", report.folder, "--json").out)
    found = {one["name"]: one.get("separation") for one in printed["settings"]}
    assert found["short"] == part.model_dump(mode="json")
    assert found["ranks"] is None
    succeeded(capsys, "report", report.folder, "-o", tmp_path / "page.html")
    assert "how well the score of the first hit separates them" in (tmp_path / "page.html").read_text()


def test_there_is_no_interval_below_30_and_no_value_below_10(tmp_path: Path, capsys: Capture) -> None:
    some = run_experiment(load_config(written(tmp_path / "some", 29, 10)))
    assert {part.ci for setting in some.settings if (part := setting.separation)} == {None}
    few = run_experiment(load_config(written(tmp_path / "few", 29, 9)))
    assert not any(setting.separation for setting in few.settings)
    assert "abstaining" not in succeeded(capsys, "show", few.folder).out


def test_clusters_widen_intervals_and_fewer_than_10_have_none(tmp_path: Path, report: Report, capsys: Capture) -> None:
    pairs, sixes = (run_experiment(load_config(written(tmp_path / str(size), 40, 30, size=size))) for size in (2, 6))
    assert "cluster" not in succeeded(capsys, "show", report.folder).out
    for run, clusters, has_interval in ((pairs, 15, True), (sixes, 6, False)):
        parts = [part for setting in run.settings if (part := setting.separation) and part.against]
        assert {(part.clusters, part.ci is not None) for part in parts} == {(clusters, has_interval)}
        shown = succeeded(capsys, "show", run.folder).out
        told = "No interval: the questions of one kind are in 6 clusters, fewer than 10."
        assert (told in " ".join(shown.split())) == (not has_interval)


def test_drafts_that_words_give_away_are_warned_of(tmp_path: Path, report: Report) -> None:
    easy = run_experiment(load_config(written(tmp_path / "easy", 12, 10, tags=("drafted",), known_words=0)))
    (warning,) = [warning.message for warning in easy.warnings if warning.code == "easy-unanswerable"]
    assert warning == (
        "words separates 10 drafted unanswerable questions by their words (separation 1.000): too easy to choose a "
        "threshold by. Add questions that people asked in vain."
    )
    asked = run_experiment(load_config(written(tmp_path / "asked", 12, 10, known_words=0)))
    assert "easy-unanswerable" not in codes(asked) + codes(report)
