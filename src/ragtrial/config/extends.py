"""Laying one config on another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ragtrial.config.strict_yaml import KeyPath, YamlText


def merged(base: YamlText, over: YamlText) -> YamlText:
    """``over`` on ``base``, with the places of both; what both have stands where ``over`` has it.

    What was in a section that another kind replaces stands nowhere any more.
    """
    gone = list(_replaced(base.value, over.value))
    kept = {path: place for path, place in base.places.items() if not any(path[: len(cut)] == cut for cut in gone)}
    return YamlText(
        merged_values(base.value, over.value),
        merged_values(base.written, over.written),
        {**kept, **over.places},
    )


def merged_values(base: Any, over: Any) -> Any:
    """``over`` on ``base``: mappings are merged key by key; another ``kind`` or anything else replaces."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    if _is_another_kind(base, over):
        return over
    return {**base, **{key: merged_values(base[key], value) if key in base else value for key, value in over.items()}}


def _is_another_kind(base: dict[str, Any], over: dict[str, Any]) -> bool:
    return "kind" in over and bool(over["kind"] != base.get("kind", over["kind"]))


def _replaced(base: Any, over: Any, path: KeyPath = ()) -> Iterator[KeyPath]:
    """The paths of the sections of ``base`` that one of another kind replaces."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return
    if _is_another_kind(base, over):
        yield path
        return
    for key in base.keys() & over.keys():
        yield from _replaced(base[key], over[key], (*path, key))
