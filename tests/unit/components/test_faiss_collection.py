"""Index files of FAISS are searched as they are, whatever their type, and refused where they cannot be."""

import json
import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest

from expectations import message_of
from experiments import write_experiment
from ragtrial.engines import Conditions, open_collection
from ragtrial.engines.faiss import FaissCollectionOptions
from ragtrial.errors import ConfigError, InputError
from ragtrial.rankings import Floats

pytestmark = pytest.mark.slow

COUNT, DIMENSION = 400, 16
VECTORS: Floats = np.random.default_rng(0).normal(size=(COUNT, DIMENSION)).astype(np.float32)
OWN_NUMBERS = np.random.default_rng(1).permutation(10 * COUNT)[:COUNT]


def rows() -> list[dict[str, Any]]:
    return [{"id": f"i{row}", "text": f"text {row}", "third": row % 3} for row in range(COUNT)]


def index_of(factory: str, numbers: Sequence[int] = ()) -> Any:
    index = faiss.index_factory(DIMENSION, factory)
    index.train(VECTORS)
    if len(numbers):
        index.add_with_ids(VECTORS, np.asarray(numbers, dtype=np.int64))
    else:
        index.add(VECTORS)
    return index


def options(folder: Path, index: Any, items: Sequence[Mapping[str, Any]], **more: Any) -> FaissCollectionOptions:
    faiss.write_index(index, str(folder / "docs.index"))
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in items), encoding="utf-8")
    return FaissCollectionOptions(
        kind="faiss", path=str(folder / "docs.index"), items=str(folder / "items.jsonl"), **more
    )


@pytest.mark.parametrize(("factory", "has_own"), [
    ("Flat", False), ("SQ8", False), ("HNSW16", False), ("HNSW16_SQ8", False), ("IVF8,Flat", False),
    ("IVF8,SQ8", False), ("IDMap,Flat", True), ("IDMap2,HNSW16", True),
    ("IDMap,IVF8,Flat", True), ("OPQ4,Flat", False), ("Flat,RFlat", False), ("PCA16,HNSW16", False),
])  # fmt: skip
def test_every_type_finds_as_brute_force_and_returns_vectors(tmp_path: Path, factory: str, has_own: bool) -> None:
    numbers = OWN_NUMBERS.tolist() if has_own else ()
    width = {"nprobe": 8} if "IVF" in factory else {"ef": COUNT} if "HNSW" in factory else {}
    index = index_of(factory, numbers)
    made = options(tmp_path, index, rows(), **width)
    held = open_collection(made)
    items, stored = held.get(["i3", "i0"])
    assert [item.id for item in items] == ["i3", "i0"]
    np.testing.assert_allclose(stored, VECTORS[[3, 0]], atol=0.03)  # SQ8 has 256 values for each number
    for where in (None, {"third": 1}):
        chosen = range(COUNT) if where is None else range(1, COUNT, 3)
        expected = sorted(chosen, key=lambda row: float(((VECTORS[row] - VECTORS[5]) ** 2).sum()))[:5]
        (found,) = held.nearest(VECTORS[5:6], 5, Conditions(where))
        if "SQ8" in factory:
            assert len({item.id for item in found.items} & {f"i{row}" for row in expected}) >= 4
        else:
            assert [item.id for item in found.items] == [f"i{row}" for row in expected]


def test_the_width_is_that_of_the_options_or_of_the_file(tmp_path: Path) -> None:
    graph = index_of("HNSW16")
    graph.hnsw.efSearch = 33
    (tmp_path / "a").mkdir()
    held = open_collection(options(tmp_path / "a", graph, rows()))
    assert ([held.width(depth) for depth in (1, 40)], held.facts) == ([33, 40], {"index": "IndexHNSWFlat", "ef": 33})
    wider = open_collection(held.options.model_copy(update={"ef": 50}))
    assert ([wider.width(depth) for depth in (1, 60)], wider.facts["ef"]) == ([50, 60], 50)
    (tmp_path / "b").mkdir()
    lists = open_collection(options(tmp_path / "b", index_of("IVF8,Flat"), rows(), nprobe=3))
    assert (lists.width(5), lists.facts) == (None, {"index": "IndexIVFFlat", "nprobe": 3})


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:1_000])


def as_pickle(path: Path) -> None:
    path.write_bytes(pickle.dumps({"a": 1}))


@pytest.mark.parametrize(("factory", "more", "damage", "fault"), [
    ("Flat", {"ef": 5}, None, "of the type IndexFlatL2 has no option efSearch, which is set to 5; remove it."),
    ("HNSW8", {"nprobe": 5}, None, "of the type IndexHNSWFlat has no option nprobe, which is set to 5; remove it."),
    ("ITQ8,LSH", {}, None, "is of the type IndexLSH, which gives no vectors back: "),
    ("Flat", {}, cut, "docs.index is no index of FAISS, or is damaged: "),
    ("Flat", {}, as_pickle, "docs.index is no index of FAISS, or is damaged: "),
    ("Flat", {}, Path.unlink, "docs.index cannot be read: No such file or directory."),
])  # fmt: skip
def test_an_index_that_cannot_be_searched_so_is_refused(
    tmp_path: Path, factory: str, more: Mapping[str, Any], damage: Callable[[Path], None] | None, fault: str
) -> None:
    made = options(tmp_path, index_of(factory), rows(), **more)
    if damage is not None:
        damage(tmp_path / "docs.index")
    assert fault in message_of(InputError, open_collection, made)


def test_metrics_numbers_and_conditions_that_cannot_be_are_refused(tmp_path: Path) -> None:
    index = faiss.IndexFlat(DIMENSION, faiss.METRIC_L1)
    index.add(VECTORS)
    with pytest.raises(InputError, match="compares by FAISS's metric 2; it must be the inner product or L2"):
        open_collection(options(tmp_path, index, rows()))
    with pytest.raises(InputError, match="numbers of its own, in no known order: build it in an IndexIDMap"):
        open_collection(options(tmp_path, index_of("IVF8,Flat", OWN_NUMBERS.tolist()), rows()))
    held = open_collection(options(tmp_path, index_of("NSG8"), rows()))
    assert len(held.nearest(VECTORS[:1], 3)[0].items) == 3
    with pytest.raises(ValueError, match=r"cannot be searched: .*params"):
        held.check_conditions(Conditions({"third": 1}))


@pytest.mark.parametrize(("change", "fault"), [
    (lambda items: items[:-1], "items.jsonl: has 399 rows; {path} has 400 vectors."),
    (lambda items: [*items, {"id": "more"}], "items.jsonl: has 401 rows; {path} has 400 vectors."),
    (lambda items: [*items[:-1], items[0]],
     "items.jsonl:400: has the id 'i0' of an earlier row; each must be unique."),
    (lambda items: [{"text": "no id"}, *items[1:]],
     "items.jsonl:1: has 'id' null; it must be a text or a whole number."),
    (lambda items: [{"id": "a", "text": 3}, *items[1:]], "items.jsonl:1: has 'text' 3; it must be a text."),
])  # fmt: skip
def test_rows_that_do_not_fit_are_named_with_their_line(
    tmp_path: Path, change: Callable[[list[dict[str, Any]]], list[dict[str, Any]]], fault: str
) -> None:
    made = options(tmp_path, index_of("Flat"), change(rows()))
    assert message_of(InputError, open_collection, made) == f"{tmp_path}/{fault.format(path=made.path)}"


@pytest.mark.parametrize("key", ["path", "items"])
def test_a_pickle_is_refused_where_it_is_named(tmp_path: Path, key: str) -> None:
    collection = {"kind": "faiss", "path": "docs.index", "items": "items.jsonl", key: "index.pkl"}
    with pytest.raises(ConfigError, match=rf"collection\.{key}: is .*; a pickle runs code when it is read"):
        write_experiment(tmp_path, retrievers={"prod": {"kind": "dense", "collection": collection}}).config()


def test_an_index_is_opened_again_when_one_of_its_files_changes(tmp_path: Path) -> None:
    made = options(tmp_path, index_of("Flat"), rows())
    held = open_collection(made)
    assert open_collection(made, afresh=True) is held
    options(tmp_path, index_of("Flat"), [{**rows()[0], "text": "another"}, *rows()[1:]])
    assert open_collection(made, afresh=True).content != held.content
