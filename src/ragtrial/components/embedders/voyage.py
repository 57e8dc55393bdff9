"""Embeddings of Voyage AI: nearly OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.embeddings import EmbeddingReply, embed
from ragtrial.components.endpoints.options import EndpointUrl


@EMBEDDERS.register("voyage")
class VoyageEmbedder(EndpointEmbedder):
    """A model of Voyage AI; requests say what is a query and what is a document."""

    kind: Literal["voyage"] = "voyage"
    """A Voyage AI model, like voyage-3.5; requests mark texts as queries or documents."""

    base_url: EndpointUrl = "https://api.voyageai.com/v1"
    """The URL before `/embeddings`."""

    batch_size: Annotated[int, Field(ge=1, le=1000)] = 128

    truncate: bool = True
    """Cut the end of a text that is too long; with false, such a text is an error."""

    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        cut = {"truncation": self.truncate, **self.fields}
        return {"input_type": "query", **cut}, {"input_type": "document", **cut}

    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        size = {} if self.dimensions is None else {"output_dimension": self.dimensions}
        return embed(client, texts, {"encoding_format": "base64", **size, **fields}, self.dimensions)
