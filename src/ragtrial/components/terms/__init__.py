"""Texts as words to look up, and the index of which chunk has which word, weighed by BM25."""
