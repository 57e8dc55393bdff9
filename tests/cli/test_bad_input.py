"""What is wrong with the files is reported before anything is run: the place, what was found, what to do about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from small_experiment import CONFIG, DOCUMENTS, LABELS, Outcome, ragtrial, small_experiment

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


FIRST_LABELS = (
    '`ragtrial search CONFIG "QUESTION" --label` labels a first question, `ragtrial labels convert FILE --corpus '
    "DOCUMENTS -o prompt_queries.json` reads a CSV with question and answer."
)


def with_embedder(written: str) -> str:
    old = '{kind: custom, function: "hashing:embed"}'
    assert CONFIG.count(old) == 1
    return CONFIG.replace(old, written)


def assert_refused(made: Outcome, *faults: str) -> None:
    """Nothing was run, and stderr says these faults and nothing else, wherever the config names what is at fault."""
    assert made.out == ""
    said = [
        re.sub(r"^error: \S+\.yaml:\d+:\d+: (?=/|setting 'dense')(setting 'dense': )?", "error: ", line)
        for line in made.err.splitlines()
    ]
    assert said == [f"error: {fault}" for fault in faults]
    assert made.code == 2
    assert not Path("results").exists()


# The config.


def test_a_config_with_several_faults(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=CONFIG.replace("top_k: 3", "top_k: 0") + "evaluators: {unit: spam}\n")
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "--set", "seed=x"),
        "--set #1: seed is 'x'; it must be a whole number.",
        "experiment.yaml:7:24: retrievers.dense.top_k is 0; it must be at least 1 (default 10).",
        "experiment.yaml:9:14: evaluators.unit is 'spam'; it must be one of: document, span. Did you mean 'span'?",
    )


# The labels.


def test_labels_and_documents_that_are_not_there_are_told_at_once_with_names_like_theirs(
    tmp_path: Path, capsys: Capture
) -> None:
    config = CONFIG.replace("corpus: documents, queries: prompt_queries", "corpus: document, queries: prompt_querys")
    small_experiment(tmp_path, config=config)
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        f"{tmp_path / 'prompt_querys.json'}: there is no such file. Did you mean 'prompt_queries.json'? {FIRST_LABELS}",
        f"{tmp_path / 'document'}: there is no such folder or file; `dataset.corpus` names it. "
        "Did you mean 'documents'?",
    )


def test_labels_with_faults_of_every_kind_are_told_at_once(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(
        tmp_path,
        labels='{"queries": [\n'
        '  {"id": "q1", "text": "x", "relevant_docs": [{"doc": "a", "grade": 1}]},\n'
        '  {"id": "q2", "relevant_docs": [{"doc": "a", "relevance": "high"}]}\n'
        "]}\n",
    )
    place = tmp_path / "prompt_queries.json"
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        f"{place}:2:69: unknown key 'grade' in queries[0].relevant_docs[0]. Allowed here: doc, relevance, quote, "
        "start, end, text_hash.",
        f"{place}:3:3: queries[1].text is missing; it is required.",
        f"{place}:3:60: queries[1].relevant_docs[0].relevance is 'high'; it must be a whole number.",
    )


def test_labels_that_judge_documents_which_are_not_there_are_refused(tmp_path: Path, capsys: Capture) -> None:
    labels = {
        "queries": [
            {"id": "q1", "text": "x", "relevant_docs": [{"doc": "returns.md"}, {"doc": "waranty.md"}]},
            {"id": "q2", "text": "x", "relevant_docs": [{"doc": "zebra"}]},
        ]
    }
    small_experiment(tmp_path, labels=labels)
    place = tmp_path / "prompt_queries.json"
    for command in ("run", "validate"):
        assert_refused(
            ragtrial(capsys, command, "experiment.yaml", "-q"),
            f"{place}: query 'q1' judges 'waranty.md', which is not in the corpus (3 documents). "
            "Did you mean 'warranty.md'?",
            f"{place}: query 'q2' judges 'zebra', which is not in the corpus (3 documents).",
        )


# The documents.


def test_a_corpus_with_files_that_are_not_utf_8_names_all_of_them(tmp_path: Path, capsys: Capture) -> None:
    bad = {"a.md": b"one\ncaf\xe9\n", "deep/b.txt": b"x\x00y\x00"}
    small_experiment(tmp_path, documents={**DOCUMENTS, **bad})
    told = "is not UTF-8; save the file as UTF-8 (iconv -f CP1252 -t UTF-8)."
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "-q"),
        f"{tmp_path / 'documents' / 'a.md'}:2: byte 0xe9 {told}",
        f"{tmp_path / 'documents' / 'deep' / 'b.txt'}:1: is not a text file: it has NUL bytes. "
        "Write it as UTF-8 text, or remove it.",
        f"{tmp_path / 'documents'}: `dataset.on_error: skip` leaves out what cannot be read, and names it.",
    )


@pytest.mark.parametrize("command", ["run", "validate"])
def test_what_of_the_corpus_is_not_read_is_told_and_no_fault(tmp_path: Path, capsys: Capture, command: str) -> None:
    small_experiment(tmp_path, documents={**DOCUMENTS, "old.doc": "x"})
    (tmp_path / "more").mkdir()
    (tmp_path / "documents" / "more").symlink_to(tmp_path / "more", target_is_directory=True)
    made = ragtrial(capsys, command, "experiment.yaml", "--strict")
    assert made.code == 0
    told = made.out + made.err
    left_out = ("not read in the corpus: 1 .doc, 1 linked folder.", "not read in the corpus: 1 linked folder, 1 .doc.")
    assert any(one in told for one in left_out)


def test_a_corpus_file_with_rows_that_are_wrong(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=CONFIG.replace("corpus: documents", "corpus: corpus.jsonl"))
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text(
        '{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n{"text": "z"}\n[]\n{"_id": "b"\n', encoding="utf-8"
    )
    made = ragtrial(capsys, "run", "experiment.yaml", "-q")
    assert made.code == 2
    *faults, way_on = made.err.splitlines()
    assert [fault.removeprefix(f"error: {corpus}:").split(":")[0] for fault in faults] == ["2", "3", "4", "5"]
    assert way_on == f"error: {corpus}: `dataset.on_error: skip` leaves out what cannot be read, and names it."
    assert "document 'a' is in line 1 already." in made.err


# The embedder.


@pytest.mark.parametrize("command", ["validate", "plan"])
def test_a_model_that_may_be_fetched_is_not_looked_for_before_the_run_and_nobody_is_told_to_connect(
    command: str, tmp_path: Path
) -> None:
    text = with_embedder("{kind: sentence-transformer, model: nobody/no-such-model}")
    environment = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    made = subprocess.run(
        [sys.executable, "-m", "ragtrial", command, small_experiment(tmp_path, config=text)],
        capture_output=True, text=True, env=environment, timeout=120, check=False,
    )  # fmt: skip
    told = "the model 'nobody/no-such-model' (setting 'dense') must be fetched from the hub first, which "
    assert f"{told}`ragtrial run` does.\n" in made.stderr
    assert "HF_HUB_OFFLINE" not in made.stderr


# Where nothing can be written.


def test_a_results_folder_that_cannot_be_written_keeps_what_was_computed(tmp_path: Path, capsys: Capture) -> None:
    """It broke while running; with another folder the same command does nothing twice."""
    small_experiment(tmp_path, config=CONFIG + "output: {directory: taken}\n")
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    made = ragtrial(capsys, "run", "experiment.yaml", "-q")
    assert (made.code, made.out) == (3, "")
    assert made.err.startswith(f"error: {tmp_path / 'taken' / 'small'}{os.sep}")
    assert made.err.endswith(
        ": cannot be written: Not a directory. Finished work is cached; free space or set output.directory, and run "
        "the same command again.\n"
    )
    again = ragtrial(capsys, "run", "experiment.yaml", "--set", "output.directory=free")
    assert (again.code, again.err.startswith("Nothing was computed: all ")) == (0, True)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no folder modes")
def test_a_read_only_folder(tmp_path: Path, capsys: Capture) -> None:
    if os.geteuid() == 0:
        pytest.skip("the superuser may write everywhere")
    small_experiment(tmp_path, config=CONFIG + "workspace: elsewhere\noutput: {directory: locked/results}\n")
    (tmp_path / "locked").mkdir(mode=0o500)
    made = ragtrial(capsys, "run", "experiment.yaml", "-q")
    assert made.code == 3
    assert "cannot be written: Permission denied. Finished work is cached" in made.err


def test_the_labels_that_every_test_here_spoils_are_right_as_they_are(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, labels=LABELS)
    assert ragtrial(capsys, "validate", "experiment.yaml", "--strict", "-q").code == 0
