"""Haystack's own evaluators agree with those of the integration, but for what its page lists, shown on both sides."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import haystack.components.evaluators as theirs
import numpy as np
import pytest
from haystack import Document, Pipeline
from haystack.core.errors import DeserializationError
from haystack.core.serialization import component_from_dict
from hypothesis import given
from hypothesis import strategies as st

import ragtrial.integrations.haystack as ours
from pages import assert_prints_what_it_shows
from ragtrial.integrations.haystack import (
    DocumentMAPEvaluator,
    DocumentMRREvaluator,
    DocumentNDCGEvaluator,
    DocumentRecallEvaluator,
    RecallMode,
)

Lists = list[list[Document]]
KINDS: list[tuple[str, dict[str, Any]]] = [
    ("DocumentMRREvaluator", {}),
    ("DocumentMAPEvaluator", {}),
    ("DocumentNDCGEvaluator", {}),
    ("DocumentRecallEvaluator", {}),
    ("DocumentRecallEvaluator", {"mode": "multi_hit"}),
]
FIELDS = ["content", "id", "meta.key", "meta.source.page", "meta.nowhere"]

every_kind = pytest.mark.parametrize(("name", "arguments"), KINDS, ids=lambda one: str(one or ""))

texts = st.none() | st.sampled_from(["", "a", "b", "c", "d", "a ", "e"])
numbers = st.sampled_from([0, 1, 1.0, True, 2, "1", None])
nested = st.recursive(
    st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from([0.0, 1.0, "", "a", "1"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=4,
)
gains = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.0]) | st.floats(0.01, 10)


@st.composite
def documents(draw: st.DrawFn, keys: st.SearchStrategy[object], score: st.SearchStrategy[float | None]) -> Document:
    """Few distinct contents, ids and meta values, so that many documents are alike in one of them and not in others."""
    meta: dict[str, object] = {"key": draw(keys)} if draw(st.booleans()) else {}
    if draw(st.booleans()):
        meta["source"] = draw(st.sampled_from([{"page": 1}, {"page": None}, {"page": "x"}, {}, "no dict"]))
    identity = draw(st.sampled_from(["", "1", "2", "3"]))
    return Document(id=identity, content=draw(texts), meta=meta, score=draw(score))


@st.composite
def inputs(draw: st.DrawFn, keys: st.SearchStrategy[object] = numbers) -> tuple[Lists, Lists]:
    """Ground truth, where all of a list or none has a score, and what was retrieved for it."""
    truths: Lists = []
    found: Lists = []
    for _ in range(draw(st.integers(1, 4))):
        score = draw(st.sampled_from([st.none(), gains]))
        truths.append(draw(st.lists(documents(keys, score), max_size=6)))
        found.append(draw(st.lists(documents(keys, st.none() | gains), max_size=8)))
    return truths, found


def evaluator(module: Any, name: str, **arguments: Any) -> Any:
    return getattr(module, name)(**arguments)


def refusal(call: Callable[[], object]) -> str:
    """What the ValueError says that ``call`` raises."""
    with pytest.raises(ValueError, match=r".") as caught:
        call()
    return str(caught.value)


def assert_same(made: dict[str, Any], expected: dict[str, Any]) -> None:
    assert made.keys() == expected.keys() == {"score", "individual_scores"}
    np.testing.assert_allclose(made["individual_scores"], expected["individual_scores"], rtol=0, atol=1e-12)
    assert made["score"] == pytest.approx(expected["score"], rel=0, abs=1e-12)


def texts_of(*contents: str, scores: tuple[float | None, ...] = ()) -> list[Document]:
    given_scores = scores or (None,) * len(contents)
    return [Document(content=content, score=score) for content, score in zip(contents, given_scores, strict=True)]


@every_kind
@given(case=inputs(), field=st.sampled_from(FIELDS))
def test_the_numbers_are_those_of_haystack(
    name: str, arguments: dict[str, Any], case: tuple[Lists, Lists], field: str
) -> None:
    made = evaluator(ours, name, document_comparison_field=field, **arguments).run(*case)
    expected = evaluator(theirs, name, document_comparison_field=field, **arguments).run(*case)
    assert_same(made, expected)


@given(nested | st.tuples(nested), nested | st.tuples(nested))
def test_what_values_are_compared_by_is_equal_where_they_are(one: object, other: object) -> None:
    assert (ours._hashable(one) == ours._hashable(other)) is (one == other)
    assert hash(ours._hashable(one)) == hash(ours._hashable(one))


@pytest.mark.parametrize(("name", "arguments"), [kind for kind in KINDS if "NDCG" not in kind[0]])
@given(case=inputs(), k=st.integers(1, 9))
def test_top_k_gives_what_haystack_gives_for_rankings_that_were_cut(
    name: str, arguments: dict[str, Any], case: tuple[Lists, Lists], k: int
) -> None:
    truths, found = case
    made = evaluator(ours, name, top_k=k, **arguments).run(truths, found)
    assert_same(made, evaluator(theirs, name, **arguments).run(truths, [row[:k] for row in found]))


@given(case=inputs(), k=st.integers(1, 9))
def test_top_k_cuts_the_ideal_of_ndcg_like_the_ranking(case: tuple[Lists, Lists], k: int) -> None:
    haystack = theirs.DocumentNDCGEvaluator()
    expected = []
    for truths, found in zip(*case, strict=True):
        best: dict[str, float] = {}
        for document in truths:
            if document.content is not None:
                gain = 1.0 if document.score is None else document.score
                best[document.content] = max(gain, best.get(document.content, 0.0))
        kept = sorted(best.values(), reverse=True)[:k]
        ideal = haystack.calculate_idcg([Document(content=str(i), score=gain) for i, gain in enumerate(kept)])
        expected.append(haystack.calculate_dcg(truths, found[:k]) / ideal if ideal else 0.0)
    np.testing.assert_allclose(
        DocumentNDCGEvaluator(top_k=k).run(*case)["individual_scores"], expected, rtol=0, atol=1e-12
    )


# What is otherwise than in Haystack: theirs first, then ours.


@pytest.mark.parametrize("name", ["DocumentRecallEvaluator", "DocumentNDCGEvaluator"])
def test_values_that_cannot_be_hashed_are_compared(name: str) -> None:
    case = [[Document(meta={"tags": ["a", {"b": 1}]})]], [[Document(meta={"tags": ["a", {"b": 1.0}]})]]
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        evaluator(theirs, name, document_comparison_field="meta.tags").run(*case)
    assert evaluator(ours, name, document_comparison_field="meta.tags").run(*case)["score"] == 1.0


def test_a_score_below_0_gains_nothing_and_leaves_the_ideal_alone() -> None:
    truths, found = [texts_of("a", "b", scores=(1.0, -1.0))], [texts_of("a")]
    assert theirs.DocumentNDCGEvaluator().run(truths, found)["score"] == pytest.approx(2.7095112913514554)
    assert DocumentNDCGEvaluator().run(truths, found)["score"] == 1.0


@pytest.mark.parametrize(("score", "haystack"), [(float("nan"), 0.0), (float("inf"), float("nan"))])
def test_a_score_that_is_no_finite_number_is_refused(score: float, haystack: float) -> None:
    truths, found = [texts_of("x"), texts_of("a", "b", scores=(1.0, score))], [[], texts_of("b")]
    theirs_says = theirs.DocumentNDCGEvaluator().run(truths[1:], found[1:])["score"]
    assert theirs_says == pytest.approx(haystack, nan_ok=True)
    caught = refusal(lambda: DocumentNDCGEvaluator().run(truths, found))
    assert caught == f"ground_truth_documents[1][1] has the score {score}; it must be a finite number."


@every_kind
def test_a_field_that_does_not_exist_is_refused_when_the_component_is_made(
    name: str, arguments: dict[str, Any]
) -> None:
    """Haystack says so when it runs, and not at all where it has nothing to compare."""
    late = evaluator(theirs, name, document_comparison_field="title", **arguments)
    assert late.run([[]], [[]])["score"] == 0.0
    expected = refusal(lambda: late.run([texts_of("a")], [texts_of("a")]))
    caught = refusal(lambda: evaluator(ours, name, document_comparison_field="title", **arguments))
    assert caught == expected


def test_a_mode_that_is_no_mode_is_refused_when_the_component_is_made() -> None:
    late = theirs.DocumentRecallEvaluator(mode=3)  # type: ignore[arg-type]
    with pytest.raises(NameError):
        late.run([texts_of("a")], [texts_of("a")])
    for wrong in ("many", 3):
        with pytest.raises(ValueError, match=f"^Unknown recall mode '{wrong}'. Supported modes are: "):
            DocumentRecallEvaluator(mode=wrong)  # type: ignore[arg-type]


@every_kind
def test_a_field_that_no_document_has_is_said_once(
    name: str, arguments: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    case = [texts_of("a"), texts_of("b")], [texts_of("a"), texts_of("b")]
    with caplog.at_level(logging.WARNING):
        assert evaluator(theirs, name, document_comparison_field="meta.ref", **arguments).run(*case)["score"] == 0.0
    assert len(caplog.records) == (4 if "Recall" in name else 0)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert evaluator(ours, name, document_comparison_field="meta.ref", **arguments).run(*case)["score"] == 0.0
    assert [record.getMessage() for record in caplog.records] == [
        "2 of 2 queries have no ground truth with a value in meta.ref; each scores 0 and counts in the mean.",
        "No retrieved document has a value in meta.ref; every score is 0.",
    ]


# What is refused.


@every_kind
@pytest.mark.parametrize(
    "case", [([], []), ([], [[]]), ([[]], []), ([[]], [[], []])], ids=["no lists", "no truths", "no hits", "unequal"]
)
def test_lists_that_do_not_pair_are_refused_in_the_words_of_haystack(
    name: str, arguments: dict[str, Any], case: tuple[Lists, Lists]
) -> None:
    expected = refusal(lambda: evaluator(theirs, name, **arguments).run(*case))
    caught = refusal(lambda: evaluator(ours, name, **arguments).run(*case))
    assert caught == expected


def test_scores_on_some_of_the_ground_truth_alone_are_refused_in_the_words_of_haystack() -> None:
    case = [texts_of("a", "b", scores=(1.0, None))], [texts_of("a")]
    expected = refusal(lambda: theirs.DocumentNDCGEvaluator().run(*case))
    caught = refusal(lambda: DocumentNDCGEvaluator().run(*case))
    assert caught == expected


def test_a_value_that_json_could_not_hold_and_nothing_can_compare_is_refused() -> None:
    case = [[Document(id="d1", meta={"vector": np.zeros(2)})]], [[Document(id="d2", meta={"vector": np.zeros(2)})]]
    with pytest.raises(ValueError, match="truth value of an array"):
        theirs.DocumentMRREvaluator(document_comparison_field="meta.vector").run(*case)
    caught = refusal(lambda: DocumentMRREvaluator(document_comparison_field="meta.vector").run(*case))
    assert caught == (
        "document 'd1': meta.vector is a ndarray, which cannot be compared; "
        "it must be what JSON can hold: text, a number, a list or a dict."
    )


@pytest.mark.parametrize("wrong", [0, -1, 2.0, True, "3"])
def test_a_top_k_that_is_no_number_of_documents_is_refused(wrong: Any) -> None:
    caught = refusal(lambda: DocumentRecallEvaluator(top_k=wrong))
    assert caught == f"top_k is {wrong!r}; it must be a whole number from 1 on, or None for no cut."


# In Haystack.


def test_a_pipeline_runs_them_and_is_the_same_after_it_was_written_and_read() -> None:
    pipeline = Pipeline()
    case = {"ground_truth_documents": [texts_of("a", "b")], "retrieved_documents": [texts_of("x", "a", "b")]}
    pipeline.add_component("mrr", DocumentMRREvaluator(top_k=1))
    pipeline.add_component("map", DocumentMAPEvaluator("id"))
    pipeline.add_component("recall", DocumentRecallEvaluator("multi_hit", top_k=2))
    pipeline.add_component("ndcg", DocumentNDCGEvaluator("meta.key"))
    done = pipeline.run(dict.fromkeys(["mrr", "map", "recall", "ndcg"], case))
    assert {name: made["score"] for name, made in done.items()} == {
        "mrr": 0.0, "map": pytest.approx((1 / 2 + 2 / 3) / 2), "recall": 0.5, "ndcg": 0.0,
    }  # fmt: skip
    written = pipeline.dumps()
    with pytest.raises(DeserializationError, match="not on the trusted-module allowlist"):
        Pipeline.loads(written)
    read = Pipeline.loads(written, allowed_modules=["ragtrial.*"])
    assert read.to_dict() == pipeline.to_dict()
    assert read.run(dict.fromkeys(["mrr", "map", "recall", "ndcg"], case)) == done


@pytest.mark.parametrize("mode", [RecallMode.MULTI_HIT, "multi_hit", theirs.document_recall.RecallMode.MULTI_HIT])
def test_a_mode_may_be_a_word_or_the_enum_of_haystack(mode: RecallMode | str) -> None:
    made = DocumentRecallEvaluator(mode, "id", top_k=7)
    assert made.mode is RecallMode.MULTI_HIT
    again = component_from_dict(DocumentRecallEvaluator, made.to_dict(), "recall")
    assert (again.mode, again.document_comparison_field, again.top_k) == (RecallMode.MULTI_HIT, "id", 7)


@every_kind
def test_what_haystack_wrote_can_be_read_by_changing_the_type_alone(name: str, arguments: dict[str, Any]) -> None:
    written = evaluator(theirs, name, document_comparison_field="id", **arguments).to_dict()
    made = component_from_dict(getattr(ours, name), {**written, "type": f"{ours.__name__}.{name}"}, "made")
    assert made.to_dict()["init_parameters"] == {**written["init_parameters"], "top_k": None}


def test_without_haystack_the_message_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['haystack'] = None\n"
        "import ragtrial.integrations\n"
        "try:\n    import ragtrial.integrations.haystack\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == (
        "ragtrial.integrations.haystack needs haystack-ai, from version 3 on: pip install 'ragtrial[haystack]'\n"
    )


def test_the_page_prints_what_it_shows(root: Path) -> None:
    assert_prints_what_it_shows(root / "docs" / "haystack.md")
