"""An embedder may be an object, as a retriever may: it is called by the methods of the library that it is of."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.custom import CustomEmbedder
from ragtrial.components.user_functions import FunctionReference
from ragtrial.errors import EmbedderError, ModelNotFoundError

QUERY, DOCUMENT = "[float(len(text)), 1.0]", "[float(len(text)), 2.0]"

OBJECTS = {
    "a function": (f"def named(texts): return [{DOCUMENT} for text in texts]", False),
    "encode": (
        f"class Model:\n def encode(self, texts): return [{DOCUMENT} for text in texts]\nnamed = Model()", False),
    "a class": (f"class named:\n def encode(self, texts): return [{DOCUMENT} for text in texts]", False),
    "LangChain": (
        f"class Model:\n def embed_documents(self, texts): return [{DOCUMENT} for text in texts]\n"
        f" def embed_query(self, text): return {QUERY}\nnamed = Model()", True),
    "LlamaIndex": (
        f"class Model:\n def get_text_embedding_batch(self, texts): return [{DOCUMENT} for text in texts]\n"
        f" def get_query_embedding(self, text): return {QUERY}\nnamed = Model()", True),
    "sentence-transformers": (
        f"class Model:\n def encode_document(self, texts): return [{DOCUMENT} for text in texts]\n"
        f" def encode_query(self, texts): return [{QUERY} for text in texts]\n"
        " def encode(self, texts): raise TypeError\nnamed = Model()", True),
}  # fmt: skip


def embedder_of(folder: Path, source: str) -> CustomEmbedder:
    (folder / "mine.py").write_text(source)
    return CustomEmbedder(function=FunctionReference("mine:named", folder), normalize=False, batch_size=2)


@pytest.mark.parametrize(("source", "has_sides"), OBJECTS.values(), ids=OBJECTS)
def test_queries_and_documents_have_the_object_s_own_methods(source: str, has_sides: bool, tmp_path: Path) -> None:
    cached = CachedEmbedder(embedder_of(tmp_path, source), tmp_path / "vectors")
    texts = ["a", "bb", "ccc"]
    assert cached.embed_documents(texts).tolist() == [[1.0, 2.0], [2.0, 2.0], [3.0, 2.0]]
    assert cached.embed_queries(texts).tolist() == [[len(text), 1.0 if has_sides else 2.0] for text in texts]
    assert cached.embed_now([cached.query_prefix + "bb"]).tolist() == [[2.0, 1.0 if has_sides else 2.0]]


def test_what_is_no_embedder_or_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelNotFoundError, match="has no function 'named'"):
        CachedEmbedder(embedder_of(tmp_path, "named = 3"), tmp_path)
    embedder = embedder_of(tmp_path, "class named:\n def __init__(self, key): pass\n def embed(self, texts): pass")
    with pytest.raises(EmbedderError, match="mine:named cannot be made: TypeError"):
        embedder.load()


MEETING = """
import threading
inside, met = threading.Barrier(2, timeout=0.2), []
def named(texts):
    try:
        met.append(inside.wait())
    except threading.BrokenBarrierError:
        pass
    return [[float(len(met)), 1.0] for _ in texts]
"""


def test_a_model_in_memory_embeds_one_batch_at_a_time(tmp_path: Path) -> None:
    cached = CachedEmbedder(embedder_of(tmp_path, MEETING), tmp_path / "vectors")
    with ThreadPoolExecutor(2) as threads:
        assert [rows.tolist() for rows in threads.map(cached.embed_now, [["a"], ["b"]])] == [[[0.0, 1.0]]] * 2
