"""The page: a summary in the HTML itself, and beside it what draws the rest in the browser."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ragtrial.cache.untrusted import plain
from ragtrial.comparison.comparing import ComparisonOptions, close_comparisons
from ragtrial.comparison.comparison_input import ComparisonInput
from ragtrial.views.analysis import Analysis, analyse
from ragtrial.views.comparison_tables import flat_sentences, heading, left_out_line, verdict_table
from ragtrial.views.page.deep_ranks import deep_ranks
from ragtrial.views.page.found import FoundHits
from ragtrial.views.page.means import column_texts, have_best, means_by_budget, means_by_metric
from ragtrial.views.page.origins import origins_of
from ragtrial.views.page.packing import hits_block, packed, summary_block, text_block
from ragtrial.views.page.reasons import reasons_block
from ragtrial.views.report_tables import usual_metrics
from ragtrial.views.sections import all_views
from ragtrial.views.sections.base import ViewInput
from ragtrial.views.table import Table, cell_kind
from ragtrial.views.words import COLUMNS, meanings_in

if TYPE_CHECKING:
    from jinja2 import Template

_HERE = Path(__file__).parent
MOST_SHOWN = 100_000
"""Settings times queries of which the page has scores and hits; of more queries it has a random sample."""

_SCRIPTS = ("data", "state", "tables", "charts", "labels", "sweeps", "pairs", "queries", "moves", "main")


def page(contest: ComparisonInput, aim: ComparisonOptions) -> bytes:
    """The whole page, as the file has it; the same bytes for the same reports.

    Raises ReportError if what is beside report.json is damaged, or ``aim`` names a baseline that is not there.
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
    style, scripts = _asset("assets/page.css"), [_libraries(), _program()]
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
        have_best=have_best,
        sections=sections,
        sampled=[len(shown.queries), len(contest.queries)] if shown is not contest else None,
        cell_kind=cell_kind,
        about_verdicts=COLUMNS,
    )


def _sample(contest: ComparisonInput) -> ComparisonInput:
    """The same over as many of its queries as the page can show, always the same ones, or itself."""
    most = max(1, MOST_SHOWN // len(contest.settings))
    if len(contest.queries) <= most:
        return contest
    drawn = np.random.default_rng(0).choice(len(contest.queries), most, replace=False)
    return contest.over({contest.queries[place].id for place in drawn.tolist()})


@cache
def _template() -> Template:
    """What is put into it is escaped, and has no character that changes how the text around it reads."""
    from jinja2 import Environment, StrictUndefined

    def shown(value: object) -> object:
        return plain(value) if type(value) is str else value

    environment = Environment(autoescape=True, undefined=StrictUndefined, finalize=shown, keep_trailing_newline=True)
    return environment.from_string(_asset("template.html"))


def _verdict_first(table: Table) -> Table:
    """The verdict beside the names, where it is seen on a narrow screen as well; the numbers behind it."""
    names = 2 if "against" in table.titles else 1
    first = [replace(column, is_text=True) for column in table.columns[:names]]
    columns = [*first, table.columns[-1], *table.columns[names:-1]]
    return replace(table, columns=columns, rows=[[*row[:names], row[-1], *row[names:-1]] for row in table.rows])


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _libraries() -> str:
    licences = "".join(f"/*\n{_asset(f'vendor/{name}.LICENSE')}*/\n" for name in ("d3", "plot"))
    return licences + _asset("vendor/d3.min.js") + "\n" + _asset("vendor/plot.min.js")


def _program() -> str:
    return "\n".join(_asset(f"assets/{name}.js") for name in _SCRIPTS)
