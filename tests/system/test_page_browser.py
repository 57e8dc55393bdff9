"""The page in a real browser: it draws, finds, links and reads as it should, and asks nothing of any network."""

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browsers import HOSTILE, Look, Seen, page_of, write_page
from experiments import DOCUMENTS, QUERIES, write_experiment


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a real run over documents and questions of which some are hostile."""
    folder = tmp_path_factory.mktemp("page")
    documents = {**DOCUMENTS, "hostile <b>.md": HOSTILE}
    passage = "Bake it for an hour in a hot oven."
    hostile = {"id": "</script>'\"", "text": HOSTILE, "relevant_docs": [{"doc": "hostile <b>.md"}]}
    marked = {"id": "quote", "text": "bake in a hot oven for an hour",
              "relevant_docs": [{"doc": "bread/rye.md", "quote": passage}]}  # fmt: skip
    retrievers = {"dense": {"kind": "dense", "top_k": 3}, "bm25": {"kind": "bm25", "top_k": 3}}
    experiment = write_experiment(folder, documents, [*QUERIES, hostile, marked], retrievers=retrievers)
    return page_of(experiment)


@pytest.fixture
def seen(look: Look, file: Path) -> Iterator[Seen]:
    """The page, opened; in the end it has said nothing on the console and asked for nothing but itself."""
    seen = look(file)
    yield seen
    assert set(seen.requests) == {file.as_uri()}


def test_it_shows_verdict_plot_questions_and_hostile_text_as_text(seen: Seen) -> None:
    assert "No ranking yet: 5 scored questions" in seen.page.locator("h1").inner_text()
    assert seen.page.locator(".badge").inner_text().startswith("Too few questions")
    strips = seen.page.locator("#plot tbody .strip svg[role=img]")
    assert strips.count() == 2
    said = [strip.get_attribute("aria-label") or "" for strip in strips.all()]
    names = [text.splitlines()[0] for text in seen.page.locator("#plot tbody .name").all_inner_texts()]
    assert sorted(names) == ["bm25", "dense"]
    assert all(re.fullmatch(rf"{name}: mean \d\.\d{{3}}", text) for name, text in zip(names, said, strict=True))
    seen.show("All")
    assert len(seen.rows()) == 5
    name = "</script>'\""
    seen.show("All")
    seen.open(name)
    text = seen.page.locator("details.q[open] .w").inner_text()
    assert text.startswith('<img src=x onerror="window.hacked = 1"> </script><script>')
    assert not {"\u202e", "\u0007"} & set(text)
    assert "\ufffd" in text
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("main img").count() == 0


def test_a_query_shows_both_rankings_with_grades_and_the_labelled_passage(seen: Seen) -> None:
    seen.show("All")
    seen.open("quote")
    lists = seen.page.locator("#detail .lists > div")
    expect(lists).to_have_count(2)
    assert lists.first.locator("li").count() == 3
    assert "grade 1" in lists.first.locator("li").first.inner_text()
    assert seen.page.locator("#detail mark").first.inner_text() == "Bake it for an hour in a hot oven."
    assert seen.page.locator("#detail .firsts > div").count() == 2


def test_a_finding_can_be_linked_and_the_way_back_works(look: Look, file: Path, seen: Seen) -> None:
    seen.show("All")
    seen.open("keep")
    fragment = seen.page.evaluate("location.hash")
    assert fragment == "#q=keep&a=dense&b=bm25&f=all"
    again = look(file, fragment)
    row = again.page.locator("details.q[open]")
    assert row.locator(".w").inner_text().startswith("How many days does soup keep in the fridge?")
    expect(row).to_be_in_viewport()
    seen.page.go_back()
    expect(seen.page.locator("details.q[open]")).to_have_count(0)


def test_filters_and_search_leave_what_fits(seen: Seen) -> None:
    chips = seen.page.locator("#filters button")
    for label in chips.all_inner_texts():
        words, _, count = label.rpartition(" ")
        seen.show(words)
        expect(seen.page.locator("details.q")).to_have_count(int(count))
        assert chips.and_(seen.page.locator("[aria-checked=true]")).all_inner_texts() == [label]
    seen.show("All")
    cells = [row.locator(".c").all_inner_texts() for row in seen.page.locator("details.q").all()]
    differing = sum(len({cell.split()[0] for cell in row}) > 1 for row in cells)
    assert f"Settings differ {differing}" in chips.all_inner_texts()
    seen.page.get_by_label("Search").fill("SOUP smooth")
    expect(seen.page.locator("details.q")).to_have_count(1)
    assert seen.rows() == ["smooth"]
    assert seen.page.get_by_role("status").inner_text() == "1 question"
    for search, left in (("no such word", 0), ("", 5)):
        seen.page.get_by_label("Search").fill(search)
        expect(seen.page.locator("details.q")).to_have_count(left)


def test_the_keyboard_is_enough(seen: Seen) -> None:
    seen.show("All")
    place = seen.rows().index("rye")
    seen.page.locator("details.q").nth(place).locator("summary").focus()
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("details.q[open]")).to_have_attribute("data-id", "rye")
    way = 1 if place + 1 < len(seen.rows()) else -1
    seen.page.keyboard.press("ArrowRight" if way == 1 else "ArrowLeft")
    next_one = seen.rows()[place + way]
    expect(seen.page.locator("details.q[open]")).to_have_attribute("data-id", next_one)
    seen.page.keyboard.press("Escape")
    expect(seen.page.locator("details.q[open]")).to_have_count(0)
    assert seen.page.evaluate("document.activeElement.closest('details').dataset.id") == next_one


@pytest.mark.parametrize(("dark", "background"), [(False, "rgb(255, 255, 255)"), (True, "rgb(20, 23, 26)")])
def test_it_is_light_or_dark_like_the_system_at_first(look: Look, file: Path, *, dark: bool, background: str) -> None:
    seen = look(file, dark=dark)
    colour = "getComputedStyle(document.body).backgroundColor"
    assert seen.page.evaluate(colour) == background
    seen.page.locator("#theme").click()
    assert seen.page.evaluate(colour) != background


def test_without_scripts_the_verdicts_stand_and_a_phone_has_no_wider_page(
    look: Look, file: Path, browser: Browser
) -> None:
    seen = look(file, "#q=quote", viewport={"width": 390, "height": 800})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "The questions need JavaScript" in page.locator("noscript").inner_text()
    assert "bm25" in page.locator("#plot tbody").inner_text()
    assert page.locator("#plot .strip svg circle").count() >= 1
    assert not page.locator("#query-controls").is_visible()
    context.close()


def test_a_report_without_texts_shows_what_it_has(look: Look, file: Path, tmp_path: Path) -> None:
    (report,) = file.parent.glob("*/report.json")
    bare = Path(shutil.copytree(report.parent, tmp_path / "bare"))
    (bare / "texts.jsonl.gz").unlink()
    seen = look(write_page(bare, tmp_path / "page.html"), "#q=quote")
    assert seen.page.locator("#detail .lists li").count() == 6
    assert seen.page.locator("#detail .passage").count() == 0


def test_a_hit_stands_under_the_nearest_heading_above_its_passage(look: Look, tmp_path: Path) -> None:
    guide = "# Guide\n\n## First steps\n\nPlug it in.\n\n## Repairs\n\nCall the shop on Monday.\n\n## Waste\n\nNone."
    label = {"doc": "guide.md", "quote": "Call the shop on Monday."}
    queries = [*QUERIES, {"id": "shop", "text": "call the shop on Monday", "relevant_docs": [label]}]
    experiment = write_experiment(tmp_path, {**DOCUMENTS, "guide.md": guide}, queries)
    seen = look(page_of(experiment, "--metric", "ndcg@3"))
    seen.show("All")
    seen.open("shop")
    hit = seen.page.locator("#detail .lists li", has_text="guide.md")
    assert hit.locator(".place").inner_text() == "Guide › Repairs"
    assert hit.locator("mark").inner_text() == label["quote"]
    assert "Guide › Repairs" in seen.page.locator("#detail .firsts").inner_text()


def test_questions_without_labels_are_filtered_by_their_first_hits(look: Look, tmp_path: Path) -> None:
    queries = [
        {"id": "rye", "text": "rye bread", "relevant_docs": []},
        {"id": "q", "text": "basil", "relevant_docs": []},
    ]
    stored = {"rye": ["bread/rye.md", "soup/leek.md"], "q": ["bread/rye.md", "soup/leek.md"]}
    run = "".join(
        f"{query} Q0 {doc} {rank} {9 - rank} x\n" for query, docs in stored.items() for rank, doc in enumerate(docs, 1)
    )
    (tmp_path / "stored.trec").write_text(run)
    retrievers = {
        "bm25": {"kind": "bm25", "top_k": 2},
        "stored": {"kind": "run_file", "path": str(tmp_path / "stored.trec"), "top_k": 2},
    }
    seen = look(page_of(write_experiment(tmp_path, queries=queries, retrievers=retrievers), "--margin", "0.02"))
    assert seen.page.locator("#filters button").all_inner_texts() == ["First hits differ 1", "Not scored 2"]
    assert seen.page.locator("details.q").evaluate_all("rows => rows.map(row => row.dataset.id)") == ["q"]


def test_bars_above_1_end_at_the_highest_value_of_any_question(look: Look, tmp_path: Path) -> None:
    table = tmp_path / "times.csv"
    table.write_text("question,system,metric,score\n" + "".join(
        f"q{row},{name},latency_ms,{value}\n" for name, values in {"a": (50, 200), "b": (49, 20)}.items()
        for row, value in enumerate(values)
    ))  # fmt: skip
    seen = look(write_page(table, tmp_path / "page.html", "--lower-is-better", "latency_ms"))
    seen.show("All")
    assert "latency_ms (bar, 0 to 200)" in seen.page.locator("#query-head").inner_text()
    bars = seen.page.locator("#query-rows .c").evaluate_all(
        "cells => cells.map(cell => cell.style.getPropertyValue('--v'))"
    )
    assert sorted(map(int, bars)) == [10, 25, 25, 100]


def test_one_setting_alone_is_shown_without_a_comparison(look: Look, tmp_path: Path) -> None:
    seen = look(page_of(write_experiment(tmp_path), "--metric", "ndcg@3"))
    assert "Add another setting to the config" in seen.page.locator("#verdict").inner_text()
    assert seen.page.locator(".badge").count() == 0
    assert seen.page.locator("#plot tbody .strip svg").get_attribute("aria-label")
    assert [text.strip() for text in seen.page.locator("#query-head b").all_inner_texts()] == ["dense"]
    seen.show("All")
    assert len(seen.rows()) == len([query for query in QUERIES if query["relevant_docs"]])
    seen.open("rye")
    assert seen.page.locator("#detail .lists > div").count() == 1
    assert seen.page.locator("#detail select").count() == 0
    assert "differ" not in seen.page.locator("#filters").inner_text()
