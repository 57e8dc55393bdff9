"""From a library to its chunks: a chunker applied to every document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ragtrial.chunkers.base import Chunker, Ruler
from ragtrial.dataset.chunks import ChunksWriter
from ragtrial.dataset.library import Library
from ragtrial.records import Span
from ragtrial.tokenizers import Tokenizer

_BATCH_BYTES = 2_000_000  # tokens of as much text at once take some hundred megabytes


def cut(
    library: Library,
    chunker: Chunker,
    tokenizer: Tokenizer | None,
    advance: Callable[[int], None],
    *,
    has_titles: bool = True,
) -> ChunksWriter:
    """The chunks of every document, in order; lengths in tokens of ``tokenizer``, in characters without one.

    With ``has_titles`` (titles are indexed) lengths count the title, and a document without text but with a title has
    one chunk with an empty span, so that its title can be found; else it has none. ``advance`` is told of every batch
    of documents.
    """
    writer = ChunksWriter()
    for positions in _batches(library):
        texts = [library.text(position) for position in positions]
        titles = [library.titles[position] if has_titles else "" for position in positions]
        rulers = _rulers(texts, titles, tokenizer)
        for position, text, title, ruler in zip(positions, texts, titles, rulers, strict=True):
            spans = chunker.split(text, ruler)
            if not spans and title:
                spans = [Span(0, 0)]
            for span in spans:
                writer.add(position, library.ids[position], text, span)
        advance(len(positions))
    return writer


def _batches(library: Library) -> Iterator[range]:
    """Positions of neighbouring documents that together are not too long, at least one at a time."""
    start, held = 0, 0
    for position, size in enumerate(library.sizes.tolist()):
        if position > start and held + size > _BATCH_BYTES:
            yield range(start, position)
            start, held = position, 0
        held += size
    if start < len(library):
        yield range(start, len(library))


def _rulers(texts: Sequence[str], titles: Sequence[str], tokenizer: Tokenizer | None) -> list[Ruler]:
    if tokenizer is None:
        pairs = zip(texts, titles, strict=True)
        return [Ruler(range(len(text)), len(title) + 1 if title else 0) for text, title in pairs]
    overheads = tokenizer.counts(titles).tolist()  # the title's tokens and the special ones
    return [Ruler(*pair) for pair in zip(tokenizer.starts(texts), overheads, strict=True)]
