"""The documents of a corpus, read once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.config import ExperimentConfig
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.errors import RunError
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Inputs, Stage
from ragtrial.progress import stage


class DocumentStage(Stage[Library]):
    """The normalised documents of ``corpus``: a folder, or a corpus.jsonl. Raises CorpusError."""

    kind = "documents"
    shown_as = "documents"

    def __init__(self, resources: Resources, corpus: Path, on_error: OnError) -> None:
        self._resources = resources
        self._corpus = corpus
        self._on_error: OnError = on_error
        self._fingerprint = documents_fingerprint(corpus, on_error, resources.digest)
        self.title = f"documents of {corpus.name}"

    def inputs(self) -> Inputs:
        return {"documents": self._fingerprint}

    def key(self) -> str:
        return self._fingerprint  # which reports name, too

    def build(self, folder: Path) -> None:
        with stage(self._resources.progress, "documents"):
            Library.write(self._corpus, folder, self._on_error)
        if documents_fingerprint(self._corpus, self._on_error, self._resources.digest) != self._fingerprint:
            raise RunError(f"the documents in {self._corpus} changed while they were read; run the same command again.")

    def load(self, folder: Path) -> Library:
        return Library(folder)


class SampleStage(Stage[Library]):
    """Some documents of ``whole``, by position: a corpus of its own."""

    kind = "documents"

    def __init__(self, resources: Resources, whole: DocumentStage, positions: Sequence[int]) -> None:
        self._resources = resources
        self._positions = positions
        self.needs = (whole,)
        self.title = f"{len(positions):,} of the {whole.title}"

    def inputs(self) -> Inputs:
        return {"documents kept": fingerprint(list(self._positions))}

    def build(self, folder: Path, library: Library) -> None:
        with stage(self._resources.progress, "documents"):
            library.write_some(self._positions, folder)

    def load(self, folder: Path) -> Library:
        return Library(folder)


def documents_fingerprint(corpus: Path, on_error: OnError, digest: Digest = file_digest) -> str:
    """What tells the documents of ``corpus`` from others, as reports name them; ``digest`` hashes files."""
    return fingerprint(["documents", corpus_fingerprint(corpus, on_error, digest)])


def fingerprint_of(config: ExperimentConfig) -> str:
    """What ``Corpus.fingerprint`` would be of ``config``; every byte of its documents is read. Raises CorpusError."""
    return documents_fingerprint(corpus_of(config.dataset), config.dataset.on_error)
