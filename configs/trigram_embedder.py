"""An embedder without a model: texts as counts of their letter trigrams, hashed into 512 places."""

import zlib

import numpy as np


def embed(texts: list[str]) -> np.ndarray:
    vectors = np.zeros((len(texts), 512), dtype=np.float32)
    for row, text in enumerate(texts):
        padded = f"  {text.lower()}  "
        for start in range(len(padded) - 2):
            vectors[row, zlib.crc32(padded[start : start + 3].encode()) % 512] += 1
    return np.log1p(vectors)
