"""Laying one config on another."""

from __future__ import annotations

from typing import Any

from ragtrial.config.strict_yaml import YamlText


def merged(base: YamlText, over: YamlText) -> YamlText:
    """``over`` on ``base``, with the places of both; what both have stands where ``over`` has it."""
    return YamlText(
        merged_values(base.value, over.value),
        merged_values(base.written, over.written),
        {**base.places, **over.places},
    )


def merged_values(base: Any, over: Any) -> Any:
    """``over`` on ``base``: mappings are merged key by key; another ``kind`` or anything else replaces."""
    if not isinstance(base, dict) or not isinstance(over, dict):
        return over
    if "kind" in over and over["kind"] != base.get("kind", over["kind"]):
        return over
    return {**base, **{key: merged_values(base[key], value) if key in base else value for key, value in over.items()}}
