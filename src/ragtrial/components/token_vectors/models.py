"""Sparse and late-interaction models of the sentence-transformers library: options, files, encoding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from ragtrial.cache.fingerprints import Digest, fingerprint
from ragtrial.components.batching import TextSource, lengths_of
from ragtrial.components.embedders.model_files import LocalModel, ModelLayout, ModuleFiles, Task
from ragtrial.components.embedders.sentence_transformer import limit_lengths, load_model
from ragtrial.components.interfaces import Facts, Ranker, RetrieverContext
from ragtrial.components.token_vectors.vectors import EncodeTokens, TokenEncoder, TokenVectors
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import ConfigError, RunError
from ragtrial.rankings import Counts
from ragtrial.records import Question, ReportWarning

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
        return None if tokenizer is None else lengths_of(texts, self.document_prompt, tokenizer)

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
