"""How deep rankings must be for all that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ragtrial.searching import Demand
from ragtrial.setting import Setting
from ragtrial.stores.exact import ExactStore

AUDITED_BELOW = 100_000
"""Indexes of fewer vectors are always compared with exact search; it takes a second or two per thousand queries."""


def exact_twin(setting: Setting) -> Setting:
    """``setting`` with exact search over the same vectors."""
    return replace(setting, name=f"{setting.name}, exact", store=ExactStore(space=setting.store.space))


def demands(settings: Sequence[Setting]) -> dict[str, Demand]:
    """How deep each ranking must be, by its key, for ``settings``, all that they are made of, and their exact twins."""
    found: dict[str, Demand] = {}

    def want(setting: Setting, demand: Demand) -> None:
        found[setting.ranking_key] = found.get(setting.ranking_key, Demand()) | demand
        for part in setting.parts:
            want(part, Demand(candidates=setting.depth_of_parts))

    for setting in settings:
        want(setting, Demand(units=setting.retriever.top_k))
        if setting.has_index and not setting.store.is_exact:
            want(exact_twin(setting), Demand(units=setting.retriever.top_k))
    return found
