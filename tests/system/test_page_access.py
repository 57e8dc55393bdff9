"""The page can be used by everybody: axe-core finds nothing, columns sort by key, a phone shows that tables go on."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import Locator, expect

from browsers import Look, Seen, page_of, violations
from experiments import DOCUMENTS, QUERIES, write_experiment

RETRIEVERS: dict[str, dict[str, Any]] = {
    "dense": {"kind": "dense", "top_k": 3},
    "words": {"kind": "bm25", "top_k": 3},
    "both": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 3},
}
PHONE = {"width": 390, "height": 800}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of three settings with costs, tags and a budget of tokens."""
    more = [
        {"id": f"q{place}", "text": text.partition(". ")[2][:40], "relevant_docs": [{"doc": doc}], "tags": ["drawn"]}
        for place, (doc, text) in enumerate(DOCUMENTS.items())
    ]
    made = write_experiment(
        tmp_path_factory.mktemp("access"), queries=[*QUERIES, *more], retrievers=RETRIEVERS, latency=True,
        evaluators={"primary_metric": "ndcg@3", "graded": {"k": [1, 3]}, "order_unaware": {"k": [1, 3]}},
    )  # fmt: skip
    return page_of(made)


@pytest.fixture
def seen(look: Look, file: Path) -> Seen:
    return look(file, bypass_csp=True)


def test_axe_finds_nothing_on_a_desk_or_a_phone_in_the_light_or_the_dark(look: Look, file: Path) -> None:
    page = look(file, "#q=rye", bypass_csp=True).page
    for width, height in ((1400, 900), (PHONE["width"], PHONE["height"])):
        page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            expect(page.locator("#moved")).to_be_visible()
            assert violations(page) == [], (width, scheme)


def test_without_labels_each_row_shows_the_first_hit_of_each_setting(look: Look, tmp_path: Path) -> None:
    query = {"id": "q", "text": DOCUMENTS["bread/rye.md"][12:60], "relevant_docs": []}
    retrievers = {name: RETRIEVERS[name] for name in ("dense", "words")}
    made = write_experiment(tmp_path, queries=[query], retrievers=retrievers)
    page = look(page_of(made, "--quiet"), bypass_csp=True).page
    expect(page.locator("#query-head")).to_contain_text("the first hit of each setting")
    expect(page.locator("details.q summary small")).to_have_text(["Rye bread", "Rye bread"])
    expect(page.locator("#choose-order")).to_be_hidden()
    assert violations(page) == []


def unfolded(seen: Seen, title: str) -> Locator:
    """A folded part of the page, opened."""
    part = seen.page.locator(".fold > details").filter(has=seen.page.locator("summary b", has_text=title)).first
    part.locator("summary").first.click()
    return part


def column(table: Locator, title: str) -> list[str]:
    place = [text.strip(" ↓↑") for text in table.locator("thead th").all_inner_texts()].index(title)
    return [row.locator("td").nth(place).inner_text() for row in table.locator("tbody tr").all()]


def test_means_are_best_first_and_columns_and_folded_parts_explained(seen: Seen) -> None:
    table = unfolded(seen, "Scores").locator("table").first
    values = [float(text) for text in column(table, "ndcg@3")]
    assert values == sorted(values, reverse=True)
    assert len(set(values)) > 1
    assert table.locator("th[aria-sort=descending]").inner_text().startswith("ndcg@3")
    bold = [cell.inner_text() for cell in table.locator("td.best").all()]
    assert f"{max(values):.3f}" in bold
    assert f"{min(values):.3f}" not in bold
    part = unfolded(seen, "Comparisons")
    table = part.locator("table").first
    for title in ("won", "tied", "lost"):
        assert table.locator("th abbr").get_by_text(title, exact=True).get_attribute("title")
    part.get_by_text("Columns explained").click()
    expect(part.locator("dl").get_by_text("Queries for which the setting scores better", exact=False)).to_be_visible()
    assert unfolded(seen, "Scores").locator("th abbr", has_text="recall@3").first.get_attribute("title")
    lines = seen.page.locator(".fold > details > summary").all_inner_texts()
    assert len(lines) >= 6
    assert all(len(line.split("\n", 1)[-1]) > 10 for line in lines)
    for summary in seen.page.locator(".fold > details > summary").all():
        summary.click()
    assert violations(seen.page) == []


def test_columns_sort_by_click_and_by_key(seen: Seen) -> None:
    table = unfolded(seen, "Scores").locator("table").first
    head = table.locator("th", has_text="setting")
    head.get_by_role("button").click()
    assert column(table, "setting") == ["both", "dense", "words"]
    assert head.get_attribute("aria-sort") == "ascending"
    assert table.locator("th[aria-sort]").count() == 1
    head.get_by_role("button").focus()
    seen.page.keyboard.press("Enter")
    assert column(table, "setting") == ["words", "dense", "both"]
    assert head.get_attribute("aria-sort") == "descending"
    by_number = table.locator("th", has_text="recall@3")
    by_number.get_by_role("button").focus()
    seen.page.keyboard.press("Space")
    values = [float(text) for text in column(table, "recall@3")]
    assert values == sorted(values, reverse=True)


def dark_at_the_right(region: Locator) -> float:
    """How dark the right edge is: paper where nothing is behind it."""
    from PIL import Image

    pixels = np.asarray(Image.open(BytesIO(region.screenshot())).convert("L"), dtype=float)
    return float(255 - np.median(pixels[:, -2]))


def test_on_a_phone_tables_show_that_they_go_on_and_captions_are_whole(look: Look, file: Path) -> None:
    seen = look(file, viewport=PHONE)
    region = unfolded(seen, "Scores").locator(".scroll").first
    assert region.evaluate("(one) => one.scrollWidth > one.clientWidth")
    assert dark_at_the_right(region) > 30
    region.evaluate("(one) => { one.scrollLeft = one.scrollWidth; }")
    assert dark_at_the_right(region) < 5
    for caption in seen.page.locator("caption span:visible").all():
        box = caption.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
