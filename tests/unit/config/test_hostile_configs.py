"""A config that somebody else wrote is read in a moment, or is an error that names what is wrong with it."""

import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from ragtrial.config import load_config
from ragtrial.errors import ConfigError

MERGES = "".join(f"m{number}: &m{number}\n  <<: [{', '.join([f'*m{number - 1}'] * 9)}]\n" for number in range(1, 9))

BOMBS: Mapping[str, tuple[str, str]] = {
    "variables in defaults, 20,000 deep": (f"experiment: '{'${A:-' * 20_000}'\n", "dataset"),
    "a variable in the default of another": ("experiment: ${A:-${B:-x}}\n", "a variable in the default of another"),
    "defaults that do not end": (f"experiment: '{'${A:-b' * 20_000}x{'}' * 20_000}'\n", "a variable in the default"),
    "merges of merges": (f"m0: &m0 {{a: 1, b: 2}}\n{MERGES}", "aliases expand to more than"),
    "merges of a large mapping": (
        f"m0: &m0 {{{', '.join(f'k{number}: 1' for number in range(5_000))}}}\n"
        f"m1:\n  <<: [{', '.join(['*m0'] * 5_000)}]\n", "aliases expand to more than",
    ),
    "aliases of aliases": ("".join(
        f"m{number}: &m{number} [{', '.join([f'*m{number - 1}'] * 9) if number else 1}]\n" for number in range(9)
    ), "aliases expand to more than"),
    "brackets without an end": (f"experiment: {'[' * 50_000}\n", "is nested too deeply"),
    "keys in keys": (f"{'{a: ' * 5_000}1{'}' * 5_000}\n", "nested too deeply"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_an_error_in_a_moment(name: str, tmp_path: Path) -> None:
    text, reason = BOMBS[name]
    (tmp_path / "a.yaml").write_text(text, encoding="utf-8")
    start = time.process_time()
    with pytest.raises(ConfigError, match=reason):
        load_config(tmp_path / "a.yaml")
    assert time.process_time() - start < 3
