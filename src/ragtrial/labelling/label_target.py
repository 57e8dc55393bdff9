"""The file of the labels of a worklist, and the paths that are followed without being named on a command line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.dataset.labels import labels_file, load_prompt_queries
from ragtrial.dataset.texts import read_text
from ragtrial.errors import ConfigError, Fault, InputError, LabelsError, listed
from ragtrial.labelling.edits import form_of
from ragtrial.labelling.label_files import Form, OverlayText
from ragtrial.labelling.worklist import TextToGrade, Worklist, speaks_of
from ragtrial.options import from_here
from ragtrial.pipeline.resources import workspace_folder
from ragtrial.records import PromptQueries
from ragtrial.report.model import Report
from ragtrial.scoring.rescore import config_with_documents, is_of_given_runs

_CONFIG = "--config CONFIG"


class OutsideError(InputError):
    """A file that is used only if the user names it, since it leads out of the folder of the file that names it."""


def below(path: str | Path, folder: Path, source: str | Path, option: str) -> Path:
    """``path``, which ``source`` names, if it is below ``folder`` once symbolic links are resolved.

    Raises OutsideError that asks to name it by ``option``.
    """
    if not _stays(Path(path), folder):
        message = f"names {path}, which is outside of {folder}; a path there must be named: {option}."
        raise OutsideError(Fault(str(source), message=message))
    return Path(path)


def config_below(file: Path, folder: Path, source: str | Path, *, with_documents: bool = True) -> ExperimentConfig:
    """The config in ``file``, if it extends no other, and its labels, documents and cache are below ``folder``.

    No other file is opened before that check. Documents and cache need not exist if they are not read. Raises
    InputError with the name of ``source`` otherwise.
    """
    below(file, folder, source, _CONFIG)
    if not file.exists():
        message = f"names the config {file}, which is not there; name the one with the documents: {_CONFIG}."
        raise InputError(Fault(str(source), message=message))
    content = parse_yaml(read_text(file, ConfigError), str(file), folder)
    if isinstance(content.value, dict) and "extends" in content.value:
        message = f"names {file}, which extends another config; one that does must be named: {_CONFIG}."
        raise OutsideError(Fault(str(source), message=message))
    config = load_config(file)
    dataset = config.dataset
    paths = [dataset.queries, dataset.beir, dataset.overlay]
    if with_documents:
        workspace = workspace_folder(config)  # the user's own, unless the config names one or has one beside it
        is_chosen = config.workspace is not None or workspace == file.absolute().parent / ".ragtrial"
        paths += [dataset.corpus, str(workspace) if is_chosen else None]
    for path in map(Path, filter(None, paths)):
        below(path, folder, file, _CONFIG)
        for link in _links_in(path):
            below(link, folder, file, _CONFIG)
    return config


def label_command(worklist: Worklist, file: Path, *, labels: Path | None = None, config: Path | None = None) -> str:
    """The command that labels ``worklist`` in ``file``, with ``labels``, ``config``, and the paths to be named."""
    folder = file.absolute().parent
    if labels is None and not _stays(Path(worklist.labels), folder):
        labels = Path(worklist.labels)
    if config is None and worklist.config is not None:
        try:
            config_below(Path(worklist.config), folder, file)
        except InputError:
            config = Path(worklist.config)
    paths = {"--labels": labels, "--config": config}
    options = [f" {option} {shlex.quote(from_here(path))}" for option, path in paths.items() if path is not None]
    return f"ragtrial label {shlex.quote(str(file))}{''.join(options)}"


def _stays(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _links_in(path: Path) -> list[Path]:
    """The symbolic links in a folder."""
    return [
        Path(root, name) for root, folders, files in os.walk(path) for name in (*folders, *files)
        if Path(root, name).is_symlink()
    ]  # fmt: skip


CONFIG_NAME = "experiment.yaml"
Kind = Literal["prompt_queries", "overlay"]


@dataclass(frozen=True)
class LabelTarget:
    """The file that labels are written into. ``config`` is the file of the config, if it is known.

    ``labels`` are the labels of a prompt_queries.json as written, None for an overlay.
    """

    file: Path
    kind: Kind
    form: Form
    config: Path | None
    labels: PromptQueries | None


def label_target(report: Report, labels: Path | None, config_file: Path | None) -> LabelTarget:
    """The target of labels for ``report``: ``labels``, else the labels of its config. Raises InputError without one.

    ``config_file`` names the config; the default is ``own_config``.
    """
    config: ExperimentConfig | None = None
    if config_file is None:
        if (config_file := own_config(report)) is not None:
            config = config_below(config_file, Path.cwd(), config_file.name, with_documents=False)
    elif is_of_given_runs(report):
        config = load_config(config_file)
    else:
        config = config_with_documents(report, config_file)
    path = config_file.absolute() if config_file is not None else None
    file = _named(report, config, path) if labels is None else labels
    if file.suffix in (".yaml", ".yml"):
        message = "is a config; name the file that labels are written into, or give it as --config."
        raise InputError(Fault(str(file), message=message))
    if file.suffix != ".json" and file.suffixes[-2:] != [".json", ".gz"]:
        return LabelTarget(file.absolute(), "overlay", "document", path, None)
    file = labels_file(file)
    known = load_prompt_queries(file)
    written = report.config if config is None else config.as_written
    by_content = (written.get("dataset") or {}).get("match") == "content"
    form = form_of(known.queries, by_content=by_content, unit=report.unit)
    return LabelTarget(file.absolute(), "prompt_queries", form, path, known)


def own_config(report: Report) -> Path | None:
    """The experiment.yaml of the current folder, if ``report`` is outside of that folder and was run with the same
    text.

    A foreign report brings its own config along, in any folder.
    """
    file, copy = Path.cwd() / CONFIG_NAME, report.file("config.yaml")
    if Path.cwd().resolve().is_relative_to(report.folder.resolve()) or not (file.is_file() and copy.is_file()):
        return None
    return file if file.read_bytes() == copy.read_bytes() else None


def _named(report: Report, config: ExperimentConfig | None, path: Path | None) -> Path:
    """The file of labels that the config names."""
    if config is None:
        why = "was scored from rankings alone" if is_of_given_runs(report) else "is of no config that is known here"
        raise InputError(
            f"run {report.run_id} {why}: which file shall labels be written into? Name it: --labels FILE (a "
            "prompt_queries.json, or a .tsv to be laid upon qrels), or the config that names it: --config CONFIG."
        )
    options = config.dataset
    if options.beir is None:
        return Path(options.queries or "")
    if options.overlay is None:
        message = (
            "a BEIR folder stays as it is. Put labels of your own into a file beside it: ragtrial pool "
            f"{report.folder} --labels overlay.tsv. To score by them, set dataset.overlay: overlay.tsv in the config."
        )
        raise LabelsError(Fault(str(path), message=message))
    return Path(options.overlay)


def refuse_others(target: LabelTarget, items: Sequence[TextToGrade], report: Report) -> None:
    """Raise LabelsError if the file lacks queries of ``items``, or judges some that ``report`` has unjudged."""
    if target.labels is not None:
        known = {query.id for query in target.labels.queries}
        gone = list(dict.fromkeys(item.query for item in items if item.query not in known))
        if gone:
            message = (
                f"lacks queries of run {report.run_id} that are to be labelled: {listed(gone, 5)}. It "
                "holds other labels; name those of the run: --labels FILE."
            )
            raise LabelsError(Fault(str(target.file), message=message))
    by_document = report.unit == "document"
    if target.labels is None:
        judged_pairs = OverlayText.read(target.file).judged
        judged = sum((item.query, item.doc) in judged_pairs for item in items)
    else:
        labels = {query.id: query.relevant_docs for query in target.labels.queries}
        judged = sum(
            any(speaks_of(label, item, by_content=target.form == "content", by_document=by_document)
                for label in labels.get(item.query, ()))
            for item in items
        )  # fmt: skip
    if judged:
        message = (
            f"judges {judged:,} of the hits that run {report.run_id} has unjudged; it was changed since. Score by it "
            f"first, and pool what comes of that: ragtrial rescore {report.folder} --labels {target.file}"
        )
        raise LabelsError(Fault(str(target.file), message=message))
