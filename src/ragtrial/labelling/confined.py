"""What a report or a worklist names without a command line doing so: followed only where it stays below its folder."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from ragtrial.config import ExperimentConfig, load_config
from ragtrial.config.strict_yaml import parse_yaml
from ragtrial.dataset.texts import read_text
from ragtrial.errors import ConfigError, Fault, InputError
from ragtrial.labelling.worklist import Worklist
from ragtrial.pipeline.resources import workspace_folder

_CONFIG = "--config CONFIG"


def below(path: str | Path, folder: Path, source: str | Path, option: str) -> Path:
    """``path``, which ``source`` names, if it is below ``folder`` once symbolic links are resolved.

    Raises InputError that asks to name it by ``option``.
    """
    if not _stays(Path(path), folder):
        message = f"names {path}, which is outside of {folder}; a path there must be named: {option}."
        raise InputError(Fault(str(source), message=message))
    return Path(path)


def config_below(file: Path, folder: Path, source: str | Path, *, with_documents: bool = True) -> ExperimentConfig:
    """The config in ``file``, if it extends no other, and its labels, documents and cache are below ``folder``.

    Nothing else is opened before that is known; documents and cache need not be there if they are not read. Raises
    InputError, for what ``source`` names, otherwise.
    """
    below(file, folder, source, _CONFIG)
    if not file.exists():
        message = f"names the config {file}, which is not there; name the one with the documents: {_CONFIG}."
        raise InputError(Fault(str(source), message=message))
    content = parse_yaml(read_text(file, ConfigError), str(file), folder)
    if isinstance(content.value, dict) and "extends" in content.value:
        message = f"names {file}, which extends another config; one that does must be named: {_CONFIG}."
        raise InputError(Fault(str(source), message=message))
    config = load_config(file)
    dataset = config.dataset
    paths = [dataset.queries, dataset.beir, dataset.overlay]
    if with_documents:
        own = config.workspace is None and os.environ.get("RAGTRIAL_WORKSPACE")
        paths += [dataset.corpus, None if own else str(workspace_folder(config))]
    for path in map(Path, filter(None, paths)):
        below(path, folder, file, _CONFIG)
        for link in _links_in(path):
            below(link, folder, file, _CONFIG)
    return config


def label_options(worklist: Worklist, file: Path) -> str:
    """What `ragtrial label` must be given besides ``file``, which is to hold ``worklist``; begins with a space."""
    folder, options = file.absolute().parent, ""
    if not _stays(Path(worklist.labels), folder):
        options += f" --labels {shlex.quote(worklist.labels)}"
    if worklist.config is not None:
        try:
            config_below(Path(worklist.config), folder, file)
        except InputError:
            options += f" --config {shlex.quote(worklist.config)}"
    return options


def _stays(path: Path, folder: Path) -> bool:
    return path.resolve().is_relative_to(folder.resolve())


def _links_in(path: Path) -> list[Path]:
    """The symbolic links in a folder."""
    return [
        Path(root, name) for root, folders, files in os.walk(path) for name in (*folders, *files)
        if Path(root, name).is_symlink()
    ]  # fmt: skip
