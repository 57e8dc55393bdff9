"""What is wrong with the files is reported before anything is run: the place, what was found, what to do about it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from small_experiment import BROKEN, CONFIG, DOCUMENTS, HASHING, LABELS, Outcome, ragtrial, small_experiment

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


def assert_refused(made: Outcome, *faults: str, code: int = 2) -> None:
    """Nothing was run, and stderr says these faults and nothing else, wherever the config names what is at fault."""
    assert made.out == ""
    said = [
        re.sub(r"^error: \S+\.yaml:\d+:\d+: (setting 'dense': )?", "error: ", line) for line in made.err.splitlines()
    ]
    assert said == [f"error: {fault}" for fault in faults]
    assert made.code == code
    assert not Path("results").exists()


# The config.


@pytest.mark.parametrize("command", [["run"], ["validate"], ["search", "TEXT"]], ids=["run", "validate", "search"])
def test_a_config_that_is_not_there_is_refused(command: list[str], capsys: Capture) -> None:
    assert_refused(ragtrial(capsys, command[0], "nowhere.yaml", *command[1:]), "nowhere.yaml: there is no such file.")


def test_a_config_that_is_a_folder_is_refused(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "folder").mkdir()
    assert_refused(
        ragtrial(capsys, "run", "folder"),
        "folder/experiment.yaml: there is no such file; name a config, or write one with `ragtrial init FOLDER`.",
    )


def test_a_config_that_is_not_utf_8_is_refused(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config="# Versuch\nexperiment: M\u00fcnchen\n".encode("latin-1"))
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        "experiment.yaml:2: byte 0xfc is not UTF-8; save the file as UTF-8 (iconv -f CP1252 -t UTF-8).",
    )


def test_a_config_that_is_broken_yaml(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config="experiment: first\ndataset: {corpus: documents\nseed: 1\n")
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        "experiment.yaml:3:5: expected ',' or '}', but got ':'; the mistake may be in line 2.",
    )


def test_a_config_that_is_empty_is_refused(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config="")
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        "experiment.yaml: is empty; a config has keys and values. `ragtrial init` writes one.",
    )


def test_a_config_with_several_faults(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=CONFIG.replace("top_k: 3", "top_k: 0") + "evaluators: {unit: spam}\n")
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "--set", "seed=x"),
        "--set #1: seed is 'x'; it must be a whole number.",
        "experiment.yaml:7:24: retrievers.dense.top_k is 0; it must be at least 1 (default 10).",
        "experiment.yaml:9:14: evaluators.unit is 'spam'; it must be one of: document, span. Did you mean 'span'?",
    )


# The labels.


def test_labels_that_are_not_there_are_refused(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    (tmp_path / "prompt_queries.json").unlink()
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        f"{tmp_path / 'prompt_queries.json'}: there is no such file. {FIRST_LABELS}",
    )


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


def test_labels_that_are_broken_json(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, labels='{"queries": [\n  {"id": "q1",}\n]}\n')
    made = ragtrial(capsys, "run", "experiment.yaml")
    assert made.code == 2
    assert made.err.startswith(f"error: {tmp_path / 'prompt_queries.json'}:2:")
    assert ": is not JSON: " in made.err
    assert len(made.err.splitlines()) == 1


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


def test_labels_without_a_query_are_refused(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, labels='{"queries": []}')
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        f"{tmp_path / 'prompt_queries.json'}:1:13: there is no query; an experiment needs at least one.",
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


def test_labels_with_two_grades_for_one_document_are_refused(tmp_path: Path, capsys: Capture) -> None:
    relevant = [{"doc": "returns.md", "relevance": 1}, {"doc": "returns.md", "relevance": 2}]
    small_experiment(tmp_path, labels={"queries": [{"id": "q1", "text": "x", "relevant_docs": relevant}]})
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "-q"),
        f"{tmp_path / 'prompt_queries.json'}: query 'q1' gives 'returns.md' the grades 1 and 2; one document (or one "
        "passage of it) has one grade.",
    )


def test_labels_of_another_data_set_are_refused(tmp_path: Path, capsys: Capture) -> None:
    queries = [{"id": str(number), "text": "x", "relevant_docs": [{"doc": f"MED-{number}"}]} for number in range(3)]
    small_experiment(tmp_path, labels={"queries": queries})
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "-q"),
        f"{tmp_path / 'prompt_queries.json'}: none of the 3 judged documents is in the corpus (3 documents). Labels "
        "have ids like 'MED-0', 'MED-1'; the corpus has ids like 'returns.md', 'shipping.txt'. Are these the labels of "
        "another data set, or is `dataset.corpus` another folder?",
    )


def test_labels_that_hold_passages_where_ids_are_wanted(tmp_path: Path, capsys: Capture) -> None:
    relevant = [{"doc": f"Return any item within {days} days, or so the document nearly says."} for days in range(9)]
    small_experiment(tmp_path, labels={"queries": [{"id": "q1", "text": "x", "relevant_docs": relevant}]})
    made = ragtrial(capsys, "run", "experiment.yaml", "-q")
    assert made.code == 2
    assert made.err.endswith("The labels hold passages: did you mean `match: content`?\n")


def test_labels_that_hold_ids_where_passages_are_wanted(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=CONFIG.replace("queries.json}", "queries.json, match: content}"))
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "-q"),
        f"{tmp_path / 'prompt_queries.json'}: `match: content` says that `doc` holds a passage, and each label has the "
        "id of a document there, like 'returns.md', 'warranty.md'. Did you mean `match: id`?",
    )


# The documents.


def test_a_corpus_that_is_not_there_is_refused(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=CONFIG.replace("corpus: documents", "corpus: nowhere"))
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        f"{tmp_path / 'nowhere'}: there is no such folder or file; `dataset.corpus` names it.",
    )


def test_a_corpus_without_documents_is_refused(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, documents={"picture.png": b"\x89PNG", ".hidden.md": "x"})
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml"),
        f"{tmp_path}/documents: has no documents; files ending in .htm, .html, .markdown, .md, .pdf, .txt are read.",
    )


def test_a_corpus_with_files_that_are_not_utf_8_names_all_of_them(tmp_path: Path, capsys: Capture) -> None:
    bad = {"a.md": b"one\ncaf\xe9\n", "deep/b.txt": b"x\x00y\x00"}
    small_experiment(tmp_path, documents={**DOCUMENTS, **bad})
    told = "is not UTF-8; save the file as UTF-8 (iconv -f CP1252 -t UTF-8)."
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "-q"),
        f"{tmp_path / 'documents' / 'a.md'}:2: byte 0xe9 {told}",
        f"{tmp_path / 'documents' / 'deep' / 'b.txt'}:1: is not a text file: it has NUL bytes (as UTF-16 without a "
        "byte-order mark has). Write it as UTF-8 text, or remove it.",
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


def test_a_model_that_is_nowhere_says_all_that_was_tried(tmp_path: Path, capsys: Capture) -> None:
    text = with_embedder("{kind: sentence-transformer, model: nobody/no-such-model}")
    made = ragtrial(capsys, "run", small_experiment(tmp_path, config=text), "-q")
    assert (made.code, made.out) == (2, "")
    assert made.err.partition(": the ")[2].startswith(
        "model 'nobody/no-such-model' (setting 'dense') cannot be found. Tried: the cache of this machine (not there)"
    )
    assert ", not the hub, because HF_HUB_OFFLINE is set. " in made.err
    assert made.err.endswith(
        "Check the name, connect to the network once, or give `model:` the path of a local folder.\n"
    )
    assert not Path("results").exists()


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


def test_a_model_in_a_folder_that_is_not_there_or_holds_none(tmp_path: Path, capsys: Capture) -> None:
    text = with_embedder("{kind: sentence-transformer, model: ./nowhere}")
    assert_refused(
        ragtrial(capsys, "run", small_experiment(tmp_path, config=text), "-q"),
        f"the model folder {tmp_path / 'nowhere'} is not there; `model:` takes a folder or a hub name.",
    )
    text = with_embedder("{kind: sentence-transformer, model: documents}")
    assert_refused(
        ragtrial(capsys, "run", small_experiment(tmp_path, config=text), "-q"),
        f"the folder {tmp_path / 'documents'} holds no model: it has neither modules.json nor config.json.",
    )


@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_function_whose_module_is_not_there_is_refused(command: str, tmp_path: Path, capsys: Capture) -> None:
    text = with_embedder('{kind: custom, function: "nowhere_to_be_found:embed"}')
    assert_refused(
        ragtrial(capsys, command, small_experiment(tmp_path, config=text), "-q"),
        "there is no module 'nowhere_to_be_found': neither installed nor a file "
        f"{tmp_path / 'nowhere_to_be_found.py'}.",
    )


def test_a_function_that_its_module_has_not_is_refused(tmp_path: Path, capsys: Capture) -> None:
    assert_refused(
        ragtrial(capsys, "run", small_experiment(tmp_path, functions=HASHING.replace("def embed", "def embeds")), "-q"),
        "hashing:embed: the module hashing has no function 'embed'. Did you mean 'embeds'?",
    )
    assert_refused(
        ragtrial(capsys, "run", small_experiment(tmp_path / "other", functions="embed = 3\n"), "-q"),
        "hashing:embed: the module hashing has no function 'embed'.",
    )


@pytest.mark.parametrize(
    ("code", "told"),
    [("import nowhere_to_be_found\n", "needs 'nowhere_to_be_found', which is not installed."),
     ("1 / 0\n", "cannot be imported: ZeroDivisionError: division by zero"),
     ("raise SystemExit(1)\n", "cannot be imported: SystemExit: 1"),
     ("def embed(:\n", "cannot be imported: SyntaxError: invalid syntax (hashing.py, line 1)")],
    ids=["needs another", "raises", "exits", "is no Python"],
)  # fmt: skip
def test_a_module_that_cannot_be_imported(code: str, told: str, tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, functions=code)
    for command in ("run", "validate"):
        assert_refused(ragtrial(capsys, command, "experiment.yaml", "-q"), f"the module 'hashing' {told}")


MODULE = """\
import numpy as np

calls = 0


def embed(texts):
    global calls
    calls += 1
    return {}
"""


SHAPE = (
    "hashing:embed returned the shape {} for 3 texts; it must be (3, dimension): one vector per text, in their order."
)


@pytest.mark.parametrize(
    ("returned", "told"),
    [("np.zeros((1, 3))", SHAPE.format((1, 3))), ("np.zeros(3)", SHAPE.format((3,))),
     ("np.zeros((3, 0))", SHAPE.format((3, 0))), ("None", SHAPE.format(())),
     ("['x'] * len(texts)", "hashing:embed returned list, not an array of numbers: could not convert string to float: "
      "'x'.")],
)  # fmt: skip
def test_a_function_that_returns_something_else_than_vectors(
    returned: str, told: str, tmp_path: Path, capsys: Capture
) -> None:
    small_experiment(tmp_path, functions=MODULE.format(returned))
    assert_refused(ragtrial(capsys, "run", "experiment.yaml", "-q"), f"setting 'dense': {told}", code=3)


@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_function_that_returns_what_is_no_number(value: str, tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, functions=MODULE.format(f"np.full((len(texts), 3), np.{value})"))
    made = ragtrial(capsys, "run", "experiment.yaml", "-q")
    assert (made.code, made.out) == (3, "")
    assert made.err.startswith(
        "error: setting 'dense': hashing:embed returned NaN or infinity for 3 of 3 texts; the first begins '"
    )


def test_a_function_whose_vectors_change_their_dimension_between_calls(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, functions=MODULE.format("np.ones((len(texts), 2 + calls))"))
    made = ragtrial(capsys, "run", "experiment.yaml", "-q")
    assert (made.code, made.out) == (3, "")
    assert made.err.startswith("error: setting 'dense': ")
    assert "returned vectors of dimension 4; before they had 3." in made.err


def test_a_function_that_raises(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, functions=BROKEN)
    assert_refused(
        ragtrial(capsys, "run", "experiment.yaml", "-q"),
        "setting 'dense': hashing:embed raised RuntimeError for 3 texts: no key",
        code=3,
    )
    assert_refused(
        ragtrial(capsys, "search", "experiment.yaml", "x", "-q"),
        "hashing:embed raised RuntimeError for 3 texts: no key",
        code=3,
    )


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
    assert (again.code, again.err) == (0, "")


def test_a_workspace_that_cannot_be_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    small_experiment(tmp_path)
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    advice = "Free space, mend permissions, or name another folder with `workspace:` or RAGTRIAL_WORKSPACE."
    told = f"the workspace {tmp_path / 'taken'} cannot be used: File exists. {advice}"
    assert_refused(ragtrial(capsys, "run", "experiment.yaml", "--set", "workspace=taken"), told, code=3)
    monkeypatch.setenv("RAGTRIAL_WORKSPACE", str(tmp_path / "taken"))
    assert_refused(ragtrial(capsys, "run", "experiment.yaml"), told, code=3)


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
