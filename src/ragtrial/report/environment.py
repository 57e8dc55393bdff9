"""The environment of a run, for the report."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable
from typing import Any

from ragtrial.registry import installed_version

_ALWAYS = ("ragtrial", "numpy")


def environment(packages: Iterable[str] = ()) -> dict[str, Any]:
    """Versions and machine, as JSON values; with versions of installed ``packages``, named as pip names them."""
    versions = {name: installed_version(name) for name in sorted({*_ALWAYS, *packages})}
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": {name: found for name, found in versions.items() if found is not None},
    }
