"""The options of a model behind an endpoint: its address, its key, its price, and how requests are sent."""

from __future__ import annotations

import os
from typing import Annotated, Any, ClassVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, JsonValue

from ragtrial.errors import ModelNotFoundError, withhold
from ragtrial.options import KeyVariable, Options, parts_of

_VARIABLES = {
    "api.openai.com": "OPENAI_API_KEY",
    "api.cohere.com": "CO_API_KEY",
    "api.voyageai.com": "VOYAGE_API_KEY",
    "api.jina.ai": "JINA_API_KEY",
    "api.mistral.ai": "MISTRAL_API_KEY",
    "api.together.xyz": "TOGETHER_API_KEY",
    "generativelanguage.googleapis.com": "GEMINI_API_KEY",
    "openrouter.ai": "OPENROUTER_API_KEY",
}
"""The environment variable that each provider's own client reads, by host."""


_AZURE_HOSTS = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
_AZURE_VARIABLE = "AZURE_OPENAI_API_KEY"


def _url(value: str) -> str:
    parts = parts_of(value.strip())
    if parts is None or parts.scheme not in ("http", "https"):
        raise ValueError("must be a URL like https://api.openai.com/v1 or http://localhost:8000/v1.")
    if (parts.hostname or "").endswith(_AZURE_HOSTS) and (parts.query or "/deployments/" in parts.path):
        message = f"must be https://{parts.hostname}/openai/v1 for Azure, with the name of the deployment as `model`."
        raise ValueError(message)
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ValueError("must be a URL without user, password, ? or #: a key goes into `api_key`.")
    return value.strip().rstrip("/")


EndpointUrl = Annotated[str, AfterValidator(_url)]
Price = Annotated[float, Field(ge=0)]


class EndpointOptions(Options):
    """A model behind an HTTP endpoint."""

    named_by = ("model",)

    unhashed: ClassVar[frozenset[str]] = frozenset({"api_key", "price", "concurrency", "timeout", "retries"})

    model: Annotated[str, Field(min_length=1)]
    """The model's name, as the endpoint knows it."""

    base_url: EndpointUrl = "https://api.openai.com/v1"
    """The URL before `/embeddings`, `/rerank` or `/chat/completions`."""

    api_key: KeyVariable | None = None
    """The environment variable that holds the key, written `${NAME}` (default: the variable that the provider's own
    client reads, like OPENAI_API_KEY; none for other hosts). The key is never written to reports, logs or caches."""

    version: str | None = None
    """Your version of the model: cached answers are used while it stays the same, even if base_url changes (default:
    the base_url)."""

    price: Price | None = None
    """The price of a million input tokens, in any currency; plans and reports then show the cost."""

    fields: dict[str, JsonValue] = Field(default={})
    """Extra fields of each request, as the endpoint's manual names them; null leaves out a field that is sent by
    default, like `{temperature: null}`."""

    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    """The maximum number of requests at once."""

    timeout: Annotated[float, Field(gt=0)] = 300.0
    """Seconds until a request is abandoned and repeated; a model on your own CPU may need minutes."""

    retries: Annotated[int, Field(ge=0, le=20)] = 6
    """How often to repeat a request after 429, 5xx or a broken connection."""

    def answered_by(self) -> dict[str, Any]:
        """The model and its version, as JSON values: equal for requests whose answers are interchangeable."""
        where = {"base_url": self.base_url} if self.version is None else {"version": self.version}
        return {"model": self.model, **where}

    @property
    def key_variable(self) -> str | None:
        """The name of the environment variable that holds the key; None if no key is sent."""
        host = urlsplit(self.base_url).hostname or ""
        return self.api_key or _VARIABLES.get(host) or (_AZURE_VARIABLE if host.endswith(_AZURE_HOSTS) else None)

    def key(self) -> str | None:
        """The key itself, for the client alone. Raises ModelNotFoundError if its variable is not set."""
        name = self.key_variable
        if name is None:
            return None
        withhold(name)
        found = os.environ.get(name, "").strip()
        if not found:
            raise ModelNotFoundError(
                f"the environment variable {name} is not set: it holds the key of {self.base_url}. Set it, or name "
                "another one with `api_key: ${NAME}`."
            )
        if not (found.isascii() and found.isprintable()):
            message = f"the environment variable {name} contains characters that no key has; set it again."
            raise ModelNotFoundError(message)
        return found
