"""Embeddings in OpenAI's form: OpenAI, Gemini, Mistral, Jina; vLLM, TEI, Ollama, Infinity; and many others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field, JsonValue

from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.embeddings import EmbeddingReply, embed


@EMBEDDERS.register("openai")
class OpenAIEmbedder(EndpointEmbedder):
    """A model behind any endpoint in OpenAI's form (`/embeddings`), hosted or your own."""

    kind: Literal["openai"] = "openai"
    """A model behind any OpenAI-compatible endpoint (`/embeddings`), hosted or your own."""

    encoding: Literal["base64", "float"] | None = "base64"
    """The encoding of vectors in replies: base64 is exact and a quarter of the size; float is for servers that support
    nothing else; null sends no `encoding_format`, for servers that refuse it."""

    query_fields: dict[str, JsonValue] = Field(default={})
    """Extra fields for query requests, as the endpoint's manual names them, like `{task: retrieval.query}`."""

    document_fields: dict[str, JsonValue] = Field(default={})
    """Extra fields for document requests, like `{task: retrieval.passage}`."""

    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return {**self.fields, **self.query_fields}, {**self.fields, **self.document_fields}

    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        size = {} if self.dimensions is None else {"dimensions": self.dimensions}
        return embed(client, texts, {"encoding_format": self.encoding, **size, **fields}, self.dimensions)
