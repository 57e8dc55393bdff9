"""The documents of a report that was written before: found by its config, and the same by their fingerprint."""

from __future__ import annotations

from pathlib import Path

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.dataset.datasets import corpus_of
from ragtrial.errors import CorpusError, Fault, InputError
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.document_stage import fingerprint_of
from ragtrial.progress import Progress
from ragtrial.report.model import Report


class DocumentsNotFoundError(CorpusError):
    """The documents that a report is of cannot be had."""


def documents_of(report: Report, config_file: str | Path | None, progress: Progress) -> tuple[ExperimentConfig, Corpus]:
    """The config whose documents ``report`` is of, and its workspace with them.

    ``config_file`` names the config; without it, the one that ``config_file_of`` finds. Raises DocumentsNotFoundError
    if there is none, or its documents are others now.
    """
    found = config_file_of(report) if config_file is None else config_file
    if found is None:
        raise DocumentsNotFoundError(
            f"the documents of run {report.run_id} are needed, to find the passages that labels mean, and nearby there "
            "is no config of that report, or its documents were changed since. Name the config that it was run with "
            "(--config CONFIG), or run the experiment again."
        )
    config = config_with_documents(report, found)
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


def config_file_of(report: Report) -> Path | None:
    """A file with the text of the report's config, and its documents: here, around the reports, or a folder deeper."""
    copy = report.file("config.yaml")
    text = copy.read_text(encoding="utf-8") if copy.is_file() else None
    roots = dict.fromkeys([Path.cwd(), *report.folder.absolute().parents[2:3]])
    inside = [path for root in roots if root.is_dir() for path in sorted(root.iterdir()) if path.name[:1] != "."]
    for folder in dict.fromkeys([*roots, *filter(Path.is_dir, inside)]):
        for path in sorted(folder.glob("*.y*ml")):
            if path.is_file() and _has_documents(report, path, text):
                return path
    return None


def _has_documents(report: Report, path: Path, text: str | None) -> bool:
    try:
        return path.read_text(encoding="utf-8-sig", errors="replace") == text and bool(
            config_with_documents(report, path)
        )
    except (InputError, OSError):
        return False
