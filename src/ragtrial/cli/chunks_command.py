"""ragtrial chunks"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import Any

from ragtrial import config as configs
from ragtrial.cli.options import CONFIG, OVERRIDES, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.config import settings as config_settings
from ragtrial.pipeline import chunk_preview
from ragtrial.runs import streams
from ragtrial.views import texts
from ragtrial.views.table import Table

_SHOWN = 3


@declare("chunks")
def command(
    terminal: Terminal,
    *,
    config: str = CONFIG,
    overrides: tuple[str, ...] = OVERRIDES,
    setting: str | None = option("Only this setting (default: every one).", "NAME"),
    doc: str | None = option("Only the chunks of this document.", "ID"),
    most: int | None = option("The first N chunks (default: 3; all with --json and -o).", "N", flags="-n", at_least=0),
    target: str | None = option("Write the chunks as JSON lines, each once; - is standard output.", "FILE", flags="-o"),
) -> Answer:
    """Show how the settings of CONFIG cut its documents.

    Shows the indexed text of each chunk, too. Nothing is embedded. Add a "prefix" to the lines that -o writes, and the
    file is one for `context.prefixes`.
    """
    terminal.check_stdout({"-o": target})
    if target is not None:
        streams.check_folder(target)
    experiment = configs.load_config(config, overrides)
    cuts = chunk_preview.cut_settings(experiment, setting, doc, progress=terminal.progress())
    chosen = config_settings.chosen_settings(config_settings.settings_of(experiment)[0], setting and [setting])
    without = [other for other in chosen if not other.cuts_documents]
    content: dict[str, Any] = {"settings": [_counts(cut) for cut in cuts]}
    blocks: list[str | Table] = []
    if target is not None:
        count = 0
        with contextlib.redirect_stdout(terminal.out), streams.written(target) as file:
            for row in chunk_preview.distinct_rows(cuts, most):
                file.write(json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
                count += 1
        content |= {"file": target, "rows": count}
        terminal.note(f"{target}: {count:,} chunk{'s' * (count != 1)}")
    elif terminal.as_json:
        content["settings"] = [{**_counts(cut), "rows": list(cut.rows(most))} for cut in cuts]
    else:
        for cut in cuts:
            blocks += [*([""] if blocks else []), texts.count_line(cut), texts.size_table(cut)]
            for text in texts.chunk_texts(cut, _SHOWN if most is None else most, terminal.width):
                blocks += ["", text]
        blocks += [*([""] if cuts and without else []), *map(texts.no_chunks_line, without)]
    content["without_chunks"] = [other.name for other in without]
    return Answer(content, blocks, [warning for cut in cuts for warning in cut.warnings])


def _counts(cut: chunk_preview.CutSetting) -> dict[str, Any]:
    sizes = {"characters": cut.characters, "tokens": cut.indexed_tokens}
    counts = {"name": cut.setting.name, "chunks": len(cut), "documents": cut.documents}
    return counts | {name: asdict(size) if size else None for name, size in sizes.items()}
