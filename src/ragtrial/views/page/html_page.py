"""The page: a summary that stands in the HTML itself, and beside it what draws the rest in the browser."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path

from ragtrial.comparison.analysis import Analysis
from ragtrial.comparison.comparing import close_comparisons
from ragtrial.comparison.contest import Contest
from ragtrial.views import effects_table as effects
from ragtrial.views import slices_table as slices
from ragtrial.views.comparison_tables import best_line, heading, left_out_line, verdict_table
from ragtrial.views.page.packing import hits_block, packed, summary_block, text_block
from ragtrial.views.page.reasons import reasons_block
from ragtrial.views.plain_text import plain

_HERE = Path(__file__).parent
_SCRIPTS = ("data", "state", "charts", "sweeps", "pairs", "queries", "moves", "main")
_COLUMNS = 160
_NUMBERS = {"mean", "difference", "p", "won", "tied", "lost", "n", "baseline", "detectable", "queries", "pairs", "by"}
_MOST_UNJUDGED = 3


def page(contest: Contest, comparison: Analysis, title: str) -> str:
    """The whole page; the same text for the same reports."""
    hits, wanted = hits_block(contest)
    blocks = {
        "summary": packed(summary_block(contest, comparison)),
        "hits": packed(hits),
        "reasons": packed(reasons_block(contest)),
    }
    blocks["texts"] = packed(text_block(contest, wanted, sum(map(len, blocks.values()))))
    style, scripts = _asset("assets/page.css"), [_libraries(), _program()]
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; "
        f"script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}"
    )
    data = "\n".join(
        f'<script type="application/gzip;base64" id="{name}">{text}</script>' for name, text in blocks.items()
    )
    return "\n".join(
        [
            "<!doctype html>",
            '<html lang="en">',
            "<head>",
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="referrer" content="no-referrer">',
            '<link rel="icon" href="data:,">',
            f"<title>{_text(title)}</title>",
            f"<style>{style}</style>",
            "</head>",
            "<body>",
            *_body(contest, comparison, title),
            data,
            *(f"<script>{script}</script>" for script in scripts),
            "</body>",
            "</html>",
            "",
        ]
    )


def _body(contest: Contest, comparison: Analysis, title: str) -> Iterable[str]:
    rows = close_comparisons(comparison)
    left_out = left_out_line(comparison, rows).removesuffix(" --full shows all.")
    beside = [left_out, comparison.selection.sentence if comparison.selection else ""]
    hanging = [
        f"{part.setting} against {part.baseline}: {part.sentence}"
        for part in comparison.unjudged
        if part.hangs_on_unjudged
    ]
    yield f"<header><h1>{_text(title)}</h1>"
    yield f'<span class="soft">{_text(heading(comparison))}</span>'
    yield '<button id="theme" type="button" hidden>Dark</button></header>'
    yield "<main>"
    yield '<section aria-labelledby="summary-title"><h2 id="summary-title">Which is better</h2>'
    yield f"<p><strong>{_text(best_line(comparison))}</strong></p>"
    yield _table(_verdict_first(verdict_table(comparison, rows)), f"By {comparison.primary_metric}, and what follows")
    for line in filter(None, [*beside, *hanging[:_MOST_UNJUDGED]]):
        yield f'<p class="soft">{_text(line)}</p>'
    if hanging[_MOST_UNJUDGED:]:
        yield f"<details><summary>{len(hanging) - _MOST_UNJUDGED:,} more that hang on hits nobody judged</summary>"
        yield from (f'<p class="soft">{_text(line)}</p>' for line in hanging[_MOST_UNJUDGED:])
        yield "</details>"
    yield f'<p class="soft">{_text(comparison.procedure.sentence)}</p>'
    for warning in [*comparison.warnings, *(comparison.slices.warnings if comparison.slices else ())]:
        yield f'<p class="warning">{_text(warning.message)}</p>'
    yield _table(
        _means(contest), "Means of all metrics that are shown, and over how many queries: n, or the number in brackets"
    )
    yield "<noscript><p>Plots and single queries need JavaScript, which is off here; the tables above do not.</p>"
    yield "</noscript></section>"
    yield _plots("differences", "Differences")
    yield _plots("curves", "At each cutoff")
    yield from _slices(comparison)
    yield from _axes(comparison)
    yield _plots("costs", "Quality against cost")
    yield _QUERIES
    yield "</main>"
    yield (
        '<footer class="soft"><p>Made by ragtrial. Charts: Observable Plot and D3, under the ISC licence; the texts of '
        "both licences stand in this file.</p></footer>"
    )


_QUERIES = """<section id="queries" aria-labelledby="queries-title" hidden>
<h2 id="queries-title">Query by query</h2>
<div class="controls">
<label>from <select id="choose-a"></select></label>
<label>to <select id="choose-b"></select></label>
<label>by <select id="choose-metric"></select></label>
</div>
<div class="plots" id="pair-plot"></div>
<div class="controls">
<label>Search <input id="query-search" type="search" size="18"></label>
<span id="filters" role="group" aria-label="Which queries"></span>
<label>Order <select id="choose-order"></select></label>
<span id="query-count" class="soft" role="status"></span>
</div>
<div id="detail" role="region" aria-label="One query" hidden></div>
<div class="scroll"><table>
<thead><tr><th scope="col">query</th><th scope="col">text</th><th scope="col" class="number" id="query-a"></th>
<th scope="col" class="number" id="query-b"></th><th scope="col" class="number">difference</th></tr></thead>
<tbody id="query-rows"></tbody>
</table></div>
<p><button id="query-more" type="button" hidden></button></p>
</section>"""


def _plots(name: str, headline: str) -> str:
    return f'<section class="drawn" hidden><h2>{headline}</h2><div class="plots" id="{name}-plot"></div></section>'


def _verdict_first(table: Sequence[Sequence[str]]) -> list[list[str]]:
    """The verdict beside the names, where it is seen on a narrow screen as well; the numbers behind it."""
    names = 2 if "against" in table[0] else 1
    return [[*row[:names], row[-1], *row[names:-1]] for row in table]


def _slices(comparison: Analysis) -> Iterable[str]:
    if comparison.slices and comparison.slices.comparisons:
        table = slices.slice_overview(comparison.slices, _COLUMNS)
        yield '<section><h2>By kind of query</h2><div class="plots" id="slices-plot"></div>'
        yield f"{_table(table, slices.slice_heading(comparison.slices))}</section>"


def _axes(comparison: Analysis) -> Iterable[str]:
    if comparison.axes:
        yield '<section><h2>What each parameter does</h2><div class="plots" id="axes-plot"></div>'
        yield _table(effects.effect_table(comparison.axes), "All else equal, over settings that differ in it alone")
        interactions = effects.interaction_table(comparison.axes)
        if interactions:
            yield _table(interactions, "Where one parameter's effect depends on another")
        yield f'<p class="soft">{_text(effects.left_out_line(comparison.axes))}</p></section>'


def _means(contest: Contest) -> list[list[str]]:
    rows = [["setting", *contest.metrics, "n"]]
    for contender in contest.contenders:
        means = [contender.setting.scores[name] for name in contest.metrics]
        n = means[0].n
        cells = [
            "-" if mean.mean is None else f"{mean.mean:.4f}" + (f" ({mean.n:,})" if mean.n != n else "")
            for mean in means
        ]
        rows.append([contender.name, *cells, f"{n:,}"])
    return rows


def _table(rows: Sequence[Sequence[str]], caption: str) -> str:
    header, *others = rows
    numeric = [_is_number(name, row) for name, *row in zip(*rows, strict=True)]
    head = "".join(
        f'<th scope="col"{" class=number" if number else ""}>{_text(name)}</th>'
        for name, number in zip(header, numeric, strict=True)
    )
    body = "\n".join(
        "<tr>" + "".join(_cell(cell, number=number) for cell, number in zip(row, numeric, strict=True)) + "</tr>"
        for row in others
    )
    return (
        f'<div class="scroll"><table><caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def _is_number(name: str, column: Sequence[str]) -> bool:
    signed = [cell[:1] in "+-" for cell in column if cell]
    is_metric = "@" in name and " " not in name
    return name in _NUMBERS or name.startswith("n for ") or is_metric or "interval" in name or all(signed)


def _cell(cell: str, *, number: bool) -> str:
    kind = "number" if number else next((word for word in ("better", "worse") if cell.startswith(word)), "name")
    return f'<td class="{kind}">{_text(cell)}</td>'


def _text(text: str) -> str:
    return escape(plain(text))


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
