"""The outcome of a run: the settings that were scored, the settings that failed, and the report of both."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting
from ragtrial.errors import Fault, RagtrialError, RunError, without_frames, without_secrets
from ragtrial.pipeline.reporting import build_report, part_rankings, ranking_rows, text_rows
from ragtrial.pipeline.results import packages_of
from ragtrial.pipeline.run import Run
from ragtrial.pipeline.scored_setting import ScoredSetting
from ragtrial.report.model import Report, write_report
from ragtrial.report.schema import FailurePart

Known = Mapping[tuple[str, int], ScoredSetting]
"""Settings that were scored before, by their keys."""

_NONE: Known = MappingProxyType({})


@dataclass
class Outcome:
    """The scored settings of a run and its failures, by name, in the order in which they ended."""

    scored: dict[str, ScoredSetting] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    failures: dict[str, FailurePart] = field(default_factory=dict)

    def error(self) -> Exception:
        """The error to raise if no setting succeeded; an unexpected error keeps its traceback."""
        faults: list[Fault] = []
        for name, error in self.errors.items():
            if not isinstance(error, RagtrialError):
                return error
            faults += (replace(fault, message=f"setting {name!r}: {fault.message}") for fault in error.faults)
        return RunError(*faults)


def score_settings(
    run: Run,
    settings: Sequence[Setting] | None = None,
    known: Known = _NONE,
    *,
    announces: bool = False,
    were_reported: bool = False,
) -> Outcome:
    """Score ``settings``, by default all of ``run``; a setting that fails is a value, and the others go on.

    Settings in ``known`` are not scored again. With ``announces`` the listener gets the score of each of several
    settings for which a stage was built, and with ``were_reported`` no failure. Under ``fail_fast`` the first failure
    is raised.
    """
    outcome, listener, runner = Outcome(), run.options.listener, run.corpus.runner
    primary, count = str(run.metrics.primary), len(run.settings)
    for setting in settings or run.one_by_one():
        built = runner.built
        try:
            earlier = known.get(setting.key)
            scored = run.score(setting) if earlier is None else earlier.renamed(setting)
        except MemoryError:
            raise
        except Exception as error:
            failure = _failure(setting.name, error)
            outcome.failures[setting.name], outcome.errors[setting.name] = failure, without_frames(error)
            if not were_reported:
                listener.failed(setting.name, failure.error)
            if run.options.fail_fast:
                raise outcome.error() from error
            continue
        outcome.scored[setting.name] = scored
        mean = scored.evaluations[primary].mean.mean
        if announces and count > 1 and runner.built > built and mean is not None:
            listener.notice(f"{setting.name}: {primary} {mean:.4f} ({len(outcome.scored)} of {count} settings)")
    return outcome


def score_all(run: Run, known: Known = _NONE, *, were_reported: bool = False) -> Outcome:
    """Score all settings of ``run``; see ``score_settings``. Raises RunError if none was scored."""
    outcome = score_settings(run, known=known, announces=True, were_reported=were_reported)
    if not outcome.scored:
        raise outcome.error()
    kept, built = len(run.corpus.runner.kept), run.corpus.runner.built
    if not built:
        message = f"Nothing was computed: all {kept:,} stages are cached, and only scored again."
        run.options.listener.notice(message)
    return outcome


def notice_unlabelled(run: Run) -> None:
    """Notify the listener before any work if no question has a label that could give a score."""
    if not any(label.relevance > 0 for query in run.resolved.labels.queries for label in query.relevant_docs):
        run.options.listener.notice(
            f"No question in {run.dataset.labels_file} has a relevant document: settings are run, but get no "
            'scores. `ragtrial search CONFIG "a question" --label` labels one.'
        )


def report_of(run: Run, outcome: Outcome, config: ExperimentConfig | None = None) -> Report:
    """The report of ``run``, not yet written. ``config`` is the config to show, by default that of the run."""
    config, scored, library = config or run.config, list(outcome.scored.values()), run.corpus.library
    counts = {"documents": len(library), "empty_documents": library.empty}
    return build_report(
        scored,
        run.resolved.labels,
        run.metrics,
        config.evaluators,
        library,
        run.warnings,
        documents={**counts, "documents_fingerprint": run.corpus.fingerprint},
        packages=packages_of([setting.found.setting for setting in scored], library),
        experiment=config.experiment,
        config=config.as_written,
        failures=list(outcome.failures.values()),
    )


def write_outcome(run: Run, outcome: Outcome, report: Report, files: Mapping[str, str]) -> Report:
    """Write ``report`` with the rankings of ``outcome``, and ``files`` beside them; it ends the run."""
    config, options, scored = run.config, run.options, list(outcome.scored.values())
    is_complete = options.limit is None and options.settings is None and not report.failures
    run.corpus.resources.workspace.finish(complete=is_complete)
    rankings = {setting.name: ranking_rows(setting) for setting in scored} | part_rankings(scored)
    text = config.text or json.dumps(config.as_written, indent=1)
    texts = text_rows(scored, run.resolved.labels.queries)
    return write_report(report, Path(config.output.directory), rankings, texts, text, files)


def _failure(setting: str, error: Exception) -> FailurePart:
    """The failure as the report has it, with the traceback if the error is unexpected."""
    if isinstance(error, RagtrialError):
        return FailurePart(name=setting, error=str(error))
    summary = without_secrets(f"it broke ({type(error).__name__}: {error})")
    if isinstance(error, ModuleNotFoundError) and error.name:
        summary = (
            f"there is no module {error.name} here; install its package, or put its file where Python looks for it"
        )
    details = without_secrets("".join(traceback.format_exception(error)))
    return FailurePart(name=setting, error=summary, details=details)
