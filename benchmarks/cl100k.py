"""The tokenizer of OpenAI's embedding models as a tokenizer.json, for `tokenizer:` in a config.

    python benchmarks/cl100k.py cl100k_base.tiktoken cl100k.json

The vocabulary is the file that tiktoken fetches and keeps (in the folder TIKTOKEN_CACHE_DIR, under a name of hex
digits); some packages carry it, llama-index-core in its _static/tiktoken_cache. Ids and lengths are tiktoken's.
"""

from __future__ import annotations

import base64
import sys
from pathlib import Path

from transformers.convert_slow_tokenizer import TikTokenConverter


class Cl100k(TikTokenConverter):  # type: ignore[misc]  # a class of an untyped library
    """With the vocabulary read from a file: the base asks tiktoken to, which would have to be installed."""

    @staticmethod
    def load_tiktoken_bpe(tiktoken_url: str) -> dict[bytes, int]:
        lines = (line.split() for line in Path(tiktoken_url).read_bytes().splitlines())
        return {base64.b64decode(token): int(rank) for token, rank in lines}


if __name__ == "__main__":
    vocabulary, made = sys.argv[1:]
    Cl100k(vocab_file=vocabulary).converted().save(made)
