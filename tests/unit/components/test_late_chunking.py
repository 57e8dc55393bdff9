"""Late chunking: a chunk's vector is the mean of its tokens' vectors, read in the surroundings of their document."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from experiments import Experiment, write_experiment
from ragtrial import run_experiment
from ragtrial.cache.vectors import VectorCache
from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.components.embedders.late_chunking import LateChunkingEmbedder
from ragtrial.components.token_vectors.late_chunks import DocumentWindows, pooled_chunks
from ragtrial.config.load import load_config
from ragtrial.config.settings import setting_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import Library
from ragtrial.errors import ConfigError, InputError, RagtrialError
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.dry_run import PlannedStage
from ragtrial.pipeline.run import Run
from ragtrial.progress import Silent
from tiny_models import edit_json

SHORT = "Bake the rye bread for an hour. Never put it into the fridge."
LONG = " ".join(f"Step {number}: knead the dough, and let it rest for {number} minutes." for number in range(30))
DOCUMENTS = {"short.txt": SHORT, "titled.md": "# Leek soup\nSlice the leeks. Add stock.", "long.txt": LONG}


def kitchen(folder: Path, model: Path, documents: Mapping[str, str] = DOCUMENTS, **changes: Any) -> Experiment:
    embedder = {"kind": "late-chunking", "model": str(model), "device": "cpu", "overlap": 8, "batch_size": 2}
    return write_experiment(folder, documents=documents, **{"embedder": embedder, **changes})


def vectors_of(experiment: Experiment, *overrides: str) -> tuple[IndexedTexts, npt.NDArray[np.float32]]:
    """The chunks of the experiment's only setting, and their vectors."""
    config = experiment.config(*overrides)
    corpus, setting = Corpus(config, Silent()), setting_of(config, "dense")
    corpus.prepare(setting)
    stages = corpus.stages(setting)
    assert stages.embeddings is not None
    assert stages.texts is not None
    return corpus.runner.artefact(stages.texts), corpus.runner.artefact(stages.embeddings).matrix


def token_vectors(model: Path, text: str) -> tuple[npt.NDArray[Any], list[tuple[int, int]]]:
    """What sentence-transformers gives for every token of ``text``, and where these are, by transformers."""
    from sentence_transformers import SentenceTransformer
    from transformers import AutoTokenizer

    found = SentenceTransformer(str(model), device="cpu").encode(text, output_value="token_embeddings")
    offsets = AutoTokenizer.from_pretrained(str(model))(text, return_offsets_mapping=True)["offset_mapping"]
    return found.cpu().numpy(), offsets


def unit(vector: npt.NDArray[Any]) -> npt.NDArray[Any]:
    scaled: npt.NDArray[Any] = vector / np.linalg.norm(vector)
    return scaled


def test_a_document_of_one_chunk_has_the_vector_that_it_has_by_itself(tiny_model: Path, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    documents = {name: text for name, text in DOCUMENTS.items() if name != "long.txt"}
    texts, found = vectors_of(kitchen(tmp_path, tiny_model, documents, chunker={"kind": "document"}))
    own = SentenceTransformer(str(tiny_model), device="cpu").encode(
        list(texts.indexed_texts()), normalize_embeddings=True
    )
    assert list(texts.indexed_texts())[1].startswith("Leek soup # Leek soup"), "its title is read, too"
    np.testing.assert_allclose(found, own, atol=1e-5)


def test_a_chunk_has_the_mean_of_its_tokens_vectors_as_the_document_has_them(tiny_model: Path, tmp_path: Path) -> None:
    experiment = kitchen(tmp_path, tiny_model, {"short.txt": SHORT}, chunker={
        "kind": "fixed", "size": 31, "overlap": 0, "unit": "characters"})  # fmt: skip
    texts, found = vectors_of(experiment)
    vectors, offsets = token_vectors(tiny_model, SHORT)
    chunks = texts.chunks
    assert [chunks.text(code) for code in range(2)] == [SHORT[:31], SHORT[31:].strip()]
    for code in range(2):
        inside = [chunks.start[code] <= start < chunks.end[code] and end > start for start, end in offsets]
        inside[0], inside[-1] = code == 0, code == 1  # [CLS] goes with the first token, [SEP] with the last
        np.testing.assert_allclose(found[code], unit(vectors[np.array(inside)].mean(axis=0)), atol=1e-5)


def test_a_long_document_is_read_in_windows_and_each_token_taken_from_the_one_with_most_around_it(
    tiny_model: Path, tmp_path: Path
) -> None:
    experiment = kitchen(tmp_path, tiny_model, {"long.txt": LONG})
    texts, found = vectors_of(experiment)
    embedder = experiment.config().embedder
    assert isinstance(embedder, LateChunkingEmbedder)
    windows = DocumentWindows(texts, embedder)
    assert len(windows) > 5
    places, vectors = [], []
    for window, text in zip(windows.windows, windows.indexed_texts(), strict=True):
        made, offsets = token_vectors(tiny_model, text)
        for (start, end), vector in zip(offsets, made, strict=True):
            if window.first <= start + window.start < window.last and end > start:
                places.append(start + window.start)
                vectors.append(vector)
    assert places == sorted(set(places)), "every token once"
    at, every = np.array(places), np.array(vectors)
    for code in range(1, len(found) - 1):
        inside = (texts.chunks.start[code] <= at) & (at < texts.chunks.end[code])
        np.testing.assert_allclose(found[code], unit(every[inside].mean(axis=0)), atol=1e-5)


@pytest.fixture(scope="module")
def embedder(tiny_model: Path) -> LateChunkingEmbedder:
    return LateChunkingEmbedder(model=str(tiny_model), device="cpu", overlap=6, max_length=40)


_WORDS = st.lists(st.sampled_from(["dough", "a", "kneading", "x" * 30, "\n\n", "パン", "., "]), max_size=120)


@given(words=_WORDS, title=st.sampled_from(["", "Rye bread", "Soup"]))
@settings(max_examples=40)
def test_windows_fit_overlap_and_share_out_all_of_the_text(
    embedder: LateChunkingEmbedder, tmp_path_factory: pytest.TempPathFactory, words: list[str], title: str
) -> None:
    folder, text = tmp_path_factory.mktemp("windows"), " ".join(words)
    (folder / "corpus.jsonl").write_text(f'{{"_id": "a", "title": "{title}", "text": {quoted(text)}}}\n')
    (made := folder / "library").mkdir()
    Library.write(folder / "corpus.jsonl", made)
    library = Library(made)
    text = library.text(0)
    windows = DocumentWindows(IndexedTexts(Chunks.of(library, [(0, 0, len(text))])), embedder)
    tokenizer, found = windows.tokenizer, windows.windows
    assert [one.first for one in found[1:]] == [one.last for one in found[:-1]]
    assert (found[0].first, found[-1].last) == (0, len(text))
    for one, read in zip(found, windows.indexed_texts(), strict=True):
        assert int(tokenizer.counts([read])[0]) <= 40
        assert one.start <= one.first <= one.last <= one.end
    if len(found) > 1:
        assert windows.documents_in_windows == 1
        overlaps = [tokenizer.alone([text[two.start : one.end]])[0] for one, two in pairwise(found)]
        assert min(overlaps) >= 5


def quoted(text: str) -> str:
    import json

    return json.dumps(text)


def test_all_chunkings_share_one_pass_and_the_same_vectors_come_from_what_is_kept(
    tiny_model: Path, tmp_path: Path
) -> None:
    experiment = kitchen(tmp_path, tiny_model)
    _, first = vectors_of(experiment)
    (file,) = (experiment.workspace / "tokens").glob("*.sqlite")
    with VectorCache(file) as cache:
        windows = len(cache)
    nowhere = "embedder.device=nowhere"  # where no model can be loaded
    _, smaller = vectors_of(experiment, "chunker.size=40", nowhere)
    _, again = vectors_of(experiment, nowhere)
    assert len(smaller) > len(first)
    np.testing.assert_array_equal(again, first)
    with VectorCache(file) as cache:
        assert len(cache) == windows
    with pytest.raises(RagtrialError, match="cannot be loaded"):
        vectors_of(experiment, "embedder.overlap=10", nowhere)


class Stopping(Silent):
    """Stops the program after some windows."""

    left = 5

    def advance(self, count: int) -> None:
        self.left -= count
        if self.left <= 0:
            raise KeyboardInterrupt


def test_every_batch_of_windows_before_a_stop_is_kept(tiny_model: Path, tmp_path: Path) -> None:
    experiment = kitchen(tmp_path, tiny_model, {"long.txt": LONG})
    config = experiment.config()
    corpus = Corpus(config, Silent())
    stages = corpus.stages(setting_of(config, "dense"))
    assert stages.texts is not None
    texts, embedder = corpus.runner.artefact(stages.texts), config.embedder
    assert isinstance(embedder, LateChunkingEmbedder)
    windows, path = DocumentWindows(texts, embedder), tmp_path / "tokens.sqlite"
    lengths = corpus.resources.embedder(embedder).lengths(windows, "")
    with pytest.raises(KeyboardInterrupt):
        pooled_chunks(windows, embedder, path, lengths, Stopping().advance)
    with VectorCache(path) as cache:
        assert len(cache) == 6, "batches of two; the third stopped it"
    done: list[int] = []
    pooled_chunks(windows, embedder, path, lengths, done.append)
    assert done[0] == 6
    assert sum(done) == len(windows)


def test_a_run_says_which_documents_were_read_in_windows_and_is_another_model_than_chunk_by_chunk(
    tiny_model: Path, tmp_path: Path
) -> None:
    by_chunk = {"kind": "sentence-transformer", "model": str(tiny_model), "device": "cpu"}
    entries = {"late": {"kind": "dense", "top_k": 3}, "plain": {"kind": "dense", "top_k": 3, "embedder": by_chunk}}
    experiment = kitchen(tmp_path, tiny_model, retrievers=entries)
    experiment.write_queries([{"id": "rye", "text": "rye bread?", "relevant_docs": [{"doc": "short.txt"}]}])
    report = run_experiment(experiment.config())
    late, plain = report.settings
    assert late.fingerprint != plain.fingerprint
    assert (late.counts["documents_too_long"], late.counts["queries_too_long"]) == (1, 0)
    assert [one.message for one in report.warnings if one.code == "too-long"] == [
        "late: 1 documents are longer than the 64 tokens that the model reads; they were read in windows of so many "
        "that overlap by 8, so a chunk is seen in no more of its document than that."
    ]
    assert late.health is not None
    assert (late.health.zeros, late.health.distinct_texts) == (0, late.counts["chunks"])


def test_what_late_chunking_cannot_do_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    import shutil

    cls = shutil.copytree(tiny_model, tmp_path / "cls")
    edit_json(cls / "1_Pooling" / "config.json", pooling_mode="cls")
    experiment = kitchen(tmp_path / "a", cls)
    with pytest.raises(RagtrialError, match=r"is made of Transformer, Pooling \(pooling: cls\); late chunking needs"):
        vectors_of(experiment)
    with pytest.raises(ConfigError) as failure:
        vectors_of(kitchen(tmp_path / "b", tiny_model, context={"sentences": 1}))
    assert str(failure.value) == (
        "dense: late chunking reads documents as they are; remove headings, sentences and prefixes from context, or "
        "use kind: sentence-transformer."
    )
    titled = kitchen(tmp_path / "c", tiny_model, {"a.md": f"# {'very ' * 45}long\n{LONG}"})
    with pytest.raises(RagtrialError, match=r"document 'a.md': its title and the prefix take 46 of the 64 tokens"):
        vectors_of(titled)
    with pytest.raises(InputError, match=r"overlap is 8; it must be less than half of max_length, 16\."):
        load_config(titled.file, ["embedder.max_length=16"])


@pytest.mark.parametrize(("backend", "precision"), [("openvino", "int8"), ("openvino", "float32"), ("onnx", "float32")])
def test_a_backend_other_than_torch_is_refused_in_the_config(
    backend: str, precision: str, tiny_model: Path, tmp_path: Path
) -> None:
    experiment = kitchen(tmp_path, tiny_model)
    said = (
        rf"embedder: backend is {backend}, which kind: late-chunking does not support; set backend: torch \(with "
        r"precision: float32 or bfloat16\), or use kind: sentence-transformer\."
    )
    with pytest.raises(ConfigError, match=said):
        load_config(experiment.file, [f"embedder.backend={backend}", f"embedder.precision={precision}"])
    with pytest.raises(ConfigError, match="precision: int8 with backend: torch is not supported"):
        load_config(experiment.file, ["embedder.precision=int8"])
    load_config(experiment.file, ["embedder.precision=bfloat16", "embedder.device=cpu"])


def test_a_plan_counts_the_windows_that_are_to_do_and_names_the_model_that_was_changed(
    tiny_model: Path, tmp_path: Path
) -> None:
    experiment = kitchen(tmp_path / "late", tiny_model)

    def embeddings(*overrides: str) -> PlannedStage:
        plan = Run.of(experiment.config(*overrides)).dry_run()
        (found,) = [stage for stage in plan.stages if stage.kind == "embeddings"]
        return found

    vectors_of(experiment)
    cached, other = embeddings(), embeddings("embedder.overlap=4")
    assert cached.is_cached
    assert (cached.amount.unit, cached.amount.to_do) == ("windows", 0)
    assert other.amount.count >= len(DOCUMENTS)
    assert 0 < other.amount.to_do < other.amount.count  # those of documents in one window are the same
    assert other.why == "embedder.overlap changed from 8 to 4"
