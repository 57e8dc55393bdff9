"""Takes the pictures of docs/report-page.md: runs configs/hybrid.yaml, writes its page and plot, and looks at them.

make report-picture
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
QUERY = "#q=hub-13&a=rrf&b=weighted"


def ragtrial(*arguments: str) -> None:
    environment = {**os.environ, "NO_COLOR": "1", "HF_HUB_OFFLINE": "1"}
    subprocess.run([sys.executable, "-m", "ragtrial", *arguments], cwd=ROOT, env=environment, check=True)


def take(browser: Browser, page: Path, name: str, fragment: str = "", start: str = "header", **context: Any) -> None:
    """One picture, from the top of ``start`` down, as large as the screen."""
    opened = browser.new_context(**context).new_page()
    opened.goto(page.as_uri() + fragment)
    opened.wait_for_selector("html[data-ready=yes]")
    opened.wait_for_selector(start)
    if fragment:
        opened.wait_for_selector("#detail .lists")
    opened.evaluate(f"scrollBy(0, document.querySelector('{start}').getBoundingClientRect().top - 44)")
    opened.screenshot(path=DOCS / name)
    opened.context.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        ragtrial("run", "configs/hybrid.yaml", "-q", "--no-latency")
        ragtrial("report", "latest", "-o", str(page))
        plot = ["--plot", "differences", "--baseline", "dense", "-o", str(DOCS / "report-plot.svg")]
        ragtrial("report", "latest", *plot)
        with sync_playwright() as started:
            path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
            browser = started.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
            take(browser, page, "report-page.png", viewport={"width": 1180, "height": 840})
            dark: dict[str, Any] = {"viewport": {"width": 1220, "height": 860}, "color_scheme": "dark"}
            take(browser, page, "report-page-dark.png", QUERY, "details.q[open]", **dark)
            take(browser, page, "report-page-phone.png", viewport={"width": 420, "height": 1200})
            browser.close()


if __name__ == "__main__":
    main()
