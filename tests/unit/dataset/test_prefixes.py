"""Files of prefixes: which rows fit, and what is said of those that do not."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from corpora import library_of, write_rows
from expectations import message_of
from ragtrial.dataset.chunks import Chunks, ChunksWriter
from ragtrial.dataset.prefixes import match_prefixes, read_prefixes
from ragtrial.errors import PrefixesError
from ragtrial.records import Span

TEXTS = {"a": "one two three", "b": "four"}
SPANS = [(0, Span(0, 3)), (0, Span(4, 13)), (1, Span(0, 4))]

Row = Mapping[str, object]


@pytest.fixture
def chunks(tmp_path: Path) -> Chunks:
    library, writer = library_of(tmp_path, TEXTS), ChunksWriter()
    for document, span in SPANS:
        writer.add(document, library.ids[document], library.text(document), span)
    writer.write(tmp_path)
    return Chunks(library, tmp_path)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "prefixes.jsonl"


def rows_of(chunks: Chunks) -> list[Row]:
    return [{"chunk": chunks.id(place), "doc": chunks.document_id(place), "prefix": "p"} for place in range(3)]


def matched(chunks: Chunks, file: Path, rows: Sequence[Row]) -> list[str | None]:
    return match_prefixes(chunks, read_prefixes(write_rows(file, rows)), file, "dense")


def refused(chunks: Chunks, file: Path, rows: Sequence[Row]) -> list[str]:
    with pytest.raises(PrefixesError) as caught:
        matched(chunks, file, rows)
    return [str(fault).removeprefix(f"{file}") for fault in caught.value.faults]


def test_rows_name_their_chunks_and_wrong_ones_are_told_at_once(chunks: Chunks, file: Path) -> None:
    rows: list[Row] = [
        {"chunk": chunks.id(2), "prefix": " e\u0301\r\nx \n", "tokens": 4},
        {"chunk": chunks.id(0), "prefix": " "},
    ]
    assert matched(chunks, file, rows) == ["", None, "\xe9\nx"]
    assert matched(chunks, file, [*OTHERS, *rows_of(chunks)]) == ["p", "p", "p"]
    assert matched(chunks, file, [OTHERS[0], *rows_of(chunks)[:2]]) == ["p", "p", None]
    lines = ['{"chunk": "x"', '{"chunk": "x"}', '{"chunk": 7, "prefix": "p"}', "", '{"prefix": "p"}']
    file.write_text("\n".join(lines))
    with pytest.raises(PrefixesError) as caught:
        read_prefixes(file)
    assert [str(fault).removeprefix(str(file)) for fault in caught.value.faults] == [
        ":1:14: is not JSON: Expecting ',' delimiter.",
        ":2: prefix is missing; it is required.",
        ":3: chunk is 7; it must be a text (put it in quotes).",
        ":5: chunk is missing; it is required.",
    ]
    row = rows_of(chunks)[2]
    assert refused(chunks, file, [row, row]) == [f":2: chunk {row['chunk']!r} has a row in line 1 already."]


OTHERS: list[Row] = [
    {"chunk": "of another chunking", "doc": doc, "prefix": "p"} for doc in ("a", "gone", None, 7)
]  # fmt: skip


@pytest.mark.parametrize("stray", OTHERS)
def test_a_row_of_no_chunk_is_an_error_if_a_likely_chunk_lacks_one(chunks: Chunks, file: Path, stray: Row) -> None:
    first, _, last = rows_of(chunks)
    assert refused(chunks, file, [first, stray, last, {**stray, "chunk": "0a1b"}]) == [
        ":2: rows of chunks that setting 'dense' does not have: 2 of 4, chunk 'of another chunking' first; the "
        "documents or the chunker have changed since the file was made. Make it again from what `ragtrial chunks "
        "CONFIG --setting dense -o FILE` writes."
    ]


def test_a_file_that_is_not_there_or_empty_is_told(tmp_path: Path) -> None:
    absent, empty = tmp_path / "absent.jsonl", tmp_path / "empty.jsonl"
    empty.write_text("\n\n")
    for file, message in (
        (absent, "there is no such file; `context.prefixes` names it."),
        (empty, 'has no rows; each must be like {"chunk": ID, "prefix": TEXT}.'),
        (tmp_path, "is a folder, not a file; `context.prefixes` names it."),
    ):
        assert message_of(PrefixesError, read_prefixes, file) == f"{file}: {message}"
