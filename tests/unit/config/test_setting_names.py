"""Settings of a sweep have names that tell what differs, fit for files, no two alike."""

import re
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragtrial.config.sweep import LONGEST_NAME, SettingNames, identity_of
from sweeps import MODEL, SIZE, TOP_K, combined, sweep_of, values

RANK = "retrievers.hybrid.rank_constant"


def names(matrix: dict[str, list[Any]]) -> list[str]:
    """The names of dense in every combination, all of whose values reach it."""
    sweep = sweep_of(matrix=matrix)
    naming = SettingNames.of(sweep)
    return [naming.name("dense", one.values) for one in combined(sweep)]


def test_names_are_cut_with_a_hash_and_told_apart_by_what_it_takes() -> None:
    sweep = sweep_of(matrix={SIZE: [128, 256], RANK: [10, 60]})
    naming = SettingNames.of(sweep)
    assert naming.name("dense", {SIZE: 128}) == "dense-size128"
    assert naming.name("hybrid", {SIZE: 128, RANK: 60}) == "hybrid-rank_constant60-size128"
    assert naming.name("bm25", {}) == "bm25"
    first, second = names({MODEL: ["x" * 150 + "1", "x" * 150 + "2"]})
    assert len(first) == len(second) == LONGEST_NAME
    assert first != second
    assert re.fullmatch(r"dense-x{85}-[0-9a-f]{8}", first)
    assert names({MODEL: ["x" * 94]}) == ["dense-" + "x" * 94]
    assert names({MODEL: ["x" * 150 + "1", "x" * 150 + "2"]}) == [first, second]
    matrix = {
        "chunker.size": [1], "retrievers.dense.top_k": [2], "retrievers.bm25.top_k": [3],
        "retrievers.bm25.chunker.size": [4], "retrievers.mix.rerank.top_k": [5],
    }  # fmt: skip
    sweep = sweep_of(matrix=matrix)
    (one,) = combined(sweep)
    naming = SettingNames.of(sweep)
    assert naming.name("mix", one.values) == "mix-top_k5-chunker.size1-dense.top_k2-bm25.top_k3-bm25.chunker.size4"
    assert naming.name("dense", {TOP_K: 2, SIZE: 1}) == "dense-top_k2-chunker.size1"
    assert naming.name("bm25", {"retrievers.bm25.chunker.size": 4}) == "bm25-retrievers.bm25.chunker.size4"


@pytest.mark.parametrize(("key", "given", "shown"), [
    (SIZE, [128, 256], ["size128", "size256"]),
    ("retrievers.dense.k1", [0.9, 1.2, -1], ["k1_0.9", "k1_1.2", "k1-1"]),
    ("retrievers.dense.x", [1e-05, 1e22], ["x1e-05", "x1e22"]),
    ("context.title", [True, False], ["title-true", "title-false"]),
    ("context.prefixes", [None, "a/b.jsonl"], ["prefixes-none", "prefixes-b.jsonl"]),
    ("retrievers.dense.weights", [[1, 1], [2, 1], []], ["weights-1-1", "weights-2-1", "weights-empty"]),
    ("retrievers.dense.where", [{"n": {"$gt": 0}}, {"a": "b"}], ["where-n-gt0", "where-a-b"]),
    ("store.space", ["ip", "cosine"], ["space-ip", "space-cosine"]),
    ("embedder.query_prefix", ["query: ", "", "?"], ["query_prefix-query", None, None]),
    (MODEL, ["sentence-transformers/all-MiniLM-L6-v2", "./models/bge/"], ["all-MiniLM-L6-v2", "bge"]),
    (MODEL, ["a/base", "b/base"], ["a-base", "b-base"]),
    ("chunker.kind", ["fixed", "recursive"], ["fixed", "recursive"]),
    ("embedder.function", ["pkg.mod:embed", "pkg.mod:other"], ["pkg.mod-embed", "pkg.mod-other"]),
])  # fmt: skip
def test_values_are_shown_short_and_fit_for_files(key: str, given: list[Any], shown: list[str | None]) -> None:
    found = names({key: given})
    for name, expected in zip(found, shown, strict=True):
        assert expected is None or name.removeprefix("dense-").startswith(expected)
    if None not in shown:
        assert found == [f"dense-{one}" for one in shown]


def test_a_mapping_is_its_kind_and_what_differs_from_others_of_its_kind() -> None:
    chunkers = [
        {"kind": "recursive", "size": 200, "unit": "tokens"},
        {"kind": "recursive", "size": 400, "unit": "tokens"},
        {"kind": "recursive", "size": 400, "unit": "tokens", "tokenizer": "words"},
        {"kind": "document"},
        {"kind": "custom", "function": "a:b"},
        {"kind": "custom", "function": "a:c"},
    ]
    assert names({"chunker": chunkers}) == [
        "dense-recursive-size200",
        "dense-recursive-size400",
        "dense-recursive-size400-tokenizer-words",
        "dense-document",
        "dense-custom-a-b",
        "dense-custom-a-c",
    ]
    assert names({"context": [{"title": True}, {"title": False, "sentences": 1}]}) == [
        "dense-context-title-true",
        "dense-context-title-false-sentences1",
    ]


KEYS = ["chunker.size", "chunker.unit", "embedder.model", "retrievers.dense.size", "retrievers.other.size", "chunker"]


@given(st.sampled_from(KEYS), st.lists(values, min_size=2, max_size=6, unique_by=identity_of))
def test_other_values_have_other_names_whatever_they_are(key: str, given: list[Any]) -> None:
    found = names({key: given})
    assert len({name.casefold() for name in found}) == len(given)
    assert all(re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", name) for name in found)


@given(st.lists(st.sampled_from(KEYS[:-1]), min_size=1, unique=True), st.data())
def test_other_numbers_along_any_axes_have_other_names(keys: list[str], data: st.DataObject) -> None:
    numbers = st.lists(st.integers(0, 10**6), min_size=1, max_size=3, unique=True)
    found = names({key: data.draw(numbers) for key in keys})
    assert len(set(found)) == len(found)
