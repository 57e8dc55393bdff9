"""The whole way: run_experiment retrieves with every setting, scores it and writes the report."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ragtrial.config import ExperimentConfig
from ragtrial.config.settings import Setting, chosen_settings
from ragtrial.errors import Fault, RagtrialError, RunError
from ragtrial.evaluator import RetrievalEvaluator
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.graph import own_depth
from ragtrial.pipeline.open_setting import open_setting
from ragtrial.pipeline.reporting import FinishedRun, build_report, part_rankings, ranking_rows, text_rows
from ragtrial.pipeline.retrieval import found_texts
from ragtrial.pipeline.runner import failures_seen
from ragtrial.pipeline.scores import Scored
from ragtrial.pipeline.stage import Stage, all_needs
from ragtrial.progress import Progress, Silent
from ragtrial.records import FoundText, Question
from ragtrial.report.environment import without_secrets
from ragtrial.report.model import Report, new_run_id, write_report
from ragtrial.report.schema import FailurePart

logger = logging.getLogger(__name__)


def run_experiment(
    config: ExperimentConfig,
    *,
    progress: Progress | None = None,
    limit: int | None = None,
    strict: bool = False,
    audit: bool = False,
    jobs: int = 1,
    fail_fast: bool = False,
    on_failure: Callable[[str, str], None] = lambda _name, _why: None,
) -> Report:
    """Run every setting of ``config``, score it, and write the report.

    ``limit`` runs only the first queries; ``strict`` makes warnings about the input errors; ``audit`` compares every
    index with exact search, also those of 100,000 vectors and more. Up to ``jobs`` stages are made side by side.

    A setting that fails is told to ``on_failure`` at once (its name, and why), noted in the report, and the others go
    on; with ``fail_fast`` the first one ends the run, and no stage beside it is begun any more. Raises InputError
    before anything is run, RunError if all settings fail.
    """
    evaluator = RetrievalEvaluator(config, progress=progress, limit=limit, strict=strict, audit=audit)
    evaluator.prepare()
    failing = _Failing(on_failure, fail_fast)
    if jobs > 1:
        ends = {setting: evaluator.graph.run_of(setting).ranking for setting in evaluator.settings}
        stages = dict.fromkeys(stage for end in ends.values() for stage in all_needs(end))
        evaluator.corpus.runner.run_side_by_side(stages, jobs, partial(failing.of_stage, ends))
    scored, failures = _score_all(evaluator, failing)
    run = FinishedRun(
        id=new_run_id(datetime.now(UTC)),
        labels=evaluator.resolved.labels,
        documents_fingerprint=evaluator.corpus.fingerprint,
        metrics=evaluator.metrics,
        failures=failures,
        warnings=evaluator.warnings,
    )
    report = build_report(config, run, scored)
    evaluator.corpus.resources.workspace.finish(complete=limit is None and not failures)
    rankings = {one.rankings.setting.name: ranking_rows(one) for one in scored} | part_rankings(scored)
    config_text = config.text or json.dumps(config.as_written, indent=1)
    return write_report(report, Path(config.output.directory), rankings, text_rows(scored), config_text)


def search_settings(
    config: ExperimentConfig, text: str, only: str | None = None, *, progress: Progress | None = None
) -> dict[str, list[FoundText]]:
    """What the settings of ``config`` (or ``only`` one) return for ``text``. Raises ConfigError for an unknown name."""
    progress = progress or Silent()
    settings = chosen_settings(config, only)
    corpus, found, unit = Corpus(config, progress), {}, config.evaluators.unit
    for setting in settings:
        stages = corpus.graph.stages(setting)
        with open_setting(corpus.resources, corpus.library, stages, corpus.runner, unit) as opened:
            found[setting.name] = found_texts(opened.ranked([Question(text)], own_depth(setting)), corpus.library)
    return found


@dataclass(frozen=True)
class _Failing:
    """Tells of each setting that fails, once; ``is_last`` says that the first one ends the run."""

    on_failure: Callable[[str, str], None]
    is_last: bool
    _told: set[str] = field(default_factory=set, init=False)

    def of_setting(self, setting: Setting, error: Exception) -> None:
        if setting.name not in self._told:
            self._told.add(setting.name)
            self.on_failure(setting.name, _failure(setting, error).error)

    def mended(self, setting: Setting) -> None:
        """A stage that failed may be made when it is tried again, as where a service was too busy."""
        if setting.name in self._told:
            logger.warning("setting %r did not fail when it was tried again", setting.name)

    def of_stage(self, ends: Mapping[Setting, Stage[Any]], failed: Stage[Any], error: Exception) -> None:
        """Of a stage that several settings need, each by the last of its stages; raises what ends the run."""
        for setting, end in ends.items():
            said = failures_seen(end, failed, error)
            if said is not None:
                self.of_setting(setting, said)
                if self.is_last:
                    raise _all_of([(setting, said)])


def _score_all(evaluator: RetrievalEvaluator, failing: _Failing) -> tuple[list[Scored], list[FailurePart]]:
    scored: list[Scored] = []
    failed: list[tuple[Setting, Exception]] = []
    for setting in evaluator.one_by_one():
        try:
            scored.append(evaluator.score(evaluator.rankings(setting)))
            failing.mended(setting)
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001 - of whatever kind: the others go on, and it is told
            failed.append((setting, error))
            failing.of_setting(setting, error)
            if failing.is_last:
                break
    try:
        if failed and (failing.is_last or not scored):
            raise _all_of(failed)
        return scored, [_failure(*one) for one in failed]
    finally:
        failed.clear()  # errors hold the frames that they came through: this one would hold them in turn


def _all_of(failed: Sequence[tuple[Setting, Exception]]) -> Exception:
    """What to raise where no report is written: what nobody expected as it is, since its traceback is of use."""
    faults: list[Fault] = []
    for setting, error in failed:
        if not isinstance(error, RagtrialError):
            return error
        faults += (replace(fault, message=f"setting {setting.name!r}: {fault.message}") for fault in error.faults)
    return RunError(*faults)


def _failure(setting: Setting, error: Exception) -> FailurePart:
    """What is noted of a setting that failed; where nobody expected that, with the traceback."""
    if isinstance(error, RagtrialError):
        return FailurePart(name=setting.name, error=without_secrets(str(error)))
    said = f"{type(error).__name__}: {error}"
    details = without_secrets("".join(traceback.format_exception(error)))
    return FailurePart(name=setting.name, error=without_secrets(f"it broke ({said})"), details=details)
