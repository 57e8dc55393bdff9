"""ragtrial explain"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from ragtrial.cli.options import argument, declare
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.config import reference
from ragtrial.errors import InputError, MetricError, did_you_mean
from ragtrial.evaluation import metrics
from ragtrial.evaluation.metrics import cards
from ragtrial.views import words


@declare("explain")
def command(terminal: Terminal, *, name: str = argument("NAME")) -> Answer:
    """Explain a metric, a config key, a kind, or a column of a comparison.

    \b
    ragtrial explain ndcg@10                 formula, edge cases, names in other tools
    ragtrial explain chunker.size            meaning, default and range
    ragtrial explain recursive               all options of a chunker
    ragtrial explain detectable              a column of a comparison
    """  # noqa: D301 - click wants the control character itself: it keeps the lines below it as they are
    about = words.meaning_of(name)
    texts = [] if about is None else ["\n".join([name, *_wrapped(about, 2, terminal.width)])]
    details: Any = None
    try:
        details = cards.card(metrics.parse_metric(name))
        texts.append(cards.card_text(details, terminal.width))
    except MetricError as error:
        if sections := reference.look_up(name):
            texts.append(_text_of(name, sections, terminal.width))
            details = [asdict(section) for section in sections]
        elif not texts:
            raise _unknown(name, error) from None
    content = details if about is None else {"name": name, "meaning": about, "details": details}
    return Answer(content, ["\n\n".join(texts)])


def _unknown(name: str, error: MetricError) -> InputError:
    """The error for a name that means nothing: as for a metric, unless it is similar to another name."""
    if "@" in name:
        return error
    near = did_you_mean(name, reference.config_names())
    if not near and "Did you mean" not in str(error):
        near = did_you_mean(name, words.words())
    return InputError(f"{name!r} is not a metric, a key or kind of the config, or a column.{near}") if near else error


def _text_of(name: str, sections: Sequence[reference.ConfigSection], width: int) -> str:
    """The sections with their keys; if ``name`` is a place for one of several kinds, only what each kind is."""
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
