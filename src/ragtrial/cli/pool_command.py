"""ragtrial pool"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ragtrial.cli.contest_options import ComparisonInputs, contest_options
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import counted
from ragtrial.views.table import Table

if TYPE_CHECKING:
    from ragtrial.labelling.pooling.pool import Pooled
    from ragtrial.labelling.pooling.pooling import SettledVerdict


@click.command("pool", short_help="Write a worklist of the texts to label next.")
@contest_options
@click.option("--setting", "settings", multiple=True, metavar="NAME", help="Only this setting; may be repeated.")
@click.option("--budget", type=click.IntRange(min=1), default=20, show_default=True, help="How many labels to ask for.")
@click.option("--depth", type=click.IntRange(min=1), metavar="K",
              help="Take the first K of each setting (default: the metric's cutoff).")  # fmt: skip
@click.option("--repeat", default="0.2", show_default=True, metavar="SHARE|N",
              help="How many items are judged already, to measure agreement.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of the order.")
@click.option("--labels", type=click.Path(), metavar="FILE",
              help="Where labels go: a prompt_queries.json, or an overlay (default: as the config says).")  # fmt: skip
@click.option("--config", metavar="CONFIG", help="The config with the documents, where it is not found nearby.")
@click.option("-o", "--output", type=click.Path(), default="worklist.json", show_default=True,
              help="The file to write.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@common_options
def command(
    terminal: Terminal,
    compared: ComparisonInputs,
    settings: tuple[str, ...],
    budget: int,
    depth: int | None,
    repeat: str,
    seed: int,
    labels: str | None,
    config: str | None,
    output: str,
    *,
    force: bool,
) -> int:
    """Write the worklist of those texts whose labels would settle most, for `ragtrial label`.

    Pooled from the first hits of all settings of the REPORTs, chosen by how much each label can narrow what unjudged
    hits leave open of the verdict. Blind: no setting, rank or score, in a random order, some judged ones in between.
    """
    from ragtrial.labelling.pooling.pool import PoolOptions, parse_repeats, pool_of
    from ragtrial.labelling.pooling.worklist import check_new, write_worklist
    from ragtrial.options import expand_user

    repeats = parse_repeats(repeat)
    file = expand_user(output)
    check_new(file, force=force)
    contest = compared.contest(settings=settings, may_be_one=True).limited_to([])
    options = PoolOptions(
        budget=budget,
        depth=depth,
        seed=seed,
        repeats=repeats,
        labels=None if labels is None else expand_user(labels),
        config=None if config is None else expand_user(config),
    )
    made = pool_of(contest, compared.aim(contest), options, terminal.progress())
    write_worklist(made.worklist, file, force=force)
    _say(terminal, made, output)
    warnings = [*contest.warnings, *made.warnings]
    terminal.warn(warnings)
    terminal.say_json(
        {
            "exit_code": 0,
            "wrote": [output],
            "labels": made.worklist.labels,
            "metric": made.worklist.metric,
            "depth": made.depth,
            "unjudged": made.unjudged,
            "items": len(made.worklist.items),
            "new": made.new,
            "repeated": made.repeated,
            "settled": [asdict(one) for one in made.settled],
            "warnings": [asdict(one) for one in warnings],
        }
    )
    return 0


def _say(terminal: Terminal, made: Pooled, output: str) -> None:
    queries = len({item.query for item in made.worklist.items})
    judged = "is one that is" if made.repeated == 1 else f"are {made.repeated:,} that are"
    again = f"; among them {judged} judged already, to measure agreement" if made.repeated else ""
    texts = counted(len(made.worklist.items), "text")
    terminal.say(f"{output}: {texts} of {counted(queries, 'query', 'queries')} to label{again}")
    found = counted(made.unjudged, "unjudged hit")
    terminal.say(f"{made.new:,} of {found} among the first {made.depth} were chosen: those that settle most\n")
    terminal.table(_table(made))
    for one in made.settled:
        if one.is_settled and one.labels:
            terminal.say(f"the verdict on {_name(one)} holds whatever the grades are; labels only narrow its range")
    terminal.say(f"\nlabels go to {made.worklist.labels}; next: ragtrial label {output}")


def _table(made: Pooled) -> Table:
    """The comparisons that something was chosen for: how wide the range of unjudged hits is, and becomes."""
    rows = []
    for one in made.settled:
        if one.labels:
            widths = (one.width, one.at_most, one.if_likeliest)
            rows.append([_name(one), *(f"{width:.4f}" for width in widths), f"{one.labels:,}"])
    return Table.of([f"range of {made.worklist.metric}", "width now", "then at most", "likely", "labels"], rows)


def _name(one: SettledVerdict) -> str:
    return one.setting if one.baseline is None else f"{one.setting} less {one.baseline}"
