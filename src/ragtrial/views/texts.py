"""Hits, filled prompts and chunks as text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import astuple

from ragtrial.config.settings import Setting
from ragtrial.errors import counted, listed
from ragtrial.labelling.edits import Item
from ragtrial.pipeline.chunk_preview import CutSetting, Sizes
from ragtrial.records import FoundText, heading_above
from ragtrial.report.model import Report
from ragtrial.report.schema import JudgmentPart, PassagePart
from ragtrial.scoring.query_details import FilledPrompt, QueryRanking
from ragtrial.views.table import Table

_MOST_LINES = 10
_MOST_HITS = 10
_MOST_RANKINGS = 4

_MARKDOWN = (".md", ".markdown")
_SIGNS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"^[ \t]*(?:(?:```|~~~).*|\|?[ \t]*:?-{2,}:?[ \t]*(?:\|[ \t:|-]*)?)$", re.MULTILINE), ""),  # no text
    (re.compile(r"^[ \t]*\|(.*)\|[ \t]*$", re.MULTILINE), lambda row: f"·{row[1].replace('|', '·')}"),  # of a table
    (re.compile(r"!?\[([^\[\]\n]*)\]\([^()\n]*\)"), r"\1"),  # links and pictures
    (re.compile(r"(\*{1,3}|`+)(?=\S)([^\n]+?)(?<=\S)\1"), r"\2"),  # emphasis and code
    (re.compile(r"^((?:>>)?)[ \t]*#{1,6}[ \t]+([^\n]*\w)[ \t]*#*[ \t]*$", re.MULTILINE), r"\1\2:"),  # headings
    (re.compile(r"^((?:>>)?)[ \t]*(?:(?:#{1,6}|>)[ \t]+)+", re.MULTILINE), r"\1"),  # other headings, quotations
    (re.compile(r"^((?:>>)?)[ \t]*[-+*][ \t]+", re.MULTILINE), r"\1· "),  # items of a list
)
"""The signs of Markdown that a rendered page does not show, and their replacement."""


def query_text(report: Report, name: str, rankings: Sequence[QueryRanking], width: int) -> str:
    """The labels of a query, its rankings, one setting after another, and the relevant documents that were not found.

    Alternatives to a document that was found are not missing. Of several settings, those with equal hits are shown
    once, at most ten hits of each, and of many those that differ most from the first by the primary metric.
    Under unit: span what became of each relevant passage. Labelled passages in hits stand between >> and <<.
    """
    query = rankings[0].query
    lines = [f"query {name}: {query.text}" if query.text else f"query {name}"]
    for label in query.relevant_docs:
        group = f"  (group: {' '.join(label.group.split())})" if label.group else ""
        lines += [f"  label: grade {label.relevance}  {label.doc}{group}"] if label.relevance else []
    equal: dict[object, list[QueryRanking]] = {}
    for ranking in rankings:
        equal.setdefault(tuple((hit.doc, hit.start, hit.end) for hit in ranking.hits), []).append(ranking)
    groups = _most_different(list(equal.values()), report.primary_metric)
    for ranking, *twins in groups:
        value = ranking.evaluations[report.primary_metric]
        score = "not defined (no relevant documents)" if value is None else f"{value:,.4f}, {_outcome(report, ranking)}"
        names = listed((each.setting.name for each in (ranking, *twins)), _MOST_RANKINGS)
        lines += ["", f"{names}: {report.primary_metric} {score}"]
        for wording in ranking.wordings:
            body = " ".join(wording.split())
            lines += textwrap.wrap(f"asked: {body}", max(40, width - 2), initial_indent="  ", subsequent_indent=" " * 9)
        most = len(ranking.hits) if len(rankings) == 1 else _MOST_HITS
        lines += [hit_text(hit, width, query.relevant_docs) for hit in ranking.hits[:most]]
        lines += [f"  and {len(ranking.hits) - most:,} more: --setting NAME"] if len(ranking.hits) > most else []
        if ranking.passages is not None:
            pairs = zip(query.relevant_docs, ranking.passages, strict=True)
            lines += [_passage_text(label, passage) for label, passage in pairs if label.relevance > 0]
            continue
        found = {hit.doc for hit in ranking.hits}
        answered = {label.group for label in query.relevant_docs if label.group and label.doc in found}
        missed = [
            label.doc
            for label in query.relevant_docs
            if label.relevance > 0 and label.doc not in found and label.group not in answered
        ]
        lines += [f"  not found: {', '.join(dict.fromkeys(missed))}"] if missed else []
    if left_out := len(rankings) - sum(map(len, groups)):
        lines += ["", f"{counted(left_out, 'other setting')} not shown: --setting NAME shows one, --json all."]
    return "\n".join(lines)


def _most_different(groups: Sequence[list[QueryRanking]], metric: str) -> Sequence[list[QueryRanking]]:
    """The first group of rankings, and those whose value differs most from it, in their order."""
    values = [group[0].evaluations[metric] or 0.0 for group in groups]
    places = sorted(range(1, len(groups)), key=lambda place: -abs(values[place] - values[0]))[: _MOST_RANKINGS - 1]
    return [groups[place] for place in [0, *sorted(places)]]


def _outcome(report: Report, ranking: QueryRanking) -> str:
    """The first rank that has an answer to the query."""
    ranks = [hit.rank for hit in ranking.hits if (hit.grade or 0) >= report.relevance_threshold]
    if ranking.passages is not None:
        pairs = zip(ranking.query.relevant_docs, ranking.passages, strict=True)
        ranks = [part.found for label, part in pairs if label.relevance >= report.relevance_threshold and part.found]
    return f"first answer at rank {min(ranks)}" if ranks else "no answer found"


def items_text(items: Sequence[Item], settings: Sequence[str], width: int) -> str:
    """The hits of a search, numbered, with the ranks at which settings found them."""
    head = settings[0] if len(settings) == 1 else f"{len(settings)} settings"
    if not items:
        return f"{head}: nothing found"
    lines = [f"{head}:"]
    for item in items:
        lines.append(hit_text(item.hit, width))
        if len(settings) > 1:
            by = ", ".join(f"{name} {rank}" for name, rank in item.found_by.items())
            lines += textwrap.wrap(f"rank: {by}", max(40, width - 7), initial_indent=" " * 7, subsequent_indent=" " * 7)
    return "\n".join(lines)


def answer_text(hit: FoundText, width: int) -> str:
    """A hit to be judged, with all of its text and its own lines, and without a score."""
    grade = "" if hit.grade is None else f"  (labelled: {hit.grade})"
    lines = [hit.doc + ("" if hit.title in ("", hit.doc) else f"  {hit.title}") + _pages_text(hit) + grade]
    text = "".join(mark if mark.isprintable() or mark == "\n" else " " for mark in (hit.text or "").expandtabs())
    for line in text.strip().splitlines():
        lines += textwrap.wrap(line, max(40, width - 4), initial_indent="    ", subsequent_indent="    ") or [""]
    return "\n".join(lines)


def prompt_text(prompt: FilledPrompt) -> str:
    """The filled prompt, and how long it is."""
    return f"{prompt.prompt}\n\n({prompt.setting}, query {prompt.query}: {len(prompt.prompt):,} characters)"


def hit_text(hit: FoundText, width: int, labels: Sequence[JudgmentPart] = ()) -> str:
    """One hit, on at most ten lines: its rank, grade, score and place, and how its text begins.

    The passages of ``labels`` stand between >> and <<; the text begins shortly before the first of them.
    """
    grade = "-" if hit.grade is None else str(hit.grade)
    score = "" if hit.score is None else f"  {hit.score:.4f}"
    head = f"{hit.rank:>3}  grade {grade}{score}  {hit.doc}"
    if hit.text is None:
        return head
    most, passages = max(60, 3 * (width - 7)), _passages(hit, labels)
    text = _marked(hit.text, hit.doc, passages)
    start = text.rfind(" ", 0, first - most // 6) if (first := text.find(">>")) > most // 2 else -1
    shown_from = passages[0][0] if start > 0 else -1  # a heading at the beginning of the text is in it
    heading = heading_above(hit.headings, (hit.start or 0) + shown_from, hit.title)
    head += f" [{hit.start}:{hit.end}]{_pages_text(hit)}" + (f"  {heading}" if heading else "")
    body = textwrap.shorten("... " * (start > 0) + text[start + 1 :], most, placeholder=" ...")
    lines = textwrap.wrap(body, max(40, width - 7), initial_indent=" " * 7, subsequent_indent=" " * 7)
    return "\n".join([head, *lines][:_MOST_LINES])


def _passages(hit: FoundText, labels: Sequence[JudgmentPart]) -> list[tuple[int, int]]:
    """The characters of the text of a hit that are in passages of relevant ``labels``, in order."""
    start, size = hit.start or 0, len(hit.text or "")
    spans = [span for label in labels if label.doc == hit.doc and label.relevance > 0 for span in label.spans]
    inside = sorted((max(0, span.start - start), min(size, span.end - start)) for span in spans)
    return [(begin, end) for begin, end in inside if begin < end]


def _marked(text: str, doc: str, passages: Sequence[tuple[int, int]]) -> str:
    """The text on one line without signs of Markdown, with ``passages`` between >> and <<."""
    pieces, place = list[str](), 0
    for begin, end in passages:
        if end > place:
            pieces += [text[place : max(place, begin)], ">>", text[max(place, begin) : end], "<<"]
            place = end
    return plain_line("".join([*pieces, text[place:]]), doc)


def plain_line(text: str, doc: str) -> str:
    """The text on one line; that of a Markdown document without its signs."""
    for sign, shown in _SIGNS if doc.lower().endswith(_MARKDOWN) else ():
        text = sign.sub(shown, text)
    return " ".join(text.split())


def _passage_text(label: JudgmentPart, passage: PassagePart) -> str:
    """One line: the passage of a label, and how much of it the hits have down to each rank that adds to it."""
    where = " or ".join(f"[{span.start}:{span.end}]" for span in label.spans) or "(whole document)"
    steps = ", ".join(f"{step.share:.0%} by rank {step.rank}" for step in passage.covered) or "nothing of it"
    outcome = f"found at rank {passage.found}" if passage.found else "not found"
    return f"  passage {outcome}: grade {label.relevance}  {label.doc} {where}: {steps}"


def _pages_text(hit: FoundText) -> str:
    if hit.pages is None:
        return ""
    first, last = hit.pages
    return f"  p. {first}" if first == last else f"  pp. {first}-{last}"


_INDENT = " " * 4


def count_line(cut: CutSetting) -> str:
    """The number of chunks of a setting, and how they were made."""
    made_by = cut.setting.chunker.summary()
    context = cut.setting.context.summary()
    added = f"; context {context}" if context else ""
    return f"{cut.setting.name}: {counted(len(cut), 'chunk')} of {counted(cut.documents, 'document')}, {made_by}{added}"


def no_chunks_line(setting: Setting) -> str:
    """The input of a setting that does not cut documents."""
    parts = [part.name for part in setting.parts]
    combined = f"; it combines the results of {listed(parts)}" if parts else ""
    return f"{setting.name}: no chunks of its own{combined}."


def size_table(cut: CutSetting) -> Table:
    """One row for each unit that is counted; none without any chunk."""
    sizes: dict[str, Sizes | None] = {
        "characters of the chunk": cut.characters,
        "tokens of what is indexed": cut.indexed_tokens,
    }
    rows = [[name, *(f"{count:,}" for count in astuple(size))] for name, size in sizes.items() if size]
    return Table.of(["", "min", "median", "p95", "max"], rows)


def chunk_texts(cut: CutSetting, most: int, width: int) -> list[str]:
    """The first ``most`` chunks: place, text, and behind `+` the text that is indexed before and after it."""
    chunks, shown = cut.texts.chunks, []
    for position in cut.positions[:most].tolist():
        span = chunks.span(position)
        head = f"{chunks.document_id(position)} [{span.start}:{span.end}]  {chunks.id(position)}"
        if cut.tokens is not None:
            head += f"  {counted(int(cut.tokens[position]), 'token')}"
        before, after = cut.texts.around(position)
        lines = [*_lines(before, "  + ", width), *_lines(chunks.text(position), _INDENT, width)]
        shown.append("\n".join([head, *lines, *_lines(after, "  + ", width)]))
    return shown


def _lines(text: str, begin: str, width: int) -> list[str]:
    """The lines of ``text``, wrapped to ``width``, each behind ``begin``; nothing for white space."""
    if not text.strip():
        return []
    wrapped = (textwrap.wrap(line, max(40, width - len(begin))) or [""] for line in text.strip().split("\n"))
    return [f"{begin}{line}".rstrip() for lines in wrapped for line in lines]
