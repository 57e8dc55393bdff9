"""The library gives back what was read, by position."""

import gc
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from corpora import library_of, write_rows
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.dataset.chunks import Chunks, ChunksWriter
from ragtrial.dataset.library import Library
from ragtrial.dataset.texts import normalised
from ragtrial.records import Document, Span
from text_strategies import any_texts

_ids = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(str.strip)


@given(st.lists(st.tuples(_ids, any_texts, any_texts), min_size=1, unique_by=lambda row: row[0]))
def test_documents_come_back_in_their_order_with_normalised_texts_and_titles(rows: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        corpus = write_rows(
            Path(folder) / "corpus.jsonl", [{"_id": name, "title": title, "text": text} for name, title, text in rows]
        )
        Library.write(corpus, Path(folder))
        library = Library(Path(folder))
        expected = [Document(name, normalised(text), normalised(title)) for name, title, text in rows]
        assert list(library) == expected
        assert len(library) == len(expected)
        assert [library[library.positions[document.id]] for document in expected] == expected
        assert library.empty == sum(document.text.isspace() or not document.text for document in expected)


@pytest.mark.slow
def test_ids_go_by_code_point_and_no_file_stays_open(tmp_path: Path) -> None:
    library = library_of(tmp_path, {"b": "x", "B": "x", "a2": "x", "ä": "x", "a10": "x"})
    assert library.id_order.tolist() == [3, 0, 2, 4, 1]
    assert library.id_order.dtype == np.int64
    library = library_of(tmp_path, {"a": "text"})
    with pytest.raises(KeyError):
        library.positions["absent"]
    del library
    gc.collect()  # an open file would warn here, and warnings are errors


def chunks_of(folder: Path, library: Library, spans: list[tuple[int, Span]]) -> Chunks:
    writer = ChunksWriter()
    for position, span in spans:
        writer.add(position, library.ids[position], library.text(position), span)
    writer.write(folder)
    return Chunks(library, folder)


def test_chunks_are_cut_at_their_spans_with_ids_of_document_span_and_text(tmp_path: Path) -> None:
    rows = [
        {"_id": "a", "title": "Greek", "text": "αβγ δε"},
        {"_id": "b", "text": "one"},
        {"_id": "c", "title": "T", "text": "xy"},
    ]
    corpus = write_rows(tmp_path / "corpus.jsonl", rows)
    Library.write(corpus, tmp_path)
    library = Library(tmp_path)
    spans = [(0, Span(0, 3)), (0, Span(2, 6)), (1, Span(0, 3)), (2, Span(1, 2))]
    chunks = chunks_of(tmp_path, library, spans)
    assert len(chunks) == 4
    assert [chunks.text(position) for position in range(4)] == ["αβγ", "γ δε", "one", "y"]
    assert [chunks.span(position) for position in range(4)] == [span for _, span in spans]
    assert list(IndexedTexts(chunks).indexed_texts()) == ["Greek αβγ", "Greek γ δε", "one", "T y"]
    assert list(IndexedTexts(chunks).indexed_texts([3, 0])) == ["T y", "Greek αβγ"]
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one = library_of(tmp_path / "one", {"a": "same same", "b": "same same"})
    two = library_of(tmp_path / "two", {"z": "before", "a": "same same"})
    first = chunks_of(tmp_path / "one", one, [(0, Span(0, 4)), (0, Span(5, 9)), (1, Span(0, 4))])
    second = chunks_of(tmp_path / "two", two, [(1, Span(0, 4))])
    assert second.id(0) == first.id(0)
    ids = {first.id(position) for position in range(3)}
    assert len(ids) == 3
    assert {len(name) for name in ids} == {24}


def test_columns_of_chunks_are_fixed_and_of_one_length(tmp_path: Path) -> None:
    chunks = chunks_of(tmp_path, library_of(tmp_path, {"a": "one two"}), [(0, Span(0, 3)), (0, Span(4, 7))])
    assert chunks.document.dtype == np.int32
    assert chunks.start.dtype == chunks.end.dtype == np.int64
    assert (chunks.document.tolist(), chunks.start.tolist(), chunks.end.tolist()) == ([0, 0], [0, 4], [3, 7])
    with pytest.raises(ValueError, match="read-only"):
        chunks.start[0] = 1
    library = library_of(tmp_path, {"a": "one two"})
    chunks_of(tmp_path, library, [(0, Span(0, 3)), (0, Span(4, 7))])
    np.save(tmp_path / "end.npy", np.array([3]))
    with pytest.raises(ValueError, match=r"^the columns differ in length$"):
        Chunks(library, tmp_path)


@pytest.mark.parametrize(("path", "document"), [
    ("a.md", "a.md"), ("docs/a.md", "a.md"), ("/home/x/docs/a.md", "a.md"), ("C:\\docs\\sub\\a.md", "sub/a.md"),
    ("./sub/a.md", "sub/a.md"), ("/manuals/u\u0308ber.md", "\u00fcber.md"),
    ("手引き/設定.md", "設定.md"), ("b/a.md.bak", None), ("xa.md", None),
    ("https://example.org/old/a.md", None), ("https://example.org/b.md", "example.org/b.md"),
    ("docs/", None), ("", None),
])  # fmt: skip
def test_a_path_names_the_document_with_the_longest_end(tmp_path: Path, path: str, document: str | None) -> None:
    ids = ("a.md", "sub/a.md", "\u00fcber.md", "設定.md", "example.org/b.md")
    library = library_of(tmp_path, dict.fromkeys(ids, "Text."))
    place = library.position_of_path(path)
    assert (None if place is None else library.ids[place]) == document


def test_a_path_names_a_file_of_the_corpus_and_no_namesake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docs, work = tmp_path / "app" / "docs", tmp_path / "work"
    for folder in (docs / "sub", work, tmp_path / "old"):
        folder.mkdir(parents=True)
    for path in (docs / "a.md", docs / "sub" / "b.md", tmp_path / "old" / "a.md"):
        path.write_text("Text.", encoding="utf-8")
    (tmp_path / "link").symlink_to(docs)
    monkeypatch.chdir(work)
    Library.write(docs, tmp_path)
    library = Library(tmp_path, Path("../app/docs"))
    own = ["a.md", "./a.md", "docs/a.md", "app/docs/a.md", "../app/docs/a.md", str(docs / "a.md"), "../link/a.md"]
    assert {library.position_of_file(path) for path in own} == {library.positions["a.md"]}
    assert library.position_of_file("docs/sub/b.md") == library.positions["sub/b.md"]
    others = ["../old/a.md", "old/a.md", "xx/a.md", "/srv/data/a.md", "https://x.org/docs/a.md", "b.md", ""]
    assert {library.position_of_file(path) for path in others} == {None}
