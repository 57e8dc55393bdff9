"""Stages within one another: each is reported by its own name and size."""

from __future__ import annotations

import re

import pytest

from ragtrial.cli.terminal import Terminal
from ragtrial.progress import stage


def test_a_stage_within_another_is_told_first_and_the_outer_one_by_its_own_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    progress = Terminal(as_json=False, quiet=False, verbose=False, no_color=True).progress()
    with stage(progress, "retrieval (reranked)", 4, "queries") as outer:
        with stage(progress, "reranking", 400, "pairs") as inner:
            inner.advance(400)
        with pytest.raises(ValueError, match="broken"), stage(progress, "abandoned", 1, "pairs"):
            raise ValueError("broken")
        outer.advance(4)
    lines = [re.sub(r"[0-9.]+ s$", "s", line) for line in capsys.readouterr().err.splitlines()]
    assert lines == ["reranking: 400 pairs, s", "retrieval (reranked): 4 queries, s"]
