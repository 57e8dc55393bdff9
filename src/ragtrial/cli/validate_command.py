"""ragtrial validate"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeAlias

import click

from ragtrial.cli.terminal import Terminal, common_options, config_argument, override_option
from ragtrial.errors import Fault, InputError, ModelNotFoundError, counted
from ragtrial.progress import Listener
from ragtrial.records import ReportWarning
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.dataset.chunks import CutPassages
    from ragtrial.dataset.resolution import Resolution
    from ragtrial.pipeline.run import Run

Cuts: TypeAlias = "dict[str, tuple[int, CutPassages] | None]"
"""By setting its chunks, and the passages that they cut; None where it has none, or they are not known."""

_HOWS = {"exact": "verbatim", "spacing": "with other white space", "case": "in other case",
         "typography": "with other quotation marks or dashes", "markup": "without Markdown signs",
         "offsets": "by start and end alone"}  # fmt: skip


@click.command("validate")
@config_argument
@override_option
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@common_options
def command(terminal: Terminal, config: str, overrides: tuple[str, ...], *, strict: bool) -> int:
    """Check CONFIG, its labels and its documents, without loading or fetching a model.

    Says how the passages of the labels were found, and how many of them the chunks of each setting cut through.
    """
    from ragtrial.components.embedders.model_files import disable_downloads
    from ragtrial.config import load_config
    from ragtrial.config.settings import shallow
    from ragtrial.pipeline.run import Run, RunOptions

    disable_downloads()  # a model that is not on this machine is reported and not checked

    run = Run.of(load_config(config, overrides), RunOptions(listener=Listener(terminal.progress())))
    warnings = [*run.corpus.library.notes, *run.resolved.warnings, *run.setting_warnings]
    warnings += [note for note in run.dataset.notes if note.code == "overlay-missing"]
    warnings += shallow(run.settings, run.questions)
    _check(run, warnings)
    cuts = _cuts(run, warnings)
    if strict and warnings:
        raise InputError(*(Fault(config, message=warning.message) for warning in warnings))
    warnings += run.files_left_out
    _say(terminal, config, run, cuts)
    terminal.warn(warnings)
    terminal.say_json(_as_json(run, cuts, warnings))
    return 0


def _check(run: Run, warnings: list[ReportWarning]) -> None:
    """Check everything that the settings and their parts name, as before a run, except checks that need a model."""
    found = run.setting_faults()
    found.raise_any()
    warnings += [ReportWarning("model-not-here", message) for message in found.to_fetch]


def _cuts(run: Run, warnings: list[ReportWarning]) -> Cuts:
    """By setting the chunks and the passages that they cut; None, and a warning, where they cannot be made."""
    from ragtrial.config.settings import cutting, uncovered_warnings
    from ragtrial.dataset.chunks import cut_passages

    found: Cuts = {}
    for setting in cutting(run.settings):
        found[setting.name] = None
        try:
            run.corpus.prepare(setting)
            chunks = run.corpus.chunks(setting, loads_models=False)
            if chunks is None:
                continue
            found[setting.name] = len(chunks), cut_passages(chunks, run.resolved.labels)
            warnings += uncovered_warnings(setting, chunks)
            warnings += run.too_long(setting)
            warnings += run.corpus.prefix_warnings(setting)
        except ModelNotFoundError as error:
            if not error.may_be_fetched:
                raise
    return {**found, **{one.name: None for one in run.settings if one.name not in found}}


def _say(terminal: Terminal, config: str, run: Run, cuts: Cuts) -> None:
    from ragtrial.config.settings import cutting
    from ragtrial.views.texts import no_chunks_line

    told, settings = _as_json(run, cuts, ()), run.settings
    terminal.tell(f"config     {config} is valid; {counted(len(settings), 'setting')}")
    terminal.tell(f"documents  {told['documents']:,}, {told['empty_documents']:,} of them empty")
    grades = sorted(told["judgments"].items(), key=lambda one: -int(one[0]))
    by_grade = ", ".join(f"{count:,} of grade {grade}" for grade, count in grades) or "none"
    terminal.tell(f"queries    {told['queries']:,} with {sum(told['judgments'].values()):,} judgments: {by_grade}")
    if without := told["queries_without_relevant"]:
        terminal.tell(f"           {counted(without, 'query has', 'queries have')} no relevant document")
    counts = told["passages"]
    hows = ", ".join(f"{counts[how]:,} {said}" for how, said in _HOWS.items() if counts[how])
    found = f"{counts['labelled']:,} labelled, all found: {hows}" if hows else "none; the labels judge whole documents"
    terminal.tell(f"passages   {found}\n")
    terminal.table(_table(cuts, [setting.name for setting in settings if not setting.cuts_documents]))
    if any(made is not None and made[1].cut for made in cuts.values()):
        terminal.tell("A passage is cut when no single chunk holds the whole of it.")
    for setting in cutting(settings):
        if cuts[setting.name] is None and setting.chunker.needs_embedder:
            terminal.tell(f"{setting.name}: not counted: its chunker needs vectors, which run makes.")
    for setting in settings:
        if not setting.cuts_documents:
            terminal.tell(no_chunks_line(setting))


def _as_json(run: Run, cuts: Cuts, warnings: Sequence[ReportWarning]) -> dict[str, Any]:
    library, resolutions = run.corpus.library, run.resolved.resolutions
    queries = run.resolved.labels.queries
    grades = Counter(judgment.relevance for query in queries for judgment in query.relevant_docs)
    settings = []
    for name, made in cuts.items():
        chunks, passages, cut = (made[0], made[1].passages, made[1].cut) if made else (None, None, None)
        settings.append({"name": name, "chunks": chunks, "passages": passages, "passages_cut": cut})
    return {
        "exit_code": 0,
        "documents": len(library),
        "empty_documents": library.empty,
        "queries": len(queries),
        "queries_without_relevant": sum(
            all(one.relevance < run.config.evaluators.relevance_threshold for one in query.relevant_docs)
            for query in queries
        ),
        "judgments": {str(grade): count for grade, count in sorted(grades.items())},
        "passages": _counts(resolutions),
        "noticed_passages": [asdict(resolution) for resolution in resolutions if not resolution.is_plain],
        "settings": settings,
        "warnings": [asdict(warning) for warning in warnings],
    }


def _counts(resolutions: Sequence[Resolution]) -> dict[str, int]:
    """How many passages were found how; the first four, and lost, add up to all."""
    hows = Counter(str(resolution.how) for resolution in resolutions)
    return {
        "labelled": len(resolutions),
        **{how: hows[how] for how in _HOWS},
        "lost": 0,  # a lost passage is an error
        "several_places": sum(resolution.places > 1 for resolution in resolutions),
        "moved": sum(resolution.moved for resolution in resolutions),
        "changed": sum(resolution.changed for resolution in resolutions),
    }


def _table(cuts: Cuts, without: Sequence[str]) -> Table:
    """A row for each setting and part, except settings in ``without``, which have no separate chunks."""
    rows = []
    for name, made in cuts.items():
        if made is not None:
            share = "-" if made[1].share is None else f"{made[1].share:.1%}"
            rows.append([name, f"{made[0]:,}", f"{made[1].cut:,} of {made[1].passages:,}", share])
        elif name not in without:
            rows.append([name, "not counted", "-", "-"])
    shown = 4 if any(made and made[1].passages for made in cuts.values()) else 2
    return Table.of(["setting", "chunks", "passages cut", "share"][:shown], [row[:shown] for row in rows])
