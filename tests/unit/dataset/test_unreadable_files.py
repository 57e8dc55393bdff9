"""What cannot be read stops a run with all faults at once; or, as the config says, is left out, counted and named."""

import gzip
import sys
from pathlib import Path

import pytest

from corpora import write_files, write_rows
from expectations import message_of
from pdf_files import pdf
from ragtrial.dataset.documents import corpus_fingerprint, left_out, read_documents
from ragtrial.errors import CorpusError, Fault
from ragtrial.records import ReportWarning
from small_experiment import CONFIG, DOCUMENTS, LABELS, ragtrial, small_experiment

Capture = pytest.CaptureFixture[str]

UTF_8 = "save the file as UTF-8 (iconv -f CP1252 -t UTF-8)."
LEAVES_OUT = "`dataset.on_error: skip` leaves out what cannot be read, and names it."
BAD: dict[str, str | bytes] = {
    "bad/broken.pdf": pdf(["one", "two"])[:-600],
    "bad/locked.pdf": pdf(["secret"], password="x"),
    "bad/not-a.pdf": "only a text",
    "bad/old.md": b"one\ncaf\xe9",
}
REASONS = [
    "bad/broken.pdf: is damaged: it breaks off before its end; download or copy it again.",
    "bad/locked.pdf: is encrypted; save a copy without a password.",
    "bad/not-a.pdf: is no PDF: it does not begin with %PDF-; give it the name that fits what it is.",
    f"bad/old.md:2: byte 0xe9 is not UTF-8; {UTF_8}",
]


def skipping(corpus: Path) -> tuple[list[str], list[str]]:
    """The ids that are read, and the faults of what was left out."""
    skipped: list[Fault] = []
    ids = [document.id for document in read_documents(corpus, skipped)]
    return ids, [str(fault).removeprefix(f"{corpus.parent}/") for fault in skipped]


def fault_of(corpus: Path, skipped: list[Fault] | None = None) -> str:
    return message_of(CorpusError, list, read_documents(corpus, skipped))


def test_unreadable_files_and_broken_archives_are_named(tmp_path: Path) -> None:
    corpus = write_files(tmp_path / "corpus", BAD)
    named = [f"{corpus}/{reason}" for reason in REASONS]
    assert fault_of(corpus, []).splitlines() == named
    write_files(corpus, {"good.txt": "x", "good.pdf": pdf(["y"])})
    assert fault_of(corpus).splitlines() == [*named, f"{corpus}: {LEAVES_OUT}"]
    assert skipping(corpus) == (["good.pdf", "good.txt"], [f"corpus/{reason}" for reason in REASONS])
    corpus = tmp_path / "corpus.jsonl.gz"
    corpus.write_bytes(gzip.compress(b'{"_id": "a", "text": "x"}\n', mtime=0)[:-4])
    told = f"{corpus}: cannot be read: it ends in the middle of its gzip data."
    assert fault_of(corpus) == fault_of(corpus, []) == told
    corpus.write_bytes(corpus.read_bytes()[:10] + b"\xff" + corpus.read_bytes()[11:])
    assert fault_of(corpus).startswith(f"{corpus}: cannot be read: Error -3 while decompressing data")


def test_a_file_that_the_system_cannot_read_is_told_or_left_out_with_the_reason(tmp_path: Path) -> None:
    corpus = write_files(tmp_path / "corpus", {"good.txt": "x"})
    memory = Path("/proc/self/mem")  # a file to all appearances; reading its beginning fails
    if not memory.is_file():
        pytest.skip("this system has no /proc/self/mem")
    (corpus / "bad.txt").symlink_to(memory)
    reason = f"{corpus}/bad.txt: cannot be read: Input/output error."
    assert fault_of(corpus) == f"{reason}\n{corpus}: {LEAVES_OUT}"
    assert skipping(corpus) == (["good.txt"], ["corpus/bad.txt: cannot be read: Input/output error."])
    before = corpus_fingerprint(corpus)
    (corpus / "bad.txt").unlink()
    (corpus / "bad.txt").write_text("mended")
    assert corpus_fingerprint(corpus) != before


def test_bad_rows_are_left_out_the_second_of_one_id_among_them(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n[]\n{"_id": "b", "text": ""}\n{"_id"\n')
    assert skipping(corpus) == (
        ["a", "b"],
        [
            "corpus.jsonl:2: document 'a' is in line 1 already.",
            "corpus.jsonl:3: must be a JSON object, in {}.",
            "corpus.jsonl:5:7: is not JSON: Expecting ':' delimiter.",
        ],
    )


def test_what_was_left_out_is_counted_and_named_below_the_corpus(tmp_path: Path) -> None:
    skipped = [
        Fault(str(tmp_path / "a" / "caf\udce9.txt"), message="has a name."),
        Fault(str(tmp_path / "b.md"), 3, 0, "x."),
    ]
    assert list(left_out(tmp_path, skipped)) == [
        ReportWarning(
            "skipped-files",
            "2 files of the corpus left out, unreadable (dataset.on_error: skip). "
            "a/caf\ufffd.txt: has a name. b.md:3: x.",
        )
    ]
    assert list(left_out(tmp_path, [])) == []
    corpus = write_rows(tmp_path / "corpus.jsonl", [{}])
    (warning,) = left_out(corpus, [Fault(str(corpus), 1, 0, "y.")])
    assert warning.message == ("1 row of the corpus left out, unreadable (dataset.on_error: skip). corpus.jsonl:1: y.")


def test_the_fingerprint_follows_unreadable_files_and_pdfs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = write_files(tmp_path / "corpus", {"a.txt": "x"})
    rows = write_rows(tmp_path / "corpus.jsonl", [{"_id": "a", "text": "x"}])
    assert corpus_fingerprint(corpus, "skip") != corpus_fingerprint(corpus, "stop")
    assert corpus_fingerprint(rows, "skip") != corpus_fingerprint(rows, "stop")
    without = write_files(tmp_path / "without", {"a.txt": "x"})
    with_pdf = write_files(tmp_path / "with", {"a.txt": "x", "b.PDF": pdf(["x"])})
    before = corpus_fingerprint(without), corpus_fingerprint(with_pdf)
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    assert corpus_fingerprint(without) == before[0]
    assert corpus_fingerprint(with_pdf) != before[1]


def test_pdfs_without_a_reader_are_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    small_experiment(tmp_path, documents={**DOCUMENTS, "a.pdf": pdf(["x"]), "b/c.PDF": pdf(["y"]), "d.txt": b"\xff"})
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    made = ragtrial(capsys, "run", "experiment.yaml")
    assert made.code == 2
    assert made.err == (
        f"error: {tmp_path}/documents: has 2 PDF files, and the package that reads them is not installed: "
        "pip install 'ragtrial[pdf]'. Or leave PDFs out with `dataset.on_error: skip`.\n"
    )
    corpus = write_files(tmp_path / "corpus", {"a.txt": "x", "b.pdf": pdf(["y"])})
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    needs = "corpus/b.pdf: needs a package that is not installed: pip install 'ragtrial[pdf]'."
    assert skipping(corpus) == (["a.txt"], [needs])


SKIP = CONFIG.replace("corpus: documents", "corpus: documents, on_error: skip")
MANUAL = pdf(
    ["The hub is set up in minutes.", "Press reset.\nThen wait for the lamp.", ""], title="Manual of the hub"
)  # fmt: skip
SKIPPED = (
    "4 files of the corpus left out, unreadable (dataset.on_error: skip). " + " ".join(REASONS)
)  # fmt: skip
EMPTY_PAGE = "hub/manual.pdf: pages without text: 1 of 3 (3); they may be scans: run OCR on the file."
QUERIES = [
    *LABELS["queries"],
    {"id": "lamp", "text": "wait for the lamp after reset", "relevant_docs": [
        {"doc": "hub/manual.pdf", "quote": "Then wait for the lamp."}]},
]  # fmt: skip


@pytest.fixture
def _small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    small_experiment(
        tmp_path,
        config=SKIP.replace("kind: document}", "kind: recursive, size: 60, overlap: 0, unit: characters}"),
        labels={"queries": QUERIES},
        documents={**DOCUMENTS, "hub/manual.pdf": MANUAL, **BAD},
    )


@pytest.mark.usefixtures("_small")
def test_a_run_says_what_it_left_out_and_says_it_again_when_all_is_kept(own_cache: Path, capsys: Capture) -> None:
    said = []
    for _ in range(2):
        made = ragtrial(capsys, "run", "experiment.yaml", "--json")
        assert made.code == 0, made.err
        said.append([(one["code"], one["message"]) for one in made.json["warnings"]])
    assert said[0] == said[1]
    assert ("skipped-files", SKIPPED) in said[0]
    assert ("empty-pages", EMPTY_PAGE) in said[0]
    assert len(list((own_cache / "documents").iterdir())) == 1


@pytest.mark.usefixtures("_small")
def test_show_and_search_name_the_page_of_a_hit(capsys: Capture) -> None:
    assert ragtrial(capsys, "run", "experiment.yaml", "-q").code == 0
    shown = ragtrial(capsys, "show", "latest", "--query", "lamp")
    (line,) = [line for line in shown.out.splitlines() if "hub/manual.pdf [" in line]
    assert line.endswith("]  p. 2")
    assert shown.out.count(" p. ") == 1
    (ranking,) = ragtrial(capsys, "show", "latest", "--query", "lamp", "--json").json
    pages = {hit["doc"]: hit["pages"] for hit in ranking["hits"]}
    assert pages.pop("hub/manual.pdf") == [2, 2]
    assert set(pages.values()) == {None}
    found = ragtrial(capsys, "search", "experiment.yaml", "wait for the lamp", "--json").json
    assert (found["hits"][0]["doc"], found["hits"][0]["pages"]) == ("hub/manual.pdf", [2, 2])
    assert "]  p. 2\n" in ragtrial(capsys, "search", "experiment.yaml", "wait for the lamp").out
