"""ragtrial pool"""

from __future__ import annotations

from pathlib import Path

import click

from ragtrial.cli.inputs import ComparisonInputs
from ragtrial.cli.options import SETTINGS, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.errors import counted
from ragtrial.labelling import pooling, worklist as worklists
from ragtrial.labelling.label_target import label_command
from ragtrial.options import from_here

_BUDGET = 20


@declare("pool")
def command(
    terminal: Terminal,
    *,
    compared: ComparisonInputs,
    settings: tuple[str, ...] = SETTINGS,
    budget: int | None = option(f"How many labels to ask for (default: {_BUDGET}).", at_least=1),
    random_queries: int | None = option("Draw N queries at random, with all texts found for them.", "N", at_least=1),
    depth: int | None = option("Take the first K of each setting (default: the metric's cutoff).", "K", at_least=1),
    repeat: float = option("How many items are judged already.", "SHARE|N", default=0.2, at_least=0),
    seed: int = option("Random seed of the order.", default=0, at_least=0),
    labels: Path | None = option("Where labels go (default: as the config says).", "FILE"),
    config: Path | None = option("The config with the labels (default: experiment.yaml here).", "CONFIG"),
    output: Path = option("The file to write.", flags="-o --output", default="worklist.json"),
    force: bool = option("Replace the file, with its answers, if it holds work that is not done."),
) -> Answer:
    """Write a worklist of the texts to label next.

    These are the texts on which the settings disagree most; `ragtrial label` asks for their grades. Texts are pooled
    from the first hits of all settings of the REPORTs, and chosen by how much a label could change the difference
    between two settings. The worklist is blind: it hides settings, ranks and scores, is in random order, and repeats
    some judged texts. With --random-queries N, it has all texts of N random queries instead.
    """
    if random_queries is not None and budget is not None:
        raise click.UsageError("--random-queries takes all texts of its queries; leave out --budget.")
    worklists.check_new(output, force=force)
    unlabelled = random_queries is not None
    inputs = compared.inputs(settings=settings, may_be_one=True, may_be_unlabelled=unlabelled).limited_to([])
    files = {"labels": labels, "config": config}
    options = pooling.PoolOptions(budget=budget or _BUDGET, depth=depth, seed=seed, repeats=repeat, **files)
    if random_queries:
        pool = pooling.random_pool_of(inputs, random_queries, options, terminal.progress())
    else:
        pool = pooling.pool_of(inputs, options, terminal.progress())
    worklist, unjudged = pool.worklist, counted(pool.unjudged, "unjudged hit")
    worklists.write_worklist(worklist, output, force=force)
    queries = counted(len({item.query for item in worklist.items}), "query", "queries")
    if worklist.drawn == "random":
        how = f"queries drawn at random (seed {worklist.seed}): {unjudged} in the top {pool.depth} of all settings"
    else:
        how = f"{pool.new:,} of {unjudged} among the first {pool.depth} were chosen, where the settings disagree most"
    content = {"wrote": [str(output)], **{name: getattr(worklist, name) for name in ("labels", "drawn", "metric")}}
    content |= {name: getattr(pool, name) for name in ("depth", "unjudged", "new", "repeated")}
    texts = f"{output}: {counted(len(worklist.items), 'text')} of {queries}, {pool.repeated:,} already judged"
    lines = [texts, how, f"labels go to {from_here(worklist.labels)}; next: {label_command(worklist, output)}"]
    return Answer({**content, "items": len(worklist.items)}, lines, inputs.warnings)
