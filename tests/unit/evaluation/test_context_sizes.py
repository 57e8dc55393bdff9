"""The size of what was found: each chunk's tokens are counted once, whatever asks for them."""

from pathlib import Path

import numpy as np
import pytest

from corpora import library_of
from ragtrial.components.tokenizers import Tokenizer
from ragtrial.dataset.chunks import Chunks
from ragtrial.evaluation.context_sizes import TokenCounts
from ragtrial.rankings import PADDING

TEXT = "Bread is baked in a hot oven. Soup keeps for three days. Tea is drunk with milk. "


@pytest.fixture
def chunks(tmp_path: Path) -> Chunks:
    """Two thousand and some chunks: more than are tokenized together."""
    library = library_of(tmp_path, {"a.txt": TEXT * 30})
    return Chunks.of(library, [(0, start, start + 7 + start % 13) for start in range(2_300)])


def test_each_chunk_is_counted_once_as_the_tokenizer_counts_it(chunks: Chunks, minilm_folder: Path) -> None:
    tokenizer = Tokenizer(minilm_folder / "tokenizer.json")
    expected = tokenizer.counts([chunks.text(unit) for unit in range(len(chunks))]) - tokenizer.special_tokens
    drawn = np.random.default_rng(3)
    counts, seen = TokenCounts(chunks, tokenizer), set[int]()
    for rows in (1, 40, 300, 40):
        units = drawn.integers(PADDING, len(chunks), (rows, 10)).astype(np.int32)
        advanced: list[int] = []
        found = counts.of(units, advanced.append)
        assert found.tolist() == np.where(units == PADDING, 0, expected[units]).tolist()
        new = set(units.ravel().tolist()) - seen - {PADDING}
        assert sum(advanced) == len(new)
        seen |= new
    assert len(seen) > 1_000
    counts = TokenCounts(chunks, Tokenizer(minilm_folder / "tokenizer.json"))
    units = np.array([[4, 9, PADDING], [2, PADDING, PADDING]], dtype=np.int32)
    counts.keep(units, np.array([[40, 90, 0], [20, 0, 0]]))
    assert counts.missing(units).tolist() == []
    assert counts.of(units).tolist() == [[40, 90, 0], [20, 0, 0]]
    assert counts.missing(np.array([[9, 5]], dtype=np.int32)).tolist() == [5]
