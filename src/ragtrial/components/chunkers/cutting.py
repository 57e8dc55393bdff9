"""From a library to its chunks: a chunker applied to every document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ragtrial.components.chunkers.base import Chunker, EmbeddingChunker, LengthFunction
from ragtrial.components.tokenizers import UnitCounter
from ragtrial.dataset.chunks import ChunksWriter
from ragtrial.dataset.library import Library
from ragtrial.errors import ChunkerError
from ragtrial.rankings import Floats
from ragtrial.records import Span

_BATCH_BYTES = 2_000_000  # tokens of as much text at once take some hundred megabytes


Embed = Callable[[Sequence[str], Callable[[int], None]], Floats]
"""Texts to vectors, float32 (texts, dimension). The second argument is called with the number of texts that are
done."""


def cut(
    library: Library,
    chunker: Chunker,
    tokenizer: UnitCounter | None,
    advance: Callable[[int], None],
    embed: Embed | None = None,
    *,
    has_titles: bool = True,
) -> ChunksWriter:
    """The chunks of every document, in order; lengths as ``tokenizer`` counts, in characters without one.

    With ``has_titles`` (titles are indexed) lengths count the title, and a document without text but with a title has
    one chunk with an empty span, so that its title can be found; else it has none. ``advance`` counts documents, batch
    by batch; where texts are embedded, which takes long, it counts bytes of the documents. ``embed`` is needed by
    chunkers that need an embedder. Raises ChunkerError, and the errors of ``embed``.
    """
    writer = ChunksWriter()
    for positions in _batches(library):
        texts = [library.text(position) for position in positions]
        titles = [library.titles[position] if has_titles else "" for position in positions]
        rulers = _rulers(texts, titles, tokenizer)
        if isinstance(chunker, EmbeddingChunker):
            if embed is None:
                raise TypeError(f"the chunker {chunker.kind!r} needs an embedder")
            size = int(library.sizes[positions.start : positions.stop].sum())
            cuts = _grouped(chunker, texts, rulers, embed, size, advance)
        else:
            cuts = _split(chunker, [library.ids[position] for position in positions], texts, rulers)
        for position, text, title, spans in zip(positions, texts, titles, cuts, strict=True):
            if not spans and title:
                spans = [Span(0, 0)]
            for span in spans:
                writer.add(position, library.ids[position], text, span)
        if not chunker.needs_embedder:
            advance(len(positions))
    return writer


def _split(
    chunker: Chunker, ids: Sequence[str], texts: Sequence[str], rulers: Sequence[LengthFunction]
) -> Iterator[list[Span]]:
    for name, text, ruler in zip(ids, texts, rulers, strict=True):
        try:
            yield chunker.split(text, ruler)
        except ChunkerError as error:
            raise ChunkerError(f"document {name!r}: {error}") from error


def _grouped(
    chunker: EmbeddingChunker,
    texts: Sequence[str],
    rulers: Sequence[LengthFunction],
    embed: Embed,
    size: int,
    advance: Callable[[int], None],
) -> Iterator[list[Span]]:
    """The spans of each text. All texts are embedded in one call; progress is shown in ``size``."""
    wanted = [chunker.texts(text, ruler) for text, ruler in zip(texts, rulers, strict=True)]
    together = [text for one in wanted for text in one]
    done = shown = 0

    def embedded(count: int) -> None:
        nonlocal done, shown
        done += count
        advance(size * done // len(together) - shown)
        shown = size * done // len(together)

    vectors = embed(together, embedded)
    advance(size - shown)
    start = 0
    for text, ruler, one in zip(texts, rulers, wanted, strict=True):
        yield chunker.group(text, ruler, vectors[start : start + len(one)])
        start += len(one)


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


def _rulers(texts: Sequence[str], titles: Sequence[str], tokenizer: UnitCounter | None) -> list[LengthFunction]:
    if tokenizer is None:
        sizes = [(len(text), len(title) + 1 if title else 0) for text, title in zip(texts, titles, strict=True)]
        return [LengthFunction(range(length), overhead) for length, overhead in sizes]
    overheads = tokenizer.counts(titles).tolist()  # the title's tokens and the special tokens
    pairs = zip(tokenizer.starts(texts), overheads, strict=True)
    return [LengthFunction(*pair, tokenizer.alone, tokenizer.special_tokens) for pair in pairs]
