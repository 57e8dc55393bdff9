"""The cached embedder: every text is embedded once, ever."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from expectations import message_of
from experiments import Experiment, write_experiment
from ragtrial.cache.vectors import VectorCache, text_keys
from ragtrial.components.batching import TextList
from ragtrial.components.embedders.base import Encode
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.custom import CustomEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.components.user_functions import FunctionReference
from ragtrial.errors import EmbedderError
from ragtrial.rankings import Floats
from tiny_models import DIMENSION

WORDS = ["bread", "soup", "oven", "rye", "leek", "butter", "stock", "onion"]


@pytest.fixture
def experiment(tmp_path: Path) -> Experiment:
    return write_experiment(tmp_path)


def custom(experiment: Experiment, **options: Any) -> CustomEmbedder:
    return CustomEmbedder(function=FunctionReference("embedding:embed", experiment.folder), **options)


def cached(experiment: Experiment, **options: Any) -> CachedEmbedder:
    """An embedder as a new run would make it: it knows only what is on disk."""
    return CachedEmbedder(custom(experiment, **options), experiment.workspace / "vectors")


def embed(embedder: CachedEmbedder, texts: Sequence[str], prefix: str = "") -> tuple[Floats, int | None, int]:
    """The vectors, how many texts are too long, and how many were reported as done."""
    steps: list[int] = []
    source = TextList(texts)
    lengths = embedder.lengths(source, prefix)
    embedded = embedder.embed(source, prefix, lengths, steps.append)
    vectors = np.concatenate([np.empty((0, embedded.dimension), dtype=np.float32), *embedded.blocks()])
    assert embedded.distinct == len(set(texts))
    return vectors, embedder.count_too_long(lengths), sum(steps)


def directly(experiment: Experiment, texts: Sequence[str]) -> Floats:
    """What the function itself says of ``texts``, each scaled to length 1."""
    vectors = np.asarray(custom(experiment).load()(texts), dtype=np.float64)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), dtype=np.float32)


def test_the_time_of_embedding_is_without_loading_it(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans, costs and forecasts take it for the model's rate.

    The clock moves by 100 s for loading, and by 1 s for each batch.
    """
    now, load = [0.0], CustomEmbedder.load

    def slow_load(self: CustomEmbedder) -> Encode:
        encode = load(self)
        now[0] += 100

        def slow(texts: Sequence[str]) -> Floats:
            now[0] += 1
            return encode(texts)

        return slow

    monkeypatch.setattr(CustomEmbedder, "load", slow_load)
    monkeypatch.setattr("ragtrial.components.embedders.cached.time.perf_counter", lambda: now[0])
    embedder, source = cached(experiment, batch_size=2), TextList(["soup", "bread", "oven"])
    steps: list[float] = []
    embedded = embedder.embed(source, "", embedder.lengths(source, ""), lambda _: steps.append(now[0]))
    assert (embedded.seconds, steps) == (2, [100, 101, 102])


def test_a_text_is_embedded_once_behind_each_prefix(experiment: Experiment) -> None:
    embedder = cached(experiment, query_prefix="some ")
    first, _, _ = embed(embedder, ["rye"], "some ")
    second, _, _ = embed(embedder, ["rye"], "other ")
    embedder.embed_queries(["rye"])
    assert experiment.embedded() == ["some rye", "other rye"]
    assert not np.allclose(first, second)


def test_what_was_finished_before_a_failure_is_not_embedded_again(experiment: Experiment) -> None:
    texts = [f"loaf {number}" for number in range(100)]
    done: list[int] = []
    experiment.trouble("raise", after=80)
    with pytest.raises(
        EmbedderError, match=r"^embedding:embed raised ConnectionError for 1 text: out of quota\. The text was 'loaf"
    ):
        cached(experiment, batch_size=1).embed(TextList(texts), "", np.arange(100), done.append)
    tried = experiment.embedded()
    assert 50 <= sum(done) <= 80
    experiment.no_trouble()
    vectors, _, _ = embed(cached(experiment, batch_size=1), texts)
    checked, *again = experiment.embedded()[len(tried) :]
    kept = set(tried[: sum(done)])
    assert checked in kept
    assert sorted(again) == sorted(set(texts) - kept)
    np.testing.assert_allclose(vectors, directly(experiment, texts), atol=1e-6)


@pytest.mark.parametrize("batch_size", [1, 32])
def test_vectors_that_are_not_numbers_are_refused_and_not_kept(experiment: Experiment, batch_size: int) -> None:
    experiment.trouble("nan", after=0)
    with pytest.raises(EmbedderError, match="returned NaN or infinity for "):
        embed(cached(experiment, batch_size=batch_size), WORDS)
    experiment.no_trouble()
    assert np.isfinite(embed(cached(experiment, batch_size=batch_size), WORDS)[0]).all()


@pytest.mark.parametrize("is_same_run", [True, False])
def test_another_dimension_is_refused(experiment: Experiment, *, is_same_run: bool) -> None:
    embedder = cached(experiment, version="1")
    embed(embedder, ["soup", "oven", "rye"])
    experiment.trouble("shorter", after=0)
    with pytest.raises(EmbedderError) as caught:
        (embedder if is_same_run else cached(experiment, version="1")).embed_queries(["soup", "bread"])
    assert str(caught.value) == "the embedder (custom) returned vectors of dimension 3; before they had 32."


def test_no_texts_load_no_model_and_a_search_past_the_cache_asks_it_again(experiment: Experiment) -> None:
    vectors, too_long, done = embed(cached(experiment), [])
    assert (vectors.shape, too_long, done) == ((0, 0), None, 0)
    assert experiment.embedded() == []
    assert cached(experiment).embed_queries([]).shape == (0, 0)
    embedder = cached(experiment)
    embedder.embed_queries(["soup"])
    np.testing.assert_allclose(embedder.embed_now(["soup"]), embedder.embed_queries(["soup"]), atol=1e-6)
    assert experiment.embedded() == ["soup", "soup"]


def test_texts_too_long_count_prefixes_and_special_tokens(experiment: Experiment, minilm_folder: Path) -> None:
    tokenizer = str(minilm_folder / "tokenizer.json")
    # With [CLS] and [SEP]: 5, 6 and 7 tokens.
    texts = ["rye bread oven", "rye bread oven soup", "rye bread oven soup onion"]
    embedder = cached(experiment, tokenizer_model=tokenizer, max_length=6)
    assert embed(embedder, texts)[1] == 1
    assert embed(embedder, texts, "hot ")[1] == 2
    assert embedder.lengths(TextList(texts), "").tolist() == [5, 6, 7]
    assert embedder.lengths(TextList(texts), "hot ").tolist() == [6, 7, 8]
    assert embedder.count_too_long(np.array([5, 6, 7, 7])) == 2
    for options in ({"tokenizer_model": tokenizer}, {"max_length": 1}):
        assert cached(experiment, **options).count_too_long(np.array([5])) is None, "one of the two is not known"


@given(
    earlier=st.lists(st.sampled_from(WORDS), max_size=6),
    texts=st.lists(st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join), max_size=60),
    batch_size=st.integers(1, 3),
)
def test_whatever_was_cached_before_the_vectors_are_those_of_the_texts_and_new_ones_are_embedded_once(
    tmp_path_factory: pytest.TempPathFactory, earlier: list[str], texts: list[str], batch_size: int
) -> None:
    experiment = write_experiment(tmp_path_factory.mktemp("cache"))
    embed(cached(experiment), earlier)
    assert sorted(experiment.embedded()) == sorted(set(earlier))
    vectors, _, done = embed(cached(experiment, batch_size=batch_size), texts)
    again = experiment.embedded()[len(set(earlier)) :]
    new = set(texts) - set(earlier)
    checked = again[: 1 if new and earlier else 0]  # one text of before: is the function still the same?
    assert set(checked) <= set(earlier)
    assert sorted(again[len(checked) :]) == sorted(new)
    assert done == len(texts)
    if texts:
        np.testing.assert_allclose(vectors, directly(experiment, texts), atol=1e-6)


def test_long_texts_come_first_and_lengths_may_be_characters(experiment: Experiment) -> None:
    """A Han character is more than a token, four letters are one: batches and costs count the same in every script."""
    texts = ["", "rye", "bread and butter", "黑麦面包"]
    lengths = cached(experiment).lengths(TextList(texts), "about ")
    assert lengths.tolist() == [0, 3, 16, 21]
    assert lengths.dtype == np.int64
    assert cached(experiment).lengths(TextList([]), "").shape == (0,)
    texts = [f"loaf {number}" for number in range(20)]
    cached(experiment, batch_size=1).embed(TextList(texts), "", np.arange(20))
    asked = experiment.embedded()
    assert set(asked[:8]) == set(texts[12:])
    assert set(asked[8:16]) == set(texts[4:12])
    assert set(asked[16:]) == set(texts[:4])


def test_vectors_come_in_blocks_that_are_read_from_the_file_again_each_time(experiment: Experiment) -> None:
    texts = [f"loaf {number % 3}" for number in range(40_000)]
    embedder = cached(experiment)
    embedded = embedder.embed(TextList(texts), "", embedder.lengths(TextList(texts), ""))
    first, second = list(embedded.blocks()), list(embedded.blocks())
    assert sum(map(len, first)) == 40_000
    assert max(block.nbytes for block in first) <= 4_000_000 < 40_000 * 32 * 4
    assert [len(block) for block in first] == [len(block) for block in second]
    expected = directly(experiment, texts[:3])
    np.testing.assert_allclose(np.concatenate(first), np.tile(expected, (13_334, 1))[:40_000], atol=1e-6)
    assert (embedded.distinct, embedded.dimension) == (3, 32)


OTHER = "embed(texts):\n    return [[float(len(text)), 1.0, *[0.0] * 30] for text in texts]\n\n\ndef was(texts):"


def test_vectors_of_two_models_are_not_mixed_under_one_version(experiment: Experiment) -> None:
    embed(cached(experiment, version="1"), ["soup", "oven"])
    file = experiment.folder / "embedding.py"
    file.write_text(file.read_text().replace("embed(texts):", OTHER, 1))  # other vectors of the same dimension
    assert message_of(EmbedderError, embed, cached(experiment, version="1"), ["bread", "soup", "oven"]) == (
        "the embedder (custom) gives another vector for 'soup' than it gave before; vectors of two models cannot be "
        "compared. If the model has changed, give it another `version:`."
    )
    vectors, _, _ = embed(cached(experiment, version="2"), ["bread", "soup", "oven"])
    np.testing.assert_allclose(vectors, directly(experiment, ["bread", "soup", "oven"]), atol=1e-6)


def test_a_damaged_probe_blames_no_model(experiment: Experiment) -> None:
    embedder = cached(experiment, version="1")
    embed(embedder, ["oven", "soup"])
    with closing(sqlite3.connect(embedder.path)) as database, database:
        assert database.execute("UPDATE probes SET vector = zeroblob(length(vector))").rowcount == 1
    vectors, _, _ = embed(cached(experiment, version="1"), ["bread"])
    np.testing.assert_allclose(vectors, directly(experiment, ["bread"]), atol=1e-6)


def test_a_function_that_gives_nearly_the_same_vectors_is_still_the_same(experiment: Experiment) -> None:
    """Hosted models vary in the fourth digit."""
    embed(cached(experiment, version="1"), ["soup bowl", "oven"])
    file = experiment.folder / "embedding.py"
    text = file.read_text()
    assert "return vectors" in text
    file.write_text(
        text.replace("return vectors", "return [[1.001 * v[0], *[x + 2e-4 for x in v[1:]]] for v in vectors]")
    )
    vectors, _, _ = embed(cached(experiment, version="1"), ["bread", "soup bowl"])
    assert vectors.shape == (2, 32)


def test_one_known_text_is_compared_per_load_of_the_function_and_no_more(experiment: Experiment) -> None:
    embed(cached(experiment, version="1"), WORDS[:3])
    embedder = cached(experiment, version="1")
    before = len(experiment.embedded())
    embed(embedder, WORDS[:4])
    embed(embedder, WORDS[:5])
    assert len(experiment.embedded()) - before == 1 + 2
    embedder.release()
    embed(embedder, WORDS[:6])
    assert len(experiment.embedded()) - before == 1 + 2 + 1 + 1


def test_a_model_known_by_its_files_is_not_compared_with_what_is_cached(tiny_model: Path, tmp_path: Path) -> None:
    """Its fingerprint is the hash of them: another model has another cache."""
    options = SentenceTransformerEmbedder(model=str(tiny_model), device="cpu")
    embed(CachedEmbedder(options, tmp_path), WORDS[:2])
    embedder = CachedEmbedder(options, tmp_path)
    with VectorCache(embedder.path) as cache:
        cache.write(text_keys(WORDS[:1]), np.eye(1, DIMENSION, dtype=np.float32))
    vectors, _, _ = embed(embedder, WORDS[:3])
    np.testing.assert_array_equal(vectors[0], np.eye(1, DIMENSION, dtype=np.float32)[0])
