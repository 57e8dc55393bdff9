"""The documents of a config, and what is made of them before anything is searched: what commands without a run need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.datasets import corpus_of
from ragtrial.dataset.library import Library
from ragtrial.dataset.passages import PassageMatch, PassageQuery
from ragtrial.pipeline.context_stage import prefix_warnings
from ragtrial.pipeline.document_stage import PassageStage, documents_fingerprint
from ragtrial.pipeline.graph import CorpusGraph
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retriever_context import SettingContext
from ragtrial.pipeline.runner import Runner
from ragtrial.progress import Progress
from ragtrial.records import ReportWarning


class Corpus:
    """The stages below search over the documents of ``config``, in its workspace. Raises CorpusError."""

    def __init__(self, config: ExperimentConfig, progress: Progress, documents: Path | None = None) -> None:
        self.resources = Resources.of(config, progress)
        self.graph = CorpusGraph(self.resources, documents or corpus_of(config.dataset), config.dataset.on_error)
        self.runner = Runner(self.resources.workspace)
        self.library: Library = self.runner.artefact(self.graph.documents)

    @property
    def fingerprint(self) -> str:
        """What tells these documents from others; in reports, too."""
        return self.graph.documents.key()

    def located(self, sought: Sequence[PassageQuery], library: Library) -> list[PassageMatch]:
        """How and where each passage is found in ``library``, as ``passages.locate_all`` finds them; kept."""
        wanted = [(one.text, one.among) for one in sought]
        found = self.runner.artefact(PassageStage(self.resources, self.graph.documents, wanted, library))
        return [found[one] for one in wanted]

    def chunks(self, setting: Setting) -> Chunks | None:
        """The chunks of ``setting``; None if no chunker reaches it."""
        return self.runner.artefact(self.graph.chunks(setting)) if setting.cuts_documents else None

    def chunks_without_model(self, setting: Setting) -> Chunks | None:
        """The chunks of ``setting`` where they are kept, or can be made without a model."""
        if not setting.cuts_documents:
            return None
        stage = self.graph.chunks(setting)
        if setting.chunker.needs_embedder and stage.kept_key(self.resources.workspace) is None:
            return None
        return self.runner.artefact(stage)

    def prefix_warnings(self, setting: Setting) -> Iterator[ReportWarning]:
        """A warning if the file of prefixes has none for some chunks of ``setting``. Raises PrefixesError."""
        if setting.has_chunks and setting.context.prefixes is not None:
            yield from prefix_warnings(setting, self.runner.artefact(self.graph.texts(setting)))

    def prepare(self, setting: Setting) -> None:
        """Find everything that ``setting`` names (model, tokenizer, function, prefixes) before any work is done.

        Raises ModelNotFoundError, also for sizes in tokens that no tokenizer is there to count, and PrefixesError.
        """
        if "chunker" in setting.reached_by:
            setting.chunker.check()
            self.resources.unit_tokenizer(setting)
        if "embedder" in setting.reached_by:
            self.resources.embedder(setting.embedder)
        if setting.has_chunks and setting.context.prefixes is not None:  # whose rows are right or not beside chunks
            list(self.prefix_warnings(setting))

    def context(self, setting: Setting, *, loads_models: bool = True) -> SettingContext:
        """What the retriever of ``setting`` may look at before anything is searched: its index is not open."""
        stages = self.graph.stages(setting)
        return SettingContext(self.resources, self.library, stages, self.runner, loads_models=loads_models)


def fingerprint_of(config: ExperimentConfig) -> str:
    """What ``Corpus.fingerprint`` would be of ``config``; every byte of its documents is read. Raises CorpusError."""
    return documents_fingerprint(corpus_of(config.dataset), config.dataset.on_error)
