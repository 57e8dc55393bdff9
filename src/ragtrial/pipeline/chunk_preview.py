"""A preview of the chunks that the chunkers of a config cut, their indexed texts, and their lengths."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragtrial.components.contextual_text import IndexedTexts
from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting, chosen_settings, cutting, length_warnings, settings_of, uncovered_warnings
from ragtrial.errors import InputError, PrefixesError, counted, did_you_mean
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.corpus_stages import LengthStage
from ragtrial.progress import Progress, Silent
from ragtrial.rankings import Counts
from ragtrial.records import ReportWarning


@dataclass(frozen=True)
class Sizes:
    """The distribution of a size over chunks; the median and the 95th percentile are sizes of chunks (nearest rank)."""

    min: int
    median: int
    p95: int
    max: int

    @classmethod
    def of(cls, sizes: Counts) -> Sizes | None:
        """The statistics of ``sizes``; None without any."""
        if not len(sizes):
            return None
        return cls(*np.percentile(sizes, [0, 50, 95, 100], method="inverted_cdf").astype(int).tolist())


@dataclass(frozen=True, eq=False)
class CutSetting:
    """The chunks of a setting, of all documents or of one.

    ``positions`` (int64) are their positions among all chunks; ``documents`` counts their documents; ``tokens`` count
    each indexed text with special tokens, None without a tokenizer.
    """

    setting: Setting
    texts: IndexedTexts
    positions: Counts
    documents: int
    tokens: Counts | None
    warnings: tuple[ReportWarning, ...]

    def __len__(self) -> int:
        return len(self.positions)

    @property
    def characters(self) -> Sizes | None:
        """The lengths of the chunks' own texts; None without any chunk."""
        chunks = self.texts.chunks
        return Sizes.of(chunks.end[self.positions] - chunks.start[self.positions])

    @property
    def indexed_tokens(self) -> Sizes | None:
        """The lengths of their indexed texts; None without any chunk, or without a tokenizer."""
        return None if self.tokens is None else Sizes.of(self.tokens[self.positions])

    def rows(self, most: int | None = None) -> Iterator[dict[str, Any]]:
        """Each chunk, or the first ``most``, as JSON values, in the order of the documents."""
        chunks = self.texts.chunks
        positions = self.positions[:most].tolist()
        for position, indexed in zip(positions, self.texts.indexed_texts(positions), strict=True):
            tokens = None if self.tokens is None else int(self.tokens[position])
            yield {"setting": self.setting.name, **chunks.row(position), "indexed": indexed, "tokens": tokens}


def cut_settings(
    config: ExperimentConfig, only: str | None = None, document: str | None = None, *, progress: Progress | None = None
) -> list[CutSetting]:
    """The chunks of every setting, or of ``only`` one; of all documents, or of the ``document`` with that id.

    Chunks of parts that are not settings themselves are included; settings that cut no documents are left out. A
    missing or invalid file of prefixes is ignored with a warning, since the preview is the source of the next one.
    Raises ConfigError for an unknown setting and InputError for an unknown document.
    """
    progress = progress or Silent()
    settings = chosen_settings(settings_of(config)[0], only and [only])
    corpus = Corpus(config, progress)
    library = corpus.library
    if document is not None and document not in library.positions:
        near = did_you_mean(document, library.ids)
        raise InputError(f"there is no document {document!r} among {counted(len(library), 'document')}.{near}")
    return [_cut(corpus, setting, document) for setting in cutting(settings)]


def distinct_rows(settings: list[CutSetting], most: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows of all settings, ``most`` of each; a chunk of several settings is listed once, for the first setting."""
    seen: set[str] = set()
    for setting in settings:
        for row in setting.rows(most):
            if row["chunk"] not in seen:
                seen.add(row["chunk"])
                yield row


def _cut(corpus: Corpus, setting: Setting, document: str | None) -> CutSetting:
    """The chunks of one setting. A chunker that only returns text has no stage of indexed texts: one is added."""
    runner, resources = corpus.runner, corpus.resources
    chunks = runner.artefact(corpus.chunk_stage(setting))
    warnings = list(uncovered_warnings(setting, chunks))
    try:
        texts = runner.artefact(corpus.text_stage(setting))
        warnings += corpus.prefix_warnings(setting)
    except PrefixesError as error:
        warnings.append(ReportWarning("prefixes-left-aside", f"{setting.name}: shown without its prefixes. {error}"))
        setting = replace(setting, context=setting.context.model_copy(update={"prefixes": None}))
        texts = runner.artefact(corpus.text_stage(setting))
    tokens = None
    embedder = resources.embedder(setting.embedder)
    if embedder.tokenizer:
        tokens = runner.artefact(corpus.once(LengthStage(resources, corpus.text_stage(setting), setting)))
        warnings += length_warnings(setting, {"chunks": embedder.count_too_long(tokens)})
    positions = np.arange(len(chunks))
    if document is not None:
        positions = np.flatnonzero(chunks.document == chunks.library.positions[document])
    documents = len(np.unique(chunks.document[positions]))
    return CutSetting(setting, texts, positions, documents, tokens, tuple(warnings))
