"""Files of prefixes: which rows fit, and what is said of those that do not."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from corpora import library_of, write_rows
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


def place(doc: object, start: object, end: object, prefix: object = "p") -> Row:
    return {"doc": doc, "start": start, "end": end, "prefix": prefix}


def matched(chunks: Chunks, file: Path, rows: Sequence[Row]) -> list[str | None]:
    return match_prefixes(chunks, read_prefixes(write_rows(file, rows)), file, "dense")


def refused(chunks: Chunks, file: Path, rows: Sequence[Row]) -> list[str]:
    with pytest.raises(PrefixesError) as caught:
        matched(chunks, file, rows)
    return [str(fault).removeprefix(f"{file}") for fault in caught.value.faults]


def test_a_row_names_its_chunk_by_id_or_by_place_or_by_both(chunks: Chunks, file: Path) -> None:
    rows = [place("b", 0, 4, "fourth"), {"chunk": chunks.id(0), "prefix": "first"}]
    rows.append({"chunk": chunks.id(1), **place("a", 4, 13, "rest"), "title": "", "tokens": 4, "by": "me"})
    assert matched(chunks, file, rows) == ["first", "rest", "fourth"]
    assert matched(chunks, file, [{"chunk": chunks.id(1), "doc": "a", "prefix": "p"}]) == [None, "p", None]


def test_a_packed_file_is_read(chunks: Chunks, tmp_path: Path) -> None:
    file = tmp_path / "prefixes.jsonl.gz"
    file.write_bytes(gzip.compress(json.dumps(place("b", 0, 4)).encode()))
    assert match_prefixes(chunks, read_prefixes(file), file, "dense") == [None, None, "p"]


def test_prefixes_are_normalised_and_have_no_white_space_at_their_ends(chunks: Chunks, file: Path) -> None:
    assert matched(chunks, file, [place("a", 0, 3, " e\u0301\r\nx \n"), place("b", 0, 4, " ")]) == ["\xe9\nx", None, ""]


def test_an_id_that_is_a_number_is_a_text(tmp_path: Path, file: Path) -> None:
    library, writer = library_of(tmp_path, {"7": "seven"}), ChunksWriter()
    writer.add(0, "7", "seven", Span(0, 5))
    writer.write(tmp_path)
    assert matched(Chunks(library, tmp_path), file, [place(7, 0, 5)]) == ["p"]


# Rows of other chunks.


ALL = (place("a", 0, 3), place("a", 4, 13), place("b", 0, 4))
OTHERS = (place("a", 0, 7), place("a", 8, 13), {"chunk": "of another chunking", "prefix": "p"}, place("gone", 0, 9))


def test_rows_of_another_chunking_are_passed_over_where_every_chunk_has_its_own(chunks: Chunks, file: Path) -> None:
    assert matched(chunks, file, [*OTHERS, *ALL]) == ["p", "p", "p"]


def test_a_document_whose_chunks_all_have_rows_may_have_more_while_another_has_none(chunks: Chunks, file: Path) -> None:
    assert matched(chunks, file, [place("a", 0, 7), *ALL[:2]]) == ["p", "p", None]


@pytest.mark.parametrize("stray", OTHERS)
def test_a_row_of_no_chunk_is_an_error_where_a_chunk_it_may_have_been_lacks_one(
    chunks: Chunks, file: Path, stray: Row
) -> None:
    (fault,) = refused(chunks, file, [ALL[0], stray, ALL[2]])
    assert fault.startswith(":2: 1 of 3 rows are of chunks that setting 'dense' does not have, ")


def test_a_stale_file_is_refused_with_count_first_row_and_next_step(chunks: Chunks, file: Path) -> None:
    rows = [ALL[2], {"chunk": "0a1b", **place("a", 0, 7)}, place("a", 8, 13)]
    assert refused(chunks, file, rows) == [
        ":2: 2 of 3 rows are of chunks that setting 'dense' does not have, chunk '0a1b', 'a' 0-7 first: the documents "
        "or the chunker have changed since the file was made. Make it again from what `ragtrial chunks CONFIG "
        "--setting dense -o FILE` writes."
    ]


# Rows that are wrong.


def test_rows_that_are_wrong_are_told_all_at_once_with_their_lines(chunks: Chunks, file: Path) -> None:
    lines: list[object] = [
        '{"chunk": "x"', {"chunk": "x"}, {"chunk": 7, "prefix": "p"}, {"doc": "a", "prefix": "p"}, place(True, 0, 1),
        place("a", -1, 1), place("a", 3, 2), "", {},
    ]  # fmt: skip
    file.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    with pytest.raises(PrefixesError) as caught:
        read_prefixes(file)
    assert [str(fault).removeprefix(str(file)) for fault in caught.value.faults] == [
        ":1:14: is not JSON: Expecting ',' delimiter.",
        ":2: prefix is missing; it is required.",
        ":3: chunk is 7; it must be a text (put it in quotes).",
        ":4: names no chunk; it must have `chunk`, or `doc`, `start` and `end`.",
        ":5: doc is true; it must be a text (put it in quotes) or a whole number.",
        ":6: start is -1; it must be at least 0.",
        ":7: start is 3 and end is 2; a chunk ends behind its start.",
        ":9: prefix is missing; it is required.",
    ]


def test_the_same_chunk_twice_is_an_error_whichever_way_it_is_named(chunks: Chunks, file: Path) -> None:
    name = chunks.id(2)
    by_id = {"chunk": name, "prefix": "p"}
    assert refused(chunks, file, [place("b", 0, 4), place("b", 0, 4)]) == [
        ":2: chunk 'b' 0-4 has a row in line 1 already."
    ]
    assert refused(chunks, file, [by_id, by_id]) == [f":2: chunk {name!r} has a row in line 1 already."]
    assert refused(chunks, file, [by_id, place("b", 0, 4)]) == [":2: chunk 'b' 0-4 has a row in line 1 already."]


def test_a_row_whose_id_and_place_are_of_different_chunks_is_an_error(chunks: Chunks, file: Path) -> None:
    name = chunks.id(2)
    assert refused(chunks, file, [{"chunk": name, **place("a", 0, 3)}]) == [
        f":1: chunk {name!r}, 'a' 0-3 is 'b' 0-4; its `chunk` and its place contradict each other."
    ]


def test_a_file_that_is_not_there_or_empty_is_told(tmp_path: Path) -> None:
    absent, empty = tmp_path / "absent.jsonl", tmp_path / "empty.jsonl"
    empty.write_text("\n\n")
    for file, message in (
        (absent, "there is no such file; `context.prefixes` names it."),
        (empty, 'has no rows; each must be like {"chunk": ID, "prefix": TEXT}.'),
        (tmp_path, "is a folder, not a file; `context.prefixes` names it."),
    ):
        with pytest.raises(PrefixesError) as caught:
            read_prefixes(file)
        assert str(caught.value) == f"{file}: {message}"


def test_only_the_first_twenty_faults_are_told_and_the_others_counted(chunks: Chunks, file: Path) -> None:
    told = refused(chunks, file, [{}] * 23)
    assert (len(told), told[-1]) == (21, ": and 3 more like these.")
