"""The documents of a corpus, read once; and the places of labelled passages in them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import astuple
from pathlib import Path

from ragtrial.cache.atomic import write_text
from ragtrial.cache.fingerprints import Digest, file_digest, fingerprint
from ragtrial.config import ExperimentConfig
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.documents import OnError, corpus_fingerprint
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import PassageMatch, PassageQuery, Place, locate_all
from ragtrial.errors import RunError
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.stage import Inputs, Stage
from ragtrial.progress import stage
from ragtrial.records import Span

Wanted = tuple[str, int | None]
"""A passage, and the position of the document that it is looked for in; None for all documents."""


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


def documents_fingerprint(corpus: Path, on_error: OnError, digest: Digest = file_digest) -> str:
    """What tells the documents of ``corpus`` from others, as reports name them; ``digest`` hashes files."""
    return fingerprint(["documents", corpus_fingerprint(corpus, on_error, digest)])


class PassageStage(Stage[dict[Wanted, PassageMatch]]):
    """Where ``wanted`` passages are in ``library``, that of ``documents`` or one that is not kept."""

    kind = "passages"

    title = "places of passages"

    def __init__(
        self, resources: Resources, documents: DocumentStage, wanted: Sequence[Wanted], library: Library
    ) -> None:
        self.needs = (documents,)
        self._resources = resources
        self._wanted = sorted(set(wanted), key=lambda one: (one[0], -1 if one[1] is None else one[1]))
        self._library = library

    def inputs(self) -> Inputs:
        return {"passages": self._wanted}

    def build(self, folder: Path, _library: Library) -> None:
        with stage(self._resources.progress, "passages", len(self._wanted), "passages"):
            found = locate_all([PassageQuery(*one) for one in self._wanted], self._library)
        rows = [[one.how, [[at.document, *astuple(at.span)] for at in one.places], one.score] for one in found]
        write_text(folder / "places.json", json.dumps(rows))

    def load(self, folder: Path) -> dict[Wanted, PassageMatch]:
        rows = json.loads((folder / "places.json").read_text())
        return {
            one: PassageMatch(how, tuple(Place(place, Span(start, end)) for place, start, end in places), score)
            for one, (how, places, score) in zip(self._wanted, rows, strict=True)
        }


def fingerprint_of(config: ExperimentConfig) -> str:
    """What ``Corpus.fingerprint`` would be of ``config``; every byte of its documents is read. Raises CorpusError."""
    return documents_fingerprint(corpus_of(config.dataset), config.dataset.on_error)
