"""What a run ran on, for the report."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_PACKAGES = ("ragtrial", "chromadb", "numpy", "sentence-transformers", "tokenizers", "torch", "transformers")


def environment() -> dict[str, Any]:
    """Versions and machine, as JSON values; a package that is not installed is left out."""
    packages = {}
    for name in _PACKAGES:
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpus": os.cpu_count(),
        "packages": packages,
    }
