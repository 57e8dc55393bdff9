"""Secrets of a config: they come from the environment, and nothing keeps more of them than the variable's name."""

from __future__ import annotations

import os
from typing import Annotated

from pydantic import BeforeValidator, SecretStr

from ragtrial.errors import hold_secret
from ragtrial.options import VARIABLE, LocatedText


class EnvironmentSecret(SecretStr):
    """A secret that knows how it was written: ``${NAME}``."""

    def __init__(self, value: str, written: str) -> None:
        super().__init__(value)
        self.written = written
        for variable in VARIABLE.finditer(written):
            hold_secret(variable.group(1))


def _from_environment(value: object) -> object:
    if not isinstance(value, LocatedText):
        return value
    if not VARIABLE.search(value.written):
        raise ValueError(
            "a secret must not be in the config, which is copied into every report. Put it into an environment "
            'variable and name that: "${NAME}".'
        )
    return EnvironmentSecret(str(value), value.written)


Secret = Annotated[SecretStr, BeforeValidator(_from_environment)]
"""A password, a key or a token: in a config file only as ``${NAME}``."""


def written(secret: SecretStr | None) -> str | None:
    """How a secret was written, for what is kept of it; None for one that no variable has."""
    return secret.written if isinstance(secret, EnvironmentSecret) else None


def resolved(text: str) -> EnvironmentSecret:
    """The secret that ``written`` gave, from the environment as it is now. Raises KeyError with the variable's name."""

    def value(name: str, default: str | None) -> str:
        found = os.environ.get(name) or default
        if found is None:
            raise KeyError(name)
        return found

    return EnvironmentSecret(VARIABLE.sub(lambda match: value(*match.groups()), text), text)
