"""The system's Chromium, pages that are open in it, and what they said and asked for."""

import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, BrowserContext, Page, ViewportSize, sync_playwright

from experiments import Experiment
from ragtrial import run_experiment
from ragtrial.cli.group import group

HOSTILE = (
    '<img src=x onerror="window.hacked = 1"> </script><script>window.hacked = 1</script> {{constructor}} '
    "\u202eright to left\u202c \u0007bell שלום \U0001f600 here is the answer " + "longword" * 400
)
"""A text that a page must show as text."""

DESK: ViewportSize = {"width": 1280, "height": 720}
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium; skips where there is none."""
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        pytest.skip(f"none of {', '.join(_BROWSERS)} is installed")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


def write_page(report: Path, target: Path, *options: str) -> Path:
    """``target``, with the page of a report whose baseline is ``dense``, unless ``options`` say otherwise."""
    given = options or ("--baseline", "dense")
    ran = CliRunner().invoke(group, ["report", str(report), "-o", str(target), *given])
    assert ran.exit_code == 0, ran.output
    return target


def page_of(experiment: Experiment, *options: str) -> Path:
    """The page of a run, beside its report."""
    folder = run_experiment(experiment.config()).folder
    return write_page(folder, folder.parent / "page.html", *options)


@dataclass
class Seen:
    """A page that is open, and what it said and asked for."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", lambda message: self.console.append(message.text))
        self.page.on("pageerror", lambda error: self.console.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))

    def rows(self) -> list[str]:
        """The ids of the listed questions."""
        return [str(row.get_attribute("data-id")) for row in self.page.locator("details.q").all()]

    def show(self, filtered: str) -> None:
        """Choose the filter whose words begin with ``filtered``."""
        self.page.locator("#filters").get_by_role("radio", name=re.compile(f"^{re.escape(filtered)}")).click()

    def open(self, query: str) -> None:
        """Open a listed question, and wait until its hits are drawn."""
        self.page.locator("details.q").nth(self.rows().index(query)).locator("summary").first.click()
        self.page.wait_for_selector(f"details.q[open][data-query='{self.place(query)}'] #detail .lists")

    def place(self, query: str) -> str:
        """The position of a question in the report."""
        row = self.page.locator("details.q").nth(self.rows().index(query))
        return str(row.get_attribute("data-query"))


@dataclass
class Contexts:
    """Contexts of a browser by whether they bypass the policy of pages, which keep nothing that another could read.

    In each a page stays open: those that are opened beside it need no process of their own.
    """

    browser: Browser
    known: dict[bool, BrowserContext] = field(default_factory=dict)

    def page(self, url: str, *, bypass_csp: bool = False, viewport: ViewportSize = DESK, dark: bool = False) -> Page:
        """A new page, which has not gone to ``url`` yet."""
        if bypass_csp not in self.known:
            self.known[bypass_csp] = self.browser.new_context(bypass_csp=bypass_csp)
            self.known[bypass_csp].new_page().goto(url)
        page = self.known[bypass_csp].new_page()
        page.set_viewport_size(viewport)
        page.emulate_media(color_scheme="dark" if dark else "light")
        return page


def opened(contexts: Contexts, file: Path, fragment: str = "", **options: Any) -> Seen:
    page = contexts.page(file.as_uri(), **options)
    seen = Seen(page)
    page.goto(f"{file.as_uri()}{fragment}")
    page.wait_for_selector("html[data-ready=yes]")
    return seen


Look = Callable[..., Seen]
"""The fixture ``look``: ``opened`` in its contexts, until the end of the test."""


def violations(page: Page) -> list[str]:
    """The rules of axe-core that the page breaks, each with its impact and the elements."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']} ({one['impact']}): {[node['html'][:80] for node in one['nodes']]}" for one in found]
