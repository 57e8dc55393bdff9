"""The page says the rank of a hit wherever it is in a ranking, also below the hits that it lists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from browsers import Seen, chromium, opened, write_page
from scored_runs import scored_report

DOCS = [f"d{place:02}" for place in range(1, 41)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """From the one setting to the other d03 goes from rank 3 to 30 and d40 from 40 to 7."""
    moved = [doc for doc in DOCS if doc not in ("d03", "d40")]
    moved.insert(6, "d40")
    moved.insert(29, "d03")
    runs = {"dense": {"q": " ".join(DOCS)}, "other": {"q": " ".join(moved)}}
    return scored_report(tmp_path / "scored", {"q": {"d03": 1, "d35": 2}}, runs).folder


def moves(seen: Seen) -> dict[str, str]:
    if (more := seen.page.locator("#moved > button")).is_visible():
        more.click()
    rows = [row.locator("td").all_inner_texts() for row in seen.page.locator("#moved tbody tr").all()]
    return {doc: f"{ranks} {moved}" for doc, _, ranks, moved, *_ in rows}


def listed(seen: Seen, side: int, doc: str) -> str:
    return seen.page.locator("#detail .lists > div").nth(side).locator("li", has_text=doc).inner_text()


def test_a_hit_that_falls_out_of_the_list_has_its_rank(browser: Browser, report: Path, tmp_path: Path) -> None:
    seen = opened(browser, write_page(report, tmp_path / "page.html"), "#q=q&a=dense&b=other")
    found = moves(seen)
    assert found["d03"] == "3 → 30 ↓ down"
    assert found["d40"] == "40 → 7 ↑ up"
    assert found["d35"] == "35 → 36 ↓ down"  # relevant, and below the list in both
    assert "rank 30 in the other" in listed(seen, 0, "d03")
    assert "rank 40 in the other" in listed(seen, 1, "d40")
    text = seen.page.locator("#moved").inner_text()
    assert not re.search(r"\b(gone|new|Found by neither)\b", text)
    assert seen.console == []
    seen.page.context.close()
