"""Qrels and runs in memory: from files of every form, and from Python's own values and tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from ragtrial.errors import InputError, LabelsError, RunFileError
from ragtrial.records import ExperimentResults, PromptQueries
from ragtrial.runs.faults import Faults
from ragtrial.runs.formats.column_roles import Columns, Kind
from ragtrial.runs.formats.frames import parquet_table, picked_from, qrels_of_columns, run_of_columns, table_of
from ragtrial.runs.formats.guessing import FORMS_OF, Form, guess
from ragtrial.runs.formats.labelled import beir_qrels, labels_of, qrels_of_labels
from ragtrial.runs.formats.mappings import json_text, qrels_of_mapping, run_of_mapping
from ragtrial.runs.formats.report_runs import rankings_run, report_qrels, report_runs
from ragtrial.runs.formats.results_files import read_results, results_run
from ragtrial.runs.formats.rows import json_lines, picked_rows
from ragtrial.runs.qrels import Qrels, Run
from ragtrial.runs.streams import Source, name_of, stem_of
from ragtrial.runs.trec.exact_reader import load_run_file
from ragtrial.runs.trec.text_files import read_qrels as read_trec_qrels

REPORTS = "results"
"""Where reports are looked for by id."""


def read_qrels(
    source: object, *, form: Form | None = None, columns: Columns | None = None, directory: Source = REPORTS
) -> Qrels:
    """Qrels of a file (``-`` is standard input), or of what Python holds.

    That is ``{query: {document: grade}}``, ``{query: [document, ...]}`` (all of grade 1), a DataFrame of pandas or
    polars, an Arrow table, labels, or rows: tuples (query, document, grade), named tuples or mappings. ``columns`` says
    which column is what, such as ``{"document": "docno"}``; usual names are known. ``form`` is guessed if it is not
    given. Raises LabelsError with every fault, ReportError for a report that is not there.
    """
    if isinstance(source, Qrels):
        return source
    if isinstance(source, PromptQueries):
        return qrels_of_labels(source)
    if isinstance(source, str | Path):
        return _qrels_file(source, _checked(form, "qrels") or guess(source, "qrels"), columns, directory)
    faults = Faults(f"the given {type(source).__name__}", LabelsError)
    table = table_of(source, faults)
    if table is not None:
        return qrels_of_columns(picked_from(table, "qrels", columns, faults), faults)
    if isinstance(source, Mapping):
        return qrels_of_mapping(source, faults)
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return qrels_of_columns(picked_rows(source, "qrels", columns, faults), faults)
    raise _no_source(source, LabelsError)


def read_runs(
    source: object,
    *,
    form: Form | None = None,
    columns: Columns | None = None,
    name: str | None = None,
    labels: PromptQueries | None = None,
    directory: Source = REPORTS,
    lenient: bool = False,
) -> list[Run]:
    """The runs of a file (``-`` is standard input), or of what Python holds; one, but for reports and results.

    As for qrels, with scores in the place of grades (tables and mappings may have a ``rank`` instead); documents in
    a list are best first. A run is called ``name``, or like its file; where there are several, ``name:setting``.
    Results without ids of queries need ``labels``, in which they are found by their texts; lines of TREC text are read
    as trec_eval does where ``lenient``. Duplicates stay for those
    who put the run in order. Raises RunFileError with every fault, ReportError for a report that is not there.
    """
    if isinstance(source, Run):
        return [replace(source, name=name or source.name)]
    if isinstance(source, ExperimentResults):
        return [replace(results_run(source, labels), name=name or source.name)]
    if isinstance(source, str | Path):
        found = _checked(form, "run") or guess(source, "run")
        if found in ("report", "results"):
            if found == "report":
                runs = report_runs(source, directory, Faults(name_of(source), RunFileError))
            else:
                runs = [results_run(one, labels) for one in read_results(source)]
            if name and len(runs) > 1:
                return [replace(run, name=f"{name}:{run.name}") for run in runs]
            return [replace(run, name=name or run.name) for run in runs]
        return [_run_file(source, found, columns, name or stem_of(source), lenient=lenient)]
    faults = Faults(f"the given {type(source).__name__}", RunFileError)
    table = table_of(source, faults)
    if table is not None:
        return [run_of_columns(name or "run", picked_from(table, "run", columns, faults), faults)]
    if isinstance(source, Mapping):
        return [run_of_mapping(name or "run", source, faults)]
    if isinstance(source, Iterable) and not isinstance(source, bytes):
        return [run_of_columns(name or "run", picked_rows(source, "run", columns, faults), faults)]
    raise _no_source(source, RunFileError)


def _qrels_file(source: Source, form: Form, columns: Columns | None, directory: Source) -> Qrels:
    faults = Faults(name_of(source), LabelsError)
    match form:
        case "trec" | "msmarco":
            return read_trec_qrels(source, form)
        case "beir":
            return beir_qrels(source, faults)
        case "labels":
            return qrels_of_labels(labels_of(source))
        case "report":
            return report_qrels(source, directory)
        case "json":
            value, text = json_text(source, faults)
            return qrels_of_mapping(value, faults, text)
        case "jsonl":
            return qrels_of_columns(picked_rows(json_lines(source, faults), "qrels", columns, faults), faults)
    table = parquet_table(source, columns, "qrels", faults)
    return qrels_of_columns(picked_from(table, "qrels", columns, faults), faults)


def _run_file(source: Source, form: Form, columns: Columns | None, name: str, *, lenient: bool) -> Run:
    faults = Faults(name_of(source), RunFileError)
    match form:
        case "trec" | "msmarco":
            return load_run_file(source, form=form, name=name, lenient=lenient)
        case "rankings":
            return rankings_run(source, name, faults)
        case "json":
            value, text = json_text(source, faults)
            return run_of_mapping(name, value, faults, text)
        case "jsonl":
            return run_of_columns(name, picked_rows(json_lines(source, faults), "run", columns, faults), faults)
    table = parquet_table(source, columns, "run", faults)
    return run_of_columns(name, picked_from(table, "run", columns, faults), faults)


def _checked(form: Form | None, kind: Kind) -> Form | None:
    if form is not None and form not in FORMS_OF[kind]:
        what = "qrels" if kind == "qrels" else "a run"
        error = LabelsError if kind == "qrels" else RunFileError
        raise error(f"{form!r} is no form of {what}; it may be: {', '.join(FORMS_OF[kind])}.")
    return form


def _no_source(source: object, error: type[InputError]) -> InputError:
    wanted = "a path, a mapping, a DataFrame, an Arrow table or a list of rows"
    return error(f"the given {type(source).__name__} cannot be read; give {wanted}.")
