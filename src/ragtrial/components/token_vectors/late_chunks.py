"""The vectors of chunks from one pass over their documents: windows, token vectors, and their means."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragtrial.cache.vectors import Keys
from ragtrial.components.batching import Spent
from ragtrial.components.contextual_text import IndexedTexts, by_document
from ragtrial.components.embedders.late_chunking import LateChunkingEmbedder
from ragtrial.components.embedders.model_files import Task
from ragtrial.components.embedders.sentence_transformer import without_bars
from ragtrial.components.token_vectors.vectors import EncodeTokens, TokenEncoder, TokenVectors, checked
from ragtrial.engines.base import normalized
from ragtrial.errors import EmbedderError, ModelNotFoundError
from ragtrial.rankings import Counts, Floats

_SPARE = 4  # tokens of a window left free: a word that is cut may have more of them than before
_NEAR = 16  # tokens that a window is made shorter by at most, to begin and end between words


@dataclass(frozen=True)
class Window:
    """Characters ``start`` to ``end`` of a document, which are read at once.

    Its tokens count from ``first`` to ``last``, so that each is taken from the window that has most around it.
    """

    document: int
    start: int
    end: int
    first: int
    last: int


class DocumentWindows:
    """The documents of some chunks as a model reads them: whole where they fit, else in overlapping windows.

    As a source of texts it has a text for each window: ``head``, then the window.
    """

    def __init__(self, texts: IndexedTexts, embedder: LateChunkingEmbedder) -> None:
        tokenizer, limit = embedder.tokenizer(), embedder.max_tokens()
        if tokenizer is None or limit is None:
            raise ModelNotFoundError(
                f"late chunking needs the tokenizer of {embedder.model!r}, and how many tokens it reads; "
                + ("set max_length." if tokenizer else "it has no tokenizer.json.")
            )
        self.tokenizer = tokenizer
        self.chunks = texts.chunks
        self._limit, self._overlap = limit, embedder.overlap
        self._texts, self._prefix = texts, embedder.prefixes()[1]
        documents = np.unique(self.chunks.document).tolist()
        self.windows = [one for document in documents for one in self._of_document(document)]

    def __len__(self) -> int:
        return len(self.windows)

    @property
    def documents_in_windows(self) -> int:
        """How many documents are longer than the model reads."""
        return len({window.document for window in self.windows if window.first})

    def indexed_texts(self, positions: Sequence[int] | None = None) -> Iterator[str]:
        """The text of all windows, or of some in that order."""
        library, last, text = self.chunks.library, -1, ""
        for position in range(len(self)) if positions is None else positions:
            window = self.windows[position]
            if window.document != last:
                last, text = window.document, library.text(window.document)
            yield self.head(window.document) + text[window.start : window.end]

    def text_id(self, position: int) -> str:
        """The document."""
        return f"document {self.chunks.library.ids[self.windows[position].document]}"

    def head(self, document: int) -> str:
        """The text before every window: the prefix, and the title if it is indexed."""
        title = self._texts.title_of(document)
        return self._prefix + (f"{title} " if title else "")

    def _of_document(self, document: int) -> Iterator[Window]:
        library = self.chunks.library
        text, head = library.text(document), self.head(document)
        (starts,) = self.tokenizer.starts([text])
        (taken,) = self.tokenizer.alone([head]) if head else (0,)
        room = self._limit - taken - self.tokenizer.special_tokens
        if len(starts) <= room:
            yield Window(document, 0, len(text), 0, len(text))
            return
        room -= _SPARE
        if room <= 2 * self._overlap + _NEAR:
            raise EmbedderError(
                f"document {library.ids[document]!r}: its title and the prefix take {taken} of the {self._limit} "
                f"tokens that the model reads, which leaves {room} for its text: too few for windows that overlap by "
                f"{self._overlap}. Set context.title: false, or a smaller embedder.overlap."
            )
        edges = list(_edges(text, starts, room, self._overlap))
        middles = [starts[(begin + end) // 2] for (_, end), (begin, _) in pairwise(edges)]
        bounds = [0, *middles, len(text)]
        for (begin, end), (first, last) in zip(edges, pairwise(bounds), strict=True):
            stop = starts[end] if end < len(starts) else len(text)
            yield Window(document, starts[begin] if begin else 0, stop, first, last)


def _edges(text: str, starts: Sequence[int], room: int, overlap: int) -> Iterator[tuple[int, int]]:
    """The tokens at which each window begins and ends."""
    begin = 0
    while True:
        end = begin + room
        if end >= len(starts):
            yield begin, len(starts)
            return
        end = _between_words(text, starts, end)
        yield begin, end
        begin = _between_words(text, starts, end - overlap)


def _between_words(text: str, starts: Sequence[int], token: int) -> int:
    """The nearest token at or before ``token`` that begins a word; ``token`` where none is near."""
    near = range(token, max(token - _NEAR, 0), -1)
    return next((one for one in near if text[starts[one] - 1 : starts[one]].isspace()), token)


@dataclass(frozen=True, eq=False)
class PooledChunks:
    """Chunks whose vectors are the means of their tokens' vectors, which are all in the cache under ``keys``.

    ``amount`` is the length of the windows given to the model, ``seconds`` the time for them.
    """

    windows: DocumentWindows
    encoder: TokenEncoder
    keys: Keys
    amount: int
    seconds: float
    is_normalized: bool

    @property
    def distinct(self) -> int:
        """How many different vectors to expect: equal chunks have different surroundings."""
        return len(self.windows.chunks)

    @property
    def spent(self) -> Spent:
        """The seconds of reading all windows, as measured when each was read."""
        return self.encoder.spent(self.keys)

    @cached_property
    def dimension(self) -> int:
        """How long a vector is."""
        first = next(self.encoder.blocks(self.keys[:1]), [])
        return int(first[0].vectors.shape[1]) if first else 0

    def blocks(self) -> Iterator[Floats]:
        """The vectors of all chunks, in their order, one document at a time. Raises WorkspaceError."""
        rows = (row for block in self.encoder.blocks(self.keys) for row in block)
        read = zip(self.windows.windows, self.windows.indexed_texts(), rows, strict=True)
        windows_by_document = groupby(read, key=lambda one: one[0].document)
        for (document, positions), (_, windows) in zip(
            by_document(self.windows.chunks), windows_by_document, strict=True
        ):
            made = self._of_document(document, positions, windows)
            yield normalized(made) if self.is_normalized else made

    def _of_document(
        self, document: int, positions: range, windows: Iterable[tuple[Window, str, TokenVectors]]
    ) -> Floats:
        """The vectors of the chunks at ``positions``, from the windows of the document and their tokens."""
        chunks, head = self.windows.chunks, len(self.windows.head(document))
        start, end = (column[positions.start : positions.stop] for column in (chunks.start, chunks.end))
        pool, size = _Pool(np.asarray(start), np.asarray(end), self.dimension), len(chunks.library.text(document))
        for window, text, row in windows:
            ((places, is_special),) = self.windows.tokenizer.placed([text])
            if len(places) != len(row):
                raise EmbedderError(
                    f"the model read {len(row)} tokens of a part of document {chunks.library.ids[document]!r} that has "
                    f"{len(places)}, so its tokens cannot be placed; set another embedder.max_length."
                )
            is_text = ~is_special & (places >= head)
            at = places[is_text] - head + window.start
            is_counted = (at >= window.first) & (at < window.last)
            pool.add(at[is_counted], row.vectors[is_text][is_counted])
            words = np.flatnonzero(is_text)
            edge = int(words[0]) if len(words) else len(row)
            if window.first == 0:  # the prefix and the title are a part of every chunk
                pool.add_to_all(row.vectors[:edge][~is_special[:edge]])
                pool.add_at(at[:1], row.vectors[:edge][is_special[:edge]])
            if window.last == size:
                pool.add_at(at[-1:], row.vectors[edge:][is_special[edge:]])
        return pool.means()


class _Pool:
    """Sums of the vectors of tokens over chunks of a document, from ``start`` to ``end``."""

    def __init__(self, start: Counts, end: Counts, dimension: int) -> None:
        self._start, self._end = start, end
        self._sums = np.zeros((len(start), dimension))
        self._counts = np.zeros(len(start), dtype=np.int64)

    def add(self, places: Counts, vectors: Floats) -> None:
        """Vectors of tokens at ascending characters, to the chunks that these are in."""
        totals = np.vstack([np.zeros((1, vectors.shape[1])), np.cumsum(vectors.astype(np.float64), axis=0)])
        low, high = np.searchsorted(places, self._start), np.searchsorted(places, self._end)
        high = np.maximum(low, high)
        self._sums += totals[high] - totals[low]
        self._counts += high - low

    def add_to_all(self, vectors: Floats) -> None:
        self._sums += vectors.astype(np.float64).sum(axis=0)
        self._counts += len(vectors)

    def add_at(self, beside: Counts, vectors: Floats) -> None:
        """Vectors of tokens that stand for no text, to the chunks with the character ``beside`` them, if any."""
        holds = ((self._start[:, np.newaxis] <= beside) & (beside < self._end[:, np.newaxis])).any(axis=1)
        self._sums[holds] += vectors.astype(np.float64).sum(axis=0)
        self._counts[holds] += len(vectors)

    def means(self) -> Floats:
        """The mean of each chunk; zeros for a chunk without tokens."""
        return np.asarray(self._sums / np.maximum(self._counts, 1)[:, np.newaxis], dtype=np.float32)


def pooled_chunks(
    windows: DocumentWindows,
    embedder: LateChunkingEmbedder,
    path: Path,
    lengths: Counts,
    advance: Callable[[int], None] = lambda _: None,
) -> PooledChunks:
    """The chunks of ``windows``; windows that are not in the file ``path`` yet are read first, and kept there.

    Raises EmbedderError, RunError and WorkspaceError.
    """
    encoder = token_encoder(embedder, path)
    missing = encoder.missing(windows, "document")
    start = time.perf_counter()
    keys = encoder.fill(windows, "document", lengths, advance)
    seconds = time.perf_counter() - start if len(missing) else 0.0
    return PooledChunks(windows, encoder, keys, int(lengths[missing].sum()), seconds, embedder.normalize)


def token_encoder(embedder: LateChunkingEmbedder, path: Path) -> TokenEncoder:
    """The model as it reads windows."""
    return TokenEncoder(lambda: _load(embedder), embedder.batch_size, path, embedder.summary())


def _load(embedder: LateChunkingEmbedder) -> EncodeTokens:
    """The model, ready to give the vector of every token. Raises EmbedderError."""
    from sentence_transformers import SentenceTransformer

    import torch  # isort: skip

    folder = embedder.folder
    try:
        with without_bars():
            dtype = getattr(torch, embedder.precision)
            model: Any = SentenceTransformer(str(folder), device=embedder.device, model_kwargs={"dtype": dtype})
    except Exception as error:
        raise EmbedderError(f"the model in {folder} cannot be loaded: {error}") from error
    _refuse_unless_mean(model, embedder)
    model.max_seq_length = embedder.max_tokens()

    def encode(texts: Sequence[str], _: Task) -> list[TokenVectors]:
        try:
            raw = model.encode(
                list(texts), batch_size=len(texts), show_progress_bar=False, prompt="", output_value=None
            )
        except (RuntimeError, ValueError, IndexError) as error:
            message = f"the model {embedder.model!r} failed on a batch of {len(texts)} texts: {error}"
            raise EmbedderError(message) from error
        made = [_of_tokens(one) for one in raw]
        if (why := checked(made, texts)) is not None:
            raise EmbedderError(f"the model {embedder.model!r} returned {why}.")
        return made

    return encode


def _of_tokens(raw: Any) -> TokenVectors:
    is_token = raw["attention_mask"].bool().cpu()
    vectors: npt.NDArray[Any] = raw["token_embeddings"].float().cpu()[is_token].numpy()
    return TokenVectors(raw["input_ids"].cpu()[is_token].numpy().astype(np.int32), vectors)


def _refuse_unless_mean(model: Any, embedder: LateChunkingEmbedder) -> None:
    """Raise EmbedderError for a model whose vectors are not means of its tokens' vectors."""
    if embedder.tells_sides:
        raise EmbedderError(
            f"the model {embedder.model!r} reads queries and documents differently, or leaves its prompt out of the "
            "mean, which late chunking does not support. Use kind: sentence-transformer."
        )
    kinds = [type(module).__name__ for module in model]
    modes = [str(getattr(module, "pooling_mode", "")) for module in model if type(module).__name__ == "Pooling"]
    if kinds[1:2] != ["Pooling"] or set(kinds[2:]) - {"Normalize"} or modes not in (["mean"], ["('mean',)"]):
        what = ", ".join(kinds) + (f" (pooling: {modes[0]})" if modes else "")
        raise EmbedderError(
            f"the model {embedder.model!r} is made of {what}; late chunking needs a Transformer with mean Pooling, "
            "followed by nothing but Normalize. Use kind: sentence-transformer."
        )
