"""The page in a real browser: it draws, finds, links and reads as it should, and asks nothing of any network."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from browsers import Seen, opened, write_page
from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial import run_experiment

HOSTILE = (
    '<img src=x onerror="window.hacked = 1"> </script><script>window.hacked = 1</script> {{constructor}} '
    "\u202eright to left\u202c \u0007bell שלום " + "longword" * 400
)


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
    report = run_experiment(experiment.config())
    return write_page(report.folder, folder / "page.html")


@pytest.fixture
def seen(browser: Browser, file: Path) -> Iterator[Seen]:
    """The page, opened; in the end it has said nothing on the console and asked for nothing but itself."""
    seen = opened(browser, file)
    yield seen
    assert seen.console == []
    assert set(seen.requests) == {file.as_uri()}
    seen.page.context.close()


def test_it_draws_differences_curves_and_queries(seen: Seen) -> None:
    for section in ("differences", "curves", "pair"):
        assert seen.page.locator(f"#{section}-plot svg[role=img]").count() >= 1
    assert seen.page.locator("table").first.inner_text().count("bm25") == 1
    assert len(seen.rows()) == 6


def test_hostile_text_is_shown_as_text(seen: Seen) -> None:
    name = "</script>'\""
    assert name in seen.rows()
    seen.page.get_by_role("button", name=name, exact=True).click()
    heading = seen.page.locator("#detail h3").first.inner_text()
    assert heading.startswith('<img src=x onerror="window.hacked = 1"> </script><script>')
    assert not {"\u202e", "\u0007"} & set(heading)
    assert "\ufffd" in heading
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("main img").count() == 0


def test_a_query_shows_both_rankings_with_grades_and_the_labelled_passage(seen: Seen) -> None:
    seen.page.get_by_role("button", name="quote", exact=True).click()
    lists = seen.page.locator("#detail .lists > div")
    expect(lists).to_have_count(2)  # drawn once the texts are unpacked
    assert lists.first.locator("li").count() == 3
    assert "grade 1" in lists.first.locator("li").first.inner_text()
    assert seen.page.locator("#detail mark").first.inner_text() == "Bake it for an hour in a hot oven."


def test_a_finding_can_be_linked_and_the_way_back_works(browser: Browser, file: Path, seen: Seen) -> None:
    seen.page.get_by_role("button", name="keep", exact=True).click()
    seen.page.wait_for_selector("#detail h3")
    fragment = seen.page.evaluate("location.hash")
    assert fragment == "#q=keep&a=dense&b=bm25"
    again = opened(browser, file, fragment)
    assert again.page.locator("#detail h3").first.inner_text() == "How many days does soup keep in the fridge?"
    expect(again.page.locator("#detail h3").first).to_be_in_viewport()
    again.page.context.close()
    seen.page.go_back()
    seen.page.wait_for_selector("#detail", state="hidden")


def test_filters_and_search_leave_what_fits(seen: Seen) -> None:
    def differences() -> list[float | None]:
        cells = seen.page.locator("#query-rows tr td:last-child").all_inner_texts()
        return [None if cell == "–" else float(cell) for cell in cells]

    everything = differences()
    for name, sign in (("won", 1), ("lost", -1), ("tied", 0)):
        button = seen.page.locator("#filters").get_by_role("button", name=name, exact=True)
        button.click()
        assert button.get_attribute("aria-pressed") == "true"
        expected = [one for one in everything if one is not None and (one > 0) - (one < 0) == sign]
        expect(seen.page.locator("#query-rows tr")).to_have_count(len(expected))
        assert differences() == expected
    seen.page.get_by_role("button", name="all", exact=True).click()
    seen.page.get_by_label("Search").fill("SOUP smooth")
    expect(seen.page.locator("#query-rows tr")).to_have_count(1)
    assert seen.rows() == ["smooth"]
    assert seen.page.get_by_role("status").inner_text() == "1 of 6 queries"


def test_the_keyboard_is_enough(seen: Seen) -> None:
    button = seen.page.get_by_role("button", name="rye", exact=True)
    button.focus()
    seen.page.keyboard.press("Enter")
    expect(seen.page.locator("#detail h3").first).to_be_focused()
    place = seen.rows().index("rye")
    other = "ArrowRight" if place + 1 < len(seen.rows()) else "ArrowLeft"
    seen.page.keyboard.press(other)
    expect(seen.page.locator("#detail .controls span")).not_to_have_text("rye")
    seen.page.keyboard.press("Escape")
    seen.page.wait_for_selector("#detail", state="hidden")
    focused = seen.page.evaluate("document.activeElement.textContent")
    assert focused == seen.rows()[place + (1 if other == "ArrowRight" else -1)]


@pytest.mark.parametrize(("scheme", "background"), [("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 23, 26)")])
def test_it_is_light_or_dark_as_the_system_is_until_one_chooses(
    browser: Browser, file: Path, scheme: str, background: str
) -> None:
    seen = opened(browser, file, color_scheme=scheme)
    colour = "getComputedStyle(document.body).backgroundColor"
    assert seen.page.evaluate(colour) == background
    seen.page.locator("#theme").click()
    assert seen.page.evaluate(colour) != background
    assert seen.console == []
    seen.page.context.close()


def test_on_a_phone_nothing_is_wider_than_the_screen(browser: Browser, file: Path) -> None:
    seen = opened(browser, file, "#q=quote", viewport={"width": 390, "height": 800})
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 390
    seen.page.context.close()


def test_without_scripts_the_verdicts_stand_there(browser: Browser, file: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "Plots and single queries need JavaScript" in page.locator("noscript").inner_text()
    assert "bm25" in page.locator("table").first.inner_text()
    assert not page.locator("#queries").is_visible()
    context.close()


def test_the_same_report_makes_the_same_bytes(file: Path) -> None:
    (report,) = file.parent.glob("results/kitchen/*/report.json")
    assert write_page(report.parent, file.with_name("again.html")).read_bytes() == file.read_bytes()


def test_a_report_without_texts_shows_what_it_has(browser: Browser, file: Path, tmp_path: Path) -> None:
    (report,) = file.parent.glob("results/kitchen/*/report.json")
    bare = Path(shutil.copytree(report.parent, tmp_path / "bare"))
    (bare / "texts.jsonl.gz").unlink()
    seen = opened(browser, write_page(bare, tmp_path / "page.html"), "#q=quote")
    assert seen.page.locator("#detail li").count() == 6
    assert seen.page.locator("#detail .passage").count() == 0
    assert seen.console == []
    seen.page.context.close()


def test_one_setting_alone_is_shown_without_a_comparison(browser: Browser, tmp_path: Path) -> None:
    report = run_experiment(write_experiment(tmp_path).config())
    seen = opened(browser, write_page(report.folder, tmp_path / "page.html", "--metric", "ndcg@3"))
    assert "add another setting to the config" in seen.page.locator("#verdict").inner_text()
    assert not seen.page.locator("#choose-a").is_visible()
    assert seen.page.locator("#query-head th").all_inner_texts() == ["query", "text", "dense"]
    assert len(seen.rows()) == len(QUERIES)
    seen.page.get_by_role("button", name="rye", exact=True).click()
    assert seen.page.locator("#detail .lists > div").count() == 1
    assert "won" not in seen.page.locator("#filters").inner_text()
    assert seen.console == []
    seen.page.context.close()
