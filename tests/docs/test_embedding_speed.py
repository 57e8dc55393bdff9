"""The page on faster embedding: its options are options, and its table of combinations is what is refused and not."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import yaml

from ragtrial.components.embedders.backends import Backend, Precision, refusal
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
    assert [refusal(backend, precision, None) for backend, precision in pairs] == [None] * 3
    (comment,) = re.findall(r"backend: \w+ +# (.*)", page)
    assert comment.split(" | ") == list(typing.get_args(Backend))
    (comment,) = re.findall(r"precision: \w+ +# (.*)", page)
    assert comment.split(" | ") == list(typing.get_args(Precision))


def test_its_table_of_combinations_says_what_is_refused(root: Path) -> None:
    page = (root / "docs" / "embedding-speed.md").read_text(encoding="utf-8")
    for backend in typing.get_args(Backend):
        (row,) = re.findall(rf"^\| `{backend}` \| (.*) \|$", page, re.MULTILINE)
        for precision, cell in zip(
            typing.get_args(Precision), row.split(" | "), strict=False
        ):  # the last cell is what it needs
            assert (refusal(backend, precision, None) is None) == cell.startswith("yes"), (backend, precision)
