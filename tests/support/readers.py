"""Everything that reads what users hand in, each with files as it should get them."""

import gzip
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpora import write_files
from foreign_labels import DOCUMENTS as FOREIGN
from pdf_files import pdf
from ragtrial.cache.untrusted import load_json
from ragtrial.components.terms import read_stop_words
from ragtrial.config import load_config
from ragtrial.config.settings import settings_of
from ragtrial.dataset.documents import read_documents
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.dataset.prefixes import read_prefixes
from ragtrial.errors import InputError
from ragtrial.experiment import run_experiment
from ragtrial.labelling.importers.base import read_labels
from ragtrial.labelling.label_files import LabelsText, OverlayText
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import read_worklist
from ragtrial.records import PromptQueries, Query
from ragtrial.report.model import load_report, read_rows
from ragtrial.runs.formats.own_files import read_results
from ragtrial.runs.inputs import read_qrels, read_runs
from ragtrial.scoring.tables.reading import read_tables
from small_experiment import CONFIG, LABELS, small_experiment
from traced_search import QUESTIONS
from worklists import write_work

SWEEP = """
sweep:
  matrix: {chunker.size: [100, 200, 300], retrievers.dense.top_k: [5, 10]}
  include: [{chunker.size: 50, chunker.overlap: 10}]
  exclude: [{chunker.size: 300, retrievers.dense.top_k: 5}]
"""
CHUNKED = CONFIG.replace("kind: document", "kind: recursive, unit: characters")
TRACED = PromptQueries(tuple(Query(name, text) for name, text in QUESTIONS.items()))
QUESTION = {"question": "How long?", "context": "Six months.", "answer": "Six months"}


@dataclass(frozen=True)
class Reader:
    """A way in: ``read`` is given a file. ``write`` puts files as they should be into a folder, and names those that
    are read; others lie beside them."""

    write: Callable[[Path], Sequence[str]]
    read: Callable[[Path], object]


def of(files: Mapping[str, bytes], read: Callable[[Path], object]) -> Reader:
    def write(folder: Path) -> Sequence[str]:
        write_files(folder, files)
        return list(files)

    return Reader(write, read)


def _text(*parts: object) -> bytes:
    return "".join(part if isinstance(part, str) else json.dumps(part) + "\n" for part in parts).encode()


def _session(path: Path) -> object:
    with Session(path.parent / "worklist.json") as session:
        return session.item


def _whole_report(path: Path) -> object:
    """All that commands read of a report: rows by their number and in their order, and the texts."""
    folder = path.parent.parent if path.parent.name == "rankings" else path.parent
    report = load_report(folder)
    queries = [query.id for query in report.queries]
    rows = [list(report.rankings(one.name, queries)) for one in report.settings]
    return [
        rows,
        *(list(read_rows(report.ranking_file(one.name))) for one in report.settings),
        list(report.all_texts()),
    ]


def _foreign_json(path: Path) -> object:
    """What every caller does: a ValueError is what becomes an error with a name."""
    try:
        return load_json(path.read_bytes())
    except ValueError as error:
        raise InputError(str(error)) from None


def _report(folder: Path) -> Sequence[str]:
    """A report without checksums, which would refuse whatever is damaged."""
    retrievers = "retrievers: {words: {kind: bm25}, other: {kind: bm25, k1: 2}}\nlatency: false\n"
    config = CONFIG.partition("retrievers:")[0] + retrievers + f"output: {{directory: {folder / 'runs'}}}\n"
    report = run_experiment(load_config(small_experiment(folder / "experiment", config=config))).folder
    shutil.copytree(report, folder, dirs_exist_ok=True)
    values = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    del values["files"], values["sizes"], values["checksum"]
    (folder / "report.json").write_text(json.dumps(values), encoding="utf-8")
    return [
        "report.json",
        "texts.jsonl.gz",
        *(path.relative_to(folder).as_posix() for path in folder.glob("rankings/*")),
    ]


def _answers(folder: Path) -> Sequence[str]:
    """Answers to a worklist: a grade, a passage, one that was taken back."""
    with Session(write_work(folder)) as session:
        session.grade(0)
        session.skip()
        session.grade(2)
        session.undo()
    return ["worklist.answers.jsonl"]


RUN = "q1 Q0 d1 1 2.5 mine\nq1 Q0 d2 2 1e-3 mine\nq2 Q0 d1 1 3 mine\n"
QRELS = "q1 0 d1 1\nq1 0 d2 0\nq2 0 d1 3\n"
RESULTS = [{"name": "mine", "results": [{"query": "q1", "contexts": ["One.", "Two."]}]}]

READERS: Mapping[str, Reader] = {
    "config": of(
        {"config.yaml": _text(CONFIG), "sweep.yaml": _text(CHUNKED, SWEEP)}, lambda path: settings_of(load_config(path))
    ),
    "labels": of({"labels.json": _text(LABELS)}, load_prompt_queries),
    "labels to change": of({"labels.json": _text(LABELS)}, LabelsText.read),
    "labels of other tools": of(
        {
            "rows.csv": b'Question,Answer\nHow long?,Six months\n"Who, pays?",You do\n',
            "rows.jsonl": _text(QUESTION, QUESTION),
            "squad.json": _text({"data": [{"title": "faq",
             "paragraphs": [{"context": FOREIGN["faq.txt"],
             "qas": [{"id": "1", "question": "How long?",
             "answers": [{"text": "Six months", "answer_start": 26}]}]}]}]}),
            "llamaindex.json": _text(
                {"queries": {"1": "How long?"}, "corpus": {"n": "Six months."}, "relevant_docs": {"1": ["n"]}}
            ),
            "prompt-queries.json": _text({
             "queries": [{"id": "1", "text": "How long?", "relevant_docs": [{"doc": "Six"}]}]}),
        },
        read_labels,
    ),
    "scores of other tools": of(
        {
            "long.csv": b"question,system,metric,score\nHow long?,a,f1,0.5\nHow long?,b,f1,1\n",
            **{path.name: path.read_bytes() for path in (Path(__file__).parent / "foreign_scores").glob("*-*.*")},
        },
        lambda path: read_tables([path], {}),
    ),
    "documents": of(
        {
            "a.md": _text("# One\n\nText *with* `code`.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- a\n  - b\n"),
            "a.txt": "Text, Füße ﬁ.\r\n".encode(),
            "a.html": _text(
                "<!doctype html><title>T</title><p>One <b>two</b>&amp;<table><tr><td>x</table><pre>y\n</pre>"
            ),
            "corpus.jsonl": _text({"_id": "d1", "title": "T", "text": "One two"}, {"_id": "d2", "text": "Three"}),
            "a.pdf": pdf(["Batteries are covered for six months."]),
        },
        lambda path: list(read_documents(path if path.suffix == ".jsonl" else path.parent)),
    ),
    "spans": of({path.name: path.read_bytes() for path in sorted((Path(__file__).parent / "traces").iterdir())
                 if path.suffix != ".parquet"},
                lambda path: read_runs(path, form="spans", labels=TRACED)),
    "runs": of({"run.trec": RUN.encode(), "run.txt.gz": gzip.compress(RUN.encode(), mtime=0),
     "run.json": _text({"q1": {"d1": 2.5, "d2": 1e-3}}),
     "run.jsonl": _text({"query": "q1", "document": "d1", "score": 2.5})}, read_runs),
    "qrels": of({"qrels.txt": QRELS.encode(), "qrels.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n",
     "qrels.json": _text({"q1": {"d1": 1, "d2": 0}})}, read_qrels),
    "results": of({"results.json": _text(RESULTS)}, read_results),
    "reports": Reader(_report, _whole_report),
    "worklists": Reader(lambda folder: [write_work(folder).name], read_worklist),
    "journals": Reader(_answers, _session),
    "overlays": of(
        {"overlay.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\n"}, lambda file: OverlayText.read(file).judged
    ),
    "prefixes": of({"prefixes.jsonl": _text({"doc": "d1", "chunk": "0a1b", "prefix": "About"})}, read_prefixes),
    "foreign JSON": of({"reply.json": _text({"data": [{"embedding": [0.5, -1e-3], "index": 0}]})}, _foreign_json),
    "stop words": of({"words.txt": b"the\nof\n# more\nand\n"}, read_stop_words),
}  # fmt: skip
