"""The page to label on in a real browser: from the first question to the written file, by keyboard and by hand."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from browsers import HOSTILE, Contexts, Seen, violations
from ragtrial.labelling.session.serving import LabelPage
from ragtrial.labelling.worklist import Draft, TextToGrade
from small_experiment import small_experiment
from worklists import item, judgments, served, whole_documents, write_work


class Labelling(Seen):
    """The page to label on, as somebody uses it."""

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def answer(self, key: str, place: str) -> None:
        """Press a key, and wait for the place to be reported that comes then."""
        self.press(key)
        expect(self.page.locator("#place")).to_contain_text(place)

    def show(self, text: str) -> None:
        expect(self.page.locator("body")).to_contain_text(text)


@contextmanager
def opened(contexts: Contexts, label_page: LabelPage, *, said: bool = False, **options: Any) -> Iterator[Labelling]:
    """The page; in the end it has asked nobody but its server, and said nothing on the console unless it was to."""
    page = contexts.page(label_page.url, **options)
    seen = Labelling(page)
    page.goto(label_page.url)
    expect(page.locator("html[data-ready=yes]")).to_be_attached()
    yield seen
    assert said or seen.console == []
    assert [url for url in seen.requests if not url.startswith((label_page.url, "data:"))] == []
    page.close()


@pytest.fixture
def page(tmp_path: Path) -> Iterator[LabelPage]:
    with served(write_work(tmp_path)) as page:
        yield page


@pytest.fixture
def seen(contexts: Contexts, page: LabelPage) -> Iterator[Labelling]:
    """Six whole documents, of which the labels judge the first and the fifth."""
    with opened(contexts, page) as seen:
        yield seen


def test_from_the_first_question_to_the_written_file_by_keyboard_alone(seen: Labelling, tmp_path: Path) -> None:
    expect(seen.page.locator("#question")).to_have_text("thirty days to return an item")
    expect(seen.page.locator("#question")).to_be_focused()
    expect(seen.page.locator("#title")).to_have_text("Returns")
    seen.answer("2", "2 of 6 · 1 graded")
    seen.answer("0", "3 of 6 · 2 graded")
    seen.answer(" ", "4 of 6 · 2 graded, 1 left out")
    expect(seen.page.locator("#question")).to_have_text("which batteries are covered")
    seen.answer("3", "5 of 6 · 3 graded")
    seen.answer("u", "4 of 6 · 2 graded")
    seen.answer("1", "5 of 6 · 3 graded")
    seen.answer("0", "6 of 6 · 4 graded")
    seen.answer("1", "6 of 6 · 5 graded")
    expect(seen.page.locator("#done-title")).to_be_focused()
    seen.show("Every answer is kept; 5 not in prompt_queries.json yet.")
    seen.press("f")
    expect(seen.page.locator("#ended-title")).to_be_focused()
    seen.show("5 of 6 graded, 1 left out")
    seen.show("3 judgments written")
    seen.show("agreement: 1 of 2 that are judged already got the same grade as before")
    seen.show("next: ragtrial rescore latest --labels")
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 0}
    assert judgments(tmp_path, "q2") == {"warranty.md": 1, "returns.md": 1, "shipping.txt": 1}


def test_a_mouse_is_enough(seen: Labelling, tmp_path: Path) -> None:
    page = seen.page
    page.get_by_role("button", name="Leave out").click()
    expect(page.locator("#place")).to_contain_text("2 of 6")
    page.get_by_role("button", name="Grade 3").click()
    expect(page.locator("#place")).to_contain_text("3 of 6")
    page.get_by_role("button", name="Undo").first.click()
    expect(page.locator("#place")).to_contain_text("2 of 6")
    page.get_by_role("button", name="Grade 1").click()
    expect(page.locator("#place")).to_contain_text("3 of 6")
    page.get_by_role("button", name="Save to labels").click()
    seen.show("1 answer saved.")
    expect(page.get_by_role("button", name="Undo").first).to_be_disabled()
    assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 1}
    page.get_by_role("button", name="Finish").click()
    seen.show("4 to go: the same command goes on")


def test_the_space_bar_on_a_button_presses_that_button(seen: Labelling) -> None:
    seen.page.get_by_role("button", name="Grade 3").focus()
    seen.answer(" ", "2 of 6 · 1 graded")
    expect(seen.page.locator("#question")).to_be_focused()


QUOTING = """node => {
  const range = document.createRange();
  const first = document.createTreeWalker(node, NodeFilter.SHOW_TEXT).nextNode();
  const at = first.data.indexOf(%s);
  range.setStart(first, at);
  range.setEnd(first, at + %d);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}"""


def select(seen: Labelling, passage: str) -> None:
    units = len(passage.encode("utf-16-le")) // 2
    seen.page.locator("#text").evaluate(QUOTING % (json.dumps(passage), units))


def quoting(folder: Path, items: list[TextToGrade]) -> Path:
    return write_work(folder, items, form="quote")


def test_hostile_text_is_shown_as_text_and_quoted_with_its_characters(contexts: Contexts, tmp_path: Path) -> None:
    text = f"{HOSTILE}\nIt is here: the answer \U0001f600 twice: the answer\n"
    small_experiment(tmp_path, documents={"returns.md": "x", "warranty.md": "x", "shipping.txt": text})
    behind = "here: the answer \U0001f600 twice"
    hostile = item(text, title='<b onclick="x()">')
    narrow = {"width": 420, "height": 800}
    with served(quoting(tmp_path, [hostile])) as page, opened(contexts, page, viewport=narrow) as seen:
        assert "\ufffd" in (shown := seen.page.locator("#text").inner_text())
        assert not {"\u202e", "\u0007"} & set(shown)
        assert seen.page.evaluate("window.hacked") is None
        assert seen.page.locator("main img, main script").count() == 0
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= 420
        seen.press("q")
        expect(seen.page.get_by_role("alert")).to_contain_text("Select the passage that answers in the text first")
        select(seen, "\U0001f600 here is the answer")
        seen.press("q")
        expect(seen.page.locator("#text mark")).to_have_text("\U0001f600 here is the answer")
        expect(seen.page.get_by_role("alert")).to_be_hidden()
        seen.press("u")
        expect(seen.page.locator("#text mark")).to_have_count(0)
        select(seen, behind)
        seen.page.get_by_role("button", name="Quote selection").click()
        expect(seen.page.locator("#text mark")).to_have_text(behind)
        seen.answer("3", "1 of 1 · 1 graded")
        seen.press("f")
        seen.show("1 judgment written")
    (label,) = json.loads((tmp_path / "prompt_queries.json").read_text())["queries"][0]["relevant_docs"][1:]
    place = {"start": text.index(behind), "end": text.index(behind) + len(behind)}
    assert label == {"doc": "shipping.txt", "relevance": 3, "quote": behind, **place}


def test_words_are_selected_by_the_arrows(contexts: Contexts, tmp_path: Path) -> None:
    items = [item("Parcels take two days to arrive.\n")]
    with served(quoting(tmp_path, items)) as page, opened(contexts, page) as seen:
        seen.press("t")
        expect(seen.page.locator("#text")).to_be_focused()
        seen.press("ArrowRight", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft", "Shift+ArrowRight", "q")
        expect(seen.page.locator("#text mark")).to_have_text("two days")
        seen.press("u")
        expect(seen.page.locator("#text mark")).to_have_count(0)
        expect(seen.page.locator("#text")).to_be_focused()
        seen.press("ArrowRight", "Shift+ArrowDown", "q")
        expect(seen.page.locator("#text mark")).to_have_text("Parcels take two days to arrive.")


@pytest.mark.parametrize("width", [320, 420])
def test_on_a_phone_the_grades_are_in_reach_and_nothing_is_wider(
    contexts: Contexts, page: LabelPage, width: int
) -> None:
    with opened(contexts, page, viewport={"width": width, "height": 700}) as seen:
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        box = seen.page.get_by_role("button", name="Grade 3").bounding_box()
        assert box
        assert 44 <= box["height"] <= 700 - box["y"]


def test_a_second_tab_and_a_server_that_has_ended_are_told(contexts: Contexts, page: LabelPage) -> None:
    with opened(contexts, page) as first, opened(contexts, page, said=True) as second:
        first.answer("3", "2 of 6 · 1 graded")
        second.answer("0", "2 of 6 · 1 graded")
        expect(second.page.get_by_role("alert")).to_contain_text("answered elsewhere meanwhile, in another tab perhaps")
        second.answer("0", "3 of 6 · 2 graded")
        expect(second.page.get_by_role("alert")).to_be_hidden()
    given = page.session.answers.given
    assert (given[0].grade, given[1].grade) == (3, 0)
    with opened(contexts, page, said=True) as seen:
        page.shutdown()
        seen.press("1")
        expect(seen.page.get_by_role("alert")).to_contain_text("The page's server does not answer.", timeout=40_000)


def test_after_a_failed_save_s_saves_again_and_theirs_stays(
    contexts: Contexts, page: LabelPage, tmp_path: Path
) -> None:
    with opened(contexts, page, said=True) as seen:
        seen.answer(" ", "2 of 6")
        seen.answer("3", "3 of 6")
        labels = json.loads((tmp_path / "prompt_queries.json").read_text())
        (tmp_path / "prompt_queries.json").write_text("{")
        seen.press("s")
        expect(seen.page.get_by_role("alert")).to_contain_text("1 answer is kept here, and nothing was written; mend")
        expect(seen.page.get_by_role("button", name="Save to labels")).to_be_enabled()
        labels["queries"][0]["relevant_docs"].append({"doc": "warranty.md", "relevance": 0})
        (tmp_path / "prompt_queries.json").write_text(json.dumps(labels))
        seen.press("s")
        seen.show("1 answer saved. 1 was judged by somebody else meanwhile; theirs stays. Every answer is kept.")
        expect(seen.page.get_by_role("alert")).to_be_hidden()
        assert judgments(tmp_path, "q1") == {"returns.md": 2, "warranty.md": 0}


def test_everything_has_a_name_for_those_who_hear_it(seen: Labelling) -> None:
    page = seen.page
    for role, name in [
        ("banner", ""), ("main", ""), ("contentinfo", ""), ("progressbar", "Answered"), ("group", "Answer"),
        ("textbox", "Text to be graded"), ("region", "Save"), ("heading", "thirty days to return an item"),
    ]:  # fmt: skip
        found = page.get_by_role(role, name=name, exact=True) if name else page.get_by_role(role)  # type: ignore[arg-type]
        expect(found).to_have_count(1)
    assert page.locator("#place").get_attribute("aria-live") == "polite"
    seen.press("Tab")
    expect(page.locator("#text")).to_be_focused()
    assert page.locator("#text").evaluate("node => getComputedStyle(node).outlineStyle") == "solid"
    assert len(whole_documents()) == page.locator("#progress").evaluate("node => node.max")


def test_axe_finds_nothing_in_the_light_and_in_the_dark(contexts: Contexts, page: LabelPage) -> None:
    with opened(contexts, page, bypass_csp=True) as seen:
        seen.press("2")
        assert violations(seen.page) == []
        seen.page.emulate_media(color_scheme="dark")
        assert violations(seen.page) == []


def test_another_place_of_a_known_answer_is_chosen_by_key_or_mouse(contexts: Contexts, tmp_path: Path) -> None:
    labels = {"queries": [
        {"id": "q1", "text": "thirty days to return an item", "relevant_docs": [
            {"doc": "returns.md", "quote": "thirty days", "group": "a"},
            {"doc": "returns.md", "quote": "any item", "group": HOSTILE[:80]}]},
        {"id": "q2", "text": "which batteries are covered", "relevant_docs": [{"doc": "warranty.md", "relevance": 0}]},
    ]}  # fmt: skip
    worklist = write_work(tmp_path, whole_documents()[1:4])
    (tmp_path / "prompt_queries.json").write_text(json.dumps(labels), encoding="utf-8")
    with served(worklist) as page, opened(contexts, page, bypass_csp=True) as seen:
        first, second = (seen.page.locator("#group-list button").nth(number) for number in (0, 1))
        expect(first).to_contain_text("returns.md: thirty days")
        assert first.locator("b").all_inner_texts() == ["a", "returns.md"]
        assert violations(seen.page) == []
        for pressed in ([True, False], [False, True], [False, False], [True, False]):
            seen.press("g")
            for button, is_pressed in zip((first, second), pressed, strict=True):
                expect(button).to_have_attribute("aria-pressed", str(is_pressed).lower())
        assert violations(seen.page) == []
        seen.answer("1", "2 of 3 · 1 graded")
        second.click()
        expect(second).to_have_attribute("aria-pressed", "true")
        seen.answer("1", "3 of 3 · 2 graded")
        expect(seen.page.locator("#groups")).to_be_hidden()
        expect(seen.page.locator("#group-key")).to_be_hidden()
        seen.press("g")
        assert seen.page.evaluate("window.hacked") is None
        seen.page.get_by_role("button", name="Finish").click()
        seen.show("2 judgments written")
    rows = json.loads((tmp_path / "prompt_queries.json").read_text(encoding="utf-8"))["queries"]
    assert rows[0]["relevant_docs"][2:] == [
        {"doc": "warranty.md", "relevance": 1, "group": "a"},
        {"doc": "shipping.txt", "relevance": 1, "group": HOSTILE[:80]},
    ]


def test_on_a_phone_the_last_of_many_known_answers_is_seen_when_it_is_chosen(
    contexts: Contexts, tmp_path: Path
) -> None:
    words = ("Returns", "Return", "any", "item", "within", "thirty", "days", "any item", "thirty days")
    labels = [{"doc": "returns.md", "quote": quote} for quote in words]
    query = {"id": "q1", "text": "thirty days to return an item", "relevant_docs": labels}
    worklist = write_work(tmp_path, whole_documents()[1:2])
    (tmp_path / "prompt_queries.json").write_text(json.dumps({"queries": [query]}), encoding="utf-8")
    with served(worklist) as page, opened(contexts, page, viewport={"width": 320, "height": 500}) as seen:
        for quote in words:
            seen.press("g")
            chosen = seen.page.locator("#group-list [aria-pressed=true]")
            expect(chosen).to_have_text(f"returns.md: {quote}")
        box, bar = chosen.bounding_box(), seen.page.locator("#bar").bounding_box()
        assert box
        assert bar
        assert 0 <= box["y"] < box["y"] + box["height"] <= bar["y"]


def test_drafted_questions_are_kept_edited_and_dropped_on_the_page(contexts: Contexts, tmp_path: Path) -> None:
    text = f"Parcels take two days to arrive. {HOSTILE[:150]}"
    small_experiment(tmp_path, documents={"returns.md": "x", "warranty.md": "x", "shipping.txt": text})
    quoted = Draft(style="factual", quote="two days", at=13)
    items = [
        item(text).model_copy(update={"query": name, "question": question, "draft": draft})
        for name, question, draft in (
            ("d1", "How long do parcels take?", quoted),
            ("d2", HOSTILE, quoted),
            ("d3", "Who carries parcels?", Draft(style="keywords", quote=None, at=None)),
        )
    ]
    worklist = write_work(tmp_path, items, form="quote", drawn="drafted")
    with served(worklist) as page, opened(contexts, page) as seen:
        expect(seen.page.locator("#grades")).to_be_hidden()
        expect(seen.page.locator("#text mark")).to_have_text("two days")
        seen.press("3")  # grades nothing here
        seen.press("e")
        expect(seen.page.locator("#edited")).to_be_focused()
        assert violations(seen.page) == []
        seen.page.locator("#edited").fill("When do parcels arrive? k d")
        seen.press("Enter")
        expect(seen.page.locator("#question")).to_have_text("When do parcels arrive? k d")
        seen.answer("k", "2 of 3 · 1 reviewed")
        assert seen.page.evaluate("window.hacked") is None
        seen.page.get_by_role("button", name="Drop").click()
        seen.show("3 of 3 · 2 reviewed")
        seen.show("The documents should not answer this question.")
        seen.page.get_by_role("button", name="Edit").click()
        seen.press("Escape")
        seen.page.get_by_role("button", name="Keep").click()
        seen.page.get_by_role("button", name="Finish").click()
        seen.show("prompt_queries.json: 2 questions added, 1 of them changed; 1 dropped")
    new = json.loads((tmp_path / "prompt_queries.json").read_text(encoding="utf-8"))["queries"][2:]
    assert [(query["text"], query["tags"], [label["quote"] for label in query["relevant_docs"]]) for query in new] == [
        ("When do parcels arrive? k d", ["drafted", "factual"], ["two days"]),
        ("Who carries parcels?", ["drafted", "keywords", "unanswerable"], []),
    ]  # fmt: skip
