"""The commands that go on from a comparison, written so that they work as they are printed."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragtrial.comparison.comparison_input import ComparedSetting, ComparisonInput
from ragtrial.comparison.report_inputs import UNKNOWN_CONFIG, USUAL_CONFIG, config_of, references_to
from ragtrial.options import from_here
from ragtrial.report.model import Report

OVERLAY = "overlay.tsv"
"""The file for new labels of a BEIR folder, which stays as it is."""

_QUESTION = '"QUESTION"'


@dataclass(frozen=True)
class Commands:
    """Commands about the same reports, with the same options.

    ``options`` are the options that every command about a comparison takes, ``own`` the options of `compare` only.
    ``config`` is the config as a command names it, and ``labels`` the file for new labels, if it is not the config's.
    """

    reports: Sequence[str] = ()
    options: Sequence[str] = ()
    own: Sequence[str] = ()
    config: str = USUAL_CONFIG
    labels: str = ""
    after_axes: bool = False
    """True if the effects of options are shown already."""

    def compare(self, *options: str) -> str:
        return shlex.join(["ragtrial", "compare", *self.reports, *self.options, *self.own, *options])

    def show(self, *options: str) -> str:
        return shlex.join(["ragtrial", "show", *self.reports[:1], *options])

    def pool(self) -> str:
        config = [] if self.config == USUAL_CONFIG else ["--config", self.config]
        labels = ["--labels", self.labels] if self.labels else []
        return shlex.join(["ragtrial", "pool", *self.reports, *self.options, *labels, *config])

    def run(self) -> str:
        return shlex.join(["ragtrial", "run", *([] if self.config == USUAL_CONFIG else [self.config])])

    def label_question(self) -> str:
        config = [] if self.config == USUAL_CONFIG else [self.config]
        return f"{shlex.join(['ragtrial', 'search', *config])} {_QUESTION} --label"

    @property
    def about_config(self) -> str:
        """An explanation of the placeholder; empty if the config is known."""
        which = "this run" if len(self.reports) < 2 else "one of these runs"
        return f"; CONFIG is the config of {which}" if self.config == UNKNOWN_CONFIG else ""


def commands_about(inputs: ComparisonInput, options: Sequence[str], own: Sequence[str], config: str | None) -> Commands:
    """Commands about ``inputs``, whose comparison has the options ``options`` and ``own``.

    Without ``config``, the commands name a config here that has the same text as the report's config.
    """
    config = config and from_here(Path(config).absolute())
    reports = {setting.report_name: setting.report for setting in inputs.settings}
    references = {name: references_to(report) for name, report in reports.items()}
    if not all(references.values()):
        return Commands((), options, own, config or USUAL_CONFIG)
    options = [*options, *(word for name, flag in _directions(reports.values()).items() for word in (flag, name))]

    def written(setting: ComparedSetting) -> str:
        name = setting.part.name
        return f"{references[setting.report_name][0]}:{name}" if len(references) > 1 else name

    is_named = inputs.baseline is not None and not inputs.are_pairs_by_name
    baseline = inputs.settings[inputs.setting_index(str(inputs.baseline))] if is_named else None
    others = {setting.report_name for setting in inputs.settings if setting is not baseline}
    names = [name for name in references if name in others]
    names.sort(key=lambda name: name != inputs.baseline)  # the first of several reports is the baseline
    first = reports[names[0]]
    named = [] if inputs.primary == first.primary_metric else ["--metric", inputs.primary]
    if len(inputs.settings) < sum(len(report.settings) for report in reports.values()):
        named += [word for setting in inputs.settings for word in ("--setting", written(setting))]
    named += [] if baseline is None else ["--baseline", written(baseline)]
    if len(reports) > 1 and inputs.baseline is None and inputs.pairs_by_name(names[0]):
        own = ["--all-pairs", *own]
    data_set = first.config.get("dataset") or {}
    labels = OVERLAY if data_set.get("beir") and not data_set.get("overlay") else ""
    folders = [reference for name in names for reference in references[name]]
    return Commands(folders, [*named, *options], own, config or config_of(*reports.values()), labels)


def _directions(reports: Iterable[Report]) -> Mapping[str, str]:
    """The options that repeat the directions which a user gave for metrics of tables."""
    given = [report.config["scores"]["better"] for report in reports if not report.has_rankings]
    return {name: f"--{better}-is-better" for directions in given for name, better in directions.items()}
