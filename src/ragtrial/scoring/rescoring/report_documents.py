"""The documents of a report that was written before: those of the config that is named, if they are the same."""

from __future__ import annotations

from pathlib import Path

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.dataset.datasets import corpus_of
from ragtrial.errors import CorpusError, Fault
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.document_stage import fingerprint_of
from ragtrial.progress import Progress
from ragtrial.report.model import Report


class DocumentsNotFoundError(CorpusError):
    """The documents that a report is of cannot be had."""


def documents_of(report: Report, config_file: str | Path | None, progress: Progress) -> tuple[ExperimentConfig, Corpus]:
    """The config in ``config_file``, whose documents ``report`` is of, and its workspace with them.

    Raises DocumentsNotFoundError if no config is named, or if its documents are others now.
    """
    if config_file is None:
        raise DocumentsNotFoundError(
            f"the documents of run {report.run_id} are needed, to find the passages that labels mean. Name the config "
            "that it was run with: --config CONFIG."
        )
    config = config_with_documents(report, config_file)
    return config, Corpus(config, progress)


def config_with_documents(report: Report, config_file: str | Path) -> ExperimentConfig:
    """The config in ``config_file``. Raises DocumentsNotFoundError if its documents are not those of ``report``."""
    config = load_config(config_file)
    if fingerprint_of(config) != report.dataset.documents_fingerprint:
        message = (
            f"its documents, {corpus_of(config.dataset)}, are not those of run {report.run_id}: they were changed "
            "since, or it is the config of another experiment. Name the right one, or run the experiment again."
        )
        raise DocumentsNotFoundError(Fault(str(config_file), message=message))
    return config
