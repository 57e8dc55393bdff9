"""The documents of a report that was written before: found by its config, and the same by their fingerprint."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.config.load import config_as_written
from ragtrial.dataset.datasets import corpus_of
from ragtrial.errors import CorpusError, Fault, InputError
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.document_stage import fingerprint_of
from ragtrial.pipeline.resources import workspace_folder
from ragtrial.progress import Progress
from ragtrial.report.model import Report


class DocumentsNotFoundError(CorpusError):
    """The documents that a report is of cannot be had."""


def documents_of(report: Report, config_file: str | Path | None, progress: Progress) -> tuple[ExperimentConfig, Corpus]:
    """The config whose documents ``report`` is of, and its workspace with them.

    ``config_file`` names the config; without it, one of the same text, or a workspace, is looked for here and beside
    the reports, one folder deep. Raises DocumentsNotFoundError if there is none, or its documents are others now.
    """
    if config_file is not None:
        config = config_with_documents(report, config_file)
        return config, Corpus(config, progress)
    known: dict[Path, str | None] = {}
    for config in _candidates(report):
        corpus = corpus_of(config.dataset)
        if corpus not in known:
            known[corpus] = fingerprint_of(config) if corpus.exists() else None
        if known[corpus] == report.dataset.documents_fingerprint:
            return config, Corpus(config, progress)
    changed = [str(corpus) for corpus, found in known.items() if found is not None]
    why = f"those in {changed[0]} were changed since" if changed else "no config of that report was found nearby"
    raise DocumentsNotFoundError(
        f"the documents of run {report.run_id} are needed, to find the passages that labels mean, and {why}. Name the "
        "config that it was run with: --config CONFIG" + ("; or run the experiment again." if changed else ".")
    )


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
    """The file nearby, as ``documents_of`` looks, with the text of the report's config and its documents, if any."""
    copy = report.folder / "config.yaml"
    text = copy.read_text(encoding="utf-8") if copy.is_file() else None
    for folder in _folders(report):
        for path in _config_files(folder):
            if _is(path, text) and _has_documents(report, path):
                return path
    return None


def _has_documents(report: Report, path: Path) -> bool:
    try:
        config = load_config(path)
        corpus = corpus_of(config.dataset)
        return corpus.exists() and fingerprint_of(config) == report.dataset.documents_fingerprint
    except InputError:
        return False


def _config_files(folder: Path) -> list[Path]:
    return [path for ending in ("*.yaml", "*.yml") for path in sorted(folder.glob(ending))]


def _candidates(report: Report) -> Iterator[ExperimentConfig]:
    """The report's config, as if it stood in each folder where it may: beside a file of its text, or its workspace."""
    copy = report.folder / "config.yaml"
    text = copy.read_text(encoding="utf-8") if copy.is_file() else None
    for folder in _folders(report):
        try:
            config = config_as_written(report.config, folder)
            corpus_of(config.dataset)
        except InputError:
            continue
        if any(_is(path, text) for path in _config_files(folder)) or workspace_folder(config).is_dir():
            yield config


def _is(path: Path, text: str | None) -> bool:
    try:
        return path.read_text(encoding="utf-8-sig") == text
    except (OSError, UnicodeDecodeError):
        return False


def _folders(report: Report) -> list[Path]:
    """The current folder, the one around the folder of reports, and the folders in each."""
    roots = dict.fromkeys([Path.cwd(), *report.folder.absolute().parents[2:3]])
    inside = [path for root in roots if root.is_dir() for path in sorted(root.iterdir())
              if path.is_dir() and not path.name.startswith(".")]  # fmt: skip
    return list(dict.fromkeys([*roots, *inside]))
