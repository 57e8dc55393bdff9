"""Builds the compiled part of ragtrial when a wheel is made, tags the wheel for this platform, and adds the sample.

Without a C compiler the wheel is made all the same, of Python alone: scoring does without, slower.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from packaging.tags import sys_tags

FOLDER = Path("src", "ragtrial", "runs", "compiled")
SAMPLE = {"data/support": "documents", "prompt_queries.json": "prompt_queries.json"}
"""What `ragtrial demo` reads: where it is in the source tree, and in the wheel below ragtrial/cli/samples/support."""


class CompiledLibrary(BuildHookInterface):  # type: ignore[type-arg]  # generic only for type checkers
    """Puts the library beside its sources, and into the wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        if version == "standard":  # an editable installation reads it in the source tree
            build_data["force_include"] |= {
                str(Path(self.root, source)): f"ragtrial/cli/samples/support/{name}" for source, name in SAMPLE.items()
            }
        building = _building(Path(self.root) / FOLDER / "building.py")
        try:
            building.build()
        except OSError as failure:
            self.app.display_warning(f"ragtrial is installed without its compiled part, so it scores slower: {failure}")
            return
        tags = (tag.platform for tag in sys_tags() if "linux_" not in tag.platform or tag.platform.startswith("linux_"))
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{next(tags)}"
        build_data["artifacts"].append(f"/{(FOLDER / building.NAME).as_posix()}")

    def clean(self, versions: list[str]) -> None:
        building = _building(Path(self.root) / FOLDER / "building.py")
        (Path(self.root) / FOLDER / building.NAME).unlink(missing_ok=True)


def _building(path: Path) -> ModuleType:
    """The module at ``path``, without ragtrial, which is not installed yet."""
    spec = importlib.util.spec_from_file_location("ragtrial_building", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is missing: the source distribution is not whole")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
