"""Embeddings of Cohere, in its own form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.components.endpoints.answers import billed, member, named
from ragtrial.components.endpoints.bodies import vectors_budget
from ragtrial.components.endpoints.client import Client
from ragtrial.components.endpoints.embeddings import EmbeddingReply, matrix
from ragtrial.components.endpoints.options import EndpointUrl


@EMBEDDERS.register("cohere")
class CohereEmbedder(EndpointEmbedder):
    """A model of Cohere; requests say what is a query and what is a document."""

    kind: Literal["cohere"] = "cohere"
    """A Cohere model, like embed-v4.0; requests mark texts as queries or documents."""

    base_url: EndpointUrl = "https://api.cohere.com/v2"
    """The URL before `/embed`."""

    batch_size: Annotated[int, Field(ge=1, le=96)] = 96

    truncate: Literal["none", "end", "start"] = "end"
    """The end to cut from a text that is too long; with `none`, such a text is an error."""

    def side_fields(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        cut = {"truncate": self.truncate.upper(), **self.fields}
        return {"input_type": "search_query", **cut}, {"input_type": "search_document", **cut}

    def request(self, client: Client, texts: Sequence[str], fields: Mapping[str, Any]) -> EmbeddingReply:
        size = {} if self.dimensions is None else {"output_dimension": self.dimensions}
        body = {"model": self.model, "texts": list(texts), "embedding_types": ["float"], **size, **fields}
        answer, who = client.post("embed", body, vectors_budget(len(texts), self.dimensions)), named(client)
        vectors = member(member(answer, "embeddings", dict, who), "float", list, who)
        tokens = billed(answer, "meta", "billed_units", ("input_tokens",))
        return EmbeddingReply(matrix(vectors, len(texts), who), tokens)
