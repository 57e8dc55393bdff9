"""The page says what moved and why, where a difference holds, what a parameter does; and it can be read by anybody."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator

from browsers import Look, Seen, page_of, write_page
from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial import run_experiment
from ragtrial.comparison.comparison_input import input_of
from ragtrial.comparison.statistics.samples import Procedure
from ragtrial.comparison.sweep_effects import sweep_effects
from ragtrial.scoring.query_details import load_query
from ragtrial.views.page import html_page as document
from ragtrial.views.texts import query_text
from scored_runs import scored_report

CSS = (Path(document.__file__).parent / "assets" / "page.css").read_text(encoding="utf-8")
RETRIEVERS: dict[str, dict[str, Any]] = {
    "dense": {"kind": "dense", "top_k": 3},
    "both": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 3},
    "words": {"kind": "bm25", "top_k": 4, "score": False},
    "varied": {"kind": "mmr", "inputs": "both", "top_k": 3},
}


def asked() -> list[dict[str, Any]]:
    """Questions of which the first two words of each document are some, with tags."""
    more = [
        {"id": f"q{place}", "text": text.partition(". ")[2][:40], "relevant_docs": [{"doc": doc, "relevance": 2}],
         "tags": ["drawn"]}
        for place, (doc, text) in enumerate(DOCUMENTS.items())
    ]  # fmt: skip
    judged = [{"doc": doc, "relevance": 3 if doc == "oven.txt" else 0} for doc in DOCUMENTS]
    nowhere = {"id": "missed", "text": "sourdough dough rest", "relevant_docs": judged}
    return [*QUERIES, *more, nowhere]


def pairs_of_words() -> Iterator[dict[str, Any]]:
    """A question for every two words: enough for intervals."""
    for doc, text in DOCUMENTS.items():
        words = text.split()
        for place in range(0, len(words) - 1, 2):
            yield {"id": f"{doc} {place}", "text": " ".join(words[place : place + 2]), "relevant_docs": [{"doc": doc}]}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of retrievers that are made of others."""
    evaluators = {"primary_metric": "ndcg@3", "graded": {"k": [1, 3]}}
    folder = tmp_path_factory.mktemp("fused")
    return page_of(write_experiment(folder, queries=asked(), retrievers=RETRIEVERS, evaluators=evaluators))


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a sweep, in which passages are found."""
    made = write_experiment(
        tmp_path_factory.mktemp("swept"),
        queries=[{**one, "relevant_docs": [{**label, "quote": DOCUMENTS[label["doc"]][:30]} for label in labels]}
                 for one in [*asked(), *pairs_of_words()] if (labels := one["relevant_docs"])],
        retrievers={"dense": {"kind": "dense", "top_k": 3}, "both": RETRIEVERS["both"], "words": RETRIEVERS["words"]},
        sweep={"matrix": {"chunker.size": [60, 120]}},
        evaluators={"unit": "span", "primary_metric": "recall@3", "order_unaware": {"k": [1, 3]}},
    )  # fmt: skip
    return page_of(made, "--baseline", "dense-size60")


def written(number: float) -> str:
    """A signed number with three decimals and a minus sign."""
    return f"{number:+.3f}".replace("-", "\u2212")


def moved(seen: Seen) -> Locator:
    """The part of the page on what moved, unfolded."""
    if (more := seen.page.locator("#moved > button")).is_visible():
        more.click()
    return seen.page.locator("#moved")


def test_what_moved_and_why_is_shown(look: Look, file: Path, golden: Callable[[str, str], None]) -> None:
    pairs, names = [("dense", "both"), ("varied", "both"), ("both", "dense")], ("rye", "keep", "smooth", "missed")
    places = [f"#q={name}&a={first}&b={second}" for first, second in pairs for name in names]
    seen, shown = look(file), ""
    for place in places:
        seen.page.goto(f"{file.as_uri()}{place}")
        seen.page.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
        shown += f"{place}\n{moved(seen).inner_text()}\n\n"
    golden("page-moved", shown.removesuffix("\n"))


def test_passages_say_their_ranks_and_options_of_a_sweep_their_effects(look: Look, swept: Path) -> None:
    seen = look(swept, "#q=rye&b=both-size60")
    text = seen.page.locator("#moved").inner_text()
    assert re.search(r"A passage of grade 2 in bread/rye\.md: (found at rank (\d|–) → (\d|–)|found by neither)\.", text)
    assert "The difference is not split among documents: passages count" in text
    (report,) = swept.parent.glob("*/report.json")
    effects = sweep_effects(input_of([str(report.parent)]), Procedure())
    assert effects is not None
    seen = look(swept)
    said = [one.get_attribute("aria-label") or "" for one in seen.page.locator("#effects tbody svg[role=img]").all()]
    assert len(said) == len(effects.effects)
    assert any(part.ci for part in effects.effects)
    for part, label in zip(effects.effects, said, strict=True):
        assert part.difference is not None
        assert f": {written(part.difference)}" in label
        assert not part.ci or f"({written(part.ci[0])} to {written(part.ci[1])}), 95% CI" in label


def test_every_control_is_reached_by_tab_in_the_order_in_which_it_stands(look: Look, swept: Path) -> None:
    seen = look(swept, "#q=rye&b=both-size60")
    controls = "button, select, input, a[href], summary, [tabindex='0']"
    stands = seen.page.evaluate(
        f"""[...document.querySelectorAll("{controls}")].filter((one) => one.checkVisibility())
            .map((one, place) => (one.dataset.place = String(place)))"""
    )
    # Where Tab starts on a page that was opened at a fragment depends on the browser, so the first control is focused.
    seen.page.locator("[data-place='0']").focus()
    reached = ["0"]
    while len(reached) < 3 * len(stands):
        seen.page.keyboard.press("Tab")
        place = seen.page.evaluate("document.activeElement?.dataset?.place ?? null")
        if place is None and reached[-1] == stands[-1]:
            break
        if place is not None:
            reached.append(place)
    assert reached[: len(stands)] == stands
    assert len(stands) > 20
    unnamed = seen.page.evaluate(
        """[...document.querySelectorAll("select, input")]
            .filter((one) => !one.labels.length && !one.ariaLabel).map((one) => one.id)"""
    )
    assert unnamed == []


def test_the_dark_colours_are_the_same_by_choice_and_by_system() -> None:
    heads = (':root[data-theme="dark"] {', ':root:not([data-theme="light"]) {')
    chosen, of_the_system = (re.findall(r"--[\w-]+: #\w+", CSS.partition(head)[2].partition("}")[0]) for head in heads)
    assert chosen == of_the_system != []


DOCS = [f"d{place:02}" for place in range(1, 41)]


@pytest.fixture
def reordered(tmp_path: Path) -> Path:
    """From the one setting to the other d03 goes from rank 3 to 30 and d40 from 40 to 7."""
    moved = [doc for doc in DOCS if doc not in ("d03", "d40")]
    moved.insert(6, "d40")
    moved.insert(29, "d03")
    runs = {"dense": {"q": " ".join(DOCS)}, "other": {"q": " ".join(moved)}}
    return scored_report(tmp_path / "scored", {"q": {"d03": 1, "d35": 2}}, runs).folder


def listed(seen: Seen, side: int, doc: str) -> str:
    return seen.page.locator("#detail .lists > div").nth(side).locator("li", has_text=doc).inner_text()


def test_a_hit_that_falls_out_of_the_list_has_its_rank(look: Look, reordered: Path, tmp_path: Path) -> None:
    seen = look(write_page(reordered, tmp_path / "page.html"), "#q=q&a=dense&b=other")
    rows = [row.locator("td").all_inner_texts() for row in moved(seen).locator("tbody tr").all()]
    found = {doc: f"{ranks} {way}" for doc, _, ranks, way, *_ in rows}
    assert found["d03"] == "3 → 30 ↓ down"
    assert found["d40"] == "40 → 7 ↑ up"
    assert found["d35"] == "35 → 36 ↓ down"  # relevant, and below the list in both
    assert "rank 30 in the other" in listed(seen, 0, "d03")
    assert "rank 40 in the other" in listed(seen, 1, "d40")
    text = seen.page.locator("#moved").inner_text()
    assert not re.search(r"\b(gone|new|Found by neither)\b", text)


def test_the_wordings_that_were_asked_are_on_the_page(look: Look, tmp_path: Path) -> None:
    entries = {
        "dense": {"kind": "dense", "top_k": 3},
        "wide": {"kind": "expand", "inputs": "dense", "top_k": 3, "templates": ["<b>text</b> on {query}"]},
    }
    report = run_experiment(write_experiment(tmp_path, DOCUMENTS, QUERIES, retrievers=entries).config())
    page = write_page(report.folder, tmp_path / "page.html")
    for setting in report.settings:
        shown = query_text(report, "rye", load_query(report, [setting], "rye"), 10_000)
        expected = [line.strip() for line in shown.splitlines() if line.strip().startswith("asked: ")]
        assert bool(expected) == (setting.name == "wide")
        column = look(page, f"#q=rye&a={setting.name}&b=dense").page.locator("#detail .lists > div").first
        assert column.locator(".why").all_inner_texts() == expected
