"""ragtrial explain"""

from __future__ import annotations

import click

from ragtrial.cli.terminal import Terminal, common_options


@click.command("explain", short_help="Say what METRIC is: formula, edge cases, source.")
@click.argument("metric")
@common_options
def command(terminal: Terminal, metric: str) -> int:
    """Say what METRIC is: its formula, its edge cases, and what other tools call the same number.

    METRIC is a name like ndcg@10, rbp(p=0.8) or recall, or another tool's, like ndcg_cut_10 or
    MRR@10; `ragtrial list metrics` has all.
    """
    from dataclasses import asdict

    from ragtrial.evaluation.metrics import parse_metric
    from ragtrial.evaluation.metrics.cards import card, card_text

    made = card(parse_metric(metric))
    terminal.say(card_text(made, terminal.width))
    terminal.say_json(asdict(made))
    return 0
