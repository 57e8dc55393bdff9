"""Secrets of a config: they come from the environment, and nothing keeps them."""

from __future__ import annotations

from typing import Annotated

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
