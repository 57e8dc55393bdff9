"""Parents: the larger text that a hit is in, worked by hand and against the plain definition."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from corpora import library_of
from ragtrial.components.interfaces import Candidates
from ragtrial.components.refiners.parent import holding, neighbourhoods
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.rankings import PADDING
from refining import Bench, candidates, places_of, rows_of, write_bench

#                    0         1         2         3
#                    0123456789012345678901234567890123456789
DOCUMENTS = {"a.txt": "one two three four five six seven eight", "b.txt": "nine ten\n\neleven twelve", "empty.txt": ""}
WORDS = [(0, 3), (4, 7), (8, 13), (14, 18), (19, 23), (24, 27), (28, 33), (34, 39)]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench_of(tmp_path_factory.mktemp("bench"))


def bench_of(folder: Path, **options: Any) -> Bench:
    return write_bench(folder, {"kind": "parent", **options}, documents=DOCUMENTS)


def words(bench: Bench) -> Chunks:
    """Each word of a.txt as a unit (0 to 7), then the lines of b.txt (8 and 9)."""
    return bench.units([*(("a.txt", *place) for place in WORDS), ("b.txt", 0, 8), ("b.txt", 10, 23)])


def scores_of(found: Candidates) -> list[list[float]]:
    return [[round(float(score), 2) for score in row if not np.isnan(score)] for row in found.rankings.scores]


def test_whole_documents_and_stretches_drop_later_hits_within_them(bench: Bench) -> None:
    part = candidates(words(bench), [[3, 9, 0, 8], [8], []])
    found = bench.refined(["?"] * 3, part)
    assert places_of(found) == [[("a.txt", 0, 39), ("b.txt", 0, 23)], [("b.txt", 0, 23)], []]
    assert scores_of(found) == [[1.0, 0.99], [1.0], []]
    assert found.facts == {
        "hits": 5, "same_parent": 2, "without_parent": 0, "smaller_parent": 0, "own_parent": 0, "at_gap": 0,
    }  # fmt: skip
    part = candidates(words(bench), [[3, 4, 5, 9, 8], [5, 4, 3]])
    found = bench.refined(["?"] * 2, part, "retrievers.refined.returns=neighbours")
    assert places_of(found) == [
        [("a.txt", 8, 23), ("a.txt", 19, 33), ("b.txt", 0, 23)],  # 4 is in the first; 5 is not; 8 is with 9
        [("a.txt", 19, 33), ("a.txt", 8, 23)],
    ]
    assert scores_of(found) == [[1.0, 0.98, 0.97], [1.0, 0.98]]
    assert (found.facts["hits"], found.facts["same_parent"]) == (8, 3)


def test_kept_hits_cover_others_and_later_searches_keep_their_codes(bench: Bench) -> None:
    part = candidates(words(bench), [[3, 4, 5, 6]])  # 5 is covered by the stretch that 4 would have brought
    found = bench.refined(["?"], part, "retrievers.refined.returns=neighbours")
    assert [place[1] for place in places_of(found)[0]] == [8, 19]
    found = bench.refined(["?"] * 2, candidates(words(bench), [[5, 0, 7, 9, 1], [8]]), *CHUNK)
    assert rows_of(found) == [[1, 0, 2], [2]]
    assert scores_of(found) == [[1.0, 0.99, 0.97], [1.0]]
    assert (found.facts["hits"], found.facts["same_parent"]) == (6, 2)
    opened = bench.refiner().open(bench.materials())
    first = opened.refine([], [candidates(words(bench), [[9]])])
    second = opened.refine([], [candidates(words(bench), [[3]])])
    assert (rows_of(first), rows_of(second)) == ([[0]], [[1]])
    assert places_of(first)[0] == [("b.txt", 0, 23)]
    assert second.units.document_id(0) == "b.txt"


def test_a_stretch_ends_where_text_is_in_no_unit_and_that_is_told(bench: Bench) -> None:
    found_alone = bench.units([("a.txt", *WORDS[place]) for place in (0, 1, 4, 7)])
    found = bench.refined(["?"], candidates(found_alone, [[0, 2]]), "retrievers.refined.returns=neighbours")
    assert places_of(found) == [[("a.txt", 0, 7), ("a.txt", 19, 23)]]
    assert found.facts["at_gap"] == 1
    (warning,) = bench.refiner().warnings("wide", found.facts)
    assert warning.message == (
        "wide: not all neighbours of some hits are known, as text beside them is in no chunk that the part names "
        "(1 of 2 hits)."
    )


CHUNK = (
    "retrievers.refined.returns=chunk",
    "retrievers.refined.chunker={kind: fixed, size: 20, overlap: 0, unit: characters}",
)


def test_hits_in_text_that_the_chunker_leaves_out_are_dropped_and_that_is_told(tmp_path: Path) -> None:
    bench = bench_of(tmp_path / "bench", returns="chunk", chunker={"kind": "custom", "function": "cuts:cut"})
    cuts = "def cut(text):\n    return [(0, 10)] if text.startswith('one') else []\n"
    (bench.experiment.folder / "cuts.py").write_text(cuts)
    found = bench.refined(["?"] * 2, candidates(words(bench), [[6, 1, 8, 0], [9]]))
    assert places_of(found) == [[("a.txt", 0, 10)], []]
    assert scores_of(found) == [[0.99], []]
    facts = {name: found.facts[name] for name in ("hits", "without_parent", "same_parent")}
    assert facts == {"hits": 5, "without_parent": 3, "same_parent": 1}
    (warning,) = bench.refiner().warnings("wide", found.facts)
    assert warning.message == (
        "wide: some hits are in no chunk of its chunker, which leaves text out; they were dropped (3 of 5 hits)."
    )


def test_parents_that_are_smaller_or_the_hits_themselves_are_told(bench: Bench) -> None:
    units = bench.units([("a.txt", 0, 39), ("b.txt", 0, 20), ("b.txt", 0, 8)])
    found = bench.refined(["?"], candidates(units, [[0, 1, 2]]), *CHUNK)
    assert (found.facts["smaller_parent"], found.facts["own_parent"]) == (1, 1)
    (warning,) = bench.refiner(*CHUNK).warnings("wide", found.facts)
    assert warning.message == (
        "wide: some hits are larger than the chunk returned for them; set a chunker for larger chunks than those "
        "found (1 of 3 hits)."
    )
    whole = bench.units([("a.txt", 0, 39), ("b.txt", 0, 23)])
    found = bench.refined(["?"], candidates(whole, [[1, 0]]))
    assert places_of(found) == [[("b.txt", 0, 23), ("a.txt", 0, 39)]]
    (warning,) = bench.refiner().warnings("wide", found.facts)
    assert warning.message == (
        "wide: each hit is its own parent, so nothing was changed; return more than what is found (2 of 2 hits)."
    )


LENGTH = 12


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    texts = {"a": "abc  def ghi", "b": "            ", "c": "jkl mnopq rs"}
    return library_of(tmp_path_factory.mktemp("library"), texts)


@st.composite
def places(draw: st.DrawFn, *, ascending: bool) -> list[tuple[int, int, int]]:
    """Document, start and end of units; ``ascending`` as chunkers make them, without empty ones."""
    made = []
    for document in range(3):
        pairs = draw(st.lists(st.tuples(st.integers(0, LENGTH), st.integers(0, LENGTH)), max_size=6))
        spans = {(min(pair), max(pair)) for pair in pairs}
        if ascending:
            starts, ends = (sorted({span[side] for span in spans}) for side in (0, 1))
            spans = {(start, end) for start, end in zip(starts, ends, strict=False) if start < end}
        made += [(document, *span) for span in sorted(spans)]
    return made if ascending else draw(st.permutations(made))


@given(parents=places(ascending=True), found=places(ascending=False))
@settings(max_examples=150)
def test_the_holder_of_each_unit_is_the_first_of_those_that_hold_most_of_it(
    library: Library, parents: list[tuple[int, int, int]], found: list[tuple[int, int, int]]
) -> None:
    expected = []
    for document, start, end in found:
        mine = [code for code, parent in enumerate(parents) if parent[0] == document]
        held = [max(0, min(end, parents[code][2]) - max(start, parents[code][1])) for code in mine]
        if start == end:
            expected.append(mine[0] if mine else PADDING)
        else:
            expected.append(mine[int(np.argmax(held))] if max(held, default=0) > 0 else PADDING)
    codes = np.arange(len(found))
    assert holding(Chunks.of(library, parents), Chunks.of(library, found), codes).tolist() == expected


@given(found=places(ascending=False), count=st.integers(1, 4), data=st.data())
@settings(max_examples=150)
def test_a_neighbourhood_is_what_steps_from_unit_to_unit_reach(
    library: Library, found: list[tuple[int, int, int]], count: int, data: st.DataObject
) -> None:
    codes = data.draw(st.lists(st.integers(0, len(found) - 1))) if found else []
    stretches = neighbourhoods(Chunks.of(library, found), np.array(codes, dtype=np.int64), count)
    for code, (start, end, is_short) in zip(codes, stretches, strict=True):
        document = found[code][0]
        mine = sorted(place for place in found if place[0] == document)
        text, place = library.text(document), mine.index(found[code])
        low = high = place
        cut = False
        for _ in range(count):
            if low > 0 and not cut_off(text, mine, low):
                low -= 1
        for _ in range(count):
            if high + 1 < len(mine) and not cut_off(text, mine, high + 1):
                high += 1
        cut = low > max(place - count, 0) or high < min(place + count, len(mine) - 1)
        assert (start, end) == (mine[low][1], max(one[2] for one in mine[low : high + 1]))
        assert bool(is_short) == cut


def cut_off(text: str, units: Sequence[tuple[int, int, int]], place: int) -> bool:
    """Whether visible characters lie between the unit there and all that came before it."""
    reached = max(end for _, _, end in units[:place])
    return bool(text[reached : units[place][1]].strip())
