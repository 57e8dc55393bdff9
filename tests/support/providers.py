"""Embedding services as their manuals describe them: path, key, fields, limits, form of the answer; on the loopback."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from endpoint_double import EndpointDouble, vector_of

OPENAI_FIELDS = frozenset({"model", "input", "encoding_format", "dimensions", "user"})


def tokens(text: str) -> int:
    return len(text) // 4 + 1


@dataclass(frozen=True)
class Provider:
    """What a service takes. ``encodings`` are values of encoding_format; ``strict`` refuses fields that it lacks."""

    path: str
    fields: frozenset[str] = OPENAI_FIELDS
    needed: frozenset[str] = frozenset({"model", "input"})
    texts: int = 2048
    batch: int = 300_000
    longest: int = 8192
    encodings: tuple[str | None, ...] = ("base64", "float", None)
    writes_base64: bool = True
    strict: bool = True

    def refusal(self, path: str, body: Mapping[str, Any]) -> str | None:
        """Why a request is refused, None if it is not."""
        sent = body.get("input", body.get("texts", []))
        size = sum(map(tokens, sent))
        reasons = {
            f"no such path {path}": not path.endswith(self.path),
            f"unknown fields {sorted(body.keys() - self.fields)}": self.strict and not body.keys() <= self.fields,
            f"missing fields {sorted(self.needed - body.keys())}": not self.needed <= body.keys(),
            f"batch size {len(sent)} > maximum allowed batch size {self.texts}": len(sent) > self.texts,
            f"Too many tokens in batch. Max is {self.batch} got {size}": size > self.batch,
            f"a text is longer than {self.longest} tokens": max(map(tokens, sent), default=0) > self.longest,
            f"encoding_format {body.get('encoding_format')}": body.get("encoding_format") not in self.encodings,
        }
        return next((reason for reason, is_so in reasons.items() if is_so), None)

    def answer(self, body: Mapping[str, Any]) -> Any:
        sent = body.get("input", body.get("texts", []))
        vectors = [vector_of(text) for text in sent]
        usage = {"total_tokens": sum(map(tokens, sent))}
        if "embedding_types" in body:
            lists = [vector.tolist() for vector in vectors]
            return {"embeddings": {"float": lists}, "meta": {"billed_units": {"input_tokens": usage["total_tokens"]}}}
        as_text = self.writes_base64 and body.get("encoding_format") == "base64"
        shown = [base64.b64encode(vector.tobytes()).decode() if as_text else vector.tolist() for vector in vectors]
        return {"data": [{"index": row, "embedding": one} for row, one in enumerate(shown)], "usage": usage}


PROVIDERS: dict[str, Provider] = {
    "OpenAI": Provider("/embeddings"),
    "Azure": Provider("/openai/v1/embeddings"),
    "Cohere": Provider(
        "/v2/embed",
        frozenset({"model", "texts", "input_type", "embedding_types", "truncate", "output_dimension", "max_tokens"}),
        frozenset({"model", "texts", "input_type", "embedding_types"}), 96, 10**6, 128_000,
    ),
    "Voyage AI": Provider(
        "/v1/embeddings",
        frozenset({"model", "input", "input_type", "truncation", "output_dimension", "output_dtype"}) | OPENAI_FIELDS,
        texts=1000, batch=120_000, longest=32_000, encodings=("base64", None),
    ),
    "Gemini": Provider("/v1beta/openai/embeddings", texts=100, longest=2048, writes_base64=False),
    "Mistral": Provider(
        "/v1/embeddings", frozenset({"model", "input", "encoding_format", "output_dimension", "output_dtype"}),
        batch=16_384, encodings=("float", None),
    ),
    "Jina": Provider(
        "/v1/embeddings", OPENAI_FIELDS | {"task", "normalized", "embedding_type", "late_chunking", "truncate"},
        frozenset({"model", "input", "task"}), writes_base64=False,
    ),
    "vLLM": Provider("/v1/embeddings", strict=False),
    "TEI": Provider("/v1/embeddings", texts=32, batch=16_384, strict=False),
    "Ollama": Provider("/v1/embeddings", writes_base64=False, strict=False),
    "Infinity": Provider("/embeddings", texts=2048),
}  # fmt: skip
"""By the name of the row in docs/which-model.md."""


@contextmanager
def serving(name: str) -> Iterator[EndpointDouble]:
    """The service on the loopback; a refusal has status 400, and the texts are noted all the same."""
    provider = PROVIDERS[name]

    def respond(handler: Any, _: Any) -> Any:
        asked = handler.double.asked[-1]
        refusal = provider.refusal(asked.path, asked.body)
        if refusal is None:
            return provider.answer(asked.body)
        handler.reply(400, f'{{"error": {{"message": "{refusal}"}}}}')
        return None

    with EndpointDouble(default=respond) as double:
        yield double
