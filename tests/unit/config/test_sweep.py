"""A sweep is every combination of its axes' values: counted, ordered, drawn and laid over the config as it says."""

from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ragtrial.config.load import load_config
from ragtrial.config.settings import settings_of
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.config.sweep import Axis, BetweenAxis, SettingNames, combinations, identity_of
from ragtrial.config.variants import follow, kind_changes, with_values
from ragtrial.errors import ConfigError
from sweeps import BASE, FOLDER, LINES, MODEL, OVERLAP, SIZE, TOP_K, combined, read, sweep_of, values, written


def made(sweep: str) -> list[dict[str, Any]]:
    return [dict(one.values) for one in combined(read(written(sweep)))]


def test_the_last_axis_is_the_fastest_and_a_billion_are_refused() -> None:
    pairs = [(128, 10), (128, 60), (256, 10), (256, 60)]
    combinations_of_two = [{SIZE: size, TOP_K: top_k} for size, top_k in pairs]
    assert made("matrix: {chunker.size: [128, 256], retrievers.dense.top_k: [10, 60]}") == combinations_of_two
    assert made('matrix: {"chunker.size, chunker.overlap": [[128, 20], [256, 40]], retrievers.dense.top_k: [5]}') == [
        {SIZE: 128, OVERLAP: 20, TOP_K: 5},
        {SIZE: 256, OVERLAP: 40, TOP_K: 5},
    ]
    message = (
        "sweep has 1,000,000,000 combinations (1,000 x 1,000 x 1,000); at most 100,000 are built: take axes or "
        "values out, join keys that move together in one entry, or use a search."
    )
    huge = sweep_of(matrix={key: list(range(1000)) for key in (SIZE, OVERLAP, TOP_K)})
    assert combinations(huge) == ([], [(("sweep", "matrix"), message)])


def test_excluded_combinations_are_gone_and_included_ones_come_last_with_only_what_they_name() -> None:
    sweep = """
matrix: {chunker.size: [128, 256], retrievers.dense.top_k: [10, 60]}
include: [{chunker.size: 1024, retrievers.dense.top_k: 60}, {embedder.model: other}, {}]
exclude: [{chunker.size: 128, retrievers.dense.top_k: 10}, {retrievers.dense.top_k: 60, chunker.size: 256}]
"""
    assert made(sweep) == [{SIZE: 128, TOP_K: 60}, {SIZE: 256, TOP_K: 10}, {SIZE: 1024, TOP_K: 60}, {MODEL: "other"},
                           {}]  # fmt: skip


def test_values_are_laid_over_the_config_with_variables_unresolved() -> None:
    made = with_last("matrix: {chunker.size: [128], retrievers.dense.top_k: [3], store.kind: [exact]}")
    assert made.value["chunker"] == {"kind": "recursive", "size": 128, "overlap": 40}
    assert made.value["retrievers"]["dense"] == {"kind": "dense", "top_k": 3}
    assert made.value["retrievers"]["whole"] == {"kind": "dense", "chunker": {"kind": "document"}}
    assert made.value["store"] == {"kind": "exact"}
    assert "sweep" not in made.value
    assert "sweep" not in made.written
    assert made.written == made.value
    made = with_last('matrix: {embedder.model: ["${NAME}"], chunker.size: ["${SIZE:-7}"]}', NAME="secret")
    assert made.value["embedder"]["model"] == "secret"
    assert made.written["embedder"]["model"] == "${NAME}"
    assert made.written["chunker"]["size"] == "${SIZE:-7}"


KEYS = ["chunker.size", "chunker.overlap", "embedder.model", "store.space"]


@st.composite
def matrices(draw: st.DrawFn) -> dict[str, list[Any]]:
    keys = draw(st.lists(st.sampled_from(KEYS), min_size=1, unique=True))
    return {key: draw(st.lists(values, min_size=1, max_size=4, unique_by=identity_of)) for key in keys}


@given(matrices(), st.data())
def test_there_are_as_many_as_the_product_less_the_excluded(matrix: dict[str, list[Any]], data: st.DataObject) -> None:
    entry = {key: data.draw(st.sampled_from(matrix[key])) for key in data.draw(st.sets(st.sampled_from(list(matrix))))}
    more = [{"store.kind": name} for name in "abc"[: data.draw(st.integers(0, 3))]]
    sweep = sweep_of(matrix=matrix, include=more, exclude=[entry] if entry else [])
    dropped = prod(len(matrix[key]) for key in matrix if key not in entry) if entry else 0
    found, _ = combinations(sweep)
    assert len(found) == prod(map(len, matrix.values())) - dropped + len(more)
    assert len({one.identity for one in found}) == len(found)


def with_last(sweep: str, base: str = BASE, **environment: str) -> Any:
    content = written(sweep, base, **environment)
    return with_values(content, combined(read(content))[-1])


def place_of(content: Any, *path: str | int) -> str:
    fault = content.fault_at(path, "")
    return f"{fault.file}:{fault.line - LINES}:{fault.column}"


KINDS = {
    "sizes and units": ("chunker: {kind: recursive, size: 300, overlap: 0, unit: characters}",
                        "chunker.kind: [markdown]", "{kind: markdown, size: 300, overlap: 0, unit: characters}", ""),
    "a size without overlap": ("chunker: {kind: sentence, size: 100, overlap: 10}", "chunker.kind: [semantic]",
                               "{kind: semantic, size: 100}", "chunker.kind: semantic has no overlap;"),
    "no size at all": ("chunker: {kind: recursive, size: 300, unit: characters}", "chunker.kind: [document]",
                       "{kind: document}", "chunker.kind: document has no size, unit;"),
    "a function in place of a model": ("embedder: {kind: sentence-transformer, model: tiny, batch_size: 4}",
                                       '"embedder.kind, embedder.function": [[custom, "a:b"]]',
                                       "{kind: custom, function: 'a:b', batch_size: 4}",
                                       "embedder.kind: custom has no model;"),
    "a store": ("store: {kind: chroma, space: ip, hnsw: {ef_search: 50}}", "store.kind: [exact]",
                "{kind: exact, space: ip}", "store.kind: exact has no hnsw;"),
    "a retriever's own chunker": ("retrievers: {dense: {kind: dense, chunker: {kind: recursive, size: 70, keep: end}}}",
                                  "retrievers.dense.chunker.kind: [sentence]", "{kind: sentence, size: 70}",
                                  "retrievers.dense.chunker.kind: sentence has no keep;"),
    "a section in a section": ("store: {kind: milvus, index: {kind: hnsw, m: 9}}", "store.index.kind: [flat]",
                               "{kind: flat}", "store.index.kind: flat has no m;"),
}  # fmt: skip


def config_with(section: str) -> str:
    """A config whose only section that matters is ``section``."""
    more = "" if section.startswith("retrievers") else "retrievers: {dense: {kind: dense}}\n"
    return f"experiment: first\ndataset: {{corpus: c, queries: q}}\n{section}\n{more}sweep:\n"


@pytest.mark.parametrize(("section", "axes", "expected", "dropped"), KINDS.values(), ids=KINDS)
def test_a_swept_kind_keeps_what_kinds_share_and_says_so(section: str, axes: str, expected: str, dropped: str) -> None:
    content = written(f"matrix:\n  {axes.replace('], ', ']' + chr(10) + '  ')}", config_with(section))
    (combination,) = combined(read(content))
    path = next(key for key in combination.values if key.endswith(".kind")).split(".")[:-1]
    made = with_values(content, combination)
    assert (
        follow(made.value, tuple(path)) == follow(made.written, tuple(path)) == parse_yaml(expected, "", FOLDER).value
    )
    found = [one.warning().message for one in kind_changes(content.value, combination.values) if one.dropped]
    assert [one.partition("; ")[0] + ";" for one in found] == [dropped] * bool(dropped)


APART = {
    "a model": ("embedder: {kind: sentence-transformer, model: tiny}", "embedder.kind", "openai", "model"),
    "prefixes": ("embedder: {kind: custom, function: 'a:b', query_prefix: q}", "embedder.kind",
                 "sentence-transformer", "query_prefix"),
    "a version": ("embedder: {kind: custom, function: 'a:b', version: v}", "embedder.kind", "openai", "version"),
    "an index": ("store: {kind: milvus, index: {kind: flat}}", "store.kind", "pgvector", "index"),
    "inputs": ("retrievers: {dense: {kind: mmr, inputs: a}, a: {kind: bm25}}", "retrievers.dense.kind", "fusion",
               "inputs"),
    "a reranker": ("retrievers: {dense: {kind: rerank, inputs: a, model: tiny}, a: {kind: bm25}}",
                   "retrievers.dense.kind", "late_rerank", "model"),
}  # fmt: skip


@pytest.mark.parametrize(("section", "key", "kind", "unlike"), APART.values(), ids=APART)
def test_a_swept_kind_with_another_meaning_of_options_is_placed(section: str, key: str, kind: str, unlike: str) -> None:
    content = written(f"matrix: {{{key}: [{kind}]}}", config_with(section))
    with pytest.raises(ConfigError) as caught:
        with_values(content, *combined(read(content)))
    (fault,) = caught.value.faults
    assert (fault.file, fault.line) == ("config.yaml", config_with(section).count("\n") + 1)
    assert fault.message.startswith(f"{key}: ")
    assert f" {unlike} of kind: " in fault.message
    assert "whole sections" in fault.message


def test_an_override_of_a_kind_keeps_the_same_options_and_the_order_of_overrides_is_no_matter(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(BASE.removesuffix("sweep:\n"))
    for overrides in (["embedder.kind=openai", "embedder.model=m"], ["embedder.model=m", "embedder.kind=openai"]):
        config = load_config(tmp_path / "c.yaml", ["chunker.kind=semantic", "chunker.unit=characters", *overrides])
        assert config.as_written["chunker"] == {"kind": "semantic", "size": 200, "unit": "characters"}
        assert config.as_written["embedder"] == {"kind": "openai", "model": "m"}
        assert [one.code for one in config.warnings] == ["dropped-options"]
    with pytest.raises(ConfigError, match=r"set whole sections"):
        load_config(tmp_path / "c.yaml", ["embedder.kind=openai"])


def test_what_a_swept_kind_drops_is_said_once_however_many_settings_have_it(tmp_path: Path) -> None:
    sweep = "  matrix: {chunker.kind: [recursive, semantic, document], context.title: [true, false]}\n"
    (tmp_path / "c.yaml").write_text(
        BASE.replace("sentence-transformer, model: tiny", "custom, function: 'a:b'") + sweep
    )
    config = load_config(tmp_path / "c.yaml", ["chunker.unit=characters"])
    dropped = [one.message for one in settings_of(config)[1] if one.code == "dropped-options"]
    assert [one.partition(";")[0] for one in dropped] == [
        "chunker.kind: semantic has no overlap",
        "chunker.kind: document has no size, overlap, unit",
    ]


def test_each_value_stands_where_the_sweep_has_it() -> None:
    sweep = """
matrix:
  chunker.size: [128, 256]
  "store.kind, store.space": [[chroma, ip]]
  embedder:
    - kind: custom
      function: a:b
  retrievers.dense.top_k: [1, 2]
"""
    made = with_last(sweep)
    assert place_of(made, "chunker", "size") == "config.yaml:2:25"
    assert place_of(made, "chunker") == "config.yaml:2:25"
    assert place_of(made, "store", "space") == "config.yaml:3:42"
    assert place_of(made, "embedder") == "config.yaml:5:9"
    assert place_of(made, "embedder", "function") == "config.yaml:6:9"
    assert place_of(made, "retrievers", "dense", "top_k") == "config.yaml:7:33"
    assert place_of(made, "retrievers", "dense", "kind") == "config.yaml:-2:11"
    assert place_of(made, "retrievers") == "config.yaml:-3:1"


def test_the_example_and_the_axes_of_the_page_are_what_it_says(root: Path) -> None:
    block = (root / "docs" / "sweeps.md").read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    sweep = sweep_of(**parse_yaml(block, "sweeps.md", FOLDER).value["sweep"])
    naming = SettingNames.of(sweep)
    found = combined(sweep)
    assert list(dict.fromkeys(naming.name("dense", {SIZE: one.values[SIZE]}) for one in found)) == [
        "dense-size128", "dense-size256", "dense-size512", "dense-size1024",
    ]  # fmt: skip
    assert [naming.name("hybrid", one.values) for one in found] == [
        "hybrid-rank_constant60-size128", "hybrid-rank_constant10-size256", "hybrid-rank_constant60-size256",
        "hybrid-rank_constant10-size512", "hybrid-rank_constant60-size512", "hybrid-rank_constant60-size1024",
    ]  # fmt: skip
    lines = (root / "docs" / "sweeps.md").read_text(encoding="utf-8").splitlines()
    axes = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert len(axes) == 3
    assert sum(len(combined(read(written(f"matrix: {{{axis}}}")))) for axis in axes) == 6


@pytest.mark.parametrize(("between", "log", "share", "number"), [
    ([0.5, 2.0], False, 0.5, 1.25), ([1.0, 3.0], False, 1 / 3, 1.667), ([0.5, 0.6], False, 1 / 3, 0.5333),
    ([1, 4], False, 0.4, 2), ([1, 1000], True, 1 / 3, 10), ([0.01, 1.0], True, 0.5, 0.1), ([2, 50], True, 1, 50),
])  # fmt: skip
def test_a_share_of_an_axis_has_four_digits(between: list[float], log: bool, share: float, number: float) -> None:
    assert BetweenAxis(between=between, log=log).at(share) == number


@pytest.mark.parametrize(("values", "is_ordered"), [
    ([1, 2.5, 2.5], True), ([2, 1], False), ([1, 2, "auto"], False), ([False, True], False), (["a", "b"], False),
])  # fmt: skip
def test_an_axis_is_ordered_if_all_its_values_are_ascending_numbers(values: list[Any], *, is_ordered: bool) -> None:
    assert Axis(("chunker.size",), ("matrix",), values).is_ordered is is_ordered
