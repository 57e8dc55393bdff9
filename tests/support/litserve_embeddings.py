"""Serves a model of sentence-transformers in OpenAI's form, with LitServe.

python tests/support/litserve_embeddings.py MODEL_FOLDER PORT
"""

import sys
from typing import Any

import litserve


class Embeddings(litserve.LitAPI):  # type: ignore[misc]  # the package ships no types
    def setup(self, device: str) -> None:
        from sentence_transformers import SentenceTransformer  # in the one process that works with it

        self.model = SentenceTransformer(sys.argv[1], device="cpu")

    def predict(self, texts: Any) -> Any:
        return self.model.encode(texts, show_progress_bar=False)


if __name__ == "__main__":
    api = Embeddings(spec=litserve.OpenAIEmbeddingSpec())
    server = litserve.LitServer(api, accelerator="cpu", timeout=300)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False)
