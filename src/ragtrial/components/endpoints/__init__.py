"""Models behind HTTP endpoints: embeddings, reranking and chat, asked with care and paid for once."""
