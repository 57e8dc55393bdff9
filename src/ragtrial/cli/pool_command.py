"""ragtrial pool"""

from __future__ import annotations

from dataclasses import asdict

import click

from ragtrial.cli import completion
from ragtrial.cli.contest_options import ComparisonInputs, contest_options
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import counted

_USUAL = click.core.ParameterSource.DEFAULT


@click.command("pool", short_help="Write a worklist of the texts to label next.")
@contest_options
@completion.settings_option
@click.option("--budget", type=click.IntRange(min=1), default=20, show_default=True, help="How many labels to ask for.")
@click.option("--random-queries", type=click.IntRange(min=1), metavar="N",
              help="Draw N queries at random, with all texts found for them: people's side for a judge.")  # fmt: skip
@click.option("--depth", type=click.IntRange(min=1), metavar="K",
              help="Take the first K of each setting (default: the metric's cutoff).")  # fmt: skip
@click.option("--repeat", type=click.FloatRange(0, 1_000_000), default=0.2, show_default=True, metavar="SHARE|N",
              help="How many items are judged already, to measure agreement.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed of the order.")
@click.option("--labels", type=click.Path(), metavar="FILE",
              help="Where labels go: a prompt_queries.json, or an overlay (default: as the config says).")  # fmt: skip
@click.option("--config", metavar="CONFIG", help="The config with the documents, where it is not found nearby.")
@click.option("-o", "--output", type=click.Path(), default="worklist.json", show_default=True,
              help="The file to write.")  # fmt: skip
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@common_options
def command(
    terminal: Terminal,
    compared: ComparisonInputs,
    settings: tuple[str, ...],
    budget: int,
    random_queries: int | None,
    depth: int | None,
    repeat: float,
    seed: int,
    labels: str | None,
    config: str | None,
    output: str,
    *,
    force: bool,
) -> int:
    """Write the worklist of those texts on which the settings disagree most, for `ragtrial label`.

    Pooled from the first hits of all settings of the REPORTs, chosen by how much each label could move the difference
    of two settings. Blind: no setting, rank or score, in a random order, some judged ones in between. With
    --random-queries N all texts of N queries instead, for `ragtrial compare --judge`.
    """
    from ragtrial.labelling.pooling.pool import PoolOptions, pool_of
    from ragtrial.labelling.pooling.random_queries import random_pool_of
    from ragtrial.labelling.pooling.worklist import check_new, write_worklist
    from ragtrial.options import expand_user

    if random_queries is not None and click.get_current_context().get_parameter_source("budget") != _USUAL:
        raise click.UsageError("--random-queries takes all texts of its queries; leave out --budget.")
    file = expand_user(output)
    check_new(file, force=force)
    at_random = random_queries is not None
    contest = compared.contest(settings=settings, may_be_one=True, may_be_unlabelled=at_random).limited_to([])
    options = PoolOptions(
        budget=budget,
        depth=depth,
        seed=seed,
        repeats=repeat,
        labels=None if labels is None else expand_user(labels),
        config=None if config is None else expand_user(config),
    )
    if random_queries is None:
        made = pool_of(contest, options, terminal.progress())
    else:
        made = random_pool_of(contest, random_queries, options, terminal.progress())
    write_worklist(made.worklist, file, force=force)
    items = made.worklist.items
    queries = counted(len({item.query for item in items}), "query", "queries")
    terminal.tell(f"{output}: {counted(len(items), 'text')} of {queries} to label, {made.repeated:,} judged already")
    found = counted(made.unjudged, "unjudged hit")
    if at_random:
        terminal.tell(f"drawn at random (seed {seed}), with {found} among the first {made.depth} of all settings")
    else:
        of_all = f"{made.new:,} of {found} among the first {made.depth}"
        terminal.tell(f"{of_all} were chosen, where the settings disagree most")
    terminal.tell(f"labels go to {made.worklist.labels}; next: ragtrial label {output}")
    terminal.warn(contest.warnings)
    terminal.say_json(
        {
            "exit_code": 0,
            "wrote": [output],
            "labels": made.worklist.labels,
            "drawn": made.worklist.drawn,
            "metric": made.worklist.metric,
            "depth": made.depth,
            "unjudged": made.unjudged,
            "items": len(items),
            "new": made.new,
            "repeated": made.repeated,
            "warnings": [asdict(one) for one in contest.warnings],
        }
    )
    return 0
