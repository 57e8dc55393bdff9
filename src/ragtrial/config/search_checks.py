"""What is wrong with a search beside the rest of its config."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ragtrial.config.metric_choice import choose_metrics
from ragtrial.config.models import ExperimentConfig, scored, searching_elsewhere
from ragtrial.config.search_options import SearchOptions
from ragtrial.config.sweep import PlacedFault
from ragtrial.errors import did_you_mean, listed
from ragtrial.report.schema import context_cost


def search_faults(config: ExperimentConfig) -> Iterator[PlacedFault]:
    """The faults of a search, each with its place; nothing without one."""
    search = config.search
    if search is None:
        return
    if config.sweep is None or not config.sweep.matrix:
        yield (
            ("search",),
            "search has no axes to search along; name some in sweep.matrix, like {chunker.size: [128, 256]}.",
        )
    elif config.sweep.sample is not None:
        yield ("sweep", "sample"), "sweep.sample has no effect with a search; say search.settings instead."
    if search.method != "random" and search.held_out is None:
        yield (
            ("search", "method"),
            (
                f"search.method is {search.method}, which looks at the labels while it searches, so that the verdict "
                "needs other queries: set search.held_out, like 0.3, or method: random."
            ),
        )
    if search.group_by and not isinstance(search.held_out, float):
        yield ("search", "group_by"), "search.group_by has no effect without a share in search.held_out; set one."
    if search.baseline is not None and search.baseline not in (known := list(scored(config))):
        near = did_you_mean(search.baseline, known)
        yield (
            ("search", "baseline"),
            f"search.baseline is {search.baseline!r}.{near} It must be one of {listed(known)}.",
        )
    yield from limit_faults(config, search.within)
    yield from _screen_faults(config, search)


def _screen_faults(config: ExperimentConfig, search: SearchOptions) -> Iterator[PlacedFault]:
    if search.screen is None:
        return
    if search.held_out is None:
        yield (
            ("search", "screen"),
            "search.screen chooses finalists by their scores, so that the verdict needs other queries: set "
            "search.held_out, like 0.3, or remove screen.",
        )
    for name, what in searching_elsewhere(config).items():
        yield (
            ("search", "screen"),
            f"search.screen needs retrievers that search the documents of the config, and retrievers.{name} ({what}) "
            "does not; remove it, or remove screen.",
        )


def limit_faults(config: ExperimentConfig, within: Iterable[str]) -> Iterator[PlacedFault]:
    """The faults of the limits of these names."""
    cutoffs = sorted({metric.k for metric in choose_metrics(config, ordered=False)[0].metrics if metric.k})
    for name in within:
        where = ("search", "within", name)
        context = context_cost(name)
        if context and context[1] not in cutoffs:
            yield (
                where,
                (
                    f"search.within.{name}: no metric is cut at {context[1]}, so that the text of so many hits is not "
                    f"counted; take one of {listed(map(str, cutoffs))}, or add that k to evaluators."
                ),
            )
        if name.startswith("latency.") and config.latency is False:
            yield where, f"search.within.{name} needs the latency, and latency is false; leave that out."
