"""Chunkers that need vectors take them from the setting's embedder, once, and lose none of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import QUERIES, Experiment, write_experiment
from ragtrial.config.settings import settings_of
from ragtrial.errors import RunError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.run import Run
from ragtrial.progress import Silent
from small_experiment import ragtrial

SEMANTIC = {"kind": "semantic", "threshold": "percentile", "amount": 50}


def corpus_in(experiment: Experiment, progress: Any = None) -> Corpus:
    config = experiment.config()
    return Corpus(config, progress or Silent())


def spans(experiment: Experiment) -> list[tuple[str, int, int]]:
    (setting,) = settings_of(experiment.config())[0]
    chunks = corpus_in(experiment).chunks(setting)
    assert chunks is not None
    found = (chunks.span(position) for position in range(len(chunks)))
    return [(chunks.document_id(position), span.start, span.end) for position, span in enumerate(found)]


def test_chunks_are_of_each_document_alone_with_its_prefix(tmp_path: Path) -> None:
    """Titles count in the size; vectors of one document are not those of another."""
    together = write_experiment(tmp_path / "together", chunker=SEMANTIC)
    found = spans(together)
    for name in sorted({name for name, _, _ in found}):
        text = (together.folder / "documents" / name).read_text()
        alone = write_experiment(tmp_path / name.replace("/", "-"), documents={name: text}, chunker=SEMANTIC)
        assert spans(alone) == [one for one in found if one[0] == name]
    assert len(found) > len({name for name, _, _ in found})
    embedder = {"kind": "custom", "function": "embedding:embed", "document_prefix": "passage: "}
    experiment = write_experiment(tmp_path, chunker=SEMANTIC, embedder=embedder)
    spans(experiment)
    assert experiment.embedded()
    assert all(text.startswith("passage: ") for text in experiment.embedded())


@pytest.mark.parametrize("change", [{"version": "2"}, {"document_prefix": "passage: "}])
def test_another_embedder_or_prefix_makes_other_chunks(tmp_path: Path, change: dict[str, str]) -> None:
    experiment = write_experiment(tmp_path, chunker=SEMANTIC)
    spans(experiment)
    config = json.loads(experiment.file.read_text())
    config["embedder"] |= change
    experiment.file.write_text(json.dumps(config))
    spans(experiment)
    assert len([kind for kind, _ in experiment.stages() if kind == "chunks"]) == 2


def test_an_embedder_that_fails_while_texts_are_cut_leaves_no_chunks(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, chunker=SEMANTIC)
    experiment.trouble("raise", after=5)
    with pytest.raises(RunError) as caught:
        run_experiment(experiment.config())
    assert str(caught.value) == "setting 'dense': embedding:embed raised ConnectionError for 4 texts: out of quota"
    assert not [kind for kind, _ in experiment.stages() if kind == "chunks"]


def test_validate_and_prepare_embed_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    experiment = write_experiment(tmp_path, queries=QUERIES[:3], chunker=SEMANTIC)
    Run.prepare(experiment.config())
    outcome = ragtrial(capsys, "validate", experiment.file, "--strict")
    assert outcome.code == 0
    assert "dense: not counted: its chunker needs vectors, which run makes.\n" in outcome.out
    assert experiment.embedded() == []
    for _ in range(2):
        run_experiment(experiment.config())
    embedded = experiment.embedded()
    assert len(embedded) == len(set(embedded)) > 0
    outcome = ragtrial(capsys, "validate", experiment.file)
    assert f"\ndense    {len(spans(experiment)):>6}\n" in outcome.out


def test_documents_with_nothing_to_embed_are_whole_and_an_empty_one_is_found_by_its_title(tmp_path: Path) -> None:
    corpus = [
        {"_id": "none", "title": "", "text": ""},
        {"_id": "title", "title": "Only a title", "text": ""},
        {"_id": "one", "title": "", "text": "One sentence."},
    ]
    queries = [{"id": "q", "text": "one", "relevant_docs": [{"doc": "one"}]}]
    dataset = {"corpus": "corpus.jsonl", "queries": "prompt_queries.json"}
    experiment = write_experiment(tmp_path, queries=queries, chunker=SEMANTIC, dataset=dataset)
    (tmp_path / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)))
    assert spans(experiment) == [("title", 0, 0), ("one", 0, 13)]
    assert experiment.embedded() == []
