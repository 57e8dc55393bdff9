"""The page: a summary in the HTML itself, and the data from which the browser draws the rest."""

from __future__ import annotations

import hashlib
import json
import sys
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragtrial.cache.untrusted import plain
from ragtrial.comparison.comparing import ComparisonOptions, close_comparisons, judged_share
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.evaluation.metrics import parse_metric
from ragtrial.report.model import Report
from ragtrial.views.analysis import Analysis, analyse
from ragtrial.views.comparison_tables import flat_sentences, heading, left_out_line, verdict_table
from ragtrial.views.page.blocks import (
    FoundHits,
    deep_ranks,
    hits_block,
    packed,
    reasons_block,
    summary_block,
    text_block,
)
from ragtrial.views.report_tables import budget_table, usual_metrics
from ragtrial.views.sections import all_views
from ragtrial.views.sections.base import ViewInput
from ragtrial.views.sections.plots import best_first
from ragtrial.views.table import Table, cell_kind, mean_row, mean_table
from ragtrial.views.words import COLUMNS, meanings_in

if TYPE_CHECKING:
    from jinja2 import Template


def means_by_metric(contest: ComparisonInput) -> Table:
    """One row per setting, best first by the primary metric; the share of judged hits comes last."""
    report, settings = contest.report, [one.part for one in contest.settings]
    k = parse_metric(contest.primary).k
    wanted = [contest.primary, *usual_metrics(report), "judged" if k is None else f"judged@{k}"]
    metrics = [name for name in dict.fromkeys(wanted) if all(name in setting.scores for setting in settings)]
    best = map(contest.place, best_first(contest))
    rows = [mean_row(contest.names[place], [settings[place].scores[name] for name in metrics]) for place in best]
    return mean_table("setting", metrics, rows)


def means_by_budget(contest: ComparisonInput) -> Table:
    """The table of means for the first hits that fit into a budget of tokens; no row unless all settings share a
    budget.
    """
    report = contest.report
    settings = [one.part.model_copy(update={"name": one.name}) for one in contest.settings]
    budgets = {setting.budget.tokens if setting.budget else None for setting in settings}
    is_whole = len(contest.queries) == len(report.queries)
    return budget_table(report, settings if is_whole and len(budgets) == 1 else [], sys.maxsize)


def column_texts(contest: ComparisonInput) -> dict[str, str]:
    """The formula of each metric, by its name with and without cutoff."""
    formulas = {name: part.formula for name, part in contest.report.metrics.items()}
    return {str(parse_metric(name).at(None)): formula for name, formula in formulas.items()} | formulas


@dataclass(frozen=True)
class Origin:
    """A report, its name on the page, and the chunks, labels and models of its settings."""

    name: str
    report: Report
    chunks: str
    judged: str
    models: Sequence[str]

    @property
    def date(self) -> str:
        """``2026-11-23 11:57 UTC`` for an id that begins with a time, else nothing."""
        with suppress(ValueError):
            return f"{datetime.strptime(self.report.run_id.partition('-')[0], '%Y%m%dT%H%M%SZ'):%Y-%m-%d %H:%M} UTC"
        return ""

    @property
    def config(self) -> str:
        """As YAML; nothing for runs that were made elsewhere."""
        import yaml

        config = json.loads(json.dumps(self.report.config))  # of a report of this process texts know their places
        return yaml.safe_dump(config, sort_keys=False, allow_unicode=True, width=100) if config else ""


def origins_of(contest: ComparisonInput) -> Iterator[Origin]:
    """One for each report, in their order."""
    for name in contest.report_names:
        own = [contender for contender in contest.settings if contender.report_name == name]
        chunks = _ends([one.part.counts.get("chunks") for one in own], "{:,}")
        judged = _ends([judged_share(one, contest.primary) for one in own], "{:.0%}")
        models = dict.fromkeys(model for one in own for model in _models(one.part.parameters))
        yield Origin(name, own[0].report, chunks, judged, list(models))


def _ends(values: Sequence[float | None], shape: str) -> str:
    """The lowest and the highest value; one where they look alike, nothing where there is none."""
    known = [value for value in values if value is not None]
    return " to ".join(dict.fromkeys(map(shape.format, (min(known), max(known))))) if known else ""


def _models(parameters: Mapping[str, Any]) -> Iterator[str]:
    """The models of a setting and of its parts: embedders and rerankers."""
    embedder, retriever = (parameters.get(stage) or {} for stage in ("embedder", "retriever"))
    named = (embedder.get("model"), embedder.get("function"), retriever.get("model"))
    yield from filter(None, named)
    for part in parameters.get("parts", {}).values():
        yield from _models(part)


_HERE = Path(__file__).parent
MOST_SHOWN = 100_000
"""Settings times queries of which the page has scores and hits; of more queries it has a random sample."""

_SCRIPTS = ("data", "state", "tables", "charts", "labels", "sweeps", "pairs", "queries", "moves", "main")


def page(contest: ComparisonInput, aim: ComparisonOptions) -> bytes:
    """The bytes of the whole page; the same bytes for the same reports.

    Raises ReportError if a file of a report is damaged, or if ``aim`` names a baseline that does not exist.
    """
    report = contest.report
    contest = contest.limited_to(usual_metrics(report))
    analysis = analyse(contest, aim, **{view.name: True for view in all_views() if view.is_on_page})
    return _rendered(contest, analysis).encode()


def _rendered(contest: ComparisonInput, analysis: Analysis) -> str:
    given = ViewInput(contest, analysis)
    pages = {view.name: view.page(given) for view in all_views()}
    sections = {name: section for name, section in pages.items() if section is not None}
    shown = _sample(contest)
    found = FoundHits(shown)
    deep = deep_ranks(shown.queries, found)
    hits, wanted = hits_block(found, deep)
    drawn = {name: section.data for name, section in sections.items() if section.data is not None}
    blocks = {
        "summary": packed(summary_block(shown, analysis, drawn)),
        "hits": packed(hits),
        "reasons": packed(reasons_block(shown, found, deep)),
        "explanations": packed([own.explanations for own in found.settings]),
    }
    blocks["texts"] = packed(text_block(shown, wanted, sum(map(len, blocks.values()))))
    licences = "".join(f"/*\n{_asset(f'vendor/{name}.LICENSE')}*/\n" for name in ("d3", "plot"))
    libraries = licences + _asset("vendor/d3.min.js") + "\n" + _asset("vendor/plot.min.js")
    style, scripts = _asset("assets/page.css"), [libraries, "\n".join(_asset(f"assets/{name}.js") for name in _SCRIPTS)]
    rows, origins = close_comparisons(analysis), list(origins_of(contest))
    of_runs = [warning for origin in origins for warning in origin.report.warnings]
    return _template().render(
        title=", ".join(dict.fromkeys(contender.report.experiment for contender in contest.settings)),
        policy="default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}",
        style=style,
        scripts=scripts,
        blocks=blocks,
        comparison=analysis,
        heading=heading(analysis) if rows else "",
        best=flat_sentences(analysis.conclusion),
        reading=meanings_in(analysis.conclusion.sentences),
        origins=origins,
        warnings=list({warning.message: warning for warning in [*of_runs, *analysis.all_warnings]}.values()),
        left_out=left_out_line(analysis, rows).removesuffix(" --full shows all."),
        verdicts=_verdict_first(verdict_table(analysis, rows)) if rows else Table((), ()),
        means=means_by_metric(contest),
        budget=means_by_budget(contest),
        formulas=column_texts(contest),
        have_best=lambda table: {column.title: column.best for column in table.columns if column.best},
        sections=sections,
        sampled=[len(shown.queries), len(contest.queries)] if shown is not contest else None,
        cell_kind=cell_kind,
        about_verdicts=COLUMNS,
    )


def _sample(contest: ComparisonInput) -> ComparisonInput:
    """The same inputs over a fixed sample of as many queries as the page can show."""
    most = max(1, MOST_SHOWN // len(contest.settings))
    if len(contest.queries) <= most:
        return contest
    drawn = np.random.default_rng(0).choice(len(contest.queries), most, replace=False)
    return contest.over({contest.queries[place].id for place in drawn.tolist()})


@cache
def _template() -> Template:
    """The template. It escapes all values, and removes characters that change how the text around them reads."""
    from jinja2 import Environment, StrictUndefined

    def shown(value: object) -> object:
        return plain(value) if type(value) is str else value

    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=shown, keep_trailing_newline=True)
    return environment.from_string(_asset("template.html"))


def _verdict_first(table: Table) -> Table:
    """The table with the verdict next to the names, visible on a narrow screen, and the numbers behind it."""
    names = 2 if "against" in table.titles else 1
    first = [replace(column, is_text=True) for column in table.columns[:names]]
    columns = [*first, table.columns[-1], *table.columns[names:-1]]
    return replace(table, columns=columns, rows=[[*row[:names], row[-1], *row[names:-1]] for row in table.rows])


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
