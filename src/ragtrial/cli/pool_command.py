"""ragtrial pool"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from ragtrial.cli import completion
from ragtrial.cli.options import ComparisonInputs, contest_options
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import counted

if TYPE_CHECKING:
    from ragtrial.comparison.comparison_input import ComparisonInput
    from ragtrial.labelling.pooling import Pooled

_USUAL = click.core.ParameterSource.DEFAULT


@click.command("pool")
@contest_options
@completion.settings_option
@click.option("--budget", type=click.IntRange(min=1), default=20, show_default=True, help="How many labels to ask for.")
@click.option("--random-queries", type=click.IntRange(min=1), metavar="N",
              help="Draw N queries at random, with all texts found for them, for `compare --judge`.")  # fmt: skip
@click.option("--depth", type=click.IntRange(min=1), metavar="K",
              help="Take the first K of each setting (default: the metric's cutoff).")  # fmt: skip
@click.option("--repeat", type=click.FloatRange(0, 1_000_000), default=0.2, show_default=True, metavar="SHARE|N",
              help="How many items are judged already, to measure agreement.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Random seed of the order.")
@click.option("--labels", type=click.Path(), metavar="FILE",
              help="Where labels go: a prompt_queries.json, or an overlay (default: as the config says).")  # fmt: skip
@click.option("--config", metavar="CONFIG",
              help="The config with the labels (default: the report's, if it is experiment.yaml here).")  # fmt: skip
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

    Texts are pooled from the first hits of all settings of the REPORTs, and chosen by how much a label could change the
    difference between two settings. The worklist is blind: it hides settings, ranks and scores, is in random order, and
    repeats some judged texts. With --random-queries N, it has all texts of N random queries instead.
    """
    from ragtrial.labelling.pooling import PoolOptions, pool_of, random_pool_of
    from ragtrial.labelling.worklist import check_new, write_worklist
    from ragtrial.options import expand_user

    if random_queries is not None and click.get_current_context().get_parameter_source("budget") != _USUAL:
        raise click.UsageError("--random-queries takes all texts of its queries; leave out --budget.")
    file = expand_user(output)
    check_new(file, force=force)
    unlabelled = random_queries is not None
    contest = compared.contest(settings=settings, may_be_one=True, may_be_unlabelled=unlabelled).limited_to([])
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
    _say(terminal, made, contest, output)
    return 0


def _say(terminal: Terminal, made: Pooled, contest: ComparisonInput, output: str) -> None:
    """Print the content of the worklist, how it was chosen, and the next command."""
    from ragtrial.labelling.label_target import label_options

    worklist, found = made.worklist, counted(made.unjudged, "unjudged hit")
    queries = counted(len({item.query for item in worklist.items}), "query", "queries")
    terminal.tell(f"{output}: {counted(len(worklist.items), 'text')} of {queries}, {made.repeated:,} already judged")
    if worklist.drawn == "random":
        terminal.tell(
            f"queries drawn at random (seed {worklist.seed}): {found} in the top {made.depth} of all settings"
        )
    else:
        terminal.tell(
            f"{made.new:,} of {found} among the first {made.depth} were chosen, where the settings disagree most"
        )
    terminal.tell(
        f"labels go to {worklist.labels}; next: ragtrial label {quote(output)}{label_options(worklist, Path(output))}"
    )
    terminal.warn(contest.warnings)
    terminal.say_json(
        {
            "exit_code": 0,
            "wrote": [output],
            "labels": worklist.labels,
            "drawn": worklist.drawn,
            "metric": worklist.metric,
            "depth": made.depth,
            "unjudged": made.unjudged,
            "items": len(worklist.items),
            "new": made.new,
            "repeated": made.repeated,
            "warnings": [asdict(one) for one in contest.warnings],
        }
    )
