"""Models of the sentence-transformers library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal, TypeVar

import numpy.typing as npt

from ragtrial.cache.fingerprints import Digest, file_digest
from ragtrial.components.embedders.base import EMBEDDERS, Embedder, Encode, sided
from ragtrial.components.embedders.model_files import TASKS, LocalModel
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.errors import EmbedderError, InputError, RunError, counted
from ragtrial.options import ModelName

M = TypeVar("M")

_SPACES: dict[str, Literal["cosine", "ip", "l2"]] = {"cosine": "cosine", "dot": "ip", "euclidean": "l2"}


@EMBEDDERS.register("sentence-transformer")
class SentenceTransformerEmbedder(Embedder, LocalModel):
    """A model of the sentence-transformers library, from the hub or a local folder."""

    unhashed: ClassVar[frozenset[str]] = Embedder.unhashed | {"device"}

    kind: Literal["sentence-transformer"] = "sentence-transformer"
    """A model of the sentence-transformers library."""

    model: ModelName = "sentence-transformers/all-MiniLM-L6-v2"
    """The model's name on the hub, or the path of a local folder."""

    query_prefix: str | None = None
    """Text to put before every query (default: the query prompt that the model declares)."""

    document_prefix: str | None = None
    """Text to put before every document text (default: the document prompt that the model declares)."""

    def prefixes(self) -> tuple[str, str]:
        query = self.layout.prompt("query") if self.query_prefix is None else self.query_prefix
        document = self.layout.prompt("document") if self.document_prefix is None else self.document_prefix
        return query, document

    @property
    def distinguishes_sides(self) -> bool:
        return self.layout.distinguishes_sides

    def unused_prompts(self) -> Iterator[str]:
        given = zip(TASKS, (self.query_prefix, self.document_prefix), strict=True)
        return self.layout.unused_prompts(self.model, [task for task, prefix in given if prefix is None])

    def check(self) -> None:
        most = self.layout.route[0].absolute_positions
        if self.max_length is not None and most is not None and self.max_length > most:
            model = f"the model {self.model!r} has positions for {most} tokens"
            raise InputError(f"embedder.max_length is {self.max_length}; {model}.")

    def hashed_parts(self, digest: Digest = file_digest) -> dict[str, Any]:
        return {"backend": "sentence-transformers", **self.model_parts(digest), "normalize": self.normalize}

    def tokenizer(self) -> Tokenizer | None:
        return self.layout.tokenizer

    def max_tokens(self) -> int | None:
        return self.length

    def dimension(self) -> int | None:
        return self.layout.dimension

    def similarity(self) -> Literal["cosine", "ip", "l2"] | None:
        return _SPACES.get(str(self.layout.declared.get("similarity_fn_name")))

    def load(self) -> Encode:
        from sentence_transformers import SentenceTransformer

        model = load_model(SentenceTransformer, self, error=EmbedderError)
        limit_lengths(model, self.max_length, self.layout.route[0].absolute_positions)
        distinguishes_sides, prompts = self.distinguishes_sides, self.prefixes()

        def encode(texts: Sequence[str]) -> npt.NDArray[Any]:
            call: Callable[..., npt.NDArray[Any]] = model.encode
            prompt, plain = "", list(texts)
            if distinguishes_sides:
                side, plain = sided(texts)
                call, prompt = (model.encode_query, model.encode_document)[side], prompts[side]
                plain = [text.removeprefix(prompt) for text in plain]
            try:
                return call(plain, prompt=prompt, batch_size=self.batch_size, show_progress_bar=False)
            except (RuntimeError, ValueError, IndexError) as error:
                message = f"the model {self.model!r} failed on a batch of {counted(len(texts), 'text')}: {error}"
                raise EmbedderError(message) from error

        return encode


def load_model(kind: type[M], options: LocalModel, what: str = "model", error: type[RunError] = RunError) -> M:
    """The model of ``options``, as the class ``kind`` of the library reads it. Raises ``error``.

    The library would draw its own progress bars, even without a terminal.
    """
    import torch
    from transformers.utils import logging

    load: Callable[..., M] = kind
    drawn = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        dtype = getattr(torch, options.precision)
        return load(str(options.folder), device=options.device, model_kwargs={"dtype": dtype})
    except Exception as failure:
        raise error(f"the {what} in {options.folder} cannot be loaded: {failure}") from failure
    finally:
        if drawn:
            logging.enable_progress_bar()


def limit_lengths(model: Any, max_length: int | None, most: int | None) -> None:
    """Let each transformer of ``model`` read ``max_length`` tokens, without it at most ``most`` of those declared."""
    from sentence_transformers.base.modules import Transformer

    for module in model.modules():
        if isinstance(module, Transformer) and module.max_seq_length is not None:
            module.max_seq_length = max_length or min(module.max_seq_length, most or module.max_seq_length)
