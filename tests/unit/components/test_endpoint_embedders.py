"""Embedders behind endpoints: what is asked of each provider, and that no batch that arrived is paid for again."""

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import endpoint_double
from commands import commands_of
from endpoint_double import EndpointDouble, Fault, vector_of
from experiments import write_experiment
from ragtrial.cache.vectors import VectorCache
from ragtrial.components.batching import TextList
from ragtrial.components.embedders.base import EMBEDDERS
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.errors import EmbedderError, EndpointError, WorkspaceError
from ragtrial.rankings import Floats

TEXTS = [f"text {number} {'word ' * (number % 7)}".strip() for number in range(50)]


def made(double: EndpointDouble, folder: Path, kind: str = "openai", **options: Any) -> CachedEmbedder:
    embedder = EMBEDDERS[kind](**{"model": "m", "base_url": double.url, **options})
    return CachedEmbedder(embedder, folder)


def embed(embedder: CachedEmbedder, texts: Sequence[str] = TEXTS) -> Floats:
    source, prefix = TextList(texts), embedder.document_prefix
    return np.concatenate(list(embedder.embed(source, prefix, embedder.lengths(source, prefix)).blocks()))


def right(texts: Sequence[str] = TEXTS, dimension: int = 16) -> Floats:
    vectors = np.array([vector_of(text, dimension) for text in texts])
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def probe_in(folder: Path) -> str:
    """The text that is embedded again to see that the model is still the same."""
    (vectors,) = folder.glob("*.sqlite")
    with VectorCache(vectors) as cache:
        probe = cache.probe()
    assert probe is not None
    return probe[0]


def test_fields_of_ones_own_tell_queries_from_documents(tmp_path: Path) -> None:
    with EndpointDouble() as double:
        embedder = made(double, tmp_path, query_fields={"task": "retrieval.query"}, document_prefix="passage: ")
        embedder.embed_documents(["a"])
        embedder.embed_queries(["a"])
        assert [(asked.body["input"], asked.body.get("task")) for asked in double.asked] == [
            (["passage: a"], None),
            (["a"], "retrieval.query"),
        ]


def test_batches_keep_to_the_number_of_texts_and_of_tokens(tmp_path: Path, minilm_folder: Path) -> None:
    with EndpointDouble() as double:
        embed(made(double, tmp_path, batch_size=8))
        assert {len(asked.texts) for asked in double.asked} == {8, 2}
        double.asked.clear()
        tokenizer = str(minilm_folder / "tokenizer.json")
        embedder = made(double, tmp_path, batch_size=8, batch_tokens=30, tokenizer_model=tokenizer, version="2")
        embed(embedder)
        sizes = [int(embedder.lengths(TextList(asked.texts), "").sum()) for asked in double.asked]
        assert max(sizes) <= 30
        assert sum(len(asked.texts) for asked in double.asked) == len(TEXTS)
        double.asked.clear()
        embed(made(double, tmp_path, batch_tokens=1, version="3"))
        assert [len(asked.texts) for asked in double.asked] == [1] * len(TEXTS), "a text too large goes alone"
        double.asked.clear()
        embed(made(double, tmp_path, batch_tokens=30, version="4"))
        sizes = [sum(map(len, asked.texts)) for asked in double.asked]
        assert 60 - max(map(len, TEXTS)) < max(sizes) <= 60, "two characters count as a token"
        double.asked.clear()
        embed(made(double, tmp_path, batch_tokens=2, version="5"), ["aa", "ab", "ac"])
        assert sorted(len(asked.texts) for asked in double.asked) == [1, 2], "a batch is filled to its limit"


PASSING: list[Fault] = [endpoint_double.soon(429), endpoint_double.soon(500), endpoint_double.cut,
                        endpoint_double.hang_up, endpoint_double.drip, endpoint_double.silent]  # fmt: skip


def test_whatever_goes_wrong_on_the_way_nothing_is_lost_and_nothing_answered_is_asked_again(tmp_path: Path) -> None:
    faults: list[Fault | None] = []
    for fault in PASSING:
        faults += [None, fault, endpoint_double.reordered, endpoint_double.larger]
    with EndpointDouble(faults=faults) as double:
        vectors = embed(made(double, tmp_path, batch_size=2, concurrency=8, timeout=1.5))
        np.testing.assert_allclose(vectors, right(), atol=1e-6)
        assert set(double.answered.values()) == {1}
        assert double.most_at_once <= 8


def test_an_answer_that_cannot_be_used_stops_and_what_arrived_is_kept(tmp_path: Path) -> None:
    with EndpointDouble(faults=[None, None, None, endpoint_double.one_less]) as double:
        with pytest.raises(EndpointError, match="answered with"):
            embed(made(double, tmp_path, batch_size=5, concurrency=2))
        spoilt = set(double.asked[3].texts)
        np.testing.assert_allclose(embed(made(double, tmp_path, batch_size=5, concurrency=2)), right(), atol=1e-6)
        again = {text for text, count in double.answered.items() if count > 1}
        assert spoilt <= again <= spoilt | {probe_in(tmp_path)}


def test_a_model_that_changed_behind_its_name_is_noticed_before_vectors_mix(tmp_path: Path) -> None:
    def changed(_: Any, answer: Any) -> Any:
        rows = [{**row, "embedding": [1.0] * 16} for row in answer["data"]]
        return {**answer, "data": rows}

    with EndpointDouble() as double:
        embed(made(double, tmp_path), TEXTS[:20])
        double.default = changed
        with pytest.raises(
            EmbedderError, match=r"gives another vector for .* than it gave before; .* another `version:`"
        ):
            embed(made(double, tmp_path))
        embed(made(double, tmp_path, version="2"))


def test_the_known_text_is_the_shortest_of_a_batch_and_kept_before_its_vectors(tmp_path: Path) -> None:
    """So a run that dies between the two leaves no vectors that those of a changed model could join unnoticed."""
    with EndpointDouble() as double:
        embedder = made(double, tmp_path)
        with VectorCache(embedder.path):
            pass
        with closing(sqlite3.connect(embedder.path)) as connection:
            connection.execute("CREATE TRIGGER full BEFORE INSERT ON vectors BEGIN SELECT RAISE(ABORT, 'no room'); END")
        with pytest.raises(WorkspaceError, match="no room"):
            embed(embedder, ["one two three", "one", "one two"])
    assert probe_in(tmp_path) == "one"


def test_changed_vectors_are_used_if_a_version_says_so_but_not_too_long_ones(tmp_path: Path) -> None:
    with EndpointDouble() as one, EndpointDouble() as other:
        embed(made(one, tmp_path, version="a"))
        embed(made(other, tmp_path, version="a"))
        assert not other.asked
        embed(made(other, tmp_path))
        assert other.asked

    def whole(_: Any, answer: Any) -> Any:
        return {**answer, "data": [{**row, "embedding": [0.5] * 16} for row in answer["data"]]}

    with EndpointDouble(default=whole) as double, pytest.raises(EndpointError) as error:
        embed(made(double, tmp_path, dimensions=8))
    assert "answered with vectors of 16 dimensions, and `dimensions` asks for 8" in str(error.value)


@pytest.mark.slow
def test_a_key_is_in_no_file_that_a_run_leaves(tmp_path: Path) -> None:
    refused = endpoint_double.status(401, "Incorrect API key provided: sk-very-secret-0815.")
    with EndpointDouble(faults=[refused]) as double:
        options = {"kind": "openai", "model": "m", "base_url": double.url, "api_key": "${MY_OWN}", "price": 2.0}
        experiment = write_experiment(tmp_path / "experiment", embedder=options)
        with commands_of(tmp_path / "logs") as start:
            command = ("run", "config.yaml", "-v")
            failed = start(experiment.folder, *command, environment={"MY_OWN": "sk-very-secret-0815"}).ended()
            done = start(experiment.folder, *command, environment={"MY_OWN": "sk-very-secret-0815"}).ended()
        assert (failed.code, done.code) == (3, 0)
        assert "Incorrect API key provided: ${MY_OWN}. Check the key in MY_OWN." in failed.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 20
    assert [path for path in files if b"sk-very-secret" in path.read_bytes()] == []
    (report,) = tmp_path.rglob("report.json")
    assert json.loads(report.read_text())["config"]["embedder"]["api_key"] == "${MY_OWN}"
