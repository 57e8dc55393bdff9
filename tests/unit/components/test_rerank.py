"""Reranking: the scores are the model's own, raw, each made once, and the order is theirs."""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from expectations import message_of
from ragtrial.cache.upkeep import Upkeep
from ragtrial.cache.vectors import VectorCache
from ragtrial.components.refiners.rerankers import TextPairs
from ragtrial.dataset.chunks import Chunks
from ragtrial.errors import ConfigError, RunError
from refining import Bench, candidates, places_of, rows_of, write_bench
from tiny_models import MOST_TOKENS, edit_json, write_tiny_cross_encoder

QUESTIONS = ["How long do I bake rye bread?", "Which soup is blended?"]
LONG = "flour " * 80
DOCUMENTS = {"a.txt": "Bake the rye bread for an hour.", "b.txt": "Blend the soup until it is smooth.",
             "c.txt": "Never put bread into the fridge.", "d.txt": "Bake the rye bread for an hour.",
             "e.txt": LONG.strip(), "0.txt": "", "twice.txt": "Cook it slowly. Cook it slowly.",
             "z.txt": "Cook it slowly."}  # fmt: skip


@pytest.fixture(scope="module")
def reranker(minilm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cross-encoder with random weights, one score for a pair, at most 64 tokens; not to be changed."""
    return write_tiny_cross_encoder(tmp_path_factory.mktemp("rerankers") / "tiny", minilm_folder, seed=1)


@pytest.fixture(scope="module")
def bench(reranker: Path, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return bench_of(tmp_path_factory.mktemp("bench"), reranker)


def bench_of(folder: Path, model: Path, **options: Any) -> Bench:
    refiner = {"kind": "rerank", "model": str(model), "device": "cpu", "batch_size": 2, **options}
    return write_bench(folder, refiner, documents=DOCUMENTS)


def documents(bench: Bench, *names: str) -> Chunks:
    """Whole documents as units."""
    return bench.units([(name, 0, len(DOCUMENTS[name])) for name in names or DOCUMENTS])


def raw_scores(model: Path, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
    """What the library gives without an activation, one pair at a time."""
    import torch
    from sentence_transformers import CrossEncoder

    scored = CrossEncoder(str(model), device="cpu").predict(
        list(pairs), batch_size=1, activation_fn=torch.nn.Identity(), show_progress_bar=False
    )
    return np.asarray(scored, dtype=np.float32)


def test_scores_are_the_library_s_without_an_activation_and_order_hits(bench: Bench, reranker: Path) -> None:
    units = documents(bench, "c.txt", "a.txt", "e.txt", "b.txt")
    found = bench.refined(QUESTIONS, candidates(units, [[0, 1, 2, 3], [3, 0]]))
    texts = [units.text(code) for code in range(4)]
    for row, question, given_codes in zip(range(2), QUESTIONS, [[0, 1, 2, 3], [0, 3]], strict=True):
        own = raw_scores(reranker, [(question, texts[code]) for code in given_codes])
        order = np.argsort(-own)
        assert rows_of(found)[row] == [given_codes[place] for place in order]
        scores = found.rankings.scores[row, : len(own)]
        np.testing.assert_allclose(scores, own[order], rtol=1e-4, atol=1e-4)
    assert found.rankings.scores.dtype == np.float32
    assert np.isnan(found.rankings.scores[1, 2:]).all()


def test_equal_scores_go_by_place_and_whole_pairs_are_not_truncated(bench: Bench) -> None:
    slowly = [("twice.txt", 0, 15), ("twice.txt", 16, 31), ("z.txt", 0, 15)]
    rye = [("a.txt", 0, 31), ("d.txt", 0, 31)]
    found = bench.refined(QUESTIONS[:1], candidates(bench.units([*rye, *slowly][::-1]), [[4, 1, 2, 0, 3]]))
    (places,) = places_of(found)
    assert places in (slowly + rye, rye + slowly)
    units = bench.units([("c.txt", 0, 32)])  # 7 tokens, 3 of the question, 3 special ones
    for length, truncated in ((13, 0), (12, 1)):
        found = bench.refined(["rye bread bread"], candidates(units, [[0]]), f"retrievers.refined.max_length={length}")
        assert found.facts["pairs_truncated"] == truncated


def test_truncated_pairs_are_counted_as_the_models_own_tokenizer_counts_them(bench: Bench, reranker: Path) -> None:
    from transformers import AutoTokenizer

    units = documents(bench, *(name for name in DOCUMENTS if name not in ("0.txt", "z.txt")))
    questions = [*QUESTIONS, "and " * 70, QUESTIONS[0]]
    every = list(range(len(units)))
    found = bench.refined(questions, candidates(units, [every] * 4))
    tokenizer = AutoTokenizer.from_pretrained(str(reranker))
    lengths = [len(tokenizer(question, units.text(code))["input_ids"]) for question in questions for code in every]
    truncated = sum(length > MOST_TOKENS for length in lengths)
    assert 0 < truncated < len(lengths)
    assert found.facts == {"pairs": len(lengths), "pairs_truncated": truncated, "pairs_without_text": 0,
                           "max_length": MOST_TOKENS}  # fmt: skip
    (warning,) = bench.refiner().warnings("reranked", found.facts)
    assert warning.message == (
        "reranked: pairs of a question and a text longer than the 64 tokens that the reranker reads: "
        f"{truncated} of 24; the rest of each was not scored. Use smaller chunks, or a model that reads more."
    )


@pytest.fixture
def own_bench(reranker: Path, tmp_path: Path) -> Bench:
    """A bench whose model may be broken."""
    shutil.copytree(reranker, tmp_path / "model")
    return bench_of(tmp_path, tmp_path / "model")


@pytest.mark.slow
def test_a_pair_is_scored_once_and_the_model_is_loaded_for_missing_pairs_alone(own_bench: Bench) -> None:
    units = documents(own_bench, "a.txt", "b.txt", "c.txt", "d.txt")
    first = own_bench.refined(QUESTIONS, candidates(units, [[0, 1, 2], [2, 1]]))
    nowhere = "retrievers.refined.device=nowhere"  # where no model can be loaded
    again = own_bench.refined(QUESTIONS, candidates(units, [[2, 0, 1], [1, 2]]), nowhere)
    np.testing.assert_array_equal(again.rankings.codes, first.rankings.codes)
    np.testing.assert_array_equal(again.rankings.scores, first.rankings.scores)
    fewer = own_bench.refined(QUESTIONS[1:], candidates(units, [[1]]), nowhere)
    assert fewer.rankings.scores[0, 0] in first.rankings.scores[1]
    own_bench.refined(QUESTIONS[:1], candidates(units, [[3, 0]]), nowhere)  # the text of d.txt is that of a.txt
    with pytest.raises(RunError, match="cannot be loaded"):
        own_bench.refined(QUESTIONS[1:], candidates(units, [[0, 1]]), nowhere)


def test_while_latency_is_measured_nothing_is_read_from_or_added_to_what_is_kept(own_bench: Bench) -> None:
    units = documents(own_bench, "a.txt", "b.txt", "c.txt")
    first = own_bench.refined(QUESTIONS[:1], candidates(units, [[0, 1]]))
    (kept,) = (own_bench.experiment.workspace / "pairs").glob("*.sqlite")
    with VectorCache(kept) as cache:
        keys = TextPairs([QUESTIONS[0]], [units.text(0), units.text(1)], np.array([0, 0]), np.array([0, 1])).keys()
        assert not cache.missing(keys).any()
        cache.write(keys, np.full((2, 1), 1_000, dtype=np.float32))
    poisoned = own_bench.refined(QUESTIONS[:1], candidates(units, [[0, 1]]))
    assert poisoned.rankings.scores.tolist() == [[1_000, 1_000]]
    fresh = own_bench.refined(QUESTIONS[:1], candidates(units, [[0, 1, 2]]), is_fresh=True)
    known_scores = dict(zip(rows_of(first)[0], first.rankings.scores[0].tolist(), strict=True))
    assert fresh.facts["pairs_truncated"] is None, "no tokenizer is loaded to count"
    fresh_scores = dict(zip(rows_of(fresh)[0], fresh.rankings.scores[0].tolist(), strict=True))
    assert {code: fresh_scores[code] for code in known_scores} == pytest.approx(known_scores, rel=1e-4)
    with VectorCache(kept) as cache:
        assert len(cache) == 2


def test_a_model_that_was_trained_on_in_its_folder_scores_anew(own_bench: Bench, minilm_folder: Path) -> None:
    """In one process, as in a notebook: what is kept of the model that was there before is another model's."""
    units = candidates(documents(own_bench, "a.txt", "c.txt"), [[0, 1]])
    before = own_bench.refined(QUESTIONS[:1], units)
    folder = write_tiny_cross_encoder(own_bench.experiment.folder / "model", minilm_folder, seed=2)
    after = own_bench.refined(QUESTIONS[:1], units)
    assert not np.allclose(np.sort(after.rankings.scores), np.sort(before.rankings.scores))
    texts = {code: units.units.text(code) for code in (0, 1)}
    own = raw_scores(folder, [(QUESTIONS[0], texts[code]) for code in rows_of(after)[0]])
    np.testing.assert_allclose(after.rankings.scores[0], own, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
def test_titles_are_read_unless_that_is_switched_off(reranker: Path, tmp_path: Path) -> None:
    bench = write_bench(tmp_path, {"kind": "rerank", "model": str(reranker), "device": "cpu"})
    units = bench.units([("soup/leek.md", 0, 40)])
    title = bench.materials().library.titles[int(units.document[0])]
    assert title == "Leek soup"
    for overrides, text in (((), f"{title} {units.text(0)}"), (("retrievers.refined.title=false",), units.text(0))):
        found = bench.refined(QUESTIONS[:1], candidates(units, [[0]]), *overrides)
        own = raw_scores(reranker, [(QUESTIONS[0], text)])
        np.testing.assert_allclose(found.rankings.scores[0], own, rtol=1e-4)


def test_candidates_without_text_come_last_and_fail_a_setting_of_none_other(bench: Bench) -> None:
    units = documents(bench, "0.txt", "a.txt", "c.txt")
    found = bench.refined([*QUESTIONS, "?"], candidates(units, [[0, 1, 2], [2, 0], [0]]))
    assert [row[-1] for row in rows_of(found)] == [0, 0, 0]
    for row, length in ((0, 3), (1, 2)):
        assert found.rankings.scores[row, length - 1] == found.rankings.scores[row, length - 2]
    assert found.rankings.scores[2, 0] == 0
    assert (found.facts["pairs"], found.facts["pairs_without_text"]) == (3, 3)
    (warning,) = bench.refiner().warnings("reranked", found.facts)
    assert warning.message == (
        "reranked: candidates without a text that the reranker could read, which came last: 3. See whether the "
        "documents are empty."
    )
    units = documents(bench, "0.txt")
    assert message_of(RunError, bench.refined, QUESTIONS, candidates(units, [[0], []])) == (
        "refined: no candidate of 1 has any text, and a reranker reads texts. See whether the documents are empty."
    )
    with pytest.raises(RunError, match=r"empty, or set title: true\.$"):
        bench.refined(QUESTIONS, candidates(units, [[0], []]), "retrievers.refined.title=false")


def test_models_of_no_score_are_refused(bench: Bench, tiny_model: Path, minilm_folder: Path, tmp_path: Path) -> None:
    labels = write_tiny_cross_encoder(tmp_path / "labels", minilm_folder, seed=1, labels=3)
    bare = shutil.copytree(labels, tmp_path / "bare")
    edit_json(bare / "config.json", architectures=["BertForMaskedLM"])
    ending = (
        "`model:` takes a cross-encoder that gives a pair of texts one score, such as "
        "cross-encoder/ms-marco-MiniLM-L6-v2."
    )
    for model, why in (
        (tiny_model, "it is an embedding model (SentenceTransformer)"),
        (labels, "it gives a pair 3 scores (one for each of its labels)"),
        (bare, "it has no layer that gives a score (its architecture is BertForMaskedLM)"),
    ):
        override = f"retrievers.refined.model={model}"
        message = message_of(ConfigError, bench.refiner(override).check, bench.materials(override), [])
        assert message == f"refined: the model {str(model)!r} cannot rerank: {why}. {ending}"
    bench.refiner().check(bench.materials(), [])


def test_a_model_saved_by_the_library_is_taken_for_what_it_is(bench: Bench, reranker: Path, tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder

    CrossEncoder(str(reranker), device="cpu").save(str(tmp_path / "saved"))
    override = f"retrievers.refined.model={tmp_path / 'saved'}"
    bench.refiner(override).check(bench.materials(override), [])
    part = candidates(documents(bench, "a.txt", "b.txt"), [[0, 1]])
    saved, plain = bench.refined(QUESTIONS[:1], part, override), bench.refined(QUESTIONS[:1], part)
    np.testing.assert_allclose(saved.rankings.scores, plain.rankings.scores, rtol=1e-4)
    assert saved.facts["max_length"] == MOST_TOKENS


@pytest.mark.parametrize("length", [3, 65])
def test_a_length_that_the_model_cannot_read_is_refused(bench: Bench, reranker: Path, length: int) -> None:
    override = f"retrievers.refined.max_length={length}"
    assert message_of(ConfigError, bench.refiner(override).check, bench.materials(override), []) == (
        f"refined: max_length is {length}; it must be from 4 (with 3 special tokens) to 64 for the model "
        f"{str(reranker)!r}."
    )


def test_a_model_that_gives_no_numbers_fails_and_names_the_question(own_bench: Bench) -> None:
    from safetensors.numpy import load_file, save_file

    weights = own_bench.experiment.folder / "model" / "model.safetensors"
    tensors = load_file(weights)
    tensors["classifier.bias"][:] = np.nan
    save_file(tensors, weights, metadata={"format": "pt"})
    assert message_of(RunError, own_bench.refined, QUESTIONS[:1], candidates(documents(own_bench, "a.txt"), [[0]])) == (
        f"the reranker in {weights.parent} returned NaN or infinity for 1 pair, the first with the question "
        "'How long do I bake rye bread?'; use a model that gives each pair one finite score."
    )
    assert not list((own_bench.experiment.workspace / "pairs").glob("*.sqlite-journal"))


def test_kept_scores_are_told_checked_and_made_again_when_they_are_damaged(own_bench: Bench) -> None:
    units = candidates(documents(own_bench, "a.txt", "b.txt"), [[0, 1]])
    first = own_bench.refined(QUESTIONS[:1], units)
    (kept,) = (own_bench.experiment.workspace / "pairs").glob("*.sqlite")
    (entry,) = [one for one in Upkeep(own_bench.experiment.workspace).entries() if one.kind == "pairs"]
    assert entry.what == f"2 cached scores of pairs (rerank model={own_bench.experiment.folder / 'model'})"
    with closing(sqlite3.connect(kept)) as database, database:
        database.execute("UPDATE vectors SET vector = ?", (bytes(4),))
    ((_, why),) = Upkeep(own_bench.experiment.workspace).verify().removed
    assert why == "2 scores of pairs had other bytes than were written"
    again = own_bench.refined(QUESTIONS[:1], units)
    np.testing.assert_array_equal(again.rankings.scores, first.rankings.scores)
