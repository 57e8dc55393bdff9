"""Write the files of tests/support/traces: spans of real retrievers, by usual instrumentations and exporters.

Run ``python make_traces.py NAME...`` in an environment of its own, which has langchain, llama-index-core, their
instrumentations (openinference-instrumentation-*, opentelemetry-instrumentation-genai-*), and
opentelemetry-exporter-otlp-json-file. Each name is one process, because an instrumentation stays.

``python make_traces.py URL`` sends the spans of LangChain to a server of Phoenix instead, and exports them from it; it
needs arize-phoenix-client and arize-phoenix-otel.

Each retriever is asked q1, then all questions in order, then q2 again, since its first call fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from time import sleep
from urllib.request import urlopen
from uuid import NAMESPACE_URL, uuid5

from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.runnables import RunnableLambda
from llama_index.core.retrievers import BaseRetriever as LlamaRetriever
from llama_index.core.schema import NodeRelationship, NodeWithScore, QueryBundle, RelatedNodeInfo, TextNode
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor, SpanExporter

SUPPORT = Path(__file__).parents[1] / "tests" / "support"
sys.path.insert(0, str(SUPPORT))

from traced_search import QUESTIONS, paragraphs  # noqa: E402

FOLDER = SUPPORT / "traces"
ASKED = [QUESTIONS["q1"], *QUESTIONS.values(), QUESTIONS["q2"]]
asked: list[str] = []


def found(query: str) -> list[tuple[str, int, str, float]]:
    asked.append(query)
    if query == QUESTIONS["q2"] and asked.count(query) == 1:
        raise ConnectionError("the server is gone")
    return paragraphs(query, 4)


class ShopRetriever(BaseRetriever):
    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun) -> list[Document]:
        return [
            Document(text, id=name, metadata={"score": score, "source": f"/srv/docs/{name}"})
            for name, _, text, score in found(query)
        ]


class ParagraphRetriever(LlamaRetriever):
    """Nodes with ids of their own, as a splitter makes them."""

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return [
            NodeWithScore(node=self.node(name, number, text), score=score)
            for name, number, text, score in found(query_bundle.query_str)
        ]

    def node(self, name: str, number: int, text: str) -> TextNode:
        source = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=name)}
        return TextNode(id_=str(uuid5(NAMESPACE_URL, f"{name}#{number}")), text=text, relationships=source)


class DocumentRetriever(ParagraphRetriever):
    """Nodes that are named as their document."""

    def node(self, name: str, number: int, text: str) -> TextNode:
        return TextNode(id_=name, text=text)


CALLS: dict[str, tuple[str, Callable[[str], object]]] = {
    "langchain-genai.jsonl": (
        "opentelemetry.instrumentation.genai.langchain:LangChainInstrumentor",
        (RunnableLambda(lambda query: query) | ShopRetriever()).invoke,
    ),
    "langchain-openinference.json": (
        "openinference.instrumentation.langchain:LangChainInstrumentor",
        (RunnableLambda(lambda query: query) | ShopRetriever()).invoke,
    ),
    "llamaindex-genai.json": (
        "opentelemetry.instrumentation.genai.llama_index:LlamaIndexInstrumentor",
        DocumentRetriever().retrieve,
    ),
    "llamaindex-openinference.jsonl": (
        "openinference.instrumentation.llama_index:LlamaIndexInstrumentor",
        ParagraphRetriever().retrieve,
    ),
}
"""The file, whose ending says the exporter; the instrumentation; the retriever."""


def main(name: str) -> None:
    path, (instrumentor, call) = FOLDER / name, CALLS[name]
    path.unlink(missing_ok=True)
    exporter: SpanExporter = (
        ConsoleSpanExporter(out=path.open("w"))
        if path.suffix == ".json"
        else import_module("opentelemetry.exporter.otlp.json.file").FileSpanExporter(str(path))
    )
    provider = TracerProvider(resource=Resource({"service.name": "shop"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    os.environ["OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"] = "SPAN_ONLY"
    trace(provider, instrumentor, call)
    path.write_text(anywhere(path.read_text()))


def trace(provider: TracerProvider, instrumentor: str, call: Callable[[str], object]) -> None:
    module, _, attribute = instrumentor.partition(":")
    getattr(import_module(module), attribute)().instrument(tracer_provider=provider)
    for query in ASKED:
        with suppress(ConnectionError):
            call(query)
    provider.shutdown()


def anywhere(text: str) -> str:
    """The text without the folders of this machine, which are in the trace of the failed call."""
    for folder in (sys.prefix, str(Path(__file__).parents[1])):
        text = text.replace(folder, "/srv/app")
    return text


def by_phoenix(url: str) -> None:
    provider = import_module("phoenix.otel").register(endpoint=f"{url}/v1/traces", project_name="shop")
    trace(provider, *CALLS["langchain-openinference.json"])
    sleep(10)  # the server reads spans after it has answered
    for form, name in (("spans", "phoenix-rest.json"), ("spans/otlpv1", "phoenix-otlp.json")):
        with urlopen(f"{url}/v1/projects/shop/{form}?limit=100") as answer:
            (FOLDER / name).write_text(anywhere(answer.read().decode()))
    client = import_module("phoenix.client").Client(base_url=url)
    frame = client.spans.get_spans_dataframe(project_identifier="shop")
    frame.drop(columns=["events", "status_message"]).to_parquet(FOLDER / "phoenix.parquet")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        (by_phoenix if name.startswith("http") else main)(name)
