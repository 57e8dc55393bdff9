"""ragtrial run --extrapolate: scores on parts of the documents, and what they suggest for more."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ragtrial.report.model import load_report
from small_experiment import CONFIG, ragtrial, small_experiment

Capture = pytest.CaptureFixture[str]
WORDS = [f"word{number}" for number in range(40)]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """1,020 documents of which 20 are judged."""
    rows = [
        {"_id": f"d{number}", "text": f"{WORDS[number % 40]} {WORDS[number * 7 % 40]} {WORDS[number // 40]}"}
        for number in range(1020)
    ]
    queries = [
        {"id": f"q{number}", "text": rows[number]["text"], "relevant_docs": [{"doc": f"d{number}"}]}
        for number in range(20)
    ]
    text = CONFIG.replace("corpus: documents", "corpus: corpus.jsonl").replace(
        "{kind: dense, top_k: 3}", "{kind: bm25}"
    )
    small_experiment(tmp_path, config=text, labels={"queries": queries}, documents={})
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "run.trec").write_text("q0 Q0 d0 1 1.0 other\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_nested_parts_of_the_documents_are_searched_and_extrapolated(folder: Path, capsys: Capture) -> None:
    made = ragtrial(capsys, "run", "experiment.yaml", "--extrapolate", "100000", "--json")
    assert made.code == 0, made.err
    found = made.json["extrapolation"]
    assert found["documents"] == [30, 120, 1020]
    (setting,) = found["settings"]
    assert setting["scores"][0] >= setting["scores"][1] >= setting["scores"][2] > setting["expected"]
    assert setting["scores"][2] == pytest.approx(made.json["settings"][0]["scores"]["ndcg@10"]["mean"])
    assert json.loads((load_report("latest").folder / "extrapolation.json").read_text("utf-8")) == found
    shown = ragtrial(capsys, "run", "experiment.yaml", "--extrapolate", "100000")
    assert "With 100,000 documents expect ndcg@10 of about " in shown.out
    assert "This is an extrapolation." in shown.out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--extrapolate", "1020"), "--extrapolate is 1,020, and the corpus has 1,020 documents; state a larger size"),
        (
            ("--extrapolate", "5000", "--set", "evaluators.primary_metric=dcg@10"),
            "--extrapolate needs a primary metric from 0 to 1, and dcg@10 is not",
        ),
        (
            ("--extrapolate", "5000", "--set", "retrievers.own={kind: run_file, path: run.trec}"),
            "retrievers.own (kind: run_file) does not",
        ),
    ],
)
def test_what_cannot_be_extrapolated_is_refused(
    folder: Path, capsys: Capture, more: tuple[str, ...], message: str
) -> None:
    made = ragtrial(capsys, "run", "experiment.yaml", *more)
    assert made.code == 2
    assert message in made.err


def test_few_documents_are_refused(folder: Path, capsys: Capture) -> None:
    rows = (folder / "corpus.jsonl").read_text("utf-8").splitlines()[:500]
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    made = ragtrial(capsys, "run", "experiment.yaml", "--extrapolate", "5000")
    assert made.code == 2
    assert "--extrapolate needs 1,000 documents that are not judged, and there are 480" in made.err
