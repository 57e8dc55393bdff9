"""Qrels and runs that users pass in any form: read, and joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragtrial.dataset.faults import Faults
from ragtrial.dataset.qrels_text import KIND_NAMES, Columns, Kind
from ragtrial.errors import Fault, InputError, LabelsError, RunFileError, did_you_mean, listed
from ragtrial.records import ExperimentResults, PromptQueries
from ragtrial.runs.formats.guessing import FORMS_OF, Form, guess
from ragtrial.runs.formats.rows import prediction_runs, qrels_of, read_rows, run_of
from ragtrial.runs.joins import in_order, load_run_file, match, read_run, read_sound_qrels
from ragtrial.runs.qrels import Duplicates, Order, Qrels, Run, RunHits
from ragtrial.runs.streams import Source, is_read_once, name_of, release, stem_of

if TYPE_CHECKING:
    from ragtrial.dataset.library import Library

REPORTS = "results"
"""The folder in which reports are looked for by id."""


@dataclass(frozen=True, eq=False)
class RunInput:
    """The qrels and runs to score, and the names of the runs.

    Without a form it is guessed; without columns those of a table have their usual names.
    """

    qrels: Any
    runs: tuple[Any, ...]
    names: tuple[str, ...] = ()
    qrels_form: Form | None = None
    run_form: Form | None = None
    qrels_columns: Columns | None = None
    run_columns: Columns | None = None

    def named_runs(self) -> Iterator[tuple[Any, str | None]]:
        """Each source of runs with the name that it is given, if any."""
        yield from zip(self.runs, self.names or (None,) * len(self.runs), strict=True)

    def judgments(self) -> Qrels:
        """The qrels: a file of any known form, ``-`` (standard input), a table, dicts. Raises LabelsError."""
        return read_qrels(self.qrels, form=self.qrels_form, columns=self.qrels_columns)

    def loaded(
        self, source: Any, name: str | None, labels: PromptQueries | None, *, lenient: bool = False
    ) -> list[Run]:
        """The runs of ``source`` in memory, as they came. Raises RunFileError, ReportError."""
        form, columns = self.run_form, self.run_columns
        return read_runs(source, form=form, columns=columns, name=name, labels=labels, lenient=lenient)

    def joined(
        self, source: Any, name: str | None, qrels: Qrels, order: Order, duplicates: Duplicates, *, lenient: bool
    ) -> Iterator[tuple[str, RunHits]]:
        """The runs that ``source`` holds, by name, joined with their judgments; a report or results may hold several.

        Runs with scores are put in ``order``; ``lenient`` reads lines as trec_eval does. Raises RunFileError,
        ReportError.
        """
        form = (self.run_form or guess(source, "run")) if isinstance(source, str | Path) else None
        if form == "trec" or form == "msmarco":
            if self.run_columns:
                raise RunFileError(f"{source} is text without names of columns (form {form}): leave them out.")
            order = "rank" if form == "msmarco" else order
            hits = read_run(source, qrels, form=form, order=order, duplicates=duplicates, lenient=lenient)
            yield name or stem_of(source), hits
            return
        for run in self.loaded(source, name, qrels.labels):
            _refuse_chunks(run, duplicates)
            yield run.name, match(run, qrels, order="rank" if run.by_rank else order, duplicates=duplicates)


def read_qrels(source: object, *, form: Form | None = None, columns: Columns | None = None) -> Qrels:
    """Qrels of a file (``-`` is standard input), or of a Python object.

    The object is ``{query: {document: grade}}``, ``{query: [document, ...]}`` (all of grade 1), a DataFrame of pandas
    or polars, an Arrow table, labels, or rows: tuples (query, document, grade), named tuples or mappings. ``columns``
    maps roles to columns, such as ``{"document": "docno"}``; usual names are known. ``form`` is guessed by default.
    Raises LabelsError with every fault, ReportError if the report does not exist.
    """
    if isinstance(source, Qrels):
        return source
    if isinstance(source, str | Path):
        form = _form_of(source, form, "qrels")
        if form == "report":
            from ragtrial.runs.formats.own_files import report_qrels

            return report_qrels(source, REPORTS)
        if form == "labels":
            source = labels_of(source)
        elif form == "trec" and (sound := read_sound_qrels(source)):
            return sound
    if isinstance(source, PromptQueries):
        from ragtrial.runs.formats.own_files import qrels_of_labels  # its models take longer to load than most files

        return qrels_of_labels(source)
    faults = _faults(source, LabelsError)
    return qrels_of(read_rows(source, form, "qrels", columns, faults), faults)


def labels_of(source: Source) -> PromptQueries:
    """The labels of a prompt_queries.json."""
    from ragtrial.dataset.labels import load_prompt_queries

    if is_read_once(source):
        release(source)
        raise LabelsError(Fault(name_of(source), message="labels can only be read from a file: name it."))
    return load_prompt_queries(Path(source))


def read_runs(
    source: object,
    *,
    form: Form | None = None,
    columns: Columns | None = None,
    name: str | None = None,
    labels: PromptQueries | None = None,
    library: Library | None = None,
    directory: Source = REPORTS,
    lenient: bool = False,
) -> list[Run]:
    """The runs of a file (``-`` is standard input), or of a Python object; most files hold one.

    Inputs are those of qrels, with scores instead of grades (tables and mappings may have a ``rank`` instead);
    documents in a list are best first. A run is called ``name``, or like its file; several runs ``name:setting``.
    Results and spans without ids of queries need ``labels`` with the texts of the queries; passages of spans that name
    no document are located in ``library``. ``lenient`` reads lines of TREC text as trec_eval does. Duplicates are
    kept. Raises RunFileError with every fault, ReportError if the report does not exist.
    """
    if isinstance(source, Run):
        return [replace(source, name=name or source.name)]
    if isinstance(source, ExperimentResults):
        from ragtrial.runs.formats.own_files import results_run

        return [replace(results_run(source, labels), name=name or source.name)]
    faults, own = _faults(source, RunFileError, name), name or "run"
    if isinstance(source, str | Path):
        form, own = _form_of(source, form, "run"), name or stem_of(source)
        if form == "mteb":
            return prediction_runs(source, name, faults)
        if form in ("report", "results", "rankings", "spans"):
            from ragtrial.runs.formats import own_files, spans

            if form == "rankings":
                return [own_files.rankings_run(source, own, faults)]
            if form == "report":
                runs = own_files.report_runs(source, directory, faults)
            elif form == "spans":
                runs = spans.trace_runs(source, own, columns, labels, library, faults)
            else:
                runs = [own_files.results_run(results, labels) for results in own_files.read_results(source)]
            begin = f"{name}:" if name else ""
            return [replace(run, name=begin + run.name if len(runs) > 1 else name or run.name) for run in runs]
        if form in ("trec", "msmarco"):
            return [load_run_file(source, form=form, name=own, lenient=lenient)]
    return [run_of(own, read_rows(source, form, "run", columns, faults), faults)]


def _faults(source: object, error: type[InputError], name: str | None = None) -> Faults:
    given = f"the given {type(source).__name__}" + (f" {name!r}" if name else "")
    return Faults(name_of(source) if isinstance(source, str | Path) else given, error)


def _form_of(source: Source, form: Form | None, kind: Kind) -> Form:
    """The given ``form``, or else the guessed form of the file. Raises LabelsError or RunFileError."""
    if form is not None and form not in FORMS_OF[kind]:
        error = LabelsError if kind == "qrels" else RunFileError
        raise error(f"{form!r} is not a form of {KIND_NAMES[kind]}; it may be: {', '.join(FORMS_OF[kind])}.")
    return form or guess(source, kind)


def chosen_run(source: str | Path, name: str | None, duplicates: Duplicates, form: Form | None = None) -> Run:
    """The run of ``source`` called ``name``, or the only one, its rows best first.

    Raises RunFileError as scoring it would, or with the runs that there are.
    """
    run = run_named(source, name, form)
    _refuse_chunks(run, duplicates)
    return best_first(run, duplicates)


def run_named(
    source: str | Path,
    name: str | None,
    form: Form | None = None,
    labels: PromptQueries | None = None,
    library: Library | None = None,
    *,
    choice: str = "--run",
) -> Run:
    """The run of ``source`` called ``name``, or the only one, its rows as they came.

    ``labels`` and ``library`` are those of ``read_runs``. Raises RunFileError, where there are several runs
    with their names; ``choice`` is how one of them is named.
    """
    runs = {run.name: run for run in read_runs(source, form=form, labels=labels, library=library)}
    if name is None and len(runs) > 1:
        raise RunFileError(f"{source} holds several runs: {listed(runs)}. Name one with {choice}.")
    if name is not None and name not in runs:
        raise RunFileError(f"{source} has no run {name!r}.{did_you_mean(name, runs)} It has: {listed(runs)}.")
    return next(iter(runs.values())) if name is None else runs[name]


def best_first(run: Run, duplicates: Duplicates) -> Run:
    """The rows of each query best first, each document once. Raises RunFileError as scoring it would."""
    match(run, Qrels.of([]), order="rank" if run.by_rank else "score", duplicates=duplicates)
    return in_order(run, "score")


def _refuse_chunks(run: Run, duplicates: Duplicates) -> None:
    """Chunks and passages are another question than documents: one is not answered instead of the other unasked."""
    if run.of_chunks and duplicates == "error":
        raise RunFileError(
            f"run {run.name!r} is of a report of passages in chunks (unit: span), and what is scored and written here "
            'are documents. `ragtrial show` has its scores; with --duplicates first (duplicates="first" in Python) '
            "each document counts, at its first chunk."
        )
