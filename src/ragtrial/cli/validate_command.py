"""ragtrial validate"""

from __future__ import annotations

import os
from collections import Counter

import click

from ragtrial.cli.terminal import Terminal, common_options, override_option


@click.command("validate")
@click.argument("config", type=click.Path())
@override_option
@click.option("--strict", is_flag=True, help="Treat warnings as errors.")
@common_options
def command(terminal: Terminal, config: str, overrides: tuple[str, ...], *, strict: bool) -> int:
    """Check CONFIG, its labels and its documents, without loading or fetching a model."""
    # Checking must not fetch a model: what is not on this machine is said and left unchecked.
    os.environ["HF_HUB_OFFLINE"] = "1"
    from ragtrial.config import load_config
    from ragtrial.errors import Fault, InputError, ModelNotFoundError, PrefixesError
    from ragtrial.experiment import RetrievalEvaluator
    from ragtrial.records import Caution
    from ragtrial.views.table import counted

    evaluator = RetrievalEvaluator(load_config(config, overrides), progress=terminal.progress())
    labels = evaluator.resolved.labels
    cautions = [*evaluator.ground.library.notes, *evaluator.resolved.cautions, *evaluator.setting_cautions]
    chunks: dict[str, int | None] = {}
    needs_vectors: set[str] = set()
    stale: dict[Fault, None] = {}
    for setting in evaluator.settings:
        chunks[setting.name] = None
        setting.chunker.check()
        try:
            evaluator.ground.prepare(setting)
            if not evaluator.ground.has_chunks(setting):
                needs_vectors.add(setting.name)
                continue
            chunks[setting.name] = len(evaluator.ground.chunks(setting))
            cautions += evaluator.too_long(setting)
            cautions += evaluator.ground.prefix_cautions(setting)
        except PrefixesError as error:
            stale |= dict.fromkeys(error.faults)
        except ModelNotFoundError as error:
            if setting.embedder.kind == "custom":
                raise
            cautions.append(Caution("model-not-here", f"{setting.name}: chunks were not checked. {error}"))
    if stale:
        raise PrefixesError(*stale)
    if strict and cautions:
        raise InputError(*(Fault(config, message=caution.message) for caution in cautions))
    grades = Counter(judgment.relevance for query in labels.queries for judgment in query.relevant_docs)
    quotes = sum(bool(judgment.spans) for query in labels.queries for judgment in query.relevant_docs)
    library = evaluator.ground.library
    terminal.say(f"config     {config} is right; {counted(len(evaluator.settings), 'setting')}")
    terminal.say(f"documents  {len(library):,}, {library.empty:,} of them empty")
    by_grade = ", ".join(f"{count:,} of grade {grade}" for grade, count in sorted(grades.items(), reverse=True))
    terminal.say(f"queries    {len(labels.queries):,} with {grades.total():,} judgments: {by_grade or 'none'}")
    terminal.say(f"quotes     {quotes:,} located")
    for name, count in chunks.items():
        unknown = "not counted: its chunker needs vectors, which run makes" if name in needs_vectors else "not counted"
        terminal.say(f"chunks     {name}: {f'{count:,}' if count is not None else unknown}")
    terminal.warn(cautions)
    terminal.say_json(
        {
            "exit_code": 0,
            "documents": len(library),
            "empty_documents": library.empty,
            "queries": len(labels.queries),
            "judgments": {str(grade): count for grade, count in sorted(grades.items())},
            "quotes_located": quotes,
            "settings": [{"name": name, "chunks": count} for name, count in chunks.items()],
            "warnings": [{"code": caution.code, "message": caution.message} for caution in cautions],
        }
    )
    return 0
