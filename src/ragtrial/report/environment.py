"""What a run ran on, for the report."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from typing import Any

_ALWAYS = ("ragtrial", "numpy")
_VERSION = re.compile(r"^Version: *(\S+)", re.MULTILINE)


def environment(packages: Iterable[str] = ()) -> dict[str, Any]:
    """Versions and machine, as JSON values; of ``packages``, named as pip names them, those that are installed."""
    versions = {name: installed_version(name) for name in sorted({*_ALWAYS, *packages})}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": {name: found for name, found in versions.items() if found is not None},
    }


@cache
def installed_version(name: str) -> str | None:
    """The version of a package, as pip names it; None if it is not installed.

    One line of its metadata is looked at: to parse all of it takes several times as long.
    """
    with suppress(PackageNotFoundError):
        made = distribution(name)
        found = _VERSION.search(made.read_text("METADATA") or "")
        return found[1] if found else made.version
    return None
