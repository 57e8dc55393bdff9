"""The chunks of a setting as text: how many, how long, and what the first look like."""

from __future__ import annotations

import textwrap
from dataclasses import astuple

from ragtrial.config.settings import Setting
from ragtrial.errors import counted, listed
from ragtrial.pipeline.chunk_preview import CutSetting, Sizes
from ragtrial.views.table import Table

_INDENT = " " * 4


def count_line(cut: CutSetting) -> str:
    """How many chunks a setting has, of what, and how they were made."""
    made_by = cut.setting.chunker.summary()
    context = cut.setting.context.summary()
    added = f"; context {context}" if context else ""
    return f"{cut.setting.name}: {counted(len(cut), 'chunk')} of {counted(cut.documents, 'document')}, {made_by}{added}"


def no_chunks_line(setting: Setting) -> str:
    """What a setting without a chunker of its own works on."""
    parts = [part.name for part in setting.parts]
    return (
        f"{setting.name}: no chunks of its own"
        + (f"; it combines the results of {listed(parts)}" if parts else "")
        + "."
    )


def size_table(cut: CutSetting) -> Table:
    """One row for each unit that is counted; none without any chunk."""
    sizes: dict[str, Sizes | None] = {
        "characters of the chunk": cut.characters,
        "tokens of what is indexed": cut.indexed_tokens,
    }
    rows = [[name, *(f"{size:,}" for size in astuple(one))] for name, one in sizes.items() if one]
    return Table.of(["", "min", "median", "p95", "max"], rows)


def chunk_texts(cut: CutSetting, most: int, width: int) -> list[str]:
    """The first ``most`` chunks: where each is, its text, and behind `+` what is indexed before and after it."""
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
