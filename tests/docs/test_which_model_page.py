"""The page on models tells the truth: each config of it loads, and each provider's key has the variable it names."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
import yaml

from endpoint_double import Asked, EndpointDouble, score_of, vector_of
from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.components.refiners.rerankers import EndpointReranker, RerankEndpoint, TextPairs
from ragtrial.config.load import load_config
from ragtrial.errors import ConfigError

BASE = "experiment: page\ndataset: {corpus: docs, queries: q.json}\nstore: {kind: exact}\n"
CHUNKER = "chunker: {kind: recursive, size: 800, overlap: 0, unit: characters}\n"
_PROVIDER = re.compile(r"^\| ([\w ]+) \| `(\{kind: .*\})` \| (?:`(\w+)`)? ?\|$", re.M)


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "which-model.md").read_text(encoding="utf-8")


def load(text: str, folder: Path) -> None:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    load_config(folder / "config.yaml")


def test_providers_load_and_defaults_are_those_of_the_page(page: str, tmp_path: Path) -> None:
    rows = _PROVIDER.findall(page)
    assert {name for name, _, _ in rows} == {"local", *SERVICES}
    for _, options, variable in rows:
        load(f"{BASE}{CHUNKER}embedder: {options}\nretrievers: {{dense: {{kind: dense}}}}\n", tmp_path)
        given = yaml.safe_load(options)
        made = EMBEDDERS[given["kind"]].model_validate(given)
        found = made.key_variable if isinstance(made, EndpointEmbedder) else None
        assert (found or "") == variable, options
    for name, size in (("openai", 64), ("cohere", 96), ("voyage", 128)):
        made = EMBEDDERS[name].model_validate({"model": "m"})
        assert made.batch_size == size
        assert isinstance(made, EndpointEmbedder)
        assert (made.concurrency, made.timeout, made.retries, made.batch_tokens) == (8, 300, 6, 100_000)
    assert "64 (Cohere 96, Voyage 128), 100,000" in page


OPENAI = {"model", "input", "encoding_format", "dimensions", "user"}


@dataclass(frozen=True)
class Service:
    """What a provider documents: the path, the fields that it knows (None: it ignores others), and limits.

    ``encodings`` are the values of ``encoding_format``, ``tokens`` those of a request at four characters each, ``sent``
    are fields without which texts are not cut.
    """

    path: str = "/v1/embeddings"
    fields: set[str] | None = field(default_factory=lambda: OPENAI)
    encodings: tuple[str, ...] = ("base64", "float")
    texts: int = 2_048
    tokens: int = 300_000
    sides: tuple[str, str, str] | None = None
    sent: Mapping[str, Any] = field(default_factory=dict)
    form: Callable[[Any], Any] = lambda answer: answer

    def wrong(self, asked: Asked) -> str:
        """The reason for which the service refuses a request; empty if it answers."""
        body = asked.body
        named = self.fields is not None and body.keys() - self.fields
        if asked.path != self.path or named or body.get("encoding_format", "float") not in self.encodings:
            return f"{asked.path}: extra inputs are not permitted: {named or body.get('encoding_format')}"
        if any(body.get(name) != value for name, value in self.sent.items()):
            return f"not sent: {self.sent}"
        if self.sides and body.get(self.sides[0]) not in self.sides[1:]:
            return f"{self.sides[0]} is {body.get(self.sides[0])}"
        tokens = sum(map(len, asked.texts)) / 4
        return f"too many: {len(asked.texts)} texts" if len(asked.texts) > self.texts or tokens > self.tokens else ""

    def answers(self, handler: Any, answer: Any) -> Any:
        """The service as what befalls each request of an EndpointDouble."""
        if reason := self.wrong(handler.double.asked[-1]):
            handler.reply(400, json.dumps({"error": {"message": reason}}))
            return None
        return self.form(answer)


def _in_floats(answer: Any) -> Any:
    """Gemini's and Ollama's answers: numbers whatever was asked for."""
    rows = answer["data"]
    vectors = [np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4").tolist() for row in rows]
    return {"data": [{**row, "embedding": own} for row, own in zip(rows, vectors, strict=True)]}


VOYAGE = {"model", "input", "input_type", "truncation", "output_dimension", "output_dtype", "encoding_format"}
COHERE = {"model", "texts", "input_type", "embedding_types", "output_dimension", "truncate", "max_tokens"}
JINA = {"model", "input", "task", "dimensions", "normalized", "embedding_type", "late_chunking", "truncate"}
SERVICES = {
    "OpenAI": Service(),
    "Azure": Service("/openai/v1/embeddings"),
    "Cohere": Service("/v2/embed", COHERE, texts=96, sides=("input_type", "search_query", "search_document"),
                      sent={"truncate": "END"}),
    "Voyage AI": Service(fields=VOYAGE, texts=1_000, tokens=120_000, sides=("input_type", "query", "document"),
                         sent={"truncation": True, "encoding_format": "base64"}),
    "Gemini": Service("/v1beta/openai/embeddings", texts=100, form=_in_floats),
    "Mistral": Service(encodings=("float",), tokens=16_384),
    "Jina": Service(fields=JINA, texts=2_048, sides=("task", "retrieval.query", "retrieval.passage")),
    "vLLM": Service(fields=None),
    "TEI": Service(fields=None, texts=32),
    "Ollama": Service(fields=None, form=_in_floats),
    "Infinity": Service("/embeddings", texts=2_048),
}  # fmt: skip
"""The services of the rows, as their references and public reports of their answers have it (2026-11)."""


@pytest.mark.parametrize("provider", SERVICES)
def test_a_row_works_as_it_is_written(
    page: str, provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long and many texts, and queries, against a server in the form of the service."""
    given, variable = next(row[1:] for row in _PROVIDER.findall(page) if row[0] == provider)
    options = yaml.safe_load(given)
    documents = [f"{number} " + "abcd efg " * 220 for number in range(130)]
    with EndpointDouble(default=SERVICES[provider].answers) as double:
        default = EMBEDDERS[options["kind"]].model_validate(options).model_dump()["base_url"]
        options["base_url"] = double.url.removesuffix("/v1") + urlsplit(default).path
        if variable:
            monkeypatch.setenv(variable, "sk-a")
            options["api_key"] = f"${{{variable}}}"
        embedder = CachedEmbedder(EMBEDDERS[options["kind"]].model_validate(options), tmp_path)
        vectors, queries = embedder.embed_documents(documents), embedder.embed_queries(["abcd?"])
        assert {asked.headers.get("Authorization") for asked in double.asked} == {"Bearer sk-a" if variable else None}
    expected = vector_of(documents[-1]) / np.linalg.norm(vector_of(documents[-1]))
    assert (vectors.shape, queries.shape) == ((130, 16), (1, 16))
    np.testing.assert_allclose(vectors[-1], expected, atol=1e-6)


RERANKERS = {
    "cohere": Service("/v2/rerank", {"model", "query", "documents", "top_n", "max_tokens_per_doc"}, texts=1_000,
                      form=lambda answer: {**answer, "meta": {"billed_units": {"search_units": 1}}, "usage": None}),
    "voyage": Service("/v1/rerank", {"model", "query", "documents", "top_k", "truncation"}, texts=1_000,
                      form=lambda answer: {"data": answer["results"], "usage": answer["usage"]}),
    "tei": Service("/rerank", {"model", "query", "texts", "truncate", "raw_scores"}, texts=32,
                   form=lambda answer: [{"index": row["index"], "score": row["relevance_score"]}
                                        for row in answer["results"]]),
}  # fmt: skip


@pytest.mark.parametrize("name", RERANKERS)
def test_a_reranker_of_the_page_works_as_it_is_written(page: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"^## Rerankers and chat models\n\n```yaml\n(.*?)```", page, re.M | re.S)
    written = yaml.safe_load(block)["retrievers"][name]
    texts = [f"{number} soup {'is ' * number}" for number in range(written.get("candidates", 50))]
    pairs = TextPairs(["soup?"], texts, np.zeros(len(texts), dtype=np.int64), np.arange(len(texts)))
    with EndpointDouble(default=RERANKERS[name].answers) as double:
        variable = RerankEndpoint.model_validate(written["endpoint"]).key_variable
        base_url = double.url.removesuffix("/v1") + urlsplit(written["endpoint"]["base_url"]).path
        monkeypatch.setenv(variable or "NO_KEY", "sk-a")
        key = {"api_key": f"${{{variable}}}"} if variable else {}
        endpoint = RerankEndpoint.model_validate({**written["endpoint"], "base_url": base_url, **key})
        numbers = EndpointReranker(endpoint).scores(pairs, pairs.lengths(None), lambda _: None)
    assert numbers[:, 0].tolist() == pytest.approx([score_of("soup?", text) for text in texts], abs=1e-4)
    if name == "cohere":
        assert numbers[:, 2].sum() == pytest.approx(1), "a search is billed"


def test_a_row_in_the_config_of_init_needs_what_the_message_says(page: str, root: Path, tmp_path: Path) -> None:
    """``ragtrial init`` counts tokens, which no endpoint does here; the sizes in characters are about as long."""
    row = next(options for name, options, _ in _PROVIDER.findall(page) if name == "OpenAI")
    start = (root / "src" / "ragtrial" / "cli" / "start" / "experiment.yaml").read_text(encoding="utf-8")
    pasted = re.sub(r"^embedder: .*$", lambda _: f"embedder: {row}", start, flags=re.M)
    with pytest.raises(ConfigError) as error:
        load(pasted, tmp_path)
    (advice,) = {*re.findall(r"unit: characters \((size: \d+, overlap: \d+) is about as long\)", str(error.value))}
    advised = f"chunker: {{kind: recursive, unit: characters, {advice}}}"
    load(re.sub(r"^chunker: .*$", advised, pasted, flags=re.M), tmp_path)
