"""What is wrong with a sweep is told at once, each fault with its line, its column and the way out.

Lines count from the one below ``sweep:``.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import Field

from ragtrial.components.contextual_text import ContextOptions
from ragtrial.config.axes import AxisKeys, axis_faults
from ragtrial.config.combinations import combinations
from ragtrial.config.models import ExperimentConfig
from ragtrial.options import Options
from sweeps import BASE, faults_of, read, sweep_of, written

SHAPES = "an axis is a list of values, {range: [start, stop, step]}, or {share: 0.2, of: chunker.size}"
SIZE_200 = {"chunker.size": 200}
SECTIONS = "An axis reaches into chunker, context, embedder, store or retrievers."


def test_a_sweep_that_is_right_has_no_faults() -> None:
    sweep = """
matrix:
  chunker.size: [128, 256]
  chunker.overlap: {share: [0, 0.2], of: chunker.size}
  retrievers.dense.top_k: {range: [10, 60, 50]}
  "store.kind, store.space": [[chroma, cosine], [exact, ip]]
  embedder: [{model: other}, {kind: custom, function: "a:b"}]
  retrievers.whole.chunker: [{kind: document}, null]
  context.title: [true, false]
include: [{}, {chunker: {kind: document}}, {chunker.size: 1024, retrievers.dense: {kind: dense, top_k: 5}}]
exclude: [{chunker.size: 128, chunker.overlap: 26}, {retrievers.dense.top_k: 60, store.space: ip}]
name: "{retriever}_{chunker.size}.{store.kind}-x"
sample: 7
max_settings: 10
"""
    assert faults_of(sweep) == []


# The shape.


@pytest.mark.parametrize(
    ("axis", "column", "message"),
    [
        ("5", 12, f": {SHAPES}; found 5."),
        ("", 12, f": {SHAPES}; found empty."),
        ("{size: [1, 2]}", 12, f": {SHAPES}; found a mapping of size."),
        ("{range: [1, 2, 1], of: a}", 12, f": {SHAPES}; found a mapping of range, of."),
        ("[]", 12, " has 0 entries; it must have at least 1."),
        ("{range: [1, 2]}", 27, ".range: must have three numbers, start, stop (inclusive) and step; found 2."),
        ("{range: [1, 2, 0]}", 27, ".range: the step is 0; it must lead from start to stop."),
        ("{range: [3, 1, 0.5]}", 27, ".range: is empty: a step of 0.5 does not lead from 3 to 1."),
        ("{range: [1, 3, -1]}", 27, ".range: is empty: a step of -1 does not lead from 1 to 3."),
        ("{range: [1, a, 1]}", 38, ".range[1] is 'a'; it must be a number."),
        ("{share: half, of: a}", 27, ".share is 'half'; it must be a number."),
        ("{share: [0.1, -1], of: a}", 40, ".share[1] is -1; it must be at least 0.0."),
        ("{share: 0.1}", 12, ".of is missing; it must be given."),
        ("{of: a}", 12, ".share is missing; it must be given."),
        ("{share: [], of: a}", 27, ".share has 0 entries; it must have at least 1."),
    ],
)  # fmt: skip
def test_an_axis_of_another_shape_is_refused(axis: str, column: int, message: str) -> None:
    assert faults_of(f"matrix: {{chunker.size: {axis}}}") == [f"1:{column}: sweep.matrix.chunker.size{message}"]


def test_faults_of_the_shape_are_told_at_once() -> None:
    sweep = """
matrx: {}
include: 5
exclude: [{}]
name: {retriever}
sample: 0
max_settings: many
"""
    assert faults_of(sweep) == [
        "1:3: unknown key 'matrx' in sweep. Did you mean 'matrix'? "
        "Allowed here: matrix, include, exclude, name, sample, max_settings.",
        "2:3: sweep.include is 5; it must be a list.",
        "3:13: sweep.exclude[0] has 0 entries; it must have at least 1.",
        "4:3: sweep.name is a mapping; it must be a text (put it in quotes).",
        "5:3: sweep.sample is 0; it must be at least 1.",
        "6:3: sweep.max_settings is 'many'; it must be a whole number.",
    ]


def test_a_sweep_of_nothing_is_refused() -> None:
    message = "sweep: names no axis; give it a matrix, like {chunker.size: [128, 256]}, or include."
    assert faults_of("sample: 3") == [f"0:1: {message}"]


# Keys.


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (
            "chunker.sise",
            " names no option: there is no 'sise' in chunker, which is of kind recursive. Did you mean 'size'? "
            "Known: kind, unit, tokenizer, measure, size, overlap, separators, keep, preset.",
        ),
        ("chunkr.size", f" names no option: there is no 'chunkr' in a config. Did you mean 'chunker'? {SECTIONS}"),
        ("size", f" names no option: there is no 'size' in a config. {SECTIONS}"),
        ("context.titel", " names no option: there is no 'titel' in context. Did you mean 'title'? "
                          "Known: title, headings, sentences, prefixes."),
        ("chunker.size.x", " names no option: chunker.size has no keys; an axis ends there."),
        ("chunker.separators.0", " names no option: chunker.separators has no keys; an axis takes it whole."),
        ("chunker..size", " has a part that is empty; keys are written like chunker.size."),
        ("retrievers", " names all retrievers; name one and an option of it, like retrievers.dense.top_k."),
        (
            "retrievers.dnse.top_k",
            " names a retriever that is not there: 'dnse'. Did you mean 'dense'? Known: dense, whole.",
        ),
        (
            "retrievers.whole.chunker.size",
            " names no option: there is no 'size' in retrievers.whole.chunker, which is of kind document. Known: kind.",
        ),
        (
            "retrievers.dense.chunker.size",
            " reaches into retrievers.dense.chunker, which is not in the config, so that its kind is not known; write "
            "it there, like `chunker: {kind: recursive}`, or vary chunker.size, which reaches all.",
        ),
        (
            "store.space",
            " reaches into store, which is not in the config, so that its kind is not known; write it there, like "
            "`store: {kind: chroma}`.",
        ),
        *(
            (key, f" is no part of a setting, and cannot be varied. {SECTIONS}")
            for key in ("experiment", "dataset.corpus", "evaluators.unit", "output.directory", "workspace", "latency",
                        "seed")
        ),
    ],
)  # fmt: skip
def test_a_key_that_is_no_option_of_a_setting_is_refused(key: str, message: str) -> None:
    assert faults_of(f"matrix: {{{key}: [1]}}") == [f"1:12: sweep.matrix.{key}{message}"]
    assert faults_of(f"include: [{{{key}: 1}}]") == [f"1:14: sweep.include[0].{key}{message}"]


def test_every_key_of_those_that_move_together_is_looked_at() -> None:
    assert faults_of('matrix: {"chunker.size, seed": [[1, 2]]}') == [
        f"1:12: sweep.matrix.chunker.size, seed is no part of a setting, and cannot be varied. {SECTIONS}"
    ]


def test_under_a_swept_kind_the_options_of_all_kinds_are_known() -> None:
    assert (
        faults_of("matrix: {store.kind: [exact, chroma], store.space: [ip], chunker.kind: [fixed], chunker.size: [3]}")
        == []
    )
    assert faults_of("matrix: {store.kind: [exact, chroma], store.spce: [ip]}") == [
        "1:41: sweep.matrix.store.spce names no option: there is no 'spce' in store. Did you mean 'space'? "
        "Known: kind, space, hnsw."
    ]


def test_options_below_options_are_known() -> None:
    base = BASE.replace("retrievers:", "store: {kind: chroma}\nretrievers:")
    assert faults_of("matrix: {store.hnsw.ef_search: [10, 20]}", base) == []
    assert faults_of("matrix: {store.hnsw.ef: [10]}", base) == [
        "1:12: sweep.matrix.store.hnsw.ef names no option: there is no 'ef' in store.hnsw. "
        "Known: ef_construction, max_neighbors, ef_search."
    ]


class Filtered(Options):
    """A section with names of the user's own, and with values of any shape below them."""

    where: dict[str, Any] | None = None
    fields: dict[str, ContextOptions] = Field(default={})


class WithFilters(Options):
    store: Filtered


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        ("store.where.year", None),
        ("store.where.year.least", None),
        ("store.fields.body.title", None),
        ("store.fields.body.titel", "names no option: there is no 'titel' in store.fields.body. Did you mean 'title'? "
                                    "Known: title, headings, sentences, prefixes."),
        ("store.field", "names no option: there is no 'field' in store. Did you mean 'fields'? Known: where, fields."),
    ],
)  # fmt: skip
def test_names_of_the_users_own_are_keys_and_options_below_them_are_known(key: str, refusal: str | None) -> None:
    assert AxisKeys(WithFilters.model_json_schema(), {}, [key]).refusal(key) == refusal


def test_keys_that_overlap_in_one_combination_are_refused() -> None:
    sweep = """
matrix:
  chunker.size: [1]
  chunker: [{kind: document}]
  "chunker.size, embedder.model": [[1, a]]
include: [{embedder: {model: a}, embedder.model: ip}, {chunker: {kind: document}}]
"""
    into = "which is given whole in the same combination; write size into the values of chunker."
    assert faults_of(sweep) == [
        f"2:5: sweep.matrix.chunker.size reaches into chunker, {into}",
        "4:5: sweep.matrix.chunker.size, embedder.model names chunker.size twice; a key can be in one axis only.",
        f"4:5: sweep.matrix.chunker.size, embedder.model reaches into chunker, {into}",
        "5:36: sweep.include[0].embedder.model reaches into embedder, which is given whole in the same combination; "
        "write model into the values of embedder.",
    ]


def test_a_key_that_only_begins_like_another_does_not_overlap_with_it() -> None:
    base = BASE.replace("retrievers:", "retrievers:\n  den: {kind: dense}")
    assert faults_of("matrix: {retrievers.den: [{kind: dense, top_k: 3}], retrievers.dense.top_k: [1, 2]}", base) == []


# Values.


def test_a_value_that_stands_twice_is_refused() -> None:
    sweep = """
matrix:
  chunker: [{kind: document}, {kind: recursive, size: 5}, {size: 5, kind: recursive}]
  retrievers.dense.top_k: [128, 256, 128.0, 128]
  "embedder.model, embedder.revision": [[a, b], [b, a], [a, b]]
  context.title: [1, true]
  retrievers.whole.top_k: {share: [1, 2, 1.0], of: retrievers.dense.top_k}
"""
    found = faults_of(sweep)
    assert found[:4] == [
        "2:61: sweep.matrix.chunker[2] is {size: 5, kind: 'recursive'}, as sweep.matrix.chunker[1] is; "
        "take one of them out.",
        "3:40: sweep.matrix.retrievers.dense.top_k[2] is 128.0, as sweep.matrix.retrievers.dense.top_k[0] is; "
        "take one of them out.",
        "3:47: sweep.matrix.retrievers.dense.top_k[3] is 128, as sweep.matrix.retrievers.dense.top_k[0] is; "
        "take one of them out.",
        "4:59: sweep.matrix.embedder.model, embedder.revision[2] is ['a', 'b'], as "
        "sweep.matrix.embedder.model, embedder.revision[0] is; take one of them out.",
    ]
    assert found[4].startswith("6:44: sweep.matrix.retrievers.whole.top_k.share[2] is 1.0, as ")


def test_rows_of_keys_that_move_together_are_as_long_as_they_are() -> None:
    assert faults_of('matrix: {"chunker.size, chunker.overlap": [[1, 2], [3], 4, [5, 6, 7]]}') == [
        "1:54: sweep.matrix.chunker.size, chunker.overlap[1] is a list of 1; "
        "it must be a list of 2 values: [chunker.size, chunker.overlap].",
        "1:59: sweep.matrix.chunker.size, chunker.overlap[2] is 4; "
        "it must be a list of 2 values: [chunker.size, chunker.overlap].",
        "1:62: sweep.matrix.chunker.size, chunker.overlap[3] is a list of 3; "
        "it must be a list of 2 values: [chunker.size, chunker.overlap].",
    ]
    assert faults_of('matrix: {"chunker.size, chunker.overlap": {range: [1, 2, 1]}}') == [
        "1:12: sweep.matrix.chunker.size, chunker.overlap must be a list of lists, "
        "each like [chunker.size, chunker.overlap]."
    ]


@pytest.mark.parametrize(
    ("of", "more", "place", "message"),
    [
        ("chunker.sise", "", "1:42", ".of is chunker.sise, which is no axis, and the config has no such key; "
                                     "a share is of a whole number."),
        ("embedder.model", "", "1:42", ".of is embedder.model, which is no axis, and the config has 'tiny' there; "
                                       "a share is of a whole number."),
        ("chunker.overlap", "", "1:42", ".of is chunker.overlap itself; a share is of another key."),
        ("retrievers.dense.top_k", ", retrievers.dense.top_k: {share: 2, of: chunker.size}", "1:42",
         ".of is retrievers.dense.top_k, which is a share itself; take it of chunker.size."),
        ("retrievers.dense.top_k", ", retrievers.dense.top_k: {range: [1, 2, 0.5]}", "1:42",
         ".of is retrievers.dense.top_k, whose range is not of whole numbers; a share is of whole numbers."),
        ("retrievers.dense.top_k", ", retrievers.dense: [{top_k: 5}]", "1:42",
         ".of is retrievers.dense.top_k, and retrievers.dense is an axis as a whole; vary "
         "retrievers.dense.top_k itself."),
    ],
)  # fmt: skip
def test_a_share_of_what_is_no_whole_number_is_refused(of: str, more: str, place: str, message: str) -> None:
    found = faults_of(f"matrix: {{chunker.overlap: {{share: 0.2, of: {of}}}{more}}}")
    assert found == [f"{place}: sweep.matrix.chunker.overlap{message}"]


def test_each_value_that_a_share_is_taken_of_must_be_whole() -> None:
    sweep = """
matrix:
  chunker.overlap: {share: 0.2, of: chunker.size}
  "chunker.size, embedder.model": [[128, a], [x, b], [true, c], [2.5, d]]
include: [{chunker.size: y}, {chunker.size: z, chunker.overlap: 3}]
"""
    whole = "chunker.overlap is a share of it, so it must be a whole number."
    assert faults_of(sweep) == [
        f"3:49: sweep.matrix.chunker.size, embedder.model[1][0] is 'x'; {whole}",
        f"3:57: sweep.matrix.chunker.size, embedder.model[2][0] is true; {whole}",
        f"3:68: sweep.matrix.chunker.size, embedder.model[3][0] is 2.5; {whole}",
        f"4:14: sweep.include[0].chunker.size is 'y'; {whole}",
    ]


# Exclude, include, size.


def test_an_entry_of_exclude_that_names_no_axis_or_no_value_of_it_is_refused() -> None:
    sweep = """
matrix: {chunker.size: [128, 256], retrievers.dense.top_k: {range: [10, 60, 50]}, context: [{title: true}]}
exclude: [{chunker.size: 127}, {chunker.sise: 128, retrievers.dense.top_k: 11}, {seed: 1}, {context: {title: false}}]
"""
    axes = "Its axes: chunker.size, retrievers.dense.top_k, context."
    assert faults_of(sweep) == [
        "2:14: sweep.exclude[0].chunker.size is 127, which is no value of that axis: 128, 256.",
        "2:35: sweep.exclude[1].chunker.sise: chunker.sise is no axis of the matrix. "
        f"Did you mean 'chunker.size'? {axes}",
        "2:54: sweep.exclude[1].retrievers.dense.top_k is 11, which is no value of that axis: 10, 60.",
        f"2:84: sweep.exclude[2].seed: seed is no axis of the matrix. {axes}",
        "2:95: sweep.exclude[3].context is {title: false}, which is no value of that axis: {title: true}.",
    ]


def test_an_entry_of_exclude_that_drops_nothing_is_refused() -> None:
    sweep = """
matrix: {chunker.size: [100, 200], chunker.overlap: {share: [0, 0.1], of: chunker.size}}
exclude: [{chunker.overlap: 10}, {chunker.size: 200, chunker.overlap: 10}]
"""
    assert faults_of(sweep) == [
        "2:36: sweep.exclude[1] drops nothing: no combination of the matrix has all of its values.",
    ]


def test_two_entries_of_exclude_may_meet() -> None:
    sweep = (
        "matrix: {chunker.size: [1, 2], chunker.overlap: [0, 1]}\nexclude: [{chunker.size: 1}, {chunker.overlap: 0}]"
    )
    assert faults_of(sweep) == []


def test_a_sweep_whose_combinations_are_all_excluded_is_refused_unless_others_are_included() -> None:
    sweep = "matrix: {chunker.size: [1, 2]}\nexclude: [{chunker.size: 1}, {chunker.size: 2}]"
    message = "sweep.exclude drops every combination of the matrix; there is nothing to run."
    assert faults_of(sweep) == [f"2:3: {message}"]
    assert faults_of(sweep + "\ninclude: [{chunker.size: 3}]") == []


def test_an_included_combination_that_is_there_already_is_refused() -> None:
    sweep = """
matrix: {chunker.size: [1, 2], chunker.overlap: [0, 1]}
include: [{chunker.overlap: 1, chunker.size: 2}, {chunker.size: 7}, {chunker.size: 2, chunker.overlap: 0},
          {chunker.size: 7}]
exclude: [{chunker.size: 2, chunker.overlap: 0}]
"""
    assert faults_of(sweep) == [
        "2:13: sweep.include[0] repeats a combination of sweep.matrix: chunker.overlap 1, chunker.size 2; take it out.",
        "3:13: sweep.include[3] repeats a combination of sweep.include[1]: chunker.size 7; take it out.",
    ]


def test_a_combination_may_be_included_that_may_not_be_drawn() -> None:
    sweep = """
matrix: {chunker.size: [100, 200, 300]}
include: [{chunker.size: 200}]
sample: 1
"""
    assert faults_of(sweep) == []
    for seed in range(9):
        made = combinations(read(written(sweep)), seed)
        assert SIZE_200 in [dict(one) for one in made]
        assert len(made) == len({one.identity for one in made}) <= 2


def test_a_matrix_that_is_too_large_is_refused_with_its_size() -> None:
    axes = "chunker.size: {range: [1, 1000, 1]}, chunker.overlap: {range: [1, 1000, 1]}, context.title: [true]"
    sweep = f"matrix: {{{axes}, retrievers.dense.top_k: {{range: [1, 1000, 1]}}}}\nmax_settings: 5000"
    assert faults_of(sweep) == [
        "1:3: sweep has 1,000,000,000 combinations (1,000 x 1,000 x 1,000); max_settings is 5,000: take axes or values "
        "out, join keys that move together in one entry, or draw some at random with sample: 5000."
    ]
    assert faults_of(sweep + "\nsample: 20") == []
    assert faults_of(sweep + "\nsample: 20\nexclude: [{chunker.size: 1}]") == [
        "1:3: sweep has 1,000,000,000 combinations (1,000 x 1,000 x 1,000); from more than 100,000 a sample of at most "
        "so many can be drawn, and only without exclude and lists of shares: take axes or values out."
    ]


# Names.


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{retriever}-{chunk.size}", "has the field {chunk.size}, which is unknown. Did you mean 'chunker.size'? "
                                     "Known: {retriever}, {chunker.size}, {embedder.model}."),
        ("{}", "has the field {}, which is unknown. Known: {retriever}, {chunker.size}, {embedder.model}."),
        ("{retriever", "is '{retriever'; a field stands between { and }, like {retriever}."),
        ("{{retriever}}", "is '{{retriever}}'; a field stands between { and }, like {retriever}."),
        ("{retriever}/{chunker.size} x", "has ' ' '/'; names are made of letters, digits, '.', '_', '-' and fields "
                                         "like {retriever}."),
        ("dense", "is 'dense', without any field; write it with fields, like {retriever}."),
        ("", "is '', without any field; write it with fields, like {retriever}."),
    ],
)  # fmt: skip
def test_a_template_of_names_with_unknown_fields_or_unfit_characters_is_refused(template: str, message: str) -> None:
    sweep = f'matrix: {{chunker.size: [1, 2]}}\ninclude: [{{embedder.model: a}}]\nname: "{template}"'
    assert faults_of(sweep) == [f"3:3: sweep.name {message}"]


def test_faults_between_the_parts_are_told_at_once() -> None:
    sweep = """
matrix:
  chunker.sise: [1]
  embedder.model: [a, a]
  chunker.overlap: {share: 1, of: nothing}
exclude: [{embedder.model: b}]
name: "{x}"
"""
    assert [fault.partition(": ")[0] for fault in faults_of(sweep)] == ["2:5", "3:25", "4:33", "5:14", "6:3"]


def test_a_sweep_made_in_python_has_the_same_faults_without_places() -> None:
    sweep = sweep_of(matrix={"chunker.size": [1, 1], "seed": [3]})
    faults = axis_faults(sweep, {"chunker": {"kind": "recursive"}}, ExperimentConfig)
    assert [where for where, _ in faults] == [("sweep", "matrix", "seed"), ("sweep", "matrix", "chunker.size", 1)]


def test_variables_are_values_like_others() -> None:
    assert faults_of('matrix: {chunker.size: ["${A:-1}", 1]}') == []  # a text and a number, as validation will say
    assert read(written("matrix: {embedder.model: [a]}\nsample: ${N}", N="4")).sample == 4
