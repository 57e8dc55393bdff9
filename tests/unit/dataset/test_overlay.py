"""Labels of one's own for a BEIR folder: an overlay that the config names, and that only grows."""

import json
from pathlib import Path

import pytest

from corpora import library_of, write_files, write_rows
from ragtrial import load_config
from ragtrial.dataset.datasets import BeirLabels, beir_labels, load_dataset
from ragtrial.dataset.resolution import resolve
from ragtrial.errors import ConfigError, Fault, LabelsError
from ragtrial.experiment import run_experiment
from ragtrial.labelling.label_files import Grade, LabelsConflictError, OverlayText, history_file, write_back
from ragtrial.records import Judgment, PromptQueries, Query, ReportWarning
from ragtrial.scoring.rescore import rescore
from small_experiment import HASHING, Capture, ragtrial

QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n"
CONFIG = """\
experiment: beir
dataset: {beir: data, overlay: mine.tsv}
chunker: {kind: document}
embedder: {kind: custom, function: "hashing:embed"}
store: {kind: exact}
retrievers: {dense: {kind: dense, top_k: 2}}
latency: false
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_rows(tmp_path / "data" / "queries.jsonl", [{"_id": "q1", "text": "one"}, {"_id": "q2", "text": "two"}])
    documents = [{"_id": f"d{number}", "title": "", "text": f"text {number}"} for number in (1, 2, 3)]
    write_rows(tmp_path / "data" / "corpus.jsonl", documents)
    write_files(tmp_path, {"data/qrels/test.tsv": QRELS, "hashing.py": HASHING, "config.yaml": CONFIG})
    return tmp_path


def test_later_labels_count_and_this_is_counted(folder: Path) -> None:
    (folder / "mine.tsv").write_text("q1\td2\t2\nq1\td2\t3\nq1\td1\t1\nq2\td3\t1\n")
    assert beir_labels(folder / "data", "test", folder / "mine.tsv") == BeirLabels(
        PromptQueries(
            (Query("q1", "one", (Judgment("d1", 1), Judgment("d2", 3))), Query("q2", "two", (Judgment("d3", 1),)))
        ),
        added=1,
        changed=1,
        places={
            ("q1", "d2"): Fault(str(folder / "mine.tsv"), 2),
            ("q1", "d1"): Fault(str(folder / "mine.tsv"), 3),
            ("q2", "d3"): Fault(str(folder / "mine.tsv"), 4),
        },
    )
    dataset = load_dataset(load_config(folder / "config.yaml").dataset)
    message = f"{folder / 'mine.tsv'} was laid upon the qrels: judgments added: 1, given another grade: 1."
    assert dataset.notes == (ReportWarning("overlay", message),)


def test_a_missing_overlay_is_empty_and_told(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    """Until the first label makes it; then nothing is reported of it."""
    message = (
        f"{folder / 'mine.tsv'} (dataset.overlay) does not exist yet and counts as empty: the first label makes it."
    )
    config = load_config(folder / "config.yaml")
    dataset = load_dataset(config.dataset)
    assert (dataset.notes, dataset.labels) == (
        (ReportWarning("overlay-missing", message),),
        beir_labels(folder / "data", "test").labels,
    )
    monkeypatch.chdir(folder)
    parent = run_experiment(config)
    for warnings in (parent.warnings, rescore(parent, folder / "config.yaml").warnings):
        assert [one.message for one in warnings if one.code == "overlay-missing"] == [message]
    checked = ragtrial(capsys, "validate", "config.yaml")
    assert (checked.code, "mine.tsv (dataset.overlay) does not exist yet" in checked.err) == (0, True)
    write_back(OverlayText.read(folder / "mine.tsv"), [Grade("q1", "d3", 2)], "ada")
    again = rescore(parent, folder / "config.yaml")
    run = run_experiment(load_config(folder / "config.yaml"))
    assert again.settings[0].scores == run.settings[0].scores != parent.settings[0].scores
    for report in (again, run):
        assert {one.code for one in report.warnings} & {"overlay", "overlay-missing"} == {"overlay"}


def test_a_missing_folder_of_an_overlay_and_qrels_of_trec_are_named(folder: Path) -> None:
    (folder / "config.yaml").write_text(CONFIG.replace("mine.tsv", "nowhere/mine.tsv"))
    with pytest.raises(LabelsError, match=r"nowhere/mine\.tsv: there is no such file"):
        load_dataset(load_config(folder / "config.yaml").dataset)
    (folder / "data" / "qrels" / "test.tsv").write_text("q1\t0\td1\t1\nq2\t0\td2\t1\n")
    with pytest.raises(LabelsError, match=r"test\.tsv: looks like TREC qrels"):
        beir_labels(folder / "data", "test")


def test_an_overlay_that_is_wrong_is_refused_by_its_name(folder: Path) -> None:
    config = load_config(folder / "config.yaml")
    (folder / "mine.tsv").write_text("q1\td2\tgood\nq9\td1\t1\n")
    with pytest.raises(LabelsError, match=r"mine\.tsv:1: the grade 'good' must be a whole number"):
        load_dataset(config.dataset)
    (folder / "mine.tsv").write_text("q9\td1\t1\n")
    with pytest.raises(LabelsError, match=r"mine\.tsv:1: judges 1 query not in queries\.jsonl, 'q9' first"):
        load_dataset(config.dataset)
    (folder / "config.yaml").write_text(CONFIG.replace("beir: data", "corpus: data, queries: q.json"))
    with pytest.raises(ConfigError, match="split and overlay belong to beir"):
        load_config(folder / "config.yaml")


def test_grades_are_added_as_lines_and_noted(tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    made, done = write_back(OverlayText.read(file), [Grade("q1", "d1", 2), Grade("q1", "d 2", 0)], "ada")
    assert file.read_text() == "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td 2\t0\n"
    made, done = write_back(made, [Grade("q1", "d1", 3), Grade("q1", "d 2", 0)], "ada")
    assert file.read_text().endswith("q1\td 2\t0\nq1\td1\t3\n")
    assert [one.action for one in done] == ["change"]
    assert OverlayText.read(file).judged == {("q1", "d1"): 3, ("q1", "d 2"): 0}
    rows = [json.loads(line) for line in history_file(file).read_text().splitlines()]
    assert [(row["action"], row["before"], row["after"]) for row in rows] == [
        ("add", None, {"doc": "d1", "relevance": 2}),
        ("add", None, {"doc": "d 2", "relevance": 0}),
        ("change", {"doc": "d1", "relevance": 2}, {"doc": "d1", "relevance": 3}),
    ]
    file.write_bytes(b"q1\td1\t2\r\nq5\td1\t1")
    write_back(OverlayText.read(file), [Grade("q1", "d2", 1)], "ada")
    assert file.read_bytes() == b"q1\td1\t2\r\nq5\td1\t1\r\nq1\td2\t1\r\n"


def test_what_somebody_else_judged_meanwhile_is_merged_or_shown(tmp_path: Path) -> None:
    file = tmp_path / "mine.tsv"
    file.write_text("q1\td1\t1\n")
    base = OverlayText.read(file)
    file.write_text("q1\td1\t1\nq2\td1\t1\n")
    write_back(base, [Grade("q1", "d2", 1)], "ada")
    assert file.read_text() == "q1\td1\t1\nq2\td1\t1\nq1\td2\t1\n"
    with pytest.raises(LabelsConflictError, match="query 'q1' was changed"):
        write_back(base, [Grade("q1", "d2", 3)], "eve")
    assert file.read_text() == "q1\td1\t1\nq2\td1\t1\nq1\td2\t1\n"


@pytest.mark.parametrize(("grade", "told"), [
    (Grade("q1", "d1", 1, quote="x"), "a passage of 'd1' cannot be judged in qrels"),
    (Grade("q1", "d1", 1, group="x"), "qrels have no groups; leave the group 'x' out"),
    (Grade("q1", "d\t1", 1), "cannot both be in qrels"),
    (Grade("q1", "d1", 2_000_000), "is beyond 1,000,000"),
])  # fmt: skip
def test_what_qrels_cannot_say_is_refused_before_anything_is_written(tmp_path: Path, grade: Grade, told: str) -> None:
    with pytest.raises(LabelsError, match=told):
        write_back(OverlayText.read(tmp_path / "mine.tsv"), [Grade("q1", "d9", 1), grade], "ada")
    assert not list(tmp_path.iterdir())


def test_of_many_bad_lines_the_first_are_told_and_of_trec_qrels_what_they_are(tmp_path: Path) -> None:
    """With tabs and without; one line of another shape, and the rows are not all TREC's."""
    file = tmp_path / "mine.tsv"
    for mark in ("\t", " "):
        file.write_text("".join(f"q{mark}0{mark}d{number}{mark}1\n" for number in range(1_364)))
        with pytest.raises(LabelsError) as raised:
            _ = OverlayText.read(file).judged
        faults = raised.value.faults
        assert [one.line for one in faults] == [*range(1, 21), 0, 0]
        assert [one.message for one in faults[-3:]] == [
            "must be query, document and grade, tabs between; found 4 fields.",
            "and 1,344 more like these.",
            "looks like TREC qrels (query, iteration, document, grade). Here there are three columns, tabs between: "
            "query-id, corpus-id, score. Take out the second: awk -v OFS='\\t' '{print $1, $3, $4}'",
        ]
    file.write_text("q 0 d 1\nq d 1\n")
    with pytest.raises(LabelsError) as raised:
        _ = OverlayText.read(file).judged
    assert len(raised.value.faults) == 1


OF_THE_OVERLAY = {  # contents with one judgment of a document that is not there, and its line
    "a spreadsheet's CSV": ("query-id,corpus-id,score\nq1,d1,1\n\nq2,zz,1\n", 4),
    "a German spreadsheet's": ("query_id;doc_id;relevance\nq2;zz;1\n", 2),
    "a byte-order mark": ("\ufeffquery-id\tcorpus-id\tscore\nq2\tzz\t2\n", 2),
    "an id of a later line": ("q2\td3\t1\nq2\tzz\t2\nq2\tzz\t1\n", 3),
}


@pytest.mark.parametrize("case", OF_THE_OVERLAY)
def test_a_fault_of_the_overlay_names_the_overlay_and_its_line(folder: Path, case: str) -> None:
    content, line = OF_THE_OVERLAY[case]
    (folder / "mine.tsv").write_bytes(content.encode())
    read = beir_labels(folder / "data", "test", folder / "mine.tsv")
    library = library_of(folder / "texts", dict.fromkeys(("d1", "d2", "d3"), "Text."))
    with pytest.raises(LabelsError) as caught:
        resolve(read.labels, library, "id", "qrels/test.tsv", places=read.places)
    assert [(Path(fault.file).name, fault.line) for fault in caught.value.faults] == [("mine.tsv", line)]
