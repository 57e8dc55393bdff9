"""What a run ran on, for the report."""

from __future__ import annotations

import os
import platform
import re
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = (
    "ragtrial",
    "chromadb",
    "numpy",
    "pypdfium2",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)


_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)
_SHORTEST_SECRET = 6


def without_secrets(text: str) -> str:
    """``text`` with the values of environment variables that are named like secrets put back as ``${NAME}``."""
    for name in filter(_SECRET.search, os.environ):
        value = os.environ[name]
        if len(value) >= _SHORTEST_SECRET:
            text = text.replace(value, f"${{{name}}}")
    return text


def environment() -> dict[str, Any]:
    """Versions and machine, as JSON values; a package that is not installed is left out."""
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": dict(_installed()),
    }


@cache
def _installed() -> dict[str, str]:
    """The version of each package, read once in a process: none is loaded twice."""
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found
