"""Draws docs/label-page.png and docs/label-page-phone.png: the page of `ragtrial label` over the sample data.

Needs the development extra and a Chromium: python docs/label_picture.py
"""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

from ragtrial.dataset.library import Library
from ragtrial.labelling.session.serving import LabelPage
from ragtrial.labelling.session.session import Session
from ragtrial.labelling.worklist import TextToGrade, Worklist, write_worklist
from ragtrial.views.label_page import assets

ROOT = Path(__file__).parents[1]
QUESTION = "HB-204 on every thermostat after I factory reset my hub 3, do I really have to pair them all again?"
SHOWN = "hub/hub-3-factory-reset.md"
PASSAGE = "Set the hub up with the same account and the app offers to restore it; FinchLink devices then come back"
ITEMS, PLACE = 12, 5
CHARACTERS = 900
SHOTS = {"label-page": (900, 1075), "label-page-phone": (420, 860)}


def worklist_of_samples(folder: Path) -> Path:
    """A worklist over the documents of the sample data and a copy of its labels."""
    corpus = ROOT / "data" / "support"
    (folder / "library").mkdir()
    Library.write(corpus, folder / "library")
    library = Library(folder / "library")
    shutil.copy(ROOT / "prompt_queries.json", folder)
    items = []
    others = [name for name in library.ids if name.startswith("hub/") and name != SHOWN]
    for document in [*others[:PLACE], SHOWN, *others[PLACE : ITEMS - 1]]:
        position = library.positions[document]
        text = library.text(position)[:CHARACTERS].rpartition("\n\n")[0]
        title = library.titles[position]
        items.append(
            TextToGrade(query="hub-01", question=QUESTION, doc=document, title=title, start=0, end=len(text), text=text)
        )
    labels = str(folder / "prompt_queries.json")
    worklist = Worklist(
        ragtrial_worklist=1, labels=labels, kind="prompt_queries", config=None, form="quote", metric="ndcg@10",
        highest_grade=3, seed=0, items=items,
    )  # fmt: skip
    write_worklist(worklist, folder / "worklist.json")
    return folder / "worklist.json"


@contextmanager
def served(worklist: Path) -> Iterator[str]:
    """The address of the page while it is served."""
    with Session(worklist, who="ada") as session:
        while session.item and session.item.doc != SHOWN:
            session.grade(0)
        session.quote(PASSAGE)
        page = LabelPage(session, assets())
        thread = threading.Thread(target=page.serve)
        thread.start()
        try:
            yield page.url
        finally:
            page.shutdown()
            thread.join()


def shoot(browser: Browser, url: str, size: tuple[int, int], target: Path, scheme: str = "light") -> None:
    """One picture of the page."""
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme="dark" if scheme == "dark" else "light"
    )
    page = context.new_page()
    page.goto(url)
    expect(page.locator("html[data-ready=yes]")).to_be_attached()
    page.screenshot(path=target)
    context.close()


def main() -> None:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        with served(worklist_of_samples(Path(folder))) as url:
            for name, size in SHOTS.items():
                shoot(browser, url, size, ROOT / "docs" / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    main()
