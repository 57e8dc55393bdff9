"""Retrievers of LangChain, LlamaIndex and Haystack, the real ones, are asked as they are and mean what they say."""

import os
from pathlib import Path

import pytest

from asked import Workplace, scores, show, workplace
from expectations import message_of, present
from ragtrial.errors import RetrieverError, RunError

pytestmark = pytest.mark.slow

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

TEXTS = {
    "rye.md": "Bake rye bread for an hour. Rye bread keeps for four days.",
    "soup.md": "Cook the leeks. Soup keeps for three days in the fridge.",
    "oven.md": "Clean the oven with baking soda.",
}

COMMON = f"""
import zlib

TEXTS = {TEXTS!r}


def embed(text):
    vector = [0.0] * 64
    for word in text.lower().split():
        vector[zlib.crc32(word.strip(".?").encode()) % 64] += 1.0
    return vector
"""

LANGCHAIN = (
    COMMON
    + """
from langchain_core.callbacks import CallbackManagerForRetrieverRun
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.retrievers import BaseRetriever
from langchain_core.vectorstores import InMemoryVectorStore
from langchain_text_splitters import RecursiveCharacterTextSplitter


class Words(Embeddings):
    def embed_documents(self, texts):
        return [embed(text) for text in texts]

    def embed_query(self, text):
        return embed(text)


def store(size=30):
    whole = [Document(page_content=text, metadata={"source": name}) for name, text in TEXTS.items()]
    splitter = RecursiveCharacterTextSplitter(chunk_size=size, chunk_overlap=0, separators=[". "], keep_separator="end",
                                              add_start_index=True)
    made = InMemoryVectorStore(Words())
    made.add_documents(splitter.split_documents(whole))
    return made


def vectors(**kwargs):
    return store(**kwargs).as_retriever(search_kwargs={"k": 1})


class Own(BaseRetriever):
    said: str = "rye.md"

    def _get_relevant_documents(self, query: str, *, run_manager: CallbackManagerForRetrieverRun):
        return [Document(page_content="Rye bread", id=self.said), Document(page_content="", id="soup.md")]


own = Own()
"""
)

LLAMA = (
    COMMON
    + """
from llama_index.core import Document, VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, TextNode


class Words(BaseEmbedding):
    def _get_text_embedding(self, text):
        return embed(text)

    def _get_query_embedding(self, query):
        return embed(query)

    async def _aget_query_embedding(self, query):
        return embed(query)


def vectors(k=2):
    documents = [Document(text=text, id_=name) for name, text in TEXTS.items()]
    splitter = SentenceSplitter(chunk_size=9, chunk_overlap=0, tokenizer=str.split)
    index = VectorStoreIndex.from_documents(documents, embed_model=Words(), transformations=[splitter])
    return index.as_retriever(similarity_top_k=k)


class Own(BaseRetriever):
    def _retrieve(self, query_bundle):
        node = TextNode(text="Soup keeps", id_="node-1", metadata={"file": "soup.md"})
        return [NodeWithScore(node=node, score=0.5), NodeWithScore(node=TextNode(text="", id_="rye.md"))]
"""
)

HAYSTACK = (
    COMMON
    + """
from haystack import Document, Pipeline, component
from haystack.components.preprocessors import DocumentSplitter
from haystack.components.retrievers.in_memory import InMemoryBM25Retriever, InMemoryEmbeddingRetriever
from haystack.document_stores.in_memory import InMemoryDocumentStore


@component
class Words:
    @component.output_types(embedding=list[float])
    def run(self, text: str):
        return {"embedding": embed(text)}


def store():
    made = InMemoryDocumentStore()
    made.write_documents([Document(id=name, content=text, embedding=embed(text)) for name, text in TEXTS.items()])
    return made


def bm25():
    return InMemoryBM25Retriever(store(), top_k=1)


def chunks():
    splitter = DocumentSplitter(split_by="period", split_length=1)
    made = InMemoryDocumentStore()
    made.write_documents(splitter.run([Document(id=name, content=text) for name, text in TEXTS.items()])["documents"])
    return InMemoryBM25Retriever(made)


def dense():
    return InMemoryEmbeddingRetriever(store())


def pipeline(wanted=True):
    made = Pipeline()
    made.add_component("words", Words())
    made.add_component("nearest", InMemoryEmbeddingRetriever(store(), top_k=2))
    if wanted:
        made.connect("words.embedding", "nearest.query_embedding")
    return made


def two():
    made = Pipeline()
    made.add_component("one", bm25())
    made.add_component("other", bm25())
    return made
"""
)


@pytest.fixture
def place(tmp_path: Path) -> Workplace:
    made = workplace(tmp_path, TEXTS)
    for name, code in (("lang", LANGCHAIN), ("llama", LLAMA), ("hay", HAYSTACK)):
        made.write(code, name)
    return made


RYE, FRIDGE = "How long does rye bread keep?", "soup in the fridge"


def test_stores_and_retrievers_of_langchain_are_asked_and_placed(place: Workplace) -> None:
    found = place.search(RYE, FRIDGE, depth=2, name="lang:vectors", document="source", options={"size": 30})
    assert show(found) == [["rye.md[28:58]", "rye.md[0:27]"], ["soup.md[16:56]", "oven.md"]]
    assert scores(found) == [[None, None]] * 2
    assert found.facts["unlocated"] == 0
    assert show(place.search("x", name="lang:own")) == [["rye.md[28:37]", "soup.md"]]
    assert show(place.search("x", name="lang:Own", options={"said": "oven.md"})) == [["oven.md", "soup.md"]]


def test_a_langchain_document_without_an_id_says_what_its_metadata_has(place: Workplace) -> None:
    code = "from langchain_core.documents import Document\n"
    code += "def search(queries, top_k):\n    return [[Document(page_content='x', metadata={'source': 'rye.md'})]]\n"
    place.write(code)
    assert message_of(RetrieverError, place.search, "x") == (
        "my_search:search, query 'x': hit 1 is a Document with no id; it has ['source']: name the key that holds the "
        "document's id with `document:`."
    )
    assert message_of(RetrieverError, place.search, "x", document="file") == (
        "my_search:search, query 'x': hit 1 is a Document with no 'file' in its metadata; it has ['source']: name the "
        "key that holds the document's id with `document:`."
    )


def test_of_a_text_that_stands_in_several_places_the_one_is_meant_that_the_library_names(tmp_path: Path) -> None:
    place = workplace(tmp_path, {"c": "Bake rolls. Slice leeks. Bake rolls. Slice leeks."})
    place.write(
        "from langchain_core.documents import Document\n"
        "def search(queries, top_k):\n"
        "    return [[Document(' Bake rolls.', id='c', metadata={'start_index': at}) for at in (24, 2, -7, None)]]\n"
    )
    assert show(place.search("x")) == [["c[25:36]", "c[0:11]"]]


def test_an_index_of_llama_index_finds_places_in_the_documents_it_was_made_of(place: Workplace) -> None:
    found = place.search(RYE, FRIDGE, name="llama:vectors")
    assert show(found) == [["rye.md[28:58]", "rye.md[0:27]"], ["soup.md[16:56]", "oven.md"]]
    assert all(score is not None for row in scores(found) for score in row)


def test_a_retriever_of_llama_index_keeps_its_own_number_and_serves_every_depth(place: Workplace) -> None:
    assert show(place.search(RYE, depth=1, name="llama:vectors", options={"k": 1})) == [["rye.md[28:58]"]]
    place.write("raise RuntimeError", "llama_unused")
    (journal,) = place.journals()
    before = journal.read_bytes()
    assert show(place.search(RYE, depth=9, name="llama:vectors", options={"k": 1})) == [["rye.md[28:58]"]]
    assert journal.read_bytes() == before


def test_a_node_of_llama_index_is_of_the_document_in_its_metadata_or_itself(place: Workplace) -> None:
    assert message_of(RetrieverError, place.search, "x", name="llama:Own") == (
        "llama:Own, query 'x': 'node-1' is not the id of a document (3 documents). Its 'file' is one: 'soup.md'; set "
        "`document: file`."
    )


def test_parts_of_haystack_are_asked_for_top_k_or_a_text(place: Workplace) -> None:
    found = place.search("rye bread", "soup in the fridge", depth=2, name="hay:bm25")
    assert [row[0] for row in show(found)] == ["rye.md", "soup.md"]
    assert [len(row) for row in show(found)] == [1, 2]
    first, second = scores(found)[1]
    assert present(first) > present(second) > 0
    assert show(place.search("four days", depth=1, name="hay:chunks")) == [["rye.md[28:58]"]]
    assert show(place.search(FRIDGE, depth=2, name="hay:pipeline")) == [["soup.md", "oven.md"]]


@pytest.mark.parametrize(("name", "options", "fault"), [
    ("hay:pipeline", {"wanted": False},
     "hay:pipeline: nearest needs 'query_embedding', and only `query` or `text` can be given."),
    ("hay:dense", {},
     "hay:dense: its run() takes query_embedding, filters, top_k, scale_score, return_embedding, not `query`; "
     "put it into a Pipeline that is asked a text."),
    ("hay:two", {},
     "hay:two returned {'one': {'documents': []}, 'other': {'documents': []}} for query 'x'; it must return a "
     "list of documents."),
])  # fmt: skip
def test_what_takes_no_text_says_so(place: Workplace, name: str, options: dict[str, bool], fault: str) -> None:
    assert message_of(RunError, place.search, "x", name=name, options=options) == fault
