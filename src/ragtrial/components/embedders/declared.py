"""Embedders without model files on this machine: the config declares prefixes, tokenizer and maximum length."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from ragtrial.components.embedders.base import Embedder
from ragtrial.components.embedders.model_files import named_tokenizer
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.options import ModelName


class DeclaredEmbedder(Embedder):
    """An embedder whose model is elsewhere: a service, or inside a function."""

    may_change: ClassVar[bool] = True

    query_prefix: str = ""
    """Text to put before every query."""

    document_prefix: str = ""
    """Text to put before every document text."""

    tokenizer_model: ModelName | None = None
    """The tokenizer for measuring chunk sizes and batches: a hub name, a folder or a tokenizer.json."""

    max_length: Annotated[int, Field(ge=1)] | None = None
    """The number of tokens of a text that the model reads; longer texts are counted, with a warning."""

    def prefixes(self) -> tuple[str, str]:
        return self.query_prefix, self.document_prefix

    @property
    def has_tokenizer(self) -> bool:
        return self.tokenizer_model is not None

    def tokenizer(self) -> Tokenizer | None:
        return None if self.tokenizer_model is None else named_tokenizer(self.tokenizer_model)

    def max_tokens(self) -> int | None:
        return self.max_length
