"""ragtrial validate"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli.terminal import Terminal, common_options, override_option
from ragtrial.errors import Fault, InputError, ModelNotFoundError, counted
from ragtrial.records import WarningCode
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.dataset.chunk_coverage import CutPassages
    from ragtrial.dataset.resolution import Resolution
    from ragtrial.evaluator import RetrievalEvaluator
    from ragtrial.records import ReportWarning

    Cuts = dict[str, tuple[int, CutPassages] | None]
    """By setting its chunks, and the passages that they cut; None where it has none, or they are not known."""


@click.command("validate", short_help="Check CONFIG, its labels and its documents.")
@click.argument("config", type=click.Path())
@override_option
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@common_options
def command(terminal: Terminal, config: str, overrides: tuple[str, ...], *, strict: bool) -> int:
    """Check CONFIG, its labels and its documents, without loading or fetching a model.

    Says how the passages of the labels were found (-v: each that was not found verbatim, once, in its place), and how
    many of them the chunks of each setting cut through.
    """
    from ragtrial.components.embedders.model_files import disable_downloads

    disable_downloads()  # what is not on this machine is said and left unchecked
    from ragtrial.config import load_config
    from ragtrial.config.settings import shallow
    from ragtrial.evaluator import RetrievalEvaluator

    evaluator = RetrievalEvaluator(load_config(config, overrides), progress=terminal.progress())
    warnings = [*evaluator.corpus.library.notes, *evaluator.resolved.warnings, *evaluator.setting_warnings]
    warnings += [note for note in evaluator.dataset.notes if note.code == "overlay-missing"]
    warnings += shallow(evaluator.settings, evaluator.questions)
    _check(evaluator, warnings)
    cuts = _cuts(evaluator, warnings)
    if strict and warnings:
        raise InputError(*(Fault(config, message=warning.message) for warning in warnings))
    warnings += evaluator.files_left_out
    _say(terminal, config, evaluator, cuts)
    terminal.warn(warnings)
    terminal.say_json(_as_json(evaluator, cuts, warnings))
    return 0


def _check(evaluator: RetrievalEvaluator, warnings: list[ReportWarning]) -> None:
    """Look for all that the settings and their parts name: as before a run, but for what takes a model."""
    from ragtrial.records import ReportWarning

    wrong: dict[Fault, None] = {}
    for setting in evaluator.used:
        left = "chunks were not checked"
        try:
            evaluator.corpus.prepare(setting)
            left = "not all was checked"
            evaluator.check(setting, loads_models=False)
        except ModelNotFoundError as error:
            if not error.may_be_fetched:
                wrong |= dict.fromkeys(error.faults)
            else:
                warnings.append(ReportWarning(WarningCode.MODEL_NOT_HERE, f"{setting.name}: {left}: {error}"))
        except InputError as error:
            wrong |= dict.fromkeys(error.faults)
    if wrong:
        raise InputError(*wrong)


def _cuts(evaluator: RetrievalEvaluator, warnings: list[ReportWarning]) -> Cuts:
    """By setting the chunks and the passages that they cut; None, and a warning, where they cannot be made."""
    from ragtrial.config.settings import cutting, uncovered_warnings
    from ragtrial.dataset.chunk_coverage import cut_passages

    found: Cuts = {}
    for setting in cutting(evaluator.settings):
        found[setting.name] = None
        try:
            evaluator.corpus.prepare(setting)
            chunks = evaluator.corpus.chunks(setting, loads_models=False)
            if chunks is None:
                continue
            found[setting.name] = len(chunks), cut_passages(chunks, evaluator.resolved.labels)
            warnings += uncovered_warnings(setting, chunks)
            warnings += evaluator.too_long(setting)
            warnings += evaluator.corpus.prefix_warnings(setting)
        except ModelNotFoundError as error:
            if not error.may_be_fetched:
                raise
    return {**found, **{one.name: None for one in evaluator.settings if one.name not in found}}


def _grades(evaluator: RetrievalEvaluator) -> Counter[int]:
    """How many judgments have each grade."""
    queries = evaluator.resolved.labels.queries
    return Counter(judgment.relevance for query in queries for judgment in query.relevant_docs)


def _say(terminal: Terminal, config: str, evaluator: RetrievalEvaluator, cuts: Cuts) -> None:
    from ragtrial.config.settings import cutting
    from ragtrial.views.chunk_listing import no_chunks_line

    labels, grades = evaluator.resolved.labels, _grades(evaluator)
    resolutions = evaluator.resolved.resolutions
    library = evaluator.corpus.library
    terminal.say(f"config     {config} is right; {counted(len(evaluator.settings), 'setting')}")
    terminal.say(f"documents  {len(library):,}, {library.empty:,} of them empty")
    by_grade = ", ".join(f"{count:,} of grade {grade}" for grade, count in sorted(grades.items(), reverse=True))
    terminal.say(f"queries    {len(labels.queries):,} with {grades.total():,} judgments: {by_grade or 'none'}")
    for head, line in zip(("passages", ""), _found_as(_counts(resolutions)), strict=False):
        terminal.say(f"{head:<11}{line}")
    for resolution in resolutions if terminal.verbose else ():
        if not resolution.is_plain:
            terminal.say(f"           {_resolution_line(resolution)}")
    terminal.say()
    terminal.table(_table(cuts, {setting.name for setting in evaluator.settings if not setting.cuts_documents}))
    if any(made is not None and made[1].cut for made in cuts.values()):
        terminal.say("A passage is cut when no single chunk holds the whole of it.")
    for setting in cutting(evaluator.settings):
        if cuts[setting.name] is None and setting.chunker.needs_embedder:
            terminal.say(f"{setting.name}: not counted: its chunker needs vectors, which run makes.")
    for setting in evaluator.settings:
        if not setting.cuts_documents:
            terminal.say(no_chunks_line(setting))


def _as_json(evaluator: RetrievalEvaluator, cuts: Cuts, warnings: Sequence[ReportWarning]) -> dict[str, Any]:
    library, resolutions = evaluator.corpus.library, evaluator.resolved.resolutions
    return {
        "exit_code": 0,
        "documents": len(library),
        "empty_documents": library.empty,
        "queries": len(evaluator.resolved.labels.queries),
        "judgments": {str(grade): count for grade, count in sorted(_grades(evaluator).items())},
        "passages": _counts(resolutions),
        "noticed_passages": [asdict(resolution) for resolution in resolutions if not resolution.is_plain],
        "settings": [
            {
                "name": name,
                "chunks": made[0] if made else None,
                "passages": made[1].passages if made else None,
                "passages_cut": made[1].cut if made else None,
            }
            for name, made in cuts.items()
        ],
        "warnings": [asdict(warning) for warning in warnings],
    }


_SAID = {
    "exact": "verbatim",
    "spacing": "with other white space",
    "case": "in other case",
    "offsets": "by start and end alone",
    "several_places": "in several places",
    "moved": "not where start and end say",
    "changed": "in a document that was changed since",
}


def _counts(resolutions: Sequence[Resolution]) -> dict[str, int]:
    """How many passages were found how; the first four, and lost, add up to all."""
    hows = Counter(str(resolution.how) for resolution in resolutions)
    return {
        "labelled": len(resolutions),
        **{how: hows[how] for how in ("exact", "spacing", "case", "offsets")},
        "lost": 0,  # one that is lost is an error
        "several_places": sum(resolution.places > 1 for resolution in resolutions),
        "moved": sum(resolution.moved for resolution in resolutions),
        "changed": sum(resolution.changed for resolution in resolutions),
    }


def _found_as(counts: Mapping[str, int]) -> list[str]:
    """``62 labelled, none lost: 60 verbatim, 2 in other case``, and on another line ``1 in several places``."""
    if not counts["labelled"]:
        return ["none; the labels judge whole documents"]
    hows = [f"{counts[how]:,} {_SAID[how]}" for how in ("exact", "spacing", "case", "offsets") if counts[how]]
    noticed = [f"{counts[what]:,} {_SAID[what]}" for what in ("several_places", "moved", "changed") if counts[what]]
    return [
        f"{counts['labelled']:,} labelled, none lost: {', '.join(hows)}",
        *([", ".join(noticed)] if noticed else []),
    ]


def _resolution_line(resolution: Resolution) -> str:
    """``query 'q1', returns.md: in other case, in 2 places: 'within 30 days'``."""
    from ragtrial.dataset.passages import short

    what = [
        _SAID[resolution.how] if resolution.how != "exact" else "",
        f"in {resolution.places:,} places" if resolution.places > 1 else "",
        _SAID["moved"] if resolution.moved else "",
        _SAID["changed"] if resolution.changed else "",
    ]
    docs = resolution.docs[0] + (f" and {len(resolution.docs) - 1:,} more" if len(resolution.docs) > 1 else "")
    quote = f": {short(resolution.quote, 60)!r}" if resolution.quote is not None else ""
    return f"query {resolution.query!r}, {docs}: {', '.join(filter(None, what))}{quote}"


def _table(cuts: Cuts, without: Container[str]) -> Table:
    """A row per setting, but those ``without`` chunks of their own; without passages, its chunks alone."""
    some = any(made is not None and made[1].passages for made in cuts.values())
    rows = []
    for name, made in cuts.items():
        if name in without:
            continue
        row = [name, f"{made[0]:,}" if made else "not counted"]
        if some:
            share = made[1].share if made else None
            row += [f"{made[1].cut:,} of {made[1].passages:,}" if made else "-"]
            row += [f"{share:.1%}" if share is not None else "-"]
        rows.append(row)
    return Table.of(["setting", "chunks", *(["passages cut", "share"] if some else [])], rows)
