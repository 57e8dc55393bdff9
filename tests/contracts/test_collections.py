"""Every kind of existing collection keeps its contract, whatever its engine."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from filled_collections import FILLERS, SECRET, Filled, Stored
from ragtrial.engines import ALL, COLLECTIONS, Collection, Conditions, Item, open_collection
from ragtrial.engines.filters import comparisons, parsed, passes
from ragtrial.errors import InputError, StoreError
from ragtrial.rankings import Floats

pytestmark = pytest.mark.slow

LANGUAGES, YEARS, SCORES = ("en", "de", 'it\'s "so"'), (1999, 2024, 2025), (-0.5, 0.0, 1.5, 2024.0)
DIMENSION = 8


def metadata_of(number: int) -> dict[str, Any]:
    """Of several types; the last item has none, and each field is missing from some."""
    whole: dict[str, Any] = {
        "lang": LANGUAGES[number % 3], "year": YEARS[number % 2 + number // 20], "score": SCORES[number % 4],
        "draft": number % 3 == 0,
    }  # fmt: skip
    return {key: value for place, (key, value) in enumerate(whole.items()) if number != 39 and (number + place) % 5}


def drawn(count: int) -> Floats:
    return np.random.default_rng(7).normal(size=(count, DIMENSION)).astype(np.float32)


ITEMS = [
    Stored(f"item/{number}", f"text {number}" if number % 7 else None, metadata_of(number), vector.tolist())
    for number, vector in enumerate(drawn(40))
]
METADATA = {one.id: one.metadata for one in ITEMS}
QUERIES = drawn(46)[40:]


@pytest.fixture(scope="module", params=sorted(FILLERS))
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    folder = tmp_path_factory.mktemp(request.param)
    with FILLERS[request.param](folder, ITEMS, "ip") as made:
        yield made


@pytest.fixture(scope="module")
def collection(filled: Filled) -> Collection:
    return open_collection(filled.options)


def ids(pages: Iterator[list[Item]]) -> list[str]:
    return [item.id for page in pages for item in page]


def test_every_kind_is_in_the_table_of_this_test() -> None:
    assert sorted(COLLECTIONS.names()) == sorted(FILLERS)


def test_pages_and_a_search_for_more_than_there_is_give_every_item_once(collection: Collection) -> None:
    found = [item for page in collection.pages() for item in page]
    assert sorted(found) == sorted(Item(one.id, one.metadata, one.text) for one in ITEMS)
    assert sorted(ids(collection.pages(ALL))) == sorted(METADATA)
    assert (collection.count, collection.dimension) == (len(ITEMS), DIMENSION)
    (nearest,) = collection.nearest(QUERIES[:1], 1_000)
    assert sorted(item.id for item in nearest.items) == sorted(METADATA)
    assert (np.diff(nearest.scores) <= 0).all()
    assert collection.nearest(QUERIES[:0], 3) == []


def test_items_and_samples_come_with_the_texts_and_vectors_put_in(collection: Collection) -> None:
    vectors = {one.id: one.vector for one in ITEMS}
    found, stored = collection.get(["item/7", "item/3", "not there"])
    assert sorted(item.id for item in found) == ["item/3", "item/7"]
    np.testing.assert_allclose(stored, [vectors[item.id] for item in found], rtol=1e-6)
    items, every = collection.get(sorted(vectors))
    assert sorted(item.id for item in items) == sorted(vectors)
    np.testing.assert_allclose(every, [vectors[item.id] for item in items], rtol=1e-6)
    assert collection.get([])[1].shape == (0, DIMENSION)
    texts, sampled = collection.sample(5)
    expected = {one.text: one.vector for one in ITEMS}
    assert len(set(texts)) == 5
    np.testing.assert_allclose(sampled, [expected[text] for text in texts], rtol=1e-6)
    assert collection.sample(5)[0] == texts
    some, _ = collection.sample(100, Conditions({"lang": "de"}))
    assert set(some) <= {one.text for one in ITEMS if one.text and one.metadata.get("lang") == "de"}
    assert some


@pytest.mark.parametrize("kind", sorted(FILLERS))
@pytest.mark.parametrize("space", ["cosine", "ip", "l2"])
def test_the_nearest_are_those_of_brute_force_in_their_order(tmp_path: Path, kind: str, space: str) -> None:
    with FILLERS[kind](tmp_path, ITEMS, space) as made:  # type: ignore[arg-type]  # one of the three
        found = open_collection(made.options).nearest(QUERIES, 10)
        near = scores_of(open_collection(made.options), QUERIES)
        for row, one in zip(near, found, strict=True):
            order = np.argsort(-row)[:10].tolist()
            assert [item.id for item in one.items] == [ITEMS[place].id for place in order]
            assert [item.metadata for item in one.items] == [ITEMS[place].metadata for place in order]
            np.testing.assert_allclose(one.scores, row[order], rtol=1e-4, atol=1e-4)


def scores_of(collection: Collection, queries: Floats) -> Floats:
    """The scores of all items in the collection's space, shape (queries, items), in double precision."""
    items, rows = collection.get([one.id for one in ITEMS])
    names = [item.id for item in items]
    matrix = np.array([rows[names.index(one.id)] for one in ITEMS], dtype=np.float64)
    asked = queries.astype(np.float64)
    if collection.space == "l2":
        return np.asarray(-((asked[:, None] - matrix[None]) ** 2).sum(axis=2))
    product = asked @ matrix.T
    if collection.space == "ip":
        return np.asarray(product)
    return np.asarray(product / np.linalg.norm(matrix, axis=1) / np.linalg.norm(asked, axis=1)[:, None])


VALUES: Mapping[str, Sequence[Any]] = {
    "lang": [*LANGUAGES, "fr", ""], "year": [*YEARS, 2024.0, 2024.5], "score": [*SCORES, 0, 7],
    "draft": [True, False],
}  # fmt: skip


def of_field(field: str) -> st.SearchStrategy[Mapping[str, Any]]:
    """A condition on one field, in all forms that are valid for its values."""
    one = st.sampled_from(VALUES[field])
    several = st.lists(one, min_size=1, max_size=3).filter(lambda values: len({type(value) for value in values}) == 1)
    forms = [one, *(st.fixed_dictionaries({name: one}) for name in ("$eq", "$ne"))]
    forms += [st.fixed_dictionaries({name: several}) for name in ("$in", "$nin")]
    if field in ("year", "score"):
        forms += [st.fixed_dictionaries({name: one}) for name in ("$gt", "$gte", "$lt", "$lte")]
    return st.one_of(forms).map(lambda value: {field: value})


conditions = st.recursive(
    st.sampled_from(sorted(VALUES)).flatmap(of_field),
    lambda inner: st.tuples(st.sampled_from(["$and", "$or"]), st.lists(inner, min_size=2, max_size=3)).map(
        lambda made: {made[0]: made[1]}
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(conditions)
def test_conditions_are_the_evaluator_s(filled: Filled, collection: Collection, where: Mapping[str, Any]) -> None:
    asked = comparisons(parsed(where))
    assume(not filled.cuts_fractions or not any(one.field == "year" and 2024.5 in one.values for one in asked))
    expected = sorted(name for name, metadata in METADATA.items() if passes(parsed(where), metadata))
    collection.check_conditions(Conditions(where))
    assert sorted(ids(collection.pages(Conditions(where)))) == expected
    (found,) = collection.nearest(QUERIES[:1], len(ITEMS), Conditions(where))
    assert sorted(item.id for item in found.items) == expected
    (few,) = collection.nearest(QUERIES[:1], 3, Conditions(where))
    assert [item.id for item in few.items] == [item.id for item in found.items][:3]


def test_what_an_engine_lacks_is_refused_and_fractions_are_compared(filled: Filled, collection: Collection) -> None:
    found = ids(collection.pages(Conditions({"year": 2024.5})))
    assert bool(found) == filled.cuts_fractions
    if not collection.options.searches_texts:
        with pytest.raises(ValueError, match="has no conditions on texts; remove it"):
            collection.check_conditions(Conditions(where_document={"$contains": "text"}))


@pytest.mark.parametrize(
    ("where", "fault"),
    [
        ({"lagn": "en"}, "where.lagn: no item has the metadata 'lagn'. Did you mean 'lang'?"),
        ({"$and": [{"lang": "en"}, {"year": "2024"}]},
         "where.year is compared with a text; in all items it is a number"),
        ({"draft": {"$in": [0, 1]}}, "where.draft is compared with a number; in all items it is a boolean"),
        ({"year": {"$gt": "2024"}}, "where.year.$gt is '2024'; it must be a number"),
        ({"$or": [{"lang": "en"}, {"year": {"$gt": True}}]}, "where.$or[1].year.$gt is true; it must be a number"),
        ({"$or": [{"lang": "en"}]}, "where.$or is a list; it must be a list of at least 2 conditions"),
        ({"lang": None}, "where.lang is null; it must be a text, a number, true or false"),
    ],
)  # fmt: skip
def test_impossible_conditions_name_their_place(collection: Collection, where: Mapping[str, Any], fault: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(fault)}$"):
        collection.check_conditions(Conditions(where))


@pytest.mark.parametrize("kind", sorted(FILLERS))
def test_nothing_is_written_to_what_is_there(tmp_path: Path, kind: str) -> None:
    with FILLERS[kind](tmp_path, ITEMS, "cosine") as made:
        before = made.state()
        held = made.options.open()
        held.check_conditions(Conditions({"lang": "en"}))
        assert len(held.content) == 32
        held.nearest(QUERIES, 3, Conditions({"lang": "en"}))
        held.get([ITEMS[0].id])
        held.close()
        assert made.state() == before


@pytest.mark.parametrize("kind", sorted(FILLERS))
def test_the_content_is_the_same_in_any_order_and_another_with_any_change(tmp_path: Path, kind: str) -> None:
    other = [*ITEMS[1:], replace(ITEMS[0], vector=[*ITEMS[0].vector[1:], 9.0])]
    texts = [*ITEMS[1:], replace(ITEMS[0], text="other")]
    metadata = [*ITEMS[1:], replace(ITEMS[0], metadata={"lang": "en"})]
    contents = []
    for place, items in enumerate((ITEMS, ITEMS[::-1], other, texts, metadata, ITEMS[1:])):
        (tmp_path / str(place)).mkdir()
        with FILLERS[kind](tmp_path / str(place), items, "ip") as made:
            contents.append(open_collection(made.options).content)
    assert contents[0] == contents[1]
    assert len(set(contents)) == 5


def test_what_is_there_is_opened_once_and_no_secret_is_told(filled: Filled) -> None:
    named = filled.options.model_copy(update={"document": "source", "check": False})
    assert open_collection(named) is open_collection(filled.options)
    with pytest.raises(InputError) as caught:
        open_collection(filled.elsewhere)
    assert filled.elsewhere.address in str(caught.value)
    if filled.secret is None:
        assert "SecretStr" not in json.dumps(type(filled.options).model_json_schema())
        return
    with pytest.raises((InputError, StoreError)) as refused:
        open_collection(filled.secret)
    said = [str(refused.value), filled.secret.address, repr(filled.secret), json.dumps(filled.secret.hashed_options())]
    assert not [text for text in said if SECRET in text]
    none: dict[str, Any] = {"headers": {}, "password": None, "api_key": None, "token": None}
    own = {name: value for name, value in none.items() if name in type(filled.secret).model_fields}
    assert filled.secret.hashed_options() == filled.secret.model_copy(update=own).hashed_options()
