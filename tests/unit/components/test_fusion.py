"""The refiner that fuses the rankings of several retrievers."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from corpora import library_of
from expectations import message_of, present
from experiments import write_experiment
from ragtrial import run_experiment
from ragtrial.components.interfaces import Candidates, RetrieverContext
from ragtrial.components.refiners.fusion import FusionRefiner
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.errors import RunError
from ragtrial.rankings import from_rows
from ragtrial.records import Question
from refining import places_of
from report_hits import hits_of

TEXTS = {"z": "zinc and zeal and zest", "a": "an apple and an axe", "m": "more mice"}
Z, A, M = range(3)
"""Documents by position; by id their order is a, m, z."""


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return library_of(tmp_path, TEXTS)


@pytest.fixture
def halves(library: Library) -> Chunks:
    """Two chunks of each document: 0 and 1 of z, 2 and 3 of a, 4 and 5 of m."""
    return Chunks.of(library, [(d, *span) for d in (Z, A, M) for span in ((0, 4), (4, len(library.text(d))))])


@pytest.fixture
def wholes(library: Library) -> Chunks:
    """Each document, in the order of the library."""
    return Chunks.of(library, [(d, 0, len(library.text(d))) for d in (Z, A, M)])


def candidates(units: Chunks, *rows: Sequence[tuple[int, float]], skipped: Sequence[int] = ()) -> Candidates:
    made = from_rows([[code for code, _ in row] for row in rows], [[score for _, score in row] for row in rows])
    return Candidates(units, made, np.isin(np.arange(len(rows)), skipped))


def fused(library: Library, parts: Sequence[Candidates], **options: Any) -> Candidates:
    names = ["dense", "bm25", "third"][: len(parts)]
    context = cast("RetrieverContext", SimpleNamespace(library=library, setting="hybrid"))  # all that it asks for
    return FusionRefiner(inputs=names, **options).open(context).refine([Question("?")] * len(parts[0].rankings), parts)


def test_parts_are_fused_chunk_by_chunk_or_by_documents(library: Library, halves: Chunks, wholes: Chunks) -> None:
    dense, bm25 = candidates(halves, [(0, 9.0), (1, 8.0), (2, 7.0)]), candidates(halves, [(2, 3.0), (5, 1.0)])
    found = fused(library, [dense, bm25])
    # Chunks 1 and 5 stand second once each: the one of m goes before the one of z.
    assert found.rankings.codes.tolist() == [[2, 0, 5, 1]]
    assert found.rankings.scores.tolist()[0] == pytest.approx([1 / 63 + 1 / 61, 1 / 61, 1 / 62, 1 / 62])
    assert found.units is halves
    assert found.facts == {"fused_by": "chunk", "mean_fused": 4, "mean_in_all": 1, "mean_in_one": 3}
    # Of the chunks the documents are z, z, a, m: z first, a second, m third.
    dense = candidates(halves, [(1, 9.0), (0, 8.0), (2, 7.0), (5, 6.0)])
    bm25 = candidates(wholes, [(M, 3.0), (A, 2.0)])
    found = fused(library, [dense, bm25])
    assert found.rankings.scores.tolist()[0] == pytest.approx([1 / 63 + 1 / 61, 2 / 62, 1 / 61])
    # m stands better in bm25, z only in dense; a stands second in both, and the first part has it.
    assert places_of(found)[0] == [("m", 0, 9), ("a", 0, 4), ("z", 4, 22)]
    assert found.facts == {"fused_by": "document", "mean_fused": 3, "mean_in_all": 2, "mean_in_one": 1}


def test_chunks_of_one_document_with_equal_scores_go_by_their_start(library: Library) -> None:
    units = Chunks.of(library, [(Z, 5, 8), (Z, 0, 12), (A, 3, 4), (A, 0, 2)])
    found = fused(library, [candidates(units, [(0, 1.0), (2, 0.0)]), candidates(units, [(1, 1.0), (3, 0.0)])])
    assert found.rankings.codes.tolist() == [[1, 0, 3, 2]]


def test_of_equal_ranks_the_heavier_part_or_first_chunk_wins(library: Library, halves: Chunks, wholes: Chunks) -> None:
    dense, bm25 = candidates(halves, [(2, 7.0)]), candidates(wholes, [(A, 2.0)])
    assert places_of(fused(library, [dense, bm25], weights=[2, 1]))[0] == [("a", 0, 4)]
    assert places_of(fused(library, [dense, bm25], weights=[1, 2]))[0] == [("a", 0, 19)]
    dense = candidates(halves, [(0, 9.0), (1, 1.0), (2, 5.0)])
    bm25 = candidates(wholes, [(A, 1.0), (Z, 1.0)])
    found = fused(library, [dense, bm25], method="weighted", normalisation="none")
    assert places_of(found)[0] == [("z", 0, 4), ("a", 0, 19)]
    assert found.rankings.scores.tolist() == [[10, 6]]


def test_a_question_that_one_part_skipped_is_skipped(library: Library, halves: Chunks) -> None:
    dense = candidates(halves, [(0, 1.0)], [(1, 1.0)], [])
    bm25 = candidates(halves, [], [(2, 1.0)], [(3, 1.0)], skipped=[0])
    found = fused(library, [dense, bm25])
    assert found.skipped.tolist() == [True, False, False]
    assert [len(places_of(found)[row]) for row in range(3)] == [0, 2, 1]
    assert found.facts["mean_fused"] == 1.5
    parts = [candidates(halves, [(0, float("nan"))]), candidates(halves, [], skipped=[0])]
    assert fused(library, parts, method="weighted").skipped.tolist() == [True]


def test_parts_without_scores_or_beyond_float32_are_refused(library: Library, halves: Chunks) -> None:
    nan = float("nan")
    parts = [candidates(halves, [(0, 1.0)], [(1, 1.0)]), candidates(halves, [(0, nan)], [(2, 3.0)])]
    assert message_of(RunError, fused, library, parts, method="weighted", normalisation="z_score") == (
        "the hits of 'bm25' have no finite scores for 1 of 2 queries, which method: weighted cannot use; set method: "
        "rrf, which looks at ranks alone."
    )
    assert len(fused(library, parts).rankings) == 2
    huge = candidates(halves, [(0, 3e38), (1, 1.0)])
    assert message_of(RunError, fused, library, [huge, huge], method="weighted", normalisation="none") == (
        "the scores of 'dense', 'bm25' are too large to be added (float32); set method: rrf or another normalisation."
    )


@pytest.mark.parametrize(("unit", "chunker"), [("span", "document"), ("document", "document"), ("span", "recursive")])
def test_that_one_hit_of_a_document_is_left_is_told_of_passages(tmp_path: Path, unit: str, chunker: str) -> None:
    sizes = {"size": 90, "overlap": 0, "unit": "characters"} if chunker == "recursive" else {}
    retrievers: Mapping[str, object] = {
        "dense": {"kind": "dense", "score": False},
        "whole": {"kind": "dense", "score": False, "chunker": {"kind": chunker, **sizes}},
        "hybrid": {"kind": "fusion", "inputs": ["dense", "whole"], "score": False},
        "wide": {"kind": "parent", "inputs": "hybrid", "top_k": 3},
    }
    quoted = {"doc": "oven.txt", "quote": "Leave it overnight, then wipe it."}
    queries = [{"id": "oven", "text": "Clean the oven", "relevant_docs": [quoted]}]
    made = write_experiment(tmp_path, queries=queries, retrievers=retrievers, evaluators={"unit": unit})
    told = [one.message for one in run_experiment(made.config()).warnings if one.code == "fused-by-document"]
    expected = (
        "hybrid, by itself, as a part of wide: its parts do not rank the same chunks, so one hit of each document is "
        "left, and under unit: span other passages of it are not found. Give all parts the same chunker."
    )
    assert told == ([expected] if (unit, chunker) == ("span", "document") else [])


def test_fusions_that_differ_in_their_scores_alone_are_two_parts_to_what_adds_their_scores(tmp_path: Path) -> None:
    inner: Mapping[str, object] = {"kind": "fusion", "inputs": ["dense", "words"], "score": False}
    outer: Mapping[str, object] = {"kind": "fusion", "method": "weighted", "normalisation": "none", "top_k": 3}
    retrievers = {
        "dense": {"kind": "dense", "score": False},
        "words": {"kind": "bm25", "score": False},
        "light": inner,
        "heavy": {**inner, "weights": [200, 200]},
        "of-light": {**outer, "inputs": ["light", "dense"]},
        "of-heavy": {**outer, "inputs": ["heavy", "dense"]},
    }
    report = run_experiment(write_experiment(tmp_path, retrievers=retrievers).config())
    light, heavy = (hits_of(report, setting.name)["rye"] for setting in report.settings)
    assert present(light[0].score) < 1.1  # a cosine, and two reciprocal ranks above 60
    assert present(heavy[0].score) > 3  # these 200 times
