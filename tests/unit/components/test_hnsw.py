"""Each option of the graph reaches it: a poorer value finds fewer of the nearest, or makes smaller files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ragtrial.engines import Vectors
from ragtrial.engines.chroma import ChromaStore, HnswOptions
from ragtrial.engines.exact import ExactStore
from ragtrial.rankings import Floats

DEPTH = 10


@dataclass(frozen=True)
class Clusters:
    """Vectors in clusters, among which a poor graph loses its way, and queries near them."""

    vectors: Vectors
    queries: Floats


@pytest.fixture(scope="module")
def clusters() -> Clusters:
    random = np.random.default_rng(7)
    middles = random.normal(size=(60, 32))
    matrix = middles[random.integers(60, size=6_000)] + 0.5 * random.normal(size=(6_000, 32))
    queries = middles[random.integers(60, size=150)] + 0.5 * random.normal(size=(150, 32))
    return Clusters(Vectors(matrix.astype(np.float32), np.arange(6_000)), queries.astype(np.float32))


def built(clusters: Clusters, folder: Path, **options: int) -> float:
    """The share of the nearest that a graph with ``options`` finds."""
    folder.mkdir()
    store = ChromaStore(hnsw=HnswOptions(**options))
    store.build(clusters.vectors, folder, lambda _: None)
    index = store.open(clusters.vectors, folder)
    found = index.search(clusters.queries, DEPTH).codes
    index.close()
    exact = ExactStore().open(clusters.vectors, folder).search(clusters.queries, DEPTH).codes
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(exact, found, strict=True)]))


def bytes_of_links(folder: Path) -> int:
    (path,) = folder.glob("*/data_level0.bin")  # vectors, each with its links in the lowest layer
    return path.stat().st_size


@pytest.mark.slow
def test_fewer_candidates_while_building_make_a_graph_in_which_fewer_are_found(
    clusters: Clusters, tmp_path: Path
) -> None:
    options = {"max_neighbors": 8, "ef_search": 20}
    few = built(clusters, tmp_path / "few", ef_construction=1, **options)
    many = built(clusters, tmp_path / "many", ef_construction=200, **options)
    assert few < many - 0.05
    assert bytes_of_links(tmp_path / "few") == bytes_of_links(tmp_path / "many")


@pytest.mark.slow
def test_fewer_links_make_smaller_files_and_fewer_are_found(clusters: Clusters, tmp_path: Path) -> None:
    options = {"ef_construction": 100, "ef_search": 20}
    few = built(clusters, tmp_path / "few", max_neighbors=2, **options)
    many = built(clusters, tmp_path / "many", max_neighbors=32, **options)
    assert few < many - 0.05
    # Each link is four bytes, and the lowest layer has twice as many as are asked for.
    assert bytes_of_links(tmp_path / "many") - bytes_of_links(tmp_path / "few") >= 6_000 * 2 * (32 - 2) * 4


@pytest.mark.slow
def test_the_options_that_are_left_out_are_good_enough_for_these(clusters: Clusters, tmp_path: Path) -> None:
    assert built(clusters, tmp_path / "usual") > 0.97
