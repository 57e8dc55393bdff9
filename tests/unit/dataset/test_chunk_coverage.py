"""A labelled passage is cut if no single chunk holds one of its places whole."""

import tempfile
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from corpora import library_of
from ragtrial.dataset.chunks import Chunks, ChunksWriter, cut_passages
from ragtrial.records import Judgment, PromptQueries, Query, Span

DOCS = ("a", "b", "c")
Spans = list[tuple[int, int]]


def cut_of(chunks: list[tuple[int, tuple[int, int]]], labels: list[tuple[int, Spans]]) -> tuple[int, int]:
    """Documents "a", "b", "c" of 30 characters; each row is a document's position and spans of it."""
    with tempfile.TemporaryDirectory() as folder:
        library = library_of(Path(folder), dict.fromkeys(DOCS, "0123456789" * 3))
        writer = ChunksWriter()
        for position, span in chunks:
            writer.add(position, DOCS[position], library.text(position), Span(*span))
        writer.write(Path(folder))
        judgments = [Judgment(DOCS[doc], 1, None, tuple(Span(*span) for span in spans)) for doc, spans in labels]
        half = len(judgments) // 2
        queries = (Query("q1", "x", tuple(judgments[:half])), Query("q2", "x", tuple(judgments[half:])))
        return cut_passages(Chunks(library, Path(folder)), PromptQueries(queries))


spans = st.tuples(st.integers(0, 29), st.integers(1, 12)).map(lambda two: (two[0], min(two[0] + two[1], 30)))
documents = st.integers(0, 2)


@given(
    st.lists(st.tuples(documents, spans), max_size=12).map(lambda rows: sorted(rows, key=lambda row: row[0])),
    st.lists(st.tuples(documents, st.lists(spans, max_size=3)), max_size=8),
)
def test_the_count_is_that_of_trying_every_chunk(
    chunks: list[tuple[int, tuple[int, int]]], labels: list[tuple[int, Spans]]
) -> None:
    passages = [(doc, places) for doc, places in labels if places]
    whole = sum(
        any(there == doc and start <= a and b <= end for a, b in places for there, (start, end) in chunks)
        for doc, places in passages
    )
    assert cut_of(chunks, labels) == (len(passages) - whole, len(passages))
