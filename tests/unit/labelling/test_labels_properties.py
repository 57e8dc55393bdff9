"""Whatever is wrong with a file of labels, it is refused with its name, or what comes of it loads and resolves."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from foreign_labels import LIGHTS, RED, WHITE, corpus, lines
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.dataset.library import Library
from ragtrial.dataset.resolution import resolve
from ragtrial.errors import LabelsError
from ragtrial.labelling.importers.base import IMPORTERS, read_labels
from ragtrial.labelling.importers.converting import as_json, convert, lost_faults, report_row

DOCUMENT = {"content": WHITE, "meta": {"file_path": "reset.md"}}
ANSWER = {"text": "red", "answer_start": 39}
OWN = {"doc": "hub/reset.md", "relevance": 1, "quote": WHITE, "start": 50, "end": 94, "text_hash": "0" * 16}
GOOD: list[Any] = [
    {
        "queries": [{"id": 1, "text": "?", "relevant_docs": [OWN], "tags": ["a"], "cluster": 7, "ordered": True}],
        "prompt": "p",
    },
    {"queries": {"a": "q"}, "corpus": {"n": WHITE}, "relevant_docs": {"a": ["n"]}},
    {"examples": [{"query": "q", "reference_contexts": [WHITE]}]},
    {"data": [{"paragraphs": [{"context": LIGHTS, "qas": [{"id": "a", "question": "?", "answers": [ANSWER]}]}]}]},
    [{"id": "a", "question": "?", "context": LIGHTS, "answers": {"text": ["red"], "answer_start": [39]}}],
    [{"question": "?", "references": [{"content": RED, "start_index": 37}], "corpus_id": "lights", "query_id": "x"}],
    [{"question": "?", "ground_truth_documents": [DOCUMENT, RED]}],
    {"inputs": {"question": ["?"], "ground_truth_documents": [[DOCUMENT]]}},
    [{"input": "?", "context": [RED], "expected_output": "x", "source_file": "hub/lights.md"}],
    {"data": [{"id": "a", "input": {"query": "?"}, "expectedOutput": {"answer": "x"}, "metadata": {"quote": RED}}]},
    [{"qid": "a", "query": "?", "retrieval_gt": [["hub/lights.md"]], "generation_gt": ["x"]}],
    [{"question_id": "a", "question": "?", "answer": 3, "question_type": "t", "answer_session_ids": ["faq.txt"]}],
    [{"question": "?", "quote": RED, "doc": "lights.md", "start": 37, "relevance": 2, "tags": "a b", "cluster": "c"}],
]
BAD: list[Any] = [
    None, True, 3, -5, 10**30, 1.5, "", " ", "x", "\ud800", [], {}, [None], [[]], {"a": 1}, "a\nb", WHITE,
    f"Lights\n{RED}", "faq.txt", "\0",
]  # fmt: skip


def places(value: Any, where: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield where
    if isinstance(value, dict | list):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from places(one, (*where, key))


def changed(value: Any, where: tuple[Any, ...], new: Any) -> Any:
    if not where:
        return new
    made = copy.deepcopy(value)
    inner = made
    for key in where[:-1]:
        inner = inner[key]
    inner[where[-1]] = new
    return made


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    folder = tmp_path_factory.mktemp("library")
    Library.write(corpus(tmp_path_factory.mktemp("corpus")), folder)
    return Library(folder)


@pytest.mark.parametrize("good", GOOD)
def test_each_file_is_right_before_anything_is_changed(good: Any, library: Library, tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_text(json.dumps(good), encoding="utf-8")
    converted = convert(read_labels(path), library)
    assert converted.counts.keys() <= {"exact", "document"}


@settings(max_examples=400, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_changed_file_is_refused_or_its_labels_resolve(data: st.DataObject, library: Library, tmp_path: Path) -> None:
    value = data.draw(st.sampled_from(GOOD))
    for _ in range(data.draw(st.integers(1, 2))):
        value = changed(value, data.draw(st.sampled_from(list(places(value)))), data.draw(st.sampled_from(BAD)))
    in_lines = isinstance(value, list) and bool(value) and data.draw(st.booleans())
    path, target = tmp_path / "labels", tmp_path / "prompt_queries.json"
    path.write_text(lines(value) if in_lines else json.dumps(value), encoding="utf-8")
    try:
        read = read_labels(path, data.draw(st.sampled_from([None, *IMPORTERS.names()])))
        converted = convert(read, library, fuzzy=data.draw(st.sampled_from([None, 0.7])))
    except LabelsError as error:
        refused: LabelsError | None = error
    else:
        refused = None
    if refused is not None:
        assert all(fault.file == str(path) and fault.message for fault in refused.faults)
        return
    assert len(lost_faults(converted, read, library)) == len(converted.lost)
    assert all(json.dumps(report_row(one, read, library)) for one in converted.placed)
    target.write_text(as_json(converted), encoding="utf-8")
    resolved = resolve(load_prompt_queries(target), library, "id")
    assert not [one for one in resolved.resolutions if one.moved or one.changed]
