"""Passages are located once: another run with the same documents and passages reads where they are."""

from __future__ import annotations

from pathlib import Path

from experiments import Experiment, write_experiment
from ragtrial.dataset.passages import PassageQuery, locate_all
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Silent

SOUGHT = [
    PassageQuery("Blend"),
    PassageQuery("paper\nbag"),
    PassageQuery("SOUP KEEPS", 5),
    PassageQuery("absent words"),
    PassageQuery("Blend", 0),
    PassageQuery("Blend"),
]


class Stages(Silent):
    """Notes which stages there were."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, stage: str, total: int | None, unit: str) -> None:
        self.begun.append(stage)


def corpus_of(experiment: Experiment) -> tuple[Corpus, Stages]:
    stages = Stages()
    return Corpus(experiment.config(), stages), stages


def test_located_passages_are_kept_and_read_again_as_they_were(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path)
    first, made = corpus_of(experiment)
    expected = locate_all(SOUGHT, first.library)
    assert [one.how for one in expected] == ["exact", "spacing", "case", "lost", "lost", "exact"]
    assert first.located(SOUGHT, first.library) == expected
    assert made.begun == ["documents", "passages"]
    second, made = corpus_of(experiment)
    assert second.located(list(reversed(SOUGHT)), second.library) == expected[::-1]
    assert made.begun == []


def test_other_passages_and_other_documents_are_located_anew(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path)
    corpus, made = corpus_of(experiment)
    corpus.located(SOUGHT, corpus.library)
    corpus.located(SOUGHT[1:], corpus.library)  # the same texts
    assert made.begun == ["documents", "passages"]
    corpus.located(SOUGHT[2:], corpus.library)
    assert made.begun == ["documents", "passages", "passages"]
    (tmp_path / "documents" / "storage.txt").write_text("In a paper\nbag.", encoding="utf-8")
    assert not corpus.resources.workspace.repaired
    corpus, made = corpus_of(experiment)
    found = corpus.located(SOUGHT, corpus.library)
    assert found == locate_all(SOUGHT, corpus.library)
    assert found[1].how == "exact"
    assert made.begun == ["documents", "passages"]
    assert not corpus.resources.workspace.repaired
