"""Semantic chunks: published thresholds and targets, a size that holds, and vectors of the setting's embedder."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from expectations import message_of, present
from experiments import QUERIES, Experiment, write_experiment
from ragtrial.components.chunkers.base import Ruler
from ragtrial.components.chunkers.meaning import SemanticChunker
from ragtrial.components.chunkers.sentences import sentences
from ragtrial.config.settings import settings_of
from ragtrial.errors import RunError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.run import Run
from ragtrial.progress import Silent
from ragtrial.rankings import Floats
from small_experiment import ragtrial

ANGLES = [0.0, 0.1, 0.15, 1.2, 1.25, 1.3, 2.8, 2.85, 2.9]
TEXT = " ".join(f"Sentence {number} is here." for number in range(len(ANGLES)))


def at_angles(angles: Sequence[float]) -> Floats:
    """Vectors whose neighbours' distances are 1 - cos of the difference of their angles; of any length."""
    rows = [(np.cos(angle) * (1 + index), np.sin(angle) * (1 + index)) for index, angle in enumerate(angles)]
    return np.array(rows, dtype=np.float32)


def groups(angles: Sequence[float] = ANGLES, text: str = TEXT, **options: object) -> list[int]:
    """How many sentences each chunk has."""
    made = SemanticChunker.model_validate({"unit": "characters", **options})
    ruler = Ruler(range(len(text)))
    vectors = at_angles(angles) if made.texts(text, ruler) else np.empty((0, 0), dtype=np.float32)
    return [len(sentences(text[span.start : span.end])) for span in made.group(text, ruler, vectors)]


@pytest.mark.parametrize(("options", "expected"), [
    ({}, [6, 3]), ({"amount": 50}, [1, 2, 1, 2, 3]), ({"threshold": "standard_deviation"}, [9]),
    ({"threshold": "standard_deviation", "amount": 1}, [6, 3]),
    ({"threshold": "standard_deviation", "amount": 0.9}, [3, 3, 3]), ({"threshold": "interquartile"}, [3, 3, 3]),
    ({"threshold": "interquartile", "amount": 2.5}, [3, 3, 3]),
    ({"threshold": "interquartile", "amount": 2.6}, [6, 3]), ({"threshold": "gradient"}, [5, 4]),
    ({"threshold": "gradient", "amount": 60}, [2, 3, 1, 3]), ({"target": 10}, [1] * 9), ({"target": 70}, [3, 3, 3]),
    ({"target": 100}, [6, 3]), ({"target": 200}, [9]),
])  # fmt: skip
def test_cuts_are_those_of_langchain_s_and_target_formulas(options: dict[str, object], expected: list[int]) -> None:
    """By hand: the distances are 0.005, 0.502 after the third sentence, 0.929 after the sixth, and 0.001 else."""
    assert groups(**options) == expected  # type: ignore[arg-type]  # none of them is angles or text


@pytest.mark.parametrize(("target", "chunks"), [(20, 1), (10, 4)])
def test_of_equal_distances_a_target_cuts_all_or_none(target: int, chunks: int) -> None:
    text = "One is. Two is. Three is. Four is."
    vectors = np.eye(2, dtype=np.float32)[[0, 1, 0, 1]]
    made = SemanticChunker(unit="characters", target=target)
    assert len(made.group(text, Ruler(range(len(text))), vectors)) == chunks


def test_sentences_are_embedded_in_context_and_groups_cut_between_them() -> None:
    text = "# One\n\nTwo is here.  Three is here. Four."
    ruler = Ruler(range(len(text)))
    assert SemanticChunker(unit="characters").texts(text, ruler) == [
        "# One\n\nTwo is here.",
        "# One\n\nTwo is here.  Three is here.",
        "Two is here.  Three is here. Four.",
        "Three is here. Four.",
    ]
    assert SemanticChunker(unit="characters", buffer=0).texts(text, ruler) == [
        "# One", "Two is here.", "Three is here.", "Four.",
    ]  # fmt: skip
    assert SemanticChunker(unit="characters", buffer=9).texts(text, ruler) == [text] * 4
    text = "One is. Two is. Three is."
    vectors = np.array([[1, 0], [0, 0], [1, 0]], dtype=np.float32)
    made = SemanticChunker(unit="characters", target=1)
    assert len(made.group(text, Ruler(range(len(text))), vectors)) == 3
    # 1 - the square of such a vector's length in double precision is 1e-16, which is no distance.
    text = " ".join("Same here." for _ in range(12))
    ruler = Ruler(range(len(text)))
    for options in ({"target": 10}, {"threshold": "percentile", "amount": 0}):
        made = SemanticChunker.model_validate({"unit": "characters", **options})
        for row in np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32):
            assert len(made.group(text, ruler, np.tile(row, (12, 1)))) == 1
    assert groups() == [6, 3]
    assert groups(size=50) == [2, 2, 2, 2, 1]
    assert groups(size=100) == [5, 1, 3]
    ruler = Ruler(range(len(TEXT)), overhead=20)
    spans = SemanticChunker(unit="characters", size=70).group(TEXT, ruler, at_angles(ANGLES))
    assert max(span.end - span.start for span in spans) == 39  # two sentences: the title takes 20
    assert SemanticChunker().counted_by == "characters"
    assert SemanticChunker(size=9).counted_by == "embedder"
    assert SemanticChunker(target=9).counted_by == "embedder"
    assert SemanticChunker(size=9, unit="characters").counted_by == "characters"


@pytest.mark.parametrize("text", ["", " \n", "One sentence alone."])
def test_nothing_is_embedded_where_there_is_nothing_to_cut(text: str) -> None:
    made, ruler = SemanticChunker(), Ruler(range(len(text)))
    assert made.texts(text, ruler) == []
    spans = made.group(text, ruler, np.empty((0, 0), dtype=np.float32))
    assert [text[span.start : span.end] for span in spans] == ([text] if text.strip() else [])


SEMANTIC = {"kind": "semantic", "threshold": "percentile", "amount": 50}


def spans(experiment: Experiment) -> list[tuple[str, int, int]]:
    (setting,) = settings_of(experiment.config())[0]
    chunks = present(Corpus(experiment.config(), Silent()).chunks(setting))
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
    message = message_of(RunError, run_experiment, experiment.config())
    assert message == "setting 'dense': embedding:embed raised ConnectionError for 4 texts: out of quota"
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
