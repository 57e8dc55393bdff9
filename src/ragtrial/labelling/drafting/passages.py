"""The passages of a corpus from which questions are drafted, and the plain BM25 search over them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ragtrial.components.chunkers.plain import RecursiveChunker
from ragtrial.components.contextual_text import ContextOptions
from ragtrial.components.retrievers.bm25 import Bm25Retriever
from ragtrial.components.terms.analyzer import NO_STEMMER, Analyzer
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import setting_of
from ragtrial.errors import CorpusError
from ragtrial.pipeline.corpus import Corpus
from ragtrial.progress import Progress
from ragtrial.records import Question, Span

PASSAGE_SIZE = 1200
"""Characters of a passage at most: whole paragraphs, a page at most."""

LEAST_WORDS = 5
"""A passage with fewer is a heading, and answers nothing. Where words have no spaces, pairs of characters count."""


@dataclass(frozen=True)
class SourcePassage:
    """A passage of a document; ``position`` is its place among all."""

    position: int
    doc: str
    title: str
    span: Span
    text: str

    @property
    def titled(self) -> str:
        return f"{self.title}\n{self.text}" if self.title else self.text


class PassageSearch:
    """The documents of ``config`` cut into passages, whatever chunkers its settings have, and BM25 over them.

    BM25 has the options of the first setting of that kind, or the usual ones. Raises CorpusError.
    """

    def __init__(self, config: ExperimentConfig, progress: Progress) -> None:
        usual = next((one for one in config.retrievers.values() if isinstance(one, Bm25Retriever)), Bm25Retriever())
        plain = usual.model_copy(update={"chunker": None, "context": None, "embedder": None, "score": True})
        chunker = RecursiveChunker(size=PASSAGE_SIZE, overlap=0, unit="characters")
        changed = {
            "chunker": chunker,
            "context": ContextOptions(),
            "retrievers": {"bm25": plain},
            "sweep": None,
            "search": None,
        }
        setting = setting_of(config.model_copy(update=changed), "bm25")
        self.corpus = Corpus(config, progress)
        context = self.corpus.context(setting)
        self._chunks = context.chunks()
        self._bm25 = plain.open(context)
        self._analyzer = Analyzer(plain.stemmer, plain.left_out())
        self._words = Analyzer(NO_STEMMER, ()).terms

    def __getitem__(self, position: int) -> SourcePassage:
        chunks = self._chunks
        document = int(chunks.document[position])
        library = chunks.library
        span, text = chunks.span(position), chunks.text(position)
        return SourcePassage(position, library.ids[document], library.titles[document], span, text)

    def sampled(self, count: int, seed: int) -> list[SourcePassage]:
        """``count`` passages at random, each folder with its share of them; all where there are fewer.

        A document has a second passage only when all others of its folder have one. The first passages of a sample are
        a smaller sample of the same seed. Raises CorpusError for documents without any passage of some words.
        """
        rng = random.Random(seed)  # noqa: S311 - not for secrets
        folders: dict[str, dict[int, list[int]]] = {}
        for position, document in enumerate(self._chunks.document.tolist()):
            words = self._words(self._chunks.text(position))  # of scripts without spaces also each character
            if sum(len(word) > 1 for word in words) >= LEAST_WORDS:
                folder = self._chunks.library.ids[document].rpartition("/")[0]
                folders.setdefault(folder, {}).setdefault(document, []).append(position)
        if not folders:
            raise CorpusError(f"no document has a passage of at least {LEAST_WORDS} words to ask about.")
        placed: list[tuple[float, int]] = []
        for documents in folders.values():
            rounds = []
            for passages in documents.values():
                rng.shuffle(passages)
                rounds += [(number, rng.random(), position) for number, position in enumerate(passages)]
            start = rng.random()
            placed += [((place + start) / len(rounds), one[2]) for place, one in enumerate(sorted(rounds))]
        return [self[position] for _, position in sorted(placed)[:count]]

    def first(self, questions: Sequence[str]) -> list[int | None]:
        """The position of the passage that BM25 ranks first for each question; None where it finds none."""
        if not questions:
            return []
        found = self._bm25.search([Question(text) for text in questions], 1).rankings
        codes = np.asarray(found.codes)[:, 0].tolist()
        return [int(code) if code >= 0 else None for code in codes]

    def copied_share(self, question: str, passage: SourcePassage) -> float:
        """The share of the question's content words that the passage has, stop words aside and stemmed."""
        wanted = set(self._analyzer.terms(question))
        return len(wanted & set(self._analyzer.terms(passage.titled))) / max(len(wanted), 1)
