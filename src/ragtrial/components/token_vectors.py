"""Models that give a text several vectors or weights: encoded once, kept under the text's hash, searched exactly."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from ragtrial.cache.arrays import read_array, write_array, write_rows
from ragtrial.cache.fingerprints import Digest, fingerprint
from ragtrial.cache.vectors import Keys, VectorCache
from ragtrial.components import batching
from ragtrial.components.batching import Meter, Spent, TextList, TextSource
from ragtrial.components.embedders.model_files import LocalModel, ModelLayout, ModuleFiles, Task
from ragtrial.components.embedders.sentence_transformer import limit_lengths, load_model
from ragtrial.components.interfaces import Facts, Ranker, RetrieverContext
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import ConfigError, RunError
from ragtrial.progress import Advance
from ragtrial.rankings import Codes, Counts, Floats, Rankings, unfilled
from ragtrial.records import Question, ReportWarning

_NUMBER = np.dtype(np.int32).itemsize
_TEXTS_READ = 128  # whose vectors are read at once


@dataclass(frozen=True, eq=False)
class TokenVectors:
    """The tokens of a text: ``ids``, int32 (tokens,), and ``vectors``, float32 (tokens, width).

    For a sparse model these are the terms of its vocabulary with a weight other than 0, each once, and their weights
    (width 1). An id is -1 where the token is unknown.
    """

    ids: Codes
    vectors: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def packed(self) -> npt.NDArray[np.uint8]:
        """All of it as bytes."""
        parts = np.int32(self.vectors.shape[1]), self.ids.astype(np.int32), self.vectors.astype(np.float32)
        return np.frombuffer(b"".join(part.tobytes() for part in parts), dtype=np.uint8)

    @classmethod
    def unpacked(cls, kept: bytes) -> Self:
        """The tokens that were packed into ``kept``."""
        width = int(np.frombuffer(kept, np.int32, 1)[0])
        count = (len(kept) // _NUMBER - 1) // (1 + width)
        ids = np.frombuffer(kept, np.int32, count, _NUMBER)
        return cls(ids, np.frombuffer(kept, np.float32, count * width, _NUMBER * (1 + count)).reshape(count, width))


EncodeTokens = Callable[[Sequence[str], Task], list[TokenVectors]]
"""Encodes one batch of texts, in their order. Raises RunError."""


class TokenEncoder:
    """The model that ``load`` returns, with its results kept in the file ``path``, which ``what`` describes.

    The model is loaded when the first text is missing, and stays loaded. With ``path`` None, only the results of the
    last call are kept, in memory, as a system in production would.
    """

    def __init__(self, load: Callable[[], EncodeTokens], batch_size: int, path: Path | None, what: str) -> None:
        self._load = load
        self._batch_size = batch_size
        self._path = path
        self._what = what
        self._last: tuple[tuple[str, ...], list[TokenVectors]] = (), []
        self._lock = Lock()

    @cached_property
    def _encode(self) -> EncodeTokens:
        return self._load()

    def of_texts(self, texts: Sequence[str], task: Task) -> list[TokenVectors]:
        """The tokens of ``texts``. Raises RunError and WorkspaceError."""
        if self._path is not None:
            return list(chain.from_iterable(self.blocks(self.fill(TextList(texts), task))))
        asked = (task, *texts)
        if asked != self._last[0]:
            size = self._batch_size
            batches = (self._encode(texts[start : start + size], task) for start in range(0, len(texts), size))
            self._last = asked, list(chain.from_iterable(batches))
        return self._last[1]

    def fill(
        self, source: TextSource, task: Task, lengths: Counts | None = None, advance: Advance = lambda _: None
    ) -> Keys:
        """Encode every text of ``source`` that is not in the file yet; the keys of all.

        Equal texts are encoded once, and each batch is kept before the next begins. ``lengths`` groups texts of similar
        length (default: characters). ``advance`` is called for every text that is done.
        """
        keys = batching.keys_of(source, f"{task}\0")  # a question and a document with the same words are two texts
        lengths = batching.lengths_of(source, "", None) if lengths is None else lengths
        with self._lock, self._opened() as cache:
            order = batching.longest_first(batching.absent(cache, keys), lengths)
            if len(order):
                _ = self._encode  # loading is no part of the first batch's time
            advance(len(keys) - len(order))
            meter = Meter()
            for positions, texts in batching.batches(source, order, lengths, self._batch_size):
                packed = [tokens.packed() for tokens in self._encode(texts, task)]
                cache.write(keys[positions], packed, meter.shares(lengths[positions]))
                advance(len(positions))
        return keys

    def blocks(self, keys: Keys) -> Iterator[list[TokenVectors]]:
        """The tokens in the file under ``keys``, some texts at a time."""
        with self._opened() as cache:
            for start in range(0, len(keys), _TEXTS_READ):
                yield [TokenVectors.unpacked(kept) for kept in cache.read_each(keys[start : start + _TEXTS_READ])]

    def spent(self, keys: Keys) -> Spent:
        """The seconds of encoding the texts of ``keys``, as measured when each was encoded."""
        with self._opened() as cache:
            return Spent.of(cache, keys)

    def _opened(self) -> VectorCache:
        if self._path is None:
            raise ValueError("nothing is kept without a path")
        return VectorCache(self._path, self._what)


Form = Literal["sparse", "late"]

_OWN_TYPES = {"sparse": ("SparseEncoder",), "late": ("MultiVectorEncoder", "ColBERT")}
_OWN_MODULES = {
    "sparse": ("SpladePooling", "SparseStaticEmbedding", "SparseAutoEncoder"),
    "late": ("MultiVectorMask", "ColBERT"),
}
_OWN_ARCHITECTURES = {"sparse": ("ForMaskedLM",), "late": ("HF_ColBERT",)}
_CALLED = {"sparse": "a sparse encoder, such as SPLADE", "late": "a late-interaction model, such as ColBERT"}
_KINDS = {"SentenceTransformer": "an embedding model", "SparseEncoder": "a sparse encoder",
          **dict.fromkeys(_OWN_TYPES["late"], "a late-interaction model")}  # fmt: skip


class TokenModel(LocalModel, Ranker):
    """The options of a model that gives a text several vectors or weights."""

    content_is: ClassVar[str] = "model"

    form: ClassVar[Form]

    def hashed_options(self) -> dict[str, Any]:
        """Without what changes no score but in its last bits."""
        return {name: value for name, value in super().hashed_options().items() if name not in ("device", "batch_size")}

    def hashed_content(self, digest: Digest) -> Any:
        """Everything but the text that changes its vectors."""
        return self.model_parts(digest)

    def check(self, context: RetrieverContext, questions: Sequence[Question]) -> None:
        """Raises ModelNotFoundError, and ConfigError for a model of another kind."""
        if (why := wrong_kind(self.folder, self.form)) is not None:
            raise ConfigError(
                f"{context.setting}: the model {self.model!r} cannot be used here: {why}. `model:` takes "
                f"{_CALLED[self.form]}."
            )
        tokenizer = self.tokenizer()
        special = tokenizer.special_tokens if tokenizer else 0
        self.layout.check_length(context.setting, self.model, self.max_length, special)

    @property
    def length(self) -> int | None:
        """How many tokens of a document are read; None if the files do not say."""
        if self.max_length is not None:
            return self.max_length
        layout, own = self.layout, self.layout.route[0].own
        named = own.get("document_length") or layout.declared.get("document_length")
        named = named or ModuleFiles("", self.folder).json("artifact.metadata").get("doc_maxlen")
        return int(named) if named else layout.route[0].most_tokens

    @property
    def document_prompt(self) -> str:
        """The prompt that the model itself puts before every document."""
        return self.layout.prompt("document")

    def tokenizer(self) -> Tokenizer | None:
        """The model's tokenizer; None if it is not available."""
        return self.layout.tokenizer

    def encoder(self, context: RetrieverContext, *, is_fresh: bool | None = None) -> TokenEncoder:
        """The model with its cached results; without them where ``is_fresh`` (default: the context's)."""
        path: Path | None = None
        if not (context.is_fresh if is_fresh is None else is_fresh):
            name = fingerprint(["tokens", self.form, self.hashed_content(context.digest)])
            path = context.growing("tokens", name).with_suffix(".sqlite")
        return TokenEncoder(self._load, self.batch_size, path, f"{self.kind} model={self.model}")

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        """Warnings about texts that the model did not read to the end, and about unused prompts that it declares."""
        for message in self.layout.unused_prompts(self.model):
            yield ReportWarning("prompts-not-used", message)
        if facts.get("texts_too_long"):
            yield ReportWarning.of_verdict(
                "too-long",
                f"{setting}: texts longer than the {facts['max_length']:,} tokens that the model reads: "
                f"{facts['texts_too_long']:,} of {facts['texts']:,}; the rest of each is ignored. Use smaller chunks, "
                "or a model that reads more.",
            )

    def lengths(self, texts: TextSource) -> Counts | None:
        """How many tokens each text has for the model, None if that is not known."""
        tokenizer = self.tokenizer()
        return None if tokenizer is None else batching.lengths_of(texts, self.document_prompt, tokenizer)

    def facts_of(self, lengths: Counts | None, texts: int) -> dict[str, Any]:
        """How many of ``texts`` the model does not read to the end; ``lengths`` are in tokens, None if unknown."""
        limit = self.length
        too_long = None if lengths is None or limit is None else int((lengths > limit).sum())
        return {"texts": texts, "texts_too_long": too_long, "max_length": limit}

    def mean_over_tokens(self) -> bool:
        """True if a score is divided by the number of the question's tokens, as the model declares."""
        return self.layout.declared.get("similarity_fn_name") == "meanmaxsim"

    def _load(self) -> EncodeTokens:
        """The model, ready. Raises RunError."""
        from sentence_transformers import MultiVectorEncoder, SparseEncoder
        from sentence_transformers.base.modules import Transformer

        folder, options = self.folder, dict[str, Any]()
        model: Any
        read: Callable[[Any], list[TokenVectors]]
        if self.form == "sparse":
            model = load_model(SparseEncoder, self)
            if model.similarity_fn_name not in ("dot", "cosine"):
                raise RunError(
                    f"the model in {folder} compares by {model.similarity_fn_name}; sparse retrieval takes dot or "
                    "cosine."
                )
            limit_lengths(model, self.max_length, self.layout.route[0].absolute_positions)
            options["convert_to_sparse_tensor"] = False
            read = partial(_term_weights, is_cosine=model.similarity_fn_name == "cosine")
        else:
            model = load_model(MultiVectorEncoder, self)
            for module in model.modules() if self.max_length is not None else ():
                if isinstance(module, Transformer):
                    module.document_length = self.max_length
            options["output_value"] = None
            read = _token_vectors

        def encode(texts: Sequence[str], task: Task) -> list[TokenVectors]:
            call = model.encode_query if task == "query" else model.encode_document
            try:
                vectors = read(call(list(texts), batch_size=len(texts), show_progress_bar=False, **options))
            except (RuntimeError, ValueError, IndexError) as error:
                raise RunError(f"the model in {folder} failed on a batch of {len(texts)} texts: {error}") from error
            bad = [text for text, row in zip(texts, vectors, strict=True) if not np.isfinite(row.vectors).all()]
            if bad:
                raise RunError(
                    f"the model in {folder} returned NaN or infinity for {len(bad)} of {len(texts)} texts; the first "
                    f"begins {bad[0][:60]!r}."
                )
            return vectors

        return encode


def wrong_kind(folder: Path, form: Form) -> str | None:
    """Why the model in ``folder`` is not of this ``form``, by its files; None where it is.

    An embedding model would be loaded all the same, with a last layer of random weights.
    """
    layout = ModelLayout(folder)
    named, is_bare = layout.declared.get("model_type"), not (folder / "modules.json").exists()
    modules = {module.name for route in layout.routes.values() for module in route}
    architecture = str(next(iter(ModuleFiles("", folder).json("config.json").get("architectures") or ()), ""))
    is_bare_own = is_bare and architecture.endswith(_OWN_ARCHITECTURES[form])
    if named in _OWN_TYPES[form] or (named is None and (is_bare_own or modules.intersection(_OWN_MODULES[form]))):
        return None
    if named is None and is_bare:
        return f"it is a {architecture or 'model of an unknown kind'}"
    return f"it is {_KINDS.get(str(named), f'a {named}' if named else 'an embedding model')}"


def _term_weights(dense: Any, *, is_cosine: bool) -> list[TokenVectors]:
    """The weights other than 0 of each row."""
    rows = dense.float().cpu().numpy()
    if is_cosine:
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        rows = rows / np.where(lengths > 0, lengths, 1)
    pairs = ((row, np.flatnonzero(row)) for row in rows)  # NaN is not zero
    return [TokenVectors(ids.astype(np.int32), row[ids].astype(np.float32)[:, np.newaxis]) for row, ids in pairs]


def _token_vectors(texts: Any) -> list[TokenVectors]:
    """The vectors that are compared, and their tokens, which are unknown (-1) where a model has merged vectors."""
    read = []
    for text in texts:
        is_compared = text["attention_mask"].bool().cpu()
        vectors, ids = text["token_embeddings"].float().cpu()[is_compared].numpy(), text.get("input_ids")
        is_known = ids is not None and ids.shape == is_compared.shape
        tokens = ids.cpu()[is_compared].numpy().astype(np.int32) if is_known else np.full(len(vectors), -1, np.int32)
        read.append(TokenVectors(tokens, vectors))
    return read


MAXSIM_VERSION = 1
"""Part of the fingerprint of every index: raise it whenever the same vectors would be stored differently."""

_TILE = 4_000_000  # similarities of tokens that are held at once
_MAXSIM_CELLS = 16_000_000  # scores of chunks that are held at once
_QUERIES = 64  # that are compared together
_ROUNDINGS = 8  # the error of a similarity in addition to the error of its sum
_EPSILON = float(np.finfo(np.float32).eps)


class TokenIndex:
    """The vectors of the tokens of all chunks, mapped from files.

    ``order`` is the tie order of each chunk, shape (chunks,). Files: ``vectors.npy`` (float32, (tokens, width)), one
    chunk after another, ``bounds.npy`` (int64, chunks + 1), and ``about.json`` (the length of the longest vector).
    ``is_mean`` divides scores by the number of the query's tokens. Raises ValueError if they do not fit together.
    """

    def __init__(self, folder: Path, order: Counts, *, is_mean: bool) -> None:
        self._order = order
        self._is_mean = is_mean
        self._vectors: Floats = read_array(folder / "vectors.npy")
        self._bounds: Counts = read_array(folder / "bounds.npy")
        self._longest = float(json.loads((folder / "about.json").read_text(encoding="utf-8"))["longest"])
        if len(self._bounds) != len(order) + 1 or int(self._bounds[-1]) != len(self._vectors):
            raise ValueError("the vectors do not fit together")
        self._filled: Counts = np.flatnonzero(np.diff(self._bounds))

    @classmethod
    def write(cls, folder: Path, blocks: Iterable[Sequence[TokenVectors]], tokens: Counts, width: int) -> None:
        """Put the vectors of chunks, in the order of these, into ``folder``.

        ``tokens``, shape (chunks,), is how many each has, ``width`` how long one is.
        """
        longest = 0.0

        def rows() -> Iterator[Floats]:
            nonlocal longest
            for block in blocks:
                for one in block:
                    longest = max(longest, float(np.linalg.norm(one.vectors, axis=1).max(initial=0)))
                    yield one.vectors

        write_rows(folder / "vectors.npy", rows(), (int(tokens.sum()), width))
        write_array(folder / "bounds.npy", np.concatenate([[0], np.cumsum(tokens)]).astype(np.int64))
        (folder / "about.json").write_text(json.dumps({"longest": longest}), encoding="utf-8")

    def search(self, queries: Sequence[TokenVectors], depth: int) -> Rankings:
        """For each query at most ``depth`` chunks, best first; equal scores by ``order``.

        Every chunk is compared, in float32; the best, and all that rounding may have hidden among the others, are
        compared again by ``maxsim``, so that a score depends on nothing but the query and the chunk. A chunk without
        any token is not found, and a query without any finds nothing.
        """
        made = unfilled(len(queries), min(depth, len(self._filled)))
        if not made.depth:
            return made
        asked = [row for row, query in enumerate(queries) if len(query)]
        size = max(1, min(_QUERIES, _MAXSIM_CELLS // len(self._filled)))
        for start in range(0, len(asked), size):
            rows = asked[start : start + size]
            for row, near in zip(rows, self._near([queries[row] for row in rows]), strict=True):
                codes = self._candidates(near, queries[row], made.depth)
                texts = (self._vectors[self._bounds[code] : self._bounds[code + 1]] for code in codes.tolist())
                exact = [maxsim(queries[row], vectors, is_mean=self._is_mean) for vectors in texts]
                _place(made, row, codes, np.array(exact, dtype=np.float32), self._order)
        return made

    def _candidates(self, near: Floats, query: TokenVectors, depth: int) -> Codes:
        """The chunks that may be among the best ``depth``, by the approximate scores of chunks with tokens."""
        sizes = np.linalg.norm(query.vectors.astype(np.float64), axis=1)
        slack = (self._vectors.shape[1] + _ROUNDINGS) * _EPSILON * float(sizes.sum()) * self._longest
        slack += len(query) * _EPSILON * float(np.abs(near).max(initial=0))  # of the sum over the query's tokens
        floor = np.partition(near, -depth)[-depth] - 2 * slack
        found: Codes = self._filled[~(near < floor)].astype(np.int32)
        return found

    def _near(self, queries: Sequence[TokenVectors]) -> Floats:
        """Approximate scores, (queries, chunks with tokens): sums over a query's tokens of the best similarity."""
        asked = np.concatenate([query.vectors for query in queries])
        edges = np.cumsum([0, *(len(query) for query in queries)])[:-1]
        near = np.empty((len(queries), len(self._filled)), dtype=np.float32)
        bounds, rows = self._bounds, max(1, _TILE // max(1, len(asked)))
        first = 0
        while first < len(self._filled):
            begin = int(bounds[self._filled[first]])
            # As many chunks as fit, but at least one.
            last = int(np.searchsorted(bounds[self._filled + 1], begin + rows, side="right"))
            chosen = self._filled[first : max(last, first + 1)]
            block = self._vectors[begin : int(bounds[chosen[-1] + 1])]
            best = np.maximum.reduceat(asked @ block.T, (bounds[chosen] - begin).astype(np.intp), axis=1)
            near[:, first : first + len(chosen)] = np.add.reduceat(best, edges, axis=0)
            first += len(chosen)
        return near


def maxsim(query: TokenVectors, vectors: Floats, *, is_mean: bool) -> float:
    """The sum over the query's tokens of the largest inner product with any of ``vectors``; in float64.

    It is 0 if the query or the text has no token.
    Source: Khattab & Zaharia 2020, ColBERT, section 3.3. ``is_mean`` divides it by the number of the query's tokens.
    """
    if not len(query) or not len(vectors):
        return 0.0
    best = (query.vectors.astype(np.float64) @ vectors.astype(np.float64).T).max(axis=1)
    return float(best.mean() if is_mean else best.sum())


POSTINGS_VERSION = 1
"""Part of the fingerprint of every index: raise it whenever the same vectors would be stored differently."""

_POSTINGS_CELLS = 4_000_000  # scores that are held at once, 12 bytes each
_FILES = ("weights", "chunks", "bounds")


class Postings:
    """The chunks by term: for each term the chunks that it weighs in, and its weights, mapped from files.

    ``order`` is the tie order of each chunk, shape (chunks,). Files: ``weights.npy`` (float32) and ``chunks.npy``
    (int32), one term after another, and ``bounds.npy`` (int64, terms + 1). Raises ValueError for files that do not fit
    together.
    """

    def __init__(self, folder: Path, order: Counts) -> None:
        self._order = order
        weights, chunks, bounds = (read_array(folder / f"{name}.npy") for name in _FILES)
        self._weights: Floats = weights
        self._chunks: Codes = chunks
        self._bounds: Counts = bounds
        kept = json.loads((folder / "about.json").read_text(encoding="utf-8"))
        sizes = {len(weights), len(chunks), int(bounds[-1]), int(kept["weights"])}
        if len(sizes) > 1 or int(kept["chunks"]) != len(order):
            raise ValueError("the columns do not fit together")

    @classmethod
    def write(cls, folder: Path, blocks: Iterable[Sequence[TokenVectors]]) -> int:
        """Put the vectors of chunks, in the order of these, into ``folder``; how many weights they have."""
        from scipy.sparse import csr_array

        ids, weights, lengths = [np.empty(0, np.int32)], [np.empty(0, np.float32)], [0]
        for block in blocks:
            ids += [one.ids for one in block]
            weights += [one.vectors[:, 0] for one in block]
            lengths += [len(one) for one in block]
        every = np.concatenate(ids)
        bounds, width = np.cumsum(lengths, dtype=np.int64), int(every.max(initial=-1)) + 1
        by_chunk = csr_array((np.concatenate(weights), every, bounds), shape=(len(lengths) - 1, width))
        by_term = by_chunk.tocsc()
        columns = by_term.data, by_term.indices.astype(np.int32), by_term.indptr.astype(np.int64)
        for name, column in zip(_FILES, columns, strict=True):
            write_array(folder / f"{name}.npy", column)
        kept = {"chunks": len(lengths) - 1, "weights": len(every)}
        (folder / "about.json").write_text(json.dumps(kept), encoding="utf-8")
        return len(every)

    def search(self, queries: Sequence[TokenVectors], depth: int) -> Rankings:
        """For each query at most ``depth`` chunks that share a term with it, best first; equal scores by ``order``.

        A score is the sum over the shared terms, in float64, of the product of both weights, rounded to float32: it
        does not depend on the other chunks, nor on the other queries.
        """
        made = unfilled(len(queries), min(depth, len(self._order)))
        if not made.depth:
            return made
        size = max(1, _POSTINGS_CELLS // len(self._order))
        for start in range(0, len(queries), size):
            for row, (codes, scores) in enumerate(self._scores(queries[start : start + size]), start):
                if len(codes) > made.depth:
                    is_near = scores >= np.partition(scores, -made.depth)[-made.depth]
                    codes, scores = codes[is_near], scores[is_near]
                _place(made, row, codes, scores, self._order)
        return made

    def _scores(self, queries: Sequence[TokenVectors]) -> list[tuple[Codes, Floats]]:
        """The chunks that share a term with each query, and their scores."""
        from scipy.sparse import csr_array

        ids = np.concatenate([query.ids for query in queries])
        terms = np.unique(ids[ids < len(self._bounds) - 1])
        starts, ends = self._bounds[terms], self._bounds[terms + 1]
        taken = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        weights = np.concatenate([np.empty(0), *(self._weights[part] for part in taken)])
        chunks = np.concatenate([np.empty(0, np.int32), *(self._chunks[part] for part in taken)])
        bounds = np.concatenate([[0], np.cumsum(ends - starts)])
        by_term = csr_array((weights, chunks, bounds), shape=(len(terms), len(self._order)))
        is_known = np.isin(ids, terms)
        asked = np.concatenate([query.vectors[:, 0] for query in queries])[is_known].astype(np.float64)
        rows = np.repeat(np.arange(len(queries)), [len(query) for query in queries])[is_known]
        places = rows, np.searchsorted(terms, ids[is_known])
        found = csr_array((asked, places), shape=(len(queries), len(terms))) @ by_term
        indices, data = found.indices.astype(np.int32), found.data.astype(np.float32)
        return [(indices[start:end], data[start:end]) for start, end in pairwise(found.indptr.tolist())]


def _place(rankings: Rankings, row: int, codes: Codes, scores: Floats, order: Counts) -> None:
    """Put the best of some chunks into a row of ``rankings``, equal scores by ``order``."""
    best = np.lexsort((order[codes], -scores))[: rankings.depth]
    rankings.codes[row, : len(best)], rankings.scores[row, : len(best)] = codes[best], scores[best]
