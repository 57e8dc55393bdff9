"""ragtrial chunks"""

from __future__ import annotations

import contextlib
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli import completion
from ragtrial.cli.terminal import Terminal, common_options, config_argument, override_option
from ragtrial.errors import InputError
from ragtrial.runs.streams import check_folder, written

if TYPE_CHECKING:
    from ragtrial.pipeline.chunk_preview import CutSetting

_SHOWN = 3


@click.command("chunks")
@config_argument
@override_option
@click.option(
    "--setting", shell_complete=completion.settings, metavar="NAME", help="Only this setting (default: every one)."
)
@click.option("--doc", metavar="ID", help="Only the chunks of this document.")
@click.option("-n", "most", type=click.IntRange(min=0), metavar="N",
              help=f"The first N chunks of each setting (default: {_SHOWN}; all with --json and -o).")  # fmt: skip
@click.option("-o", "target", metavar="FILE", help="Write the chunks as JSON lines, each once; - is standard output.")
@common_options
def command(
    terminal: Terminal,
    config: str,
    overrides: tuple[str, ...],
    setting: str | None,
    doc: str | None,
    most: int | None,
    target: str | None,
) -> int:
    """Show how the settings of CONFIG cut its documents, and the indexed text of each chunk.

    Nothing is embedded. Add a "prefix" to the lines that -o writes, and the file is one for `context.prefixes`.
    """
    from ragtrial.config import load_config
    from ragtrial.config.settings import chosen_settings, settings_of
    from ragtrial.pipeline.chunk_preview import cut_settings
    from ragtrial.views.texts import chunk_texts, count_line, no_chunks_line, size_table

    if target is not None:
        if target == "-" and terminal.as_json:
            raise InputError("--json and -o - both write to standard output; leave one of them out.")
        check_folder(target)
    loaded = load_config(config, overrides)
    found = cut_settings(loaded, setting, doc, progress=terminal.progress())
    without = [one for one in chosen_settings(settings_of(loaded)[0], setting and [setting]) if not one.cuts_documents]
    answer: dict[str, Any] = {"exit_code": 0, "settings": [_counts(one) for one in found]}
    if target is not None:
        with contextlib.redirect_stdout(terminal.out):
            answer |= {"file": target, "rows": _write(target, found, most)}
        terminal.note(f"{target}: {answer['rows']:,} chunks")
    else:
        for number, one in enumerate(found):
            terminal.tell(("\n" if number else "") + count_line(one))
            terminal.table(size_table(one))
            for text in chunk_texts(one, _SHOWN if most is None else most, terminal.width):
                terminal.tell("\n" + text)
        for number, other in enumerate(without):
            terminal.tell(("" if number or not found else "\n") + no_chunks_line(other))
        if terminal.as_json:
            for part, one in zip(answer["settings"], found, strict=True):
                part["rows"] = list(one.rows(most))
    answer["without_chunks"] = [one.name for one in without]
    terminal.say_json({**answer, "warnings": [asdict(warning) for one in found for warning in one.warnings]})
    terminal.warn([warning for one in found for warning in one.warnings])
    return 0


def _write(target: str, found: list[CutSetting], most: int | None) -> int:
    """Write the rows of all settings to ``target``; how many there are."""
    from ragtrial.pipeline.chunk_preview import distinct_rows

    count = 0
    with written(target) as file:
        for row in distinct_rows(found, most):
            file.write(json.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
            count += 1
    return count


def _counts(cut: CutSetting) -> dict[str, Any]:
    sizes = {"characters": cut.characters, "tokens": cut.indexed_tokens}
    return {
        "name": cut.setting.name,
        "chunks": len(cut),
        "documents": cut.documents,
        **{name: asdict(one) if one else None for name, one in sizes.items()},
    }
