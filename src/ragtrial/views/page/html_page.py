"""The page: a summary in the HTML itself, and the data from which the browser draws the rest."""

from __future__ import annotations

import hashlib
import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.cache.untrusted import plain
from ragtrial.comparison.comparing import ComparisonOptions, close_comparisons, judged_share
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.comparison.gates import Findings
from ragtrial.comparison.number_text import percent
from ragtrial.errors import listed
from ragtrial.evaluation.metrics import metric_called
from ragtrial.report.model import Report, time_text
from ragtrial.report.schema import SettingPart
from ragtrial.views.analysis import Analysis, analyse
from ragtrial.views.comparison_tables import heading, left_out_line, verdict_table
from ragtrial.views.findings_files import gate_line, summary
from ragtrial.views.page.blocks import FoundHits, page_blocks
from ragtrial.views.page.failing import failing_questions
from ragtrial.views.page.verdict import KEY, MOST_NAMED_ROWS, WORTH_A_COLUMN, effects_of, minus, plot_of, verdict_of
from ragtrial.views.report_tables import budget_table, cost_table, header_line, separation_tables, usual_metrics
from ragtrial.views.sections import all_views
from ragtrial.views.sections.base import ViewInput
from ragtrial.views.sections.plots import best_first
from ragtrial.views.table import Table, best_cells, cell_kind, mean_row, mean_table, number_in
from ragtrial.views.words import COLUMNS, RUN_COLUMNS, meanings_in

if TYPE_CHECKING:
    from jinja2 import Template


def means_by_metric(inputs: ComparisonInput) -> Table:
    """One row per setting, best first by the primary metric; the share of judged hits comes last."""
    report, settings = inputs.report, [setting.part for setting in inputs.settings]
    k = metric_called(inputs.primary).k
    wanted = [inputs.primary, *usual_metrics(report), "judged" if k is None else f"judged@{k}"]
    metrics = [name for name in dict.fromkeys(wanted) if all(name in setting.scores for setting in settings)]
    best = map(inputs.setting_index, best_first(inputs))
    rows = [mean_row(inputs.names[place], [settings[place].scores[name] for name in metrics]) for place in best]
    return mean_table("setting", metrics, rows)


def means_by_budget(inputs: ComparisonInput) -> Table:
    """The table of means for the first hits that fit into a budget of tokens; no row unless all settings share a
    budget.
    """
    report = inputs.report
    settings = _named_parts(inputs)
    budgets = {setting.budget.tokens if setting.budget else None for setting in settings}
    is_whole = len(inputs.queries) == len(report.queries)
    return budget_table(report, settings if is_whole and len(budgets) == 1 else [], sys.maxsize)


def _named_parts(inputs: ComparisonInput) -> list[SettingPart]:
    """The settings as they are called on the page."""
    return [setting.part.model_copy(update={"name": setting.name}) for setting in inputs.settings]


def column_texts(inputs: ComparisonInput) -> dict[str, str]:
    """The formula of each metric, by its name with and without cutoff."""
    formulas = {name: part.formula for name, part in inputs.report.metrics.items()}
    return {str(metric_called(name).at(None)): formula for name, formula in formulas.items()} | formulas


@dataclass(frozen=True)
class Origin:
    """A report and its name on the page."""

    name: str
    report: Report

    @property
    def about(self) -> str:
        """``4 settings on 118 documents, 62 questions (59 scored; ...)``."""
        return header_line(self.report).partition(": ")[2].partition(", run ")[0]

    @property
    def version(self) -> str:
        return str(self.report.environment.get("packages", {}).get("ragtrial", ""))

    @property
    def config(self) -> str:
        """As YAML; nothing for runs that were made elsewhere."""
        import yaml

        config = json.loads(json.dumps(self.report.config))  # of a report of this process texts know their places
        return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100) if config else ""


_HERE = Path(__file__).parent
MOST_SHOWN = 100_000
"""Settings times queries of which the page has scores and hits; of more queries it has a random sample."""

_SCRIPTS = ("data", "state", "tables", "queries", "moves", "main")


def page(inputs: ComparisonInput, options: ComparisonOptions, findings: Findings | None = None) -> bytes:
    """The bytes of the whole page, with the gates of ``findings``; the same bytes for the same reports.

    Raises ReportError if a file of a report is damaged, or if ``options`` names a baseline that does not exist.
    """
    report = inputs.report
    inputs = inputs.limited_to(usual_metrics(report))
    analysis = analyse(inputs, options, **{view.name: True for view in all_views() if view.is_on_page})
    return _rendered(inputs, analysis, findings).encode()


def _rendered(inputs: ComparisonInput, analysis: Analysis, findings: Findings | None) -> str:
    given = ViewInput(inputs, analysis)
    pages = {view.name: view.page(given) for view in all_views()}
    sections = {name: section for name, section in pages.items() if section is not None}
    is_ranked, shown = analysis.conclusion.kind != "no ranking yet", _sample(inputs)
    ranked, hits = best_first(inputs) if is_ranked else list(inputs.names), FoundHits(shown)
    style, script = asset("assets/page.css"), "\n".join(asset(f"assets/{name}.js") for name in _SCRIPTS)
    rows = close_comparisons(analysis)
    reports = {contender.report_name: contender.report for contender in inputs.settings}
    origins = [Origin(name, reports[name]) for name in inputs.report_names]
    warnings = [*(warning for origin in origins for warning in origin.report.warnings), *analysis.all_warnings]
    conclusion, procedure = analysis.conclusion, analysis.procedure
    axes = analysis.found.get("axes")
    effects = effects_of(axes, inputs.sign(inputs.primary), procedure.margin, procedure.confidence) if axes else None
    plot = plot_of(inputs, analysis, ranked)
    setting = plot.rows[0].name if plot else ranked[0]
    means, cutoffs = means_by_metric(inputs), answers_by_cutoff(inputs, ranked)
    costs = cost_table(_named_parts(inputs))
    verdicts = [row.verdict for drawn in (plot, effects) if drawn for row in drawn.rows]
    return template("template.html").render(
        title=", ".join(dict.fromkeys(contender.report.experiment for contender in inputs.settings)),
        policy=content_policy(style, script),
        style=style,
        script=script,
        blocks=page_blocks(shown, hits, ranked, analysis.procedure.baseline),
        comparison=analysis,
        better=conclusion.better,
        verdict=verdict_of(analysis, effects),
        gates=_gates(findings) if findings and findings.gates else [],
        caveats=_caveats(analysis, inputs),
        plot=plot,
        effects=effects,
        meanings=KEY,
        level=percent(procedure.confidence),
        failing=failing_questions(shown, hits, setting),
        failing_setting=setting if len(ranked) <= MOST_NAMED_ROWS else "the setting on top",
        heading=heading(analysis) if rows else "",
        reading=meanings_in([*conclusion.sentences, *verdicts]),
        origins=origins,
        time_text=time_text,
        warnings=list({warning.message: warning for warning in warnings}.values()),
        left_out=left_out_line(analysis, rows),
        verdicts=_verdict_first(verdict_table(analysis, rows)) if rows else Table((), ()),
        means=means,
        findings={"scores": highest_line(means), "cutoffs": _first_line(cutoffs), "costs": _costs_line(costs)},
        cutoffs=cutoffs,
        cutoff_names=", ".join(title.removeprefix("first ") for title in cutoffs.titles[1:]),
        budget=means_by_budget(inputs),
        unanswerable=separation_tables(inputs.report, _named_parts(inputs)),
        costs=costs,
        formulas=column_texts(inputs),
        have_best=lambda table: {column.title: column.best for column in table.columns if column.best},
        sections=sections,
        sampled=[len(shown.queries), len(inputs.queries)] if shown is not inputs else None,
        cell_kind=cell_kind,
        about_verdicts=COLUMNS,
        about_unanswerable=RUN_COLUMNS,
    )


def _gates(findings: Findings) -> list[tuple[str, str]]:
    """How many gates passed, and a line for each other one, with the outcome."""
    others = [(str(gate.outcome), gate_line(gate)) for gate in findings.gates if gate.outcome != "passed"]
    return [("", summary(findings)), *others]


def _caveats(analysis: Analysis, inputs: ComparisonInput) -> list[str]:
    """The share of hits without a label, if there are any, and the sentences of a judge."""
    lines = list(analysis.judge.sentences) if analysis.judge else []
    shares = [judged_share(setting, inputs.primary) for setting in inputs.settings]
    unlabelled = [1 - share for share in shares if share is not None]
    k = metric_called(inputs.primary).k
    if not analysis.conclusion.scored.scored:
        return lines
    if inputs.report.unit == "span":
        lines.append("Text without a label counts as not relevant.")
    elif round(100 * max(unlabelled, default=0.0)):
        first = f"the first {k} hits" if k else "the hits"
        could = ", and labels could change this" if analysis.conclusion.depends_on_unjudged else ""
        ends = dict.fromkeys(f"{end:.0%}" for end in (min(unlabelled), max(unlabelled)))
        lines.append(f"{' to '.join(ends)} of {first} have no label and count as not relevant{could}.")
    return lines


def answers_by_cutoff(inputs: ComparisonInput, ranked: Sequence[str]) -> Table:
    """For how many questions each setting finds an answer in the first hits; no row without hit rates."""
    metrics = [metric for metric in map(metric_called, inputs.report.metrics) if metric.definition.name == "hit_rate"]
    cutoffs = sorted(metric.k for metric in metrics if metric.k)
    rows = []
    for name in ranked:
        scores = inputs.settings[inputs.setting_index(name)].part.scores
        means = [scores.get(f"hit_rate@{k}") for k in cutoffs]
        cells = ["-" if mean is None or mean.mean is None else f"{round(mean.mean * mean.n):,}" for mean in means]
        rows.append([name, *cells])
    is_whole = len(inputs.queries) == len(inputs.report.queries)
    return Table.of(["setting", *(f"first {k}" for k in cutoffs)], rows if cutoffs and is_whole else [], texts=(0,))


def _costs_line(costs: Table) -> str:
    """The lowest and the highest of the first cost that differs by a fifth or more, and of the time of embedding."""
    first = embedding = ""
    for place, title in enumerate(costs.titles[1:], 1):
        values = [(number_in(row[place]), row[place], row[0]) for row in costs.rows]
        known = sorted((value, cell, name) for value, cell, name in values if value is not None)
        line = f"{title}: up to {known[-1][1]}" if known else ""
        if known and known[-1][0] >= WORTH_A_COLUMN * known[0][0] and known[0][0] > 0:
            (_, low, cheapest), (_, high, dearest) = known[0], known[-1]
            line = f"{title}: {low} ({cheapest}) to {high} ({dearest})"
            first = first or line
        embedding = line if title == "embed s" else embedding
    alike = "alike for all settings" if len(costs.rows) > 1 else f"those of {costs.rows[0][0]}" if costs.rows else ""
    return "; ".join(dict.fromkeys(filter(None, [first or alike, embedding])))


def _first_line(cutoffs: Table) -> str:
    named = [f"{row[1]} with {row[0]}" for row in cutoffs.rows]
    return f"questions with an answer among them; the first hit answers {listed(named, 5)}" if named else ""


def highest_line(means: Table) -> str:
    """The settings that are best by most metrics: ``hybrid is best by ndcg@10, recall@10; dense by precision@10``."""
    best: dict[str, list[str]] = {}
    cells = best_cells(means)
    for place, title in enumerate(means.titles):
        names = [row[0] for number, row in enumerate(means.rows) if (number, place) in cells]
        if 0 < len(names) < len(means.rows):
            best.setdefault(" and ".join(names), []).append(title)
    verbs = {name: "are" if " and " in name else "is" for name in best}
    return "; ".join(f"{name} {verbs[name]} best by {', '.join(titles)}" for name, titles in list(best.items())[:3])


def _sample(inputs: ComparisonInput) -> ComparisonInput:
    """The same inputs over a fixed sample of as many queries as the page can show."""
    most = max(1, MOST_SHOWN // len(inputs.settings))
    if len(inputs.queries) <= most:
        return inputs
    drawn = np.random.default_rng(0).choice(len(inputs.queries), most, replace=False)
    return inputs.over({inputs.queries[place].id for place in drawn.tolist()})


@cache
def template(name: str) -> Template:
    """A template, which escapes all values, and removes characters that change how the text around them reads."""
    from jinja2 import Environment, StrictUndefined

    def shown(value: object) -> object:
        return plain(value) if type(value) is str else value

    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=shown, keep_trailing_newline=True)
    environment.filters["minus"] = minus
    return environment.from_string(asset(name))


def content_policy(style: str, script: str = "") -> str:
    """The policy of a page that runs and shows nothing but its style and script, and loads nothing."""
    scripts = f"script-src {_hash(script)}; " if script else ""
    return f"default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; {scripts}style-src {_hash(style)}"


def _verdict_first(table: Table) -> Table:
    """The table with the verdict next to the names, visible on a narrow screen, and the numbers behind it."""
    names = 2 if "against" in table.titles else 1
    first = [replace(column, is_text=True) for column in table.columns[:names]]
    columns = [*first, table.columns[-1], *table.columns[names:-1]]
    return replace(table, columns=columns, rows=[[*row[:names], row[-1], *row[names:-1]] for row in table.rows])


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def asset(name: str) -> str:
    """The text of a file next to this module."""
    return (_HERE / name).read_text(encoding="utf-8")
