"""ragtrial validate"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import click

from ragtrial import config as configs
from ragtrial.cli.options import CONFIG_NAME, OVERRIDES, argument, config_file, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.components.embedders import model_files
from ragtrial.config import settings as config_settings
from ragtrial.dataset import chunks as dataset_chunks
from ragtrial.errors import Fault, InputError, ModelNotFoundError, counted
from ragtrial.pipeline import run as runs
from ragtrial.progress import Listener
from ragtrial.records import ReportWarning
from ragtrial.views import texts
from ragtrial.views.table import Table

_HOWS = {"exact": "verbatim", "spacing": "with other white space", "case": "in other case",
         "typography": "with other quotation marks or dashes", "markup": "without Markdown signs",
         "offsets": "by start and end alone"}  # fmt: skip


@declare("validate")
def command(
    terminal: Terminal,
    *,
    files: tuple[str, ...] = argument("[CONFIG]...", default=(CONFIG_NAME,), type=click.Path()),
    overrides: tuple[str, ...] = OVERRIDES,
    strict: bool = option("Treat warnings as errors."),
) -> Answer:
    """Check each CONFIG, its labels and its documents.

    No model is loaded or fetched. Says how the passages of the labels were found, and how many of them the chunks of
    each setting cut through.
    """
    model_files.disable_downloads()  # a model that is not on this machine is reported and not checked
    faults: list[Fault] = []
    answers: dict[str, Answer] = {}
    for name in files:
        try:
            config = config_file(None, None, name)
            answers[config] = _checked(config, overrides, terminal, strict=strict)
        except InputError as error:
            faults += (replace(fault, file=fault.file or name) for fault in error.faults)
    InputError.raise_any(dict.fromkeys(faults))
    if len(answers) == 1:
        return next(iter(answers.values()))
    blocks = [block for answer in answers.values() for block in ("", *answer.blocks)][1:]
    warnings = [warning for answer in answers.values() for warning in answer.warnings or ()]
    return Answer({"configs": [{"config": config, **answer.content} for config, answer in answers.items()]}, blocks,
                  warnings)  # fmt: skip


def _checked(config: str, overrides: Sequence[str], terminal: Terminal, *, strict: bool) -> Answer:
    """The answer about one config. Raises InputError with all of its faults."""
    run = runs.Run.of(configs.load_config(config, overrides), runs.RunOptions(listener=Listener(terminal.progress())))
    warnings = [*run.corpus.library.notes, *run.resolved.warnings, *run.setting_warnings]
    warnings += [note for note in run.dataset.notes if note.code == "overlay-missing"]
    faults = run.setting_faults()
    faults.raise_any()
    if faults.to_fetch:
        warnings.append(ReportWarning("model-not-here", " ".join(dict.fromkeys(faults.to_fetch))))
    rows = _rows(run, warnings)
    if strict and warnings:
        raise InputError(*(Fault(config, message=warning.message) for warning in warnings))
    warnings += run.files_left_out
    content = _content(run, rows)
    return Answer(content, _blocks(config, run, content), warnings)


def _rows(run: runs.Run, warnings: list[ReportWarning]) -> list[dict[str, Any]]:
    """By setting its chunks and the passages that they cut; without chunks, and with a warning, if none can be made."""
    rows: dict[str, dict[str, Any]] = {}
    cutting = config_settings.cutting(run.settings)
    for setting in [*cutting, *run.settings]:
        rows[setting.name] = {"name": setting.name, **dict.fromkeys(("chunks", "passages", "passages_cut"))}
    for setting in cutting:
        try:
            run.corpus.prepare(setting)
            chunks = run.corpus.chunks(setting, loads_models=False)
            if chunks is None:
                continue
            cut, passages = dataset_chunks.cut_passages(chunks, run.resolved.labels)
            rows[setting.name] |= {"chunks": len(chunks), "passages": passages, "passages_cut": cut}
            warnings += config_settings.uncovered_warnings(setting, chunks)
            warnings += run.too_long(setting)
            warnings += run.corpus.prefix_warnings(setting)
        except ModelNotFoundError as error:
            if not error.may_be_fetched:
                raise
    return list(rows.values())


def _content(run: runs.Run, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    library, resolutions = run.corpus.library, run.resolved.resolutions
    queries, threshold = run.resolved.labels.queries, run.config.evaluators.relevance_threshold
    grades = Counter(judgment.relevance for query in queries for judgment in query.relevant_docs)
    highest = [max((label.relevance for label in query.relevant_docs), default=-math.inf) for query in queries]
    hows = Counter(str(resolution.how) for resolution in resolutions)
    return {
        "documents": len(library),
        "empty_documents": library.empty,
        "queries": len(queries),
        "queries_without_relevant": sum(best < threshold for best in highest),
        "judgments": {str(grade): count for grade, count in sorted(grades.items())},
        "passages": {
            "labelled": len(resolutions),
            **{how: hows[how] for how in _HOWS},
            "lost": 0,  # a lost passage is an error
            "several_places": sum(resolution.places > 1 for resolution in resolutions),
            "moved": sum(resolution.moved for resolution in resolutions),
            "changed": sum(resolution.changed for resolution in resolutions),
        },
        "noticed_passages": [asdict(resolution) for resolution in resolutions if not resolution.is_plain],
        "settings": rows,
    }


def _blocks(config: str, run: runs.Run, content: Mapping[str, Any]) -> list[str | Table]:
    grades = sorted(content["judgments"].items(), key=lambda pair: -int(pair[0]))
    by_grade = ", ".join(f"{count:,} of grade {grade}" for grade, count in grades) or "none"
    blocks: list[str | Table] = [
        f"config     {config} is valid; {counted(len(run.settings), 'setting')}",
        f"documents  {content['documents']:,}, {content['empty_documents']:,} of them empty",
        f"questions  {content['queries']:,} with {counted(sum(content['judgments'].values()), 'judgment')}: {by_grade}",
    ]
    if without := content["queries_without_relevant"]:
        blocks.append(f"           {counted(without, 'question has', 'questions have')} no relevant document")
    counts = content["passages"]
    hows = ", ".join(f"{counts[how]:,} {words}" for how, words in _HOWS.items() if counts[how])
    found = f"{counts['labelled']:,} labelled, all found: {hows}"
    passages = found if hows else "none; the labels judge whole documents"
    whole = [setting for setting in run.settings if not setting.cuts_documents]
    blocks += [f"passages   {passages}", "", _table(content["settings"], {setting.name for setting in whole})]
    if any(row["passages_cut"] for row in content["settings"]):
        blocks.append("A passage is cut when no single chunk holds the whole of it.")
    not_counted = {row["name"] for row in content["settings"] if row["chunks"] is None}
    for setting in config_settings.cutting(run.settings):
        if setting.name in not_counted and setting.chunker.needs_embedder:
            blocks.append(f"{setting.name}: not counted: its chunker needs vectors, which run makes.")
    return [*blocks, *map(texts.no_chunks_line, whole)]


def _table(rows: Sequence[Mapping[str, Any]], whole: Collection[str]) -> Table:
    """A row for each setting and part, except the settings of ``whole``, which have no separate chunks."""
    cells = []
    for row in rows:
        passages, cut = row["passages"], row["passages_cut"]
        if row["chunks"] is not None:
            share = f"{cut / passages:.1%}" if passages else "-"
            cells.append([row["name"], f"{row['chunks']:,}", f"{cut:,} of {passages:,}", share])
        elif row["name"] not in whole:
            cells.append([row["name"], "not counted", "-", "-"])
    shown = 4 if any(row["passages"] for row in rows) else 2
    return Table.of(["setting", "chunks", "passages cut", "share"][:shown], [row[:shown] for row in cells])
