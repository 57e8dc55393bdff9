"""Secrets and addresses of servers in a config."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import SplitResult, urlsplit

from pydantic import BeforeValidator, SecretStr

from ragtrial.errors import hold_secret
from ragtrial.options import VARIABLE, LocatedText


def _from_environment(value: object) -> object:
    if not isinstance(value, LocatedText):
        return value
    variables = VARIABLE.findall(value.written)
    if not variables:
        raise ValueError(
            "a secret must not be in the config, which is copied into every report. Put it into an environment "
            'variable and name that: "${NAME}".'
        )
    for name, _ in variables:
        hold_secret(name)
    return value


Secret = Annotated[SecretStr, BeforeValidator(_from_environment)]
"""A password, a key or a token: in a config file only as ``${NAME}``."""


def parts_of(url: str) -> SplitResult | None:
    """The parts of a URL that has a scheme, a host and, if any, a valid port; None for any other text."""
    try:
        parts = urlsplit(url)
        is_whole = bool(parts.scheme and parts.hostname) and parts.port != 0
    except ValueError:  # a bracket that is not closed, a port that is no number
        return None
    return parts if is_whole else None
