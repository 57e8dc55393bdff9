"""Whole screens that are kept in tests/golden, one text file each.

`pytest --update-golden` writes anew those that the tests compare: do so when a change of a screen is meant.
"""

from difflib import unified_diff
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


class GoldenScreen:
    """The text file ``name``.txt, and a comparison with it that says where a screen differs."""

    def __init__(self, name: str, *, update: bool, folder: Path = FOLDER) -> None:
        self.path = folder / f"{name}.txt"
        self._update = update

    def check(self, screen: str) -> None:
        """AssertionError with a diff if ``screen`` is not the text of the file; to update is to write the file."""
        if self._update:
            self.path.write_text(screen, encoding="utf-8")
            return
        assert self.path.is_file(), f"{self.path} is missing: `pytest --update-golden` writes it"
        kept = self.path.read_text(encoding="utf-8")
        if screen != kept:
            wanted, made = kept.splitlines(keepends=True), screen.splitlines(keepends=True)
            diff = "".join(map(_ended, unified_diff(wanted, made, self.path.name, "this screen")))
            raise AssertionError(f"the screen is not that of {self.path}:\n{diff}")


def _ended(line: str) -> str:
    """The line, and a word where its end is missing."""
    return line if line.endswith("\n") else f"{line}\n\\ no line end\n"
