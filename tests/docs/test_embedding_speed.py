"""The page on faster embedding: its options are options, and its table of combinations is what is refused and not."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import yaml

from ragtrial.components.embedders.backends import Backend, Precision
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder


def test_the_options_it_shows_are_valid(root: Path) -> None:
    page = (root / "docs" / "embedding-speed.md").read_text(encoding="utf-8")
    shown, sweep = (
        yaml.safe_load(block) for block in re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    )
    made = SentenceTransformerEmbedder.model_validate(shown["embedder"])
    assert made.model_dump(exclude_unset=True) == shown["embedder"]
    ((keys, pairs),) = sweep["sweep"]["matrix"].items()
    names = [key.removeprefix("embedder.") for key in keys.split(", ")]
    assert names == ["backend", "precision"]
    for backend, precision in pairs:
        assert SentenceTransformerEmbedder(backend=backend, precision=precision).backend == backend
    (comment,) = re.findall(r"backend: \w+ +# (.*)", page)
    assert comment.split(" | ") == list(typing.get_args(Backend))
    (comment,) = re.findall(r"precision: \w+ +# (.*)", page)
    assert comment.split(" | ") == list(typing.get_args(Precision))
