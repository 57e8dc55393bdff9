"""What newcomers get wrong: each mistake is answered with its place, what is wrong there, and what to do next."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from small_experiment import BROKEN, CONFIG, DOCUMENTS, LABELS, Capture, ragtrial, small_experiment, succeeded

RUN, CHUNKS = ("run", "experiment.yaml"), ("chunks", "experiment.yaml")
SHOW = ("show", "--metrics")
SEARCH = ("search", "experiment.yaml", "how many days do parcels take")
LABELS_FILE = "prompt_queries.json"
RETRIEVERS = "retrievers:\n  dense: {kind: dense, top_k: 3}\n"


@dataclass(frozen=True)
class Wrong:
    """A mistake in a small experiment that is right otherwise, and what the answer names."""

    name: str
    place: str
    """A file with line and column, a key or an option."""

    next_step: str
    """What would be right, or what to type."""

    replace: tuple[str, str] = ("", "")
    """A piece of the config, and what is there instead."""

    more: str = ""
    """A line at the end of the config."""

    labels: object = field(default_factory=lambda: LABELS)
    documents: Mapping[str, str | bytes] = field(default_factory=lambda: DOCUMENTS)
    files: Mapping[str, bytes | None] = field(default_factory=dict)
    """Other files; None where one is missing."""

    command: Sequence[str] = RUN
    after_run: bool = False
    code: int = 2


def judged(doc: str = "returns.md", text: str = "thirty days", **more: object) -> dict[str, object]:
    return {"queries": [{"id": "q1", "text": text, "relevant_docs": [{"doc": doc, **more}]}]}


CSV = b"question,answer\nthirty days?,Return any item within thirty days.\n"

# fmt: off
CASES = [
    # The config.
    Wrong("unknown key", "experiment.yaml:6:1", "Did you mean 'retrievers'?", ("retrievers:", "retriever:")),
    Wrong("key twice", "experiment.yaml:9:1", "first used in line 8", more="latency: true"),
    Wrong("overlap above size", "experiment.yaml:3:1", "must be below size (100)",
          ("{kind: document}", "{kind: recursive, size: 100, overlap: 200}")),
    Wrong("no retrievers", "experiment.yaml:1:1", "retrievers is missing", (RETRIEVERS, "")),
    Wrong("config of comments", "experiment.yaml", "`ragtrial init` writes one.", files={"experiment.yaml": b"# a\n"}),
    Wrong("settings of a search", "", "leave out the names, or set search to null.",
          command=(*RUN, "--setting", "dense"),
          more="sweep: {matrix: {retrievers.dense.top_k: [3, 4]}}\nsearch: {settings: 2}"),
    Wrong("missing variable", "experiment.yaml:2:19", "set it, or write ${RAGTRIAL_NO_SUCH:-a default}",
          ("corpus: documents", "corpus: '${RAGTRIAL_NO_SUCH}'")),
    Wrong("corpus with a typo", "/document: ", "Did you mean 'documents'?", ("corpus: documents", "corpus: document")),
    Wrong("labels with a typo", "/prompt_querys.json", "Did you mean 'prompt_queries.json'?",
          ("prompt_queries.json", "prompt_querys.json")),
    # Models and functions.
    Wrong("one vector for all", "setting 'dense'", "must be (3, dimension)", code=3,
          files={"hashing.py": b"def embed(texts): return [[1.0, 2.0]]"}),
    Wrong("vectors of NaN", "setting 'dense'", "NaN or infinity for 3 of 3 texts", code=3,
          files={"hashing.py": b"def embed(texts): return [[float('nan'), 1.0]] * len(texts)"}),
    Wrong("function that raises", "setting 'dense'", "raised RuntimeError for 3 texts: no key", code=3,
          files={"hashing.py": BROKEN.encode()}),
    Wrong("function that raises in a search", "hashing:embed", "raised RuntimeError for 3 texts: no key", code=3,
          files={"hashing.py": BROKEN.encode()}, command=("search", "experiment.yaml", "x")),
    # The labels.
    Wrong("no labels yet", LABELS_FILE, "ragtrial search", files={LABELS_FILE: None}),
    Wrong("id without its ending", LABELS_FILE, "Did you mean 'returns.md'?", labels=judged("returns")),
    Wrong("id with its folder", LABELS_FILE, "Did you mean 'returns.md'?", labels=judged("documents/returns.md")),
    Wrong("paraphrased quote", LABELS_FILE, "The nearest is in 'returns.md': 'Return any item within thirty days.'",
          labels=judged(quote="Return every item within 30 days.")),
    Wrong("grade in words", f"{LABELS_FILE}:1:103", "must be a whole number", labels=judged(relevance="high")),
    Wrong("ids for passages", LABELS_FILE, "Did you mean `match: id`?",
          ("queries.json}", "queries.json, match: content}")),
    Wrong("CSV as labels", "labels.csv", "ragtrial labels convert", ("prompt_queries.json", "labels.csv"),
          files={"labels.csv": CSV}),
    Wrong("spreadsheet as labels", "questions.xlsx", "CSV", files={"questions.xlsx": b"PK\x03\x04\x14\x00\x06\x00\x08"},
          command=("labels", "convert", "questions.xlsx", "--corpus", "documents", "-o", "new.json")),
    # Where things are written.
    Wrong("workspace is a file", "/taken", "name another folder with `workspace:`", more="workspace: taken",
          files={"taken": b""}, code=3),
    # What is typed.
    Wrong("config with a typo", "experiment.yml", "Did you mean 'experiment.yaml'?", command=("run", "experiment.yml")),
    Wrong("option with a typo", "'--limt'", "'--limit'", command=(*RUN, "--limt", "3")),
    Wrong("gate without k", "--fail-if #1", "Did you mean 'ndcg@3'?", command=(*RUN, "--fail-if", "ndcg < 0.7")),
    Wrong("grade of an unknown hit", "'99'", "not among hits 1 to 3",
          command=("search", "experiment.yaml", "thirty days", "--grade", "99=3")),
    Wrong("unknown report", "'nope'", "`ragtrial list runs`", command=("show", "nope"), after_run=True),
    Wrong("no report yet", "results", "`ragtrial run CONFIG`", command=("show", "latest")),
    Wrong("unknown question", "'q9'", "It has 2: q1, q2", command=("show", "latest", "--query", "q9"), after_run=True),
    Wrong("one setting", "'dense'", "Run a config with several retrievers",
          command=("compare", "latest"), after_run=True),
    Wrong("unknown metric", "'ndgc@3'", "Did you mean 'ndcg'?",
          command=("compare", "latest", "--metric", "ndgc@3"), after_run=True),
    Wrong("explain a typo", "'ndgc@10'", "Did you mean 'ndcg'?", command=("explain", "ndgc@10")),
    Wrong("list a typo", "'metrcs'", "'metrics'", command=("list", "metrcs")),
    Wrong("experiment with a typo", "'smal", "Did you mean 'small'?", command=("show", "smal/latest"), after_run=True),
    Wrong("setting typo", "'dens'", "Did you mean 'dense'?", command=("show", "--setting", "dens"), after_run=True),
    Wrong("metric that is not there", "ndcg@9", "Did you mean 'ndcg@3'?", command=(*SHOW, "ndcg@9"), after_run=True),
    Wrong("no metric", "' , '", "names no metric", command=(*SHOW, " , "), after_run=True),
    Wrong("empty question", "", "empty", command=("search", "experiment.yaml", "  ")),
    Wrong("chunks of no setting", "'dence'", "Did you mean 'dense'? Known: dense.",
          command=(*CHUNKS, "--setting", "dence")),
    Wrong("chunks of no document", "'return.md'", "among 3 documents. Did you mean 'returns.md'?",
          command=(*CHUNKS, "--doc", "return.md")),
    Wrong("chunks into a folder", "documents", "name the file to write.", command=(*CHUNKS, "-o", "documents")),
    Wrong("chunks into no folder", "nowhere/x.jsonl", "there is no folder nowhere; make it, or name another place.",
          command=(*CHUNKS, "-o", "nowhere/x.jsonl")),
    Wrong("init with labels alone", "--labels", "needs --corpus.", command=("init", "new", "--labels", "x.csv")),
    Wrong("init with no corpus", "nowhere", "there is no such folder or file, seen from /",
          command=("init", "new", "--corpus", "nowhere")),
    Wrong("init with the corpus as the new folder sees it", "../documents", "Did you mean 'documents'?",
          command=("init", "new", "--corpus", "../documents")),
    Wrong("init with a corpus that is here, not above", "../nowhere/documents", "Did you mean 'documents'?",
          command=("init", "new", "--corpus", "../nowhere/documents")),
    Wrong("init with a misspelt corpus", "dokuments", "Did you mean 'documents'?",
          command=("init", "new", "--corpus", "dokuments")),
    Wrong("search of a table", "prompt_queries.json", "a question after prompt_queries.json.",
          command=("search", "prompt_queries.json")),
    Wrong("init without its labels", "x.csv", "there is no such file.",
          command=("init", "new", "--corpus", "documents", "--labels", "x.csv")),
    Wrong("only setting as baseline", "'dense'", "there is nothing to compare.", command=(*RUN, "--baseline", "dense")),
    Wrong("metrics of nothing", "' , '", "names no metric; write them like ndcg@10",
          command=("rescore", "latest", "--metrics", " , "), after_run=True),
    # Labels.
    Wrong("grade without a hit", "--grade: '1'", "the number or the document of a hit first: 1=2.",
          command=(*SEARCH, "--grade", "1")),
    Wrong("grade that is a word", "--grade", "the grade 'good' must be a whole number.",
          command=(*SEARCH, "--grade", "1=good")),
    Wrong("grade beyond all", "hit 1", "above 9 and above all grades of the labels; is it one?",
          command=(*SEARCH, "--grade", "1=12")),
    Wrong("passage without a grade", "hit 2", "comes without a grade.",
          command=(*SEARCH, "--grade", "1=1", "--quote", "2=x")),
    Wrong("passage of another hit", "'nowhere'", "is not in the text of hit 1; it",
          command=(*SEARCH, "--grade", "1=1", "--quote", "1=nowhere")),
    Wrong("no terminal", "--grade", "there is no terminal to ask for grades in", command=(*SEARCH, "--label")),
    Wrong("tag of no label", "--tag", "need --label or --grade.", command=(*SEARCH, "--tag", "x")),
    Wrong("passage of no hit", "--quote", "needs --grade for the same hit.", command=(*SEARCH, "--quote", "1=x")),
    Wrong("random queries by budget", "--random-queries", "leave out --budget.",
          command=("pool", "--random-queries", "1", "--budget", "1")),
    Wrong("judge without a model of a model", "--offline", "leave out --endpoint and --model.",
          command=("judge", "--offline", "--model", "m")),
    Wrong("sample into labels", LABELS_FILE, "already exists; name another file.",
          command=("sample", "spans.jsonl", "-o", LABELS_FILE)),
    Wrong("run file of three columns", "run.trec", "say which form with --format",
          command=("score", "qrels.txt", "run.trec"),
          files={"qrels.txt": b"1 0 a 1\n", "run.trec": b"1 Q0 a\n"}),
]
# fmt: on


@pytest.mark.parametrize("wrong", [pytest.param(wrong, id=wrong.name) for wrong in CASES])
def test_a_mistake_is_answered_with_its_place_and_the_next_step(wrong: Wrong, tmp_path: Path, capsys: Capture) -> None:
    old, new = wrong.replace
    assert not old or CONFIG.count(old) == 1
    config = CONFIG.replace(old, new) if old else CONFIG
    small_experiment(tmp_path, config=f"{config}{wrong.more}\n", labels=wrong.labels, documents=wrong.documents)
    if wrong.after_run:
        succeeded(capsys, *RUN, "-q")
    for name, content in wrong.files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).unlink() if content is None else (tmp_path / name).write_bytes(content)
    before = {path: path.read_bytes() for path in tmp_path.glob("*.json*")}
    made = ragtrial(capsys, *wrong.command)
    errors = "\n".join(line for line in made.err.splitlines() if line.startswith("error: "))
    assert made.code == wrong.code
    assert wrong.place in errors
    assert wrong.next_step in errors
    assert "Traceback" not in made.err
    assert made.out == ""
    assert wrong.after_run or not Path("results").exists()
    assert {path: path.read_bytes() for path in tmp_path.glob("*.json*")} == before


def test_shell_completion_is_no_crash(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.setenv("_RAGTRIAL_COMPLETE", "bash_source")
    made = ragtrial(capsys)
    assert (made.code, made.err) == (0, "")


SEVERAL: Mapping[str, tuple[dict[str, Any], Sequence[str], list[str]]] = {
    "config and override": (
        {"config": CONFIG.replace("top_k: 3", "top_k: 0") + "evaluators: {unit: spam}\n"}, ("--set", "seed=x"),
        ["--set #1", "experiment.yaml:7:24", "experiment.yaml:9:14"],
    ),
    "labels and documents that are missing": (
        {"config": CONFIG.replace("documents, queries: prompt_queries", "document, queries: prompt_querys")}, (),
        ["/prompt_querys.json", "/document"],
    ),
    "config and labels": (
        {"config": CONFIG.replace("top_k: 3", "top_k: 0"), "labels": '{"queries": [\n{"id": 1, "text": ""}]}'}, (),
        ["experiment.yaml:7:24", f"{LABELS_FILE}:2:1", f"{LABELS_FILE}:2:19"],
    ),
    "config and documents": (
        {"config": CONFIG.replace("top_k: 3", "top_k: 0").replace("documents,", "document,")}, (),
        ["experiment.yaml:7:24", "/document"],
    ),
    "labels that are not in the documents": (
        {
            "labels": '{"queries": [\n'
            '  {"id": "q1", "text": "x", "relevant_docs": [{"doc": "returns.md"},\n'
            '    {"doc": "returns.md", "quote": "Return nothing."}]},\n'
            '  {"id": 2, "text": "y", "relevant_docs": [{"doc": "return.md"}]},\n'
            '  {"id": "q3", "text": "y", "relevant_docs": [{"doc": "warranty.md", "start": 0, "end": 99}]},\n'
            '  {"id": "q4", "text": "z", "relevant_docs": [{"doc": "returns.md"},\n'
            '    {"doc": "returns.md", "relevance": 2}]}'
            "]}\n"
        }, (), [f"{LABELS_FILE}:3:5", f"{LABELS_FILE}:4:44", f"{LABELS_FILE}:5:47", f"{LABELS_FILE}:7:5"],
    ),
    "labels": (
        {"labels": '{"queries": [\n'
                   '  {"id": "q1", "text": "x", "relevant_docs": [{"doc": "a", "grade": 1}]},\n'
                   '  {"id": "q2", "relevant_docs": [{"doc": "a", "relevance": "high"}]}\n]}\n'}, (),
        [f"{LABELS_FILE}:2:69", f"{LABELS_FILE}:3:3", f"{LABELS_FILE}:3:60"],
    ),
    "documents": (
        {"documents": {**DOCUMENTS, "a.md": b"one\ncaf\xe9\n", "deep/b.txt": b"x\x00y\x00"}}, (),
        ["documents/a.md:2", "documents/deep/b.txt:1", "documents: `dataset.on_error: skip`"],
    ),
    "rows": (
        {"config": CONFIG.replace("corpus: documents", "corpus: documents/corpus.jsonl"), "documents": {
            "corpus.jsonl": '{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n{"text": "z"}\n[]\n{"_id": "b"\n'}},
        (), ["corpus.jsonl:2", "corpus.jsonl:3", "corpus.jsonl:4", "corpus.jsonl:5", "`dataset.on_error: skip`"],
    ),
}  # fmt: skip
"""Experiments with several faults, options of the command, and what the line of each fault names, in order."""


@pytest.mark.parametrize(("wrong", "options", "places"), SEVERAL.values(), ids=SEVERAL)
def test_all_faults_are_told_at_once_before_anything_is_run(
    wrong: dict[str, Any], options: Sequence[str], places: list[str], tmp_path: Path, capsys: Capture
) -> None:
    small_experiment(tmp_path, **wrong)
    made = ragtrial(capsys, *RUN, "-q", *options)
    for line, place in zip(made.err.splitlines(), places, strict=True):
        assert (line.startswith("error: "), place in line) == (True, True), line
    assert (made.code, made.out) == (2, "")
    assert not Path("results").exists()


@pytest.mark.parametrize("command", ["run", "validate"])
def test_what_of_the_corpus_is_not_read_is_told_and_no_fault(command: str, tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, documents={**DOCUMENTS, "old.doc": "x"})
    (tmp_path / "more").mkdir()
    (tmp_path / "documents" / "more").symlink_to(tmp_path / "more", target_is_directory=True)
    made = succeeded(capsys, command, "experiment.yaml", "--strict")
    told = made.out + made.err
    left_out = ("not read in the corpus: 1 .doc, 1 linked folder.", "not read in the corpus: 1 linked folder, 1 .doc.")
    assert any(one in told for one in left_out)


def test_a_results_folder_that_cannot_be_written_keeps_what_was_computed(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=CONFIG + "output: {directory: taken}\n")
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    made = ragtrial(capsys, "run", "experiment.yaml", "-q")
    assert (made.code, made.out) == (3, "")
    assert made.err.startswith(f"error: {tmp_path / 'taken' / 'small'}{os.sep}")
    assert ": cannot be written: " in made.err
    again = ragtrial(capsys, "run", "experiment.yaml", "--set", "output.directory=free")
    assert (again.code, again.err.startswith("Nothing was computed: all ")) == (0, True)
