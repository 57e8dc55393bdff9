"""A PDF is read page by page: where a page starts is known, and what cannot be read is reported."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from corpora import write_files
from expectations import message_of
from pdf_files import pdf
from ragtrial.dataset.chunks import Chunks, ChunksWriter
from ragtrial.dataset.library import Library
from ragtrial.dataset.pdf import PAGE_BREAK, PdfText, empty_pages, page_spans, read_pdf
from ragtrial.dataset.texts import normalised
from ragtrial.errors import CorpusError
from ragtrial.records import Document, ReportWarning, Span
from text_strategies import any_texts


def written(folder: Path, content: bytes) -> Path:
    path = folder / "manual.pdf"
    path.write_bytes(content)
    return path


def read(folder: Path, *pages: str, title: str = "") -> PdfText:
    return read_pdf(written(folder, pdf(pages, title=title)))


def pages_of(text: PdfText) -> list[str]:
    return [text.text[span.start : span.end] for span in page_spans(text.pages, len(text.text))]


def fault_of(path: Path) -> str:
    return message_of(CorpusError, read_pdf, path).removeprefix(f"{path}: ")


def test_pages_are_apart_and_a_broken_title_is_none(tmp_path: Path) -> None:
    found = read(tmp_path, "Reset the hub.\nHold the button.", "Wait a minute.", "Done.")
    assert found == PdfText("Reset the hub.\nHold the button.\n\nWait a minute.\n\nDone.", (0, 33, 49), "")
    found = read(tmp_path, "Cafe\u0301 e", "\u0301x", "y")
    assert pages_of(found) == ["Caf\u00e9 e", "\u0301x", "y"]
    assert normalised(found.text) == found.text
    content = pdf(["text"], title="T\u4e00")
    assert content.count(b"00544e00") == 1
    broken = content.replace(b"00544e00", b"0054d83d")
    assert read_pdf(written(tmp_path, broken)) == PdfText("text", (0,), "")
    content = pdf(["for all to read"], title="Terms", password="", owner="boss")
    assert b"/Encrypt" in content
    assert read_pdf(written(tmp_path, content)) == PdfText("for all to read", (0,), "Terms")


@given(st.lists(any_texts.map(normalised), min_size=1))
def test_joining_normalised_pages_is_normalised_and_gives_each_page_back(pages: list[str]) -> None:
    text = PAGE_BREAK.join(pages)
    assert normalised(text) == text
    starts = tuple(len(PAGE_BREAK.join([*pages[:count], ""])) for count in range(len(pages)))
    assert [text[span.start : span.end] for span in page_spans(starts, len(text))] == pages


@pytest.mark.parametrize(("page", "text"), [
    ("Press the but-\nton now", "Press the button now"),
    ("a stru\u00ad\ncture", "a structure"),
    ("mid\u00addle", "middle"),
    ("the Anglo-\nSaxon era", "the Anglo-Saxon era"),
    ("in 1914-\n1918", "in 1914-\n1918"),
    ("at the end -", "at the end -"),
    ("well-known on one line", "well-known on one line"),
    ("The o\ufb03ce is \ufb01ne, the sta\ufb00 \ufb02ies", "The office is fine, the staff flies"),
    ("a\u0001b\u0007c", "abc"),
    *(
        (page, page)
        for page in ("東京都の天気", "Привет, мир", "naïve façade", "🙂🙂🙂🙂 and so on", "\U0001d518 x")
    ),
])  # fmt: skip
def test_a_page_has_the_words_that_a_reader_sees_from_its_start_on(tmp_path: Path, page: str, text: str) -> None:
    assert pages_of(read(tmp_path, "", page, "", page, "")) == ["", text, "", text, ""]


@pytest.mark.parametrize(("title", "read_as"), [
    ("User manual", "User manual"), ("  Manual\r\n of the   hub ", "Manual of the hub"),
    ("Cafe\u0301 東京", "Caf\u00e9 東京"), ("Version 2.1 of the .docx format", "Version 2.1 of the .docx format"),
    ("", ""), ("2024-01-31", ""), ("Microsoft Word - manual_v7", ""), ("final_FINAL.docx", ""), ("untitled", ""),
    ("Document1", ""), ("Manual \ufffd\ufffd", ""), ("word " * 61, ""),
])  # fmt: skip
def test_the_title_is_that_of_the_metadata_if_a_person_wrote_it(tmp_path: Path, title: str, read_as: str) -> None:
    assert read(tmp_path, "text", title=title).title == read_as


BREAKS_OFF = "is damaged: it breaks off before its end; download or copy it again."


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9, 0.97])
def test_a_file_that_breaks_off_is_refused(tmp_path: Path, share: float) -> None:
    content = pdf(["first page", "second page", "third page"])
    assert fault_of(written(tmp_path, content[: int(share * len(content))])) == BREAKS_OFF


@given(st.lists(st.tuples(st.integers(0, 1499), st.integers(0, 255)), min_size=1, max_size=9))
def test_whatever_is_damaged_it_is_read_or_refused(damage: list[tuple[int, int]]) -> None:
    content = bytearray(pdf(["first page", "", "third page"], title="Title"))
    for place, byte in damage:
        content[place] = byte
    with tempfile.TemporaryDirectory() as folder:
        path = written(Path(folder), bytes(content))
        refused = ""
        pages = []
        try:
            pages = pages_of(read_pdf(path))
        except CorpusError as error:
            refused = str(error)
        assert not refused or (refused.startswith(f"{path}: is ") and "\n" not in refused)
        assert [normalised(page).strip() for page in pages] == pages


def test_what_is_behind_the_end_does_no_harm_but_a_missing_revision_or_page(tmp_path: Path) -> None:
    assert read_pdf(written(tmp_path, pdf(["whole"]) + b"\n<!-- served in 3 ms -->\n" * 99)).text == "whole"
    content = pdf(["what it said at first"]) + b"7 0 obj\n<< /Length 41 >>\nstream\nBT /F 12 Tf"
    assert fault_of(written(tmp_path, content)) == BREAKS_OFF
    content = pdf(["one", "two", "three"])
    assert content.count(b"8 0 obj\n<< /Type /Page ") == 1
    damaged = content.replace(b"8 0 obj\n<< /Type /Page ", b"8 0 obj\n[< /Type /Page ")
    assert fault_of(written(tmp_path, damaged)) == (
        "is damaged: page 2 of 3 cannot be read; download or export it again."
    )


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "is no PDF: it does not begin with %PDF-; give it the name that fits what it is."),
        (b"Only a text.\n" * 9, "is no PDF: it does not begin with %PDF-; give it the name that fits what it is."),
        (b"%PDF-1.7\n" + b"\x00\xff" * 99, "is damaged: it cannot be opened; download or export it again."),
    ],
    ids=["empty", "text", "noise"],
)
def test_what_is_no_pdf_is_refused(tmp_path: Path, content: bytes, fault: str) -> None:
    assert fault_of(written(tmp_path, content)) == fault


def empty_pages_of(*pages: str) -> list[ReportWarning]:
    starts = tuple(len(PAGE_BREAK.join([*pages[:count], ""])) for count in range(len(pages)))
    return list(empty_pages(Document("manual.pdf", PAGE_BREAK.join(pages), "", starts)))


def test_pages_without_text_are_counted_and_named() -> None:
    assert empty_pages_of("a", "", " \n", "b", "") == [
        ReportWarning(
            "empty-pages", "manual.pdf: pages without text: 3 of 5 (2, 3, 5); they may be scans: run OCR on the file."
        )
    ]
    assert empty_pages_of("a", "b") == []
    assert list(empty_pages(Document("notes.txt", ""))) == []


def library_with(folder: Path, files: dict[str, str | bytes]) -> Library:
    made = folder / "library"
    made.mkdir()
    Library.write(write_files(folder / "corpus", files), made)
    return Library(made)


def test_the_library_keeps_pages_titles_and_what_was_noticed(tmp_path: Path) -> None:
    library = library_with(
        tmp_path,
        {
            "a.txt": "no pages",
            "b.pdf": pdf(["one", "", "three"], title="Guide"),
            "c.md": "# none",
            "d.PDF": pdf(["", ""]),
            "e.pdf": pdf(["single"]),
        },
    )
    assert list(library) == [
        Document("a.txt", "no pages"),
        Document("b.pdf", "one\n\n\n\nthree", "Guide", (0, 5, 7)),
        Document("c.md", "# none", "none"),
        Document("d.PDF", "\n\n", "", (0, 2)),
        Document("e.pdf", "single", "", (0,)),
    ]
    assert library.empty == 1
    scans = "they may be scans: run OCR on the file."
    assert library.notes == (
        ReportWarning("empty-pages", f"b.pdf: pages without text: 1 of 3 (2); {scans}"),
        ReportWarning("empty-pages", f"d.PDF: pages without text: 2 of 2 (1, 2); {scans}"),
    )


def test_a_chunk_tells_its_first_and_last_page(tmp_path: Path) -> None:
    library = library_with(tmp_path, {"a.pdf": pdf(["one", "two", "", "four"]), "b.txt": "text"})
    assert library.text(0) == "one\n\ntwo\n\n\n\nfour"  # pages from 0, 5, 10 and 12
    spans = {
        (0, 3): (1, 1),
        (0, 5): (1, 1),  # with the break behind it
        (3, 8): (2, 2),  # with the break before it
        (2, 6): (1, 2),
        (0, 16): (1, 4),
        (5, 13): (2, 4),
        (7, 8): (2, 2),
        (8, 16): (4, 4),  # over an empty page
        (12, 16): (4, 4),
        (15, 16): (4, 4),
        (0, 0): (1, 1),
    }
    writer = ChunksWriter()
    for start, end in spans:
        writer.add(0, "a.pdf", library.text(0), Span(start, end))
    writer.add(1, "b.txt", "text", Span(0, 4))
    writer.write(tmp_path)
    chunks = Chunks(library, tmp_path)
    assert [chunks.pages(position) for position in range(len(chunks))] == [*spans.values(), None]
