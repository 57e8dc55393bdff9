"""Qrels and runs in memory: from files of every form, and from Python's own values and tables."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ragtrial.dataset.faults import Faults
from ragtrial.dataset.qrels_text import KIND_NAMES, Columns, Kind
from ragtrial.errors import InputError, LabelsError, RunFileError
from ragtrial.records import ExperimentResults, PromptQueries
from ragtrial.runs.formats.guessing import FORMS_OF, Form, guess
from ragtrial.runs.formats.rows import Rows, file_rows, qrels_of, run_of, value_rows
from ragtrial.runs.qrels import Qrels, Run
from ragtrial.runs.run_files import load_run_file, read_sound_qrels
from ragtrial.runs.streams import Source, name_of, stem_of

REPORTS = "results"
"""Where reports are looked for by id."""


def read_qrels(
    source: object, *, form: Form | None = None, columns: Columns | None = None, directory: Source = REPORTS
) -> Qrels:
    """Qrels of a file (``-`` is standard input), or of a Python object.

    The object is ``{query: {document: grade}}``, ``{query: [document, ...]}`` (all of grade 1), a DataFrame of pandas
    or polars, an Arrow table, labels, or rows: tuples (query, document, grade), named tuples or mappings. ``columns``
    maps roles to columns, such as ``{"document": "docno"}``; usual names are known. ``form`` is guessed by default.
    Raises LabelsError with every fault, ReportError if the report does not exist.
    """
    if isinstance(source, Qrels):
        return source
    if isinstance(source, PromptQueries):
        from ragtrial.runs.formats.own_files import qrels_of_labels

        return qrels_of_labels(source)
    faults = _faults(source, LabelsError)
    if isinstance(source, str | Path):
        form = _known(form, "qrels") or guess(source, "qrels")
        if form in ("labels", "report"):
            from ragtrial.runs.formats import own_files  # its models take longer to load than most files to be scored

            if form == "labels":
                return own_files.qrels_of_labels(own_files.labels_of(source))
            return own_files.report_qrels(source, directory)
        if form == "trec" and (sound := read_sound_qrels(source)):
            return sound
    return qrels_of(_rows(source, form, "qrels", columns, faults), faults)


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
    """The runs of a file (``-`` is standard input), or of a Python object; several only for reports and results.

    Inputs are those of qrels, with scores instead of grades (tables and mappings may have a ``rank`` instead);
    documents in a list are best first. A run is called ``name``, or like its file; several runs ``name:setting``.
    Results without ids of queries need ``labels`` with the texts of the queries; ``lenient`` reads lines of TREC
    text as trec_eval does. Duplicates are kept. Raises RunFileError with every fault, ReportError if the report does
    not exist.
    """
    if isinstance(source, Run):
        return [replace(source, name=name or source.name)]
    if isinstance(source, ExperimentResults):
        from ragtrial.runs.formats.own_files import results_run

        return [replace(results_run(source, labels), name=name or source.name)]
    faults = _faults(source, RunFileError)
    own = name or "run"
    if isinstance(source, str | Path):
        form = _known(form, "run") or guess(source, "run")
        own = name or stem_of(source)
        if form in ("report", "results", "rankings"):
            from ragtrial.runs.formats import own_files

            if form == "rankings":
                return [own_files.rankings_run(source, own, faults)]
            if form == "report":
                return _renamed(own_files.report_runs(source, directory, faults), name)
            return _renamed([own_files.results_run(one, labels) for one in own_files.read_results(source)], name)
        if form in ("trec", "msmarco"):
            return [load_run_file(source, form=form, name=own, lenient=lenient)]
    return [run_of(own, _rows(source, form, "run", columns, faults), faults)]


def _rows(source: object, form: Form | None, kind: Kind, columns: Columns | None, faults: Faults) -> Rows:
    if form is not None and isinstance(source, str | Path):
        return file_rows(source, form, kind, columns, faults)
    return value_rows(source, kind, columns, faults)


def _renamed(runs: list[Run], name: str | None) -> list[Run]:
    if name and len(runs) > 1:
        return [replace(run, name=f"{name}:{run.name}") for run in runs]
    return [replace(run, name=name or run.name) for run in runs]


def _faults(source: object, error: type[InputError]) -> Faults:
    is_file = isinstance(source, str | Path)
    return Faults(name_of(source) if is_file else f"the given {type(source).__name__}", error)  # type: ignore[arg-type]


def _known(form: Form | None, kind: Kind) -> Form | None:
    if form is not None and form not in FORMS_OF[kind]:
        error = LabelsError if kind == "qrels" else RunFileError
        raise error(f"{form!r} is not a form of {KIND_NAMES[kind]}; it may be: {', '.join(FORMS_OF[kind])}.")
    return form
