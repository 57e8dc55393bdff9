"""How deep rankings must be for all that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragtrial.components.stores.exact import ExactStore
from ragtrial.config.settings import Setting
from ragtrial.pipeline.searching import Demand

AUDITED_BELOW = 100_000
"""Indexes of fewer vectors are always compared with exact search; it takes a second or two per thousand queries."""


def exact_twin(setting: Setting) -> Setting:
    """``setting`` with exact search over the same vectors."""
    return replace(setting, name=f"{setting.name}, exact", store=ExactStore(space=setting.store.space))


Search = tuple[str, int | None]
"""The key of a ranking, and how widely is searched for it, where that changes what is found."""


def own_demand(setting: Setting) -> Demand:
    """How deep the ranking of ``setting`` must be for itself."""
    return Demand(units=setting.retriever.top_k)


def demand_of_parts(setting: Setting) -> Demand:
    """How deep those of its parts must be for it."""
    return Demand(candidates=setting.depth_of_parts)


def search_for(setting: Setting, demand: Demand) -> Search:
    """What must be searched for ``demand``: one search serves all demands with which it is the same."""
    return setting.ranking_key, setting.width(demand.depth)


def demands(settings: Sequence[Setting]) -> dict[Search, Demand]:
    """How deep each search must go for ``settings``, all that they are made of, and their exact twins.

    Rankings are cut from the deepest where this is harmless: an approximate index that is searched more widely finds
    other hits, and what a setting finds must not depend on which others there are.
    """
    found: dict[Search, Demand] = {}

    def want(setting: Setting, demand: Demand) -> None:
        search = search_for(setting, demand)
        found[search] = found.get(search, Demand()) | demand
        for part in setting.parts:
            want(part, demand_of_parts(setting))

    for setting in settings:
        want(setting, own_demand(setting))
        if setting.has_index and not setting.store.is_exact:
            want(exact_twin(setting), own_demand(setting))
    return found
