"""The system's Chromium, pages that are open in it, and what they said and asked for."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from click.testing import CliRunner
from playwright.sync_api import Browser, Page, sync_playwright

from ragtrial.cli.group import group

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
        return [row.strip() for row in self.page.locator("#query-rows button").all_inner_texts()]


def opened(browser: Browser, file: Path, fragment: str = "", **context: object) -> Seen:
    page = browser.new_context(**context).new_page()  # type: ignore[arg-type]
    seen = Seen(page)
    page.goto(f"{file.as_uri()}{fragment}")
    page.wait_for_selector("html[data-ready=yes]")
    return seen


def violations(page: Page) -> list[str]:
    """The rules of axe-core that the page breaks, each with its impact and the elements."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{one['id']} ({one['impact']}): {[node['html'][:80] for node in one['nodes']]}" for one in found]
