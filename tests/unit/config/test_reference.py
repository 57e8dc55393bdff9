"""The reference of config keys: each key with its value, default and range, found by its path, its name or its kind."""

import pytest

from ragtrial.components.chunkers.base import CHUNKERS
from ragtrial.components.embedders import EMBEDDERS
from ragtrial.components.interfaces import RETRIEVERS
from ragtrial.components.refiners import REFINERS
from ragtrial.config.reference import config_names, config_sections, look_up
from ragtrial.engines import COLLECTIONS, STORES
from small_experiment import ragtrial

Capture = pytest.CaptureFixture[str]


def test_every_kind_has_a_section_and_every_name_is_found() -> None:
    families = (CHUNKERS, EMBEDDERS, STORES, COLLECTIONS, RETRIEVERS, REFINERS)
    kinds = {name for family in families for name in family.names()}
    assert {section.kind for section in config_sections()} - {""} >= kinds  # parts of stores have kinds, too
    assert [name for name in config_names() if not look_up(name)] == []
    assert [section.kind for section in look_up("retrievers.dense.score")] == [
        "bm25, custom, dense, late, run_file, sparse, expand, fusion, late_rerank, mmr, parent, rerank"
    ]


@pytest.mark.parametrize(
    ("name", "value", "default"),
    [
        ("chunker.size", "whole number, at least 1", "200"),
        ("chunker.separators", "list of: text", '["\\n\\n", "\\n", ". ", " ", ""]'),
        ("retrievers.dense.chunker.overlap", "whole number, at least 0", "40"),
        ("retrievers.words.b", "number, at least 0, at most 1", "0.75"),
        ("bm25.stop_words", "text or list of: text", "english"),
        ("evaluators.span_coverage", "number, above 0, at most 1", "0.5"),
        ("store.space", "`cosine` or `ip` or `l2`", "cosine"),
        ("store.hnsw.max_neighbors", "whole number, at least 2", "16"),
        ("experiment", "text", "required"),
        ("latency", "true or false", ""),
        ("chunker", "mapping", "{kind: recursive}"),
    ],
)
def test_a_key_has_the_value_and_the_default_of_the_model(name: str, value: str, default: str) -> None:
    last = name.rpartition(".")[2]
    sections = config_sections() if name == last else look_up(name)
    key = next(key for section in sections for key in section.keys if key.name == last)
    assert (key.value, key.default) == (value, default)


def test_explain_knows_keys_kinds_and_places_with_several(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    made = ragtrial(capsys, "explain", "embedder.query_prefix")
    assert (made.code, made.err) == (0, "")
    head = "embedder (kind sentence-transformer)\n"
    assert f"{head}  query_prefix: text\n      Text to put before every query (" in made.out
    assert max(len(line) for line in made.out.splitlines()) <= 70
    kind = ragtrial(capsys, "explain", "recursive").out
    assert all(f"  {key.name}: " in kind for key in look_up("recursive")[0].keys)
    assert "\n  match: id or content; default id\n" in ragtrial(capsys, "explain", "dataset").out
    shown = ragtrial(capsys, "explain", "store").out
    assert [line for line in shown.splitlines() if not line.startswith(" ")] == [
        *(f"store (kind {kind})" for kind in STORES.names()),
        "The keys of a kind: ragtrial explain chroma",
    ]
