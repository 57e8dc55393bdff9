"""The whole way: run_experiment retrieves with every setting, scores it and writes the report."""

from __future__ import annotations

from collections.abc import Collection

from ragtrial.config import ExperimentConfig
from ragtrial.config.load import AnyConfig, load_config
from ragtrial.config.settings import chosen_settings, settings_of
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.ranking_stage import open_setting
from ragtrial.pipeline.reporting import report_of, write_outcome
from ragtrial.pipeline.retrieval import Depth, found_texts
from ragtrial.pipeline.run import Run, RunOptions
from ragtrial.pipeline.written_wordings import write_wordings
from ragtrial.progress import Progress, Silent
from ragtrial.records import FoundText, Question
from ragtrial.report.model import Report


def run_experiment(config: AnyConfig, options: RunOptions | None = None, *, progress: bool | None = None) -> Report:
    """Run every setting of ``config``, or search for the best, score it, and write the report.

    ``config`` is a path, a dict or a config, as in ``load_config``. ``progress`` shows on stderr how far the run is
    (default: in a terminal and in a notebook). A setting that fails is noted in the report, and the others go on.
    Raises InputError before anything is run, RunError if all settings fail.
    """
    config, options = load_config(config), (options or RunOptions()).following(progress=progress)
    if config.search:
        from ragtrial.search.searched import search_experiment

        return search_experiment(config, options)
    run = Run.prepare(config, options)
    run.notice_unlabelled()
    outcome = run.score_all()
    return write_outcome(run, outcome, report_of(run, outcome), {})


def search_settings(
    config: ExperimentConfig, text: str, only: Collection[str] | None = None, *, progress: Progress | None = None
) -> dict[str, list[FoundText]]:
    """The hits for ``text`` of all settings of ``config``, or ``only`` these. Raises ConfigError for unknown names."""
    settings = chosen_settings(settings_of(config)[0], only)
    corpus, hits_by_setting, unit = Corpus(config, progress or Silent()), {}, config.evaluators.unit
    written = write_wordings(settings, [Question(text)], corpus.resources)
    for error in written.failures.values():
        raise error
    for setting in settings:
        depth = Depth(units=setting.retriever.top_k)
        with open_setting(corpus.resources, corpus.stages(setting), corpus.runner, unit) as opened:
            ranked = opened.ranked(written.questions, depth)
        hits_by_setting[setting.name] = found_texts(ranked, corpus.library)
    return hits_by_setting
