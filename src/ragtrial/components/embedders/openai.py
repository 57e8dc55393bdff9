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
    """A model behind any endpoint in OpenAI's form (`/embeddings`), hosted or your own."""

    encoding: Literal["base64", "float"] = "base64"
    """How vectors are sent: base64 is a quarter of the size and exact; float for servers that know nothing else."""

    query_fields: dict[str, JsonValue] = Field(default={})
    """More fields of requests for queries, as the endpoint's manual names them, like `{task: retrieval.query}`."""

    document_fields: dict[str, JsonValue] = Field(default={})
    """More fields of requests for texts of documents, like `{task: retrieval.passage}`."""

    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        return self.query_fields, self.document_fields

    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        size = {} if self.dimensions is None else {"dimensions": self.dimensions}
        return embed(client, texts, {"encoding_format": self.encoding, **size, **fields})
