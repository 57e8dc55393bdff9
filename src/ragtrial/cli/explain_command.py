"""ragtrial explain"""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import InputError, MetricError, did_you_mean
from ragtrial.views.words import meaning_of, words

if TYPE_CHECKING:
    from ragtrial.config.reference import ConfigSection


@click.command("explain")
@click.argument("name", metavar="NAME")
@common_options
def command(terminal: Terminal, name: str) -> int:
    """Explain a metric, a key of the config, a kind, or a column or verdict of a comparison.

    \b
    ragtrial explain ndcg@10                 formula, edge cases, names in other tools
    ragtrial explain chunker.size            meaning, default and range
    ragtrial explain recursive               all options of a chunker
    ragtrial explain detectable              a column of a comparison
    """  # noqa: D301 - click wants the control character itself: it keeps the lines below it as they are
    from ragtrial.evaluation.metrics import parse_metric
    from ragtrial.evaluation.metrics.cards import card, card_text

    about = meaning_of(name)
    texts = [] if about is None else ["\n".join([name, *_wrapped(about, 2, terminal.width)])]
    details: Any = None
    try:
        made = card(parse_metric(name))
    except MetricError as error:
        from ragtrial.config.reference import config_names, look_up

        if sections := look_up(name):
            texts.append(_shown(name, sections, terminal.width))
            details = [asdict(section) for section in sections]
        elif not texts:
            near = "" if "@" in name else did_you_mean(name, config_names())
            if not near and "@" not in name and "Did you mean" not in str(error):
                near = did_you_mean(name, words())
            if not near:
                raise
            raise InputError(f"{name!r} is not a metric, a key or kind of the config, or a column.{near}") from None
    else:
        texts.append(card_text(made, terminal.width))
        details = made
    terminal.say("\n\n".join(texts))
    terminal.say_json(details if about is None else {"name": name, "meaning": about, "details": details})
    return 0


def _shown(name: str, sections: list[ConfigSection], width: int) -> str:
    """The sections with their keys; of several kinds at the one place that ``name`` is, only what each is."""
    lines: list[str] = []
    is_choice = len(sections) > 1 and sections[0].path == name
    for section in sections:
        kind = f" (kind {section.kind})" if section.kind else ""
        lines += [f"{section.path or 'config'}{kind}", *_wrapped(section.about, 2, width)]
        for key in () if is_choice else section.keys:
            default = f"default {key.default}" if key.default not in ("", "required") else key.default
            value = "; ".join(filter(None, [key.value.replace("`", ""), default]))
            lines += [f"  {key.name}: {value}", *_wrapped(key.meaning, 6, width)]
    return "\n".join([*lines, *([f"The keys of a kind: ragtrial explain {sections[0].kind}"] if is_choice else [])])


def _wrapped(text: str, indent: int, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * indent)
