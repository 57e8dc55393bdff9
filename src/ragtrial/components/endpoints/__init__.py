"""Models behind HTTP endpoints: embeddings, reranking and chat; every answer is paid for once."""
