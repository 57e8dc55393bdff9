"""What is wrong with a sweep is reported at once, each fault with its line, its column and the way out.

Lines count from the one below ``sweep:``.
"""

import pytest

from sweeps import faults_of

SHAPES = "an axis is a list of values, or {between: [lowest, highest]}"
SECTIONS = "An axis reaches into chunker, context, embedder, store or retrievers."
CHUNKER = "kind, unit, tokenizer, measure, size, overlap, separators, keep, preset"


def test_right_sweeps_have_no_faults_and_overlapping_keys_are_refused() -> None:
    sweep = """
matrix:
  chunker.size: [128, 256]
  chunker.overlap: [0, 26]
  retrievers.dense.top_k: [10, 60]
  "store.kind, store.space": [[chroma, cosine], [exact, ip]]
  embedder: [{model: other}, {kind: custom, function: "a:b"}]
  retrievers.whole.chunker: [{kind: document}, null]
  context.title: [true, false]
include: [{}, {chunker: {kind: document}}, {chunker.size: 1024, retrievers.dense: {kind: dense, top_k: 5}}]
exclude: [{chunker.size: 128, chunker.overlap: 26}, {retrievers.dense.top_k: 60, store.space: ip}]
max_settings: 10
"""
    assert faults_of(sweep) == []
    sweep = """
matrix:
  chunker.size: [1]
  chunker: [{kind: document}]
  "chunker.size, embedder.model": [[1, a]]
include: [{embedder: {model: a}, embedder.model: ip}, {chunker: {kind: document}}]
"""
    step = "set the same option; leave one of them out."
    assert faults_of(sweep) == [
        f"3:5: sweep.matrix.chunker: chunker and chunker.size {step}",
        f"4:5: sweep.matrix.chunker.size, embedder.model: chunker.size and chunker.size {step}",
        f"4:5: sweep.matrix.chunker.size, embedder.model: chunker.size and chunker {step}",
        f"5:36: sweep.include[0].embedder.model: embedder.model and embedder {step}",
    ]


@pytest.mark.parametrize(("axis", "column", "message"), [
    ("5", 12, f": {SHAPES} (found 5)."),
    ("", 12, f": {SHAPES} (found null)."),
    ("{size: [1, 2]}", 12, f": {SHAPES} (found a mapping)."),
    ("{range: [1, 2, 1]}", 12, f": {SHAPES} (found a mapping)."),
    ("[]", 12, " has 0 entries; it must have at least 1."),
    ("{between: [2, 2]}", 27, ".between: must be two finite numbers, the lower one first."),
    ("{between: [0, 1], log: true}", 12, ": log needs numbers above 0; the lowest is 0."),
])  # fmt: skip
def test_an_axis_of_another_shape_is_refused(axis: str, column: int, message: str) -> None:
    assert faults_of(f"matrix: {{chunker.size: {axis}}}") == [f"1:{column}: sweep.matrix.chunker.size{message}"]


def test_sweeps_of_nothing_and_excludes_of_nothing_are_refused() -> None:
    message = "sweep: names no axis; give it a matrix, like {chunker.size: [128, 256]}, or include."
    assert faults_of("max_settings: 3") == [f"0:1: {message}"]
    assert faults_of('matrix: {"chunker.size, chunker.overlap": [[1, 2], [3], 4, [5, 6, 7]]}') == [
        f"1:{column}: sweep.matrix.chunker.size, chunker.overlap[{row}] must be a list of 2 values: "
        "[chunker.size, chunker.overlap]."
        for row, column in ((1, 54), (2, 59), (3, 62))
    ]
    sweep = """
matrix: {chunker.size: [100, 200], chunker.overlap: [10, 20]}
exclude: [{chunker.overlap: 10}, {chunker.size: 200, chunker.overlap: 30}, {seed: 1}]
"""
    assert faults_of(sweep) == [
        f"2:{column}: sweep.exclude[{number}] drops nothing: no combination of the matrix has all of its values."
        for column, number in [(36, 1), (78, 2)]
    ]


@pytest.mark.parametrize(("key", "message"), [
    ("chunkr.size", f"chunkr.size is not an option of a setting. Did you mean 'chunker'? {SECTIONS}"),
    ("seed", f"seed is not an option of a setting. {SECTIONS}"),
    ("dataset.corpus", f"dataset.corpus is not an option of a setting. {SECTIONS}"),
    ("retrievers", "there is no retriever ''. Known: dense, whole."),
    ("retrievers.dnse.top_k", "there is no retriever 'dnse'. Did you mean 'dense'? Known: dense, whole."),
])  # fmt: skip
def test_a_key_of_no_setting_is_refused(key: str, message: str) -> None:
    assert faults_of(f"matrix: {{{key}: [1]}}") == [f"1:12: sweep.matrix.{key}: {message}"]
    assert faults_of(f"include: [{{{key}: 1}}]") == [f"1:14: sweep.include[0].{key}: {message}"]


@pytest.mark.parametrize(("key", "message"), [
    ("chunker.sise", f"unknown key 'sise' in chunker. Did you mean 'size'? Allowed here: {CHUNKER}."),
    ("context.titel", "unknown key 'titel' in context. Did you mean 'title'? "
                      "Allowed here: title, headings, sentences, prefixes."),
    ("chunker..size", f"unknown key '' in chunker. Allowed here: {CHUNKER}."),
    ("chunker.size.x", "chunker.size is a mapping; it must be a whole number."),
    ("retrievers.whole.chunker.size", "unknown key 'size' in retrievers.whole.chunker. "
        "That is an option of kind: code, fixed, markdown, recursive, semantic, "
        "sentence. Allowed here: kind."),
    ("store.space", "store.kind is missing; it must be one of: chroma, exact, faiss, milvus, pgvector, qdrant."),
])  # fmt: skip
def test_what_is_no_option_is_refused_where_the_sweep_has_its_value(key: str, message: str) -> None:
    assert faults_of(f"matrix: {{{key}: [1]}}") == [f"1:{len(key) + 15}: {message}"]
    assert faults_of(f"include: [{{{key}: 1}}]") == [f"1:14: {message}"]
