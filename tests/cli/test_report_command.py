"""The page: written at the end of a run or later, also of one setting, and opened in the browser of the system."""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, ViewportSize

from browsers import HOSTILE, Seen, violations
from edited_reports import edit_report
from small_experiment import CONFIG, Capture, ragtrial, refused, small_experiment, succeeded

TWO = CONFIG.replace("latency", "  words: {kind: bm25, top_k: 3}\nlatency")


def test_a_run_and_a_report_of_one_setting_have_a_page(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path, config=TWO)
    ran = succeeded(capsys, "run", "experiment.yaml", "--report", "--baseline", "words")
    (page,) = Path("results/small").glob("*/report.html")
    assert ran.out.splitlines()[-1].endswith("(report.html)")
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert ragtrial(capsys, "show", "latest").code == 0  # the report is read as before
    succeeded(capsys, "report", "latest", "--baseline", "words", "-o", "later.html")
    assert Path("later.html").read_bytes() == page.read_bytes()
    said = ragtrial(capsys, "run", "experiment.yaml", "--report", "--json").json
    assert Path(said["page"]).parent == Path(said["report"]).parent
    small_experiment(tmp_path)
    succeeded(capsys, "run", "experiment.yaml")
    made = ragtrial(capsys, "report", "latest")
    assert (made.code, made.out) == (0, "report.html\n")
    text = Path("report.html").read_text(encoding="utf-8")
    assert "dense, ndcg@3 1.000: it finds an answer in the first 3 for 2 of 2 questions" in text
    assert 'id="verdicts"' not in text


def report_in_a_process(environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """``ragtrial report latest --open`` where no browser but that of ``environment`` is found."""
    command = [sys.executable, "-m", "ragtrial", "report", "latest", "--open"]
    named = {name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "PATH")}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, env={**named, **environment}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems find browsers without PATH")
def test_open_gives_the_file_to_the_browser(tmp_path: Path, capsys: Capture) -> None:
    small_experiment(tmp_path)
    succeeded(capsys, "run", "experiment.yaml")
    browser = tmp_path / "browser"
    browser.write_text('#!/bin/sh\necho "$@" > "$(/usr/bin/dirname "$0")/opened"\n')
    browser.chmod(browser.stat().st_mode | stat.S_IXUSR)
    ended = report_in_a_process({"BROWSER": str(browser), "PATH": ""})
    assert ended.returncode == 0, ended.stderr
    assert (tmp_path / "opened").read_text().strip() == (tmp_path / "report.html").as_uri()
    without = report_in_a_process({"BROWSER": "", "PATH": ""})
    assert (without.returncode, without.stdout) == (0, "report.html\n")
    assert "There is no browser to open it with; set BROWSER, or open the file by hand." in without.stderr


@pytest.fixture
def site(tmp_path: Path, capsys: Capture) -> Path:
    """The site of two runs, the second with another seed."""
    small_experiment(tmp_path)
    for seed in (3, 7):
        succeeded(capsys, "run", "experiment.yaml", f"--set=seed={seed}", "--no-latency")
    wrote = ragtrial(capsys, "report", "--site", "public/pages")
    assert wrote.out.splitlines()[-1] == "public/pages/index.html"
    return tmp_path / "public" / "pages"


def runs_of(site: Path) -> list[str]:
    """The runs, oldest first; ids of one second are in no order."""
    ids = [path.stem for path in site.glob("2*.html")]
    return sorted(ids, key=lambda run: Path("results/small", run, "report.json").stat().st_mtime_ns)


def test_a_site_has_a_page_of_each_run_and_is_written_again_as_it_is(site: Path, capsys: Capture) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_ino) for path in site.iterdir()}
    old, new = runs_of(site)
    text = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="([^"]*html)"', text) == [f"{new}.html", f"{old}.html"]
    assert "seed: 3 → 7" in text
    said = ragtrial(capsys, "report", "--site", str(site), "small", "--json").json
    assert said["wrote"] == [str(site / "index.html")]
    assert [run["run_id"] for run in said["history"]["runs"]] == [old, new]
    for path in site.iterdir():
        content, inode = before.pop(path.name)
        assert path.read_bytes() == content
        assert (path.stat().st_ino == inode) == (path.name != "index.html")
    succeeded(capsys, "report", f"results/small/{old}", "-o", "one.html")
    assert Path("one.html").read_bytes() == (site / f"{old}.html").read_bytes()


def test_a_run_that_is_gone_or_damaged_is_named(site: Path, capsys: Capture) -> None:
    old, new = runs_of(site)
    shutil.rmtree(Path("results/small") / old)
    done = ragtrial(capsys, "report", "--site", "public/pages", "results")
    assert f"has 1 page of runs that are not in the history, such as {old}" in done.err
    assert done.out.startswith("One run so far")
    (Path("results/small") / new / "report.json").write_text("{", encoding="utf-8")
    refused(capsys, "report", "--site", "public/pages", says=f"{new}/report.json")


def test_what_a_hostile_report_says_is_text(site: Path, capsys: Capture, browser: Browser) -> None:
    """Nothing of it is an element, an address or a request, and axe-core finds nothing, whatever is in it."""
    old, new = runs_of(site)
    report = Path("results/small") / new
    edit_report(report, '"dense"', json.dumps(HOSTILE))
    edit_report(report, '"experiment": "small"', f'"experiment": {json.dumps(HOSTILE)}')
    edit_report(report, '"numpy": "', '"numpy": "<b>')
    (site / f"{new}.html").unlink()
    done = ragtrial(capsys, "report", "--site", str(site))
    assert f"{new}.html is not written: " in done.err
    text = (site / "index.html").read_text(encoding="utf-8")
    assert re.findall(r'href="([^"]*html)"', text) == [f"{old}.html"]
    assert not re.search("<script|<img|<b>[0-9]|\u202e|\u0007", text)
    looks: list[tuple[Literal["light", "dark"], int]] = [("light", 1280), ("dark", 390)]
    for scheme, width in looks:
        viewport: ViewportSize = {"width": width, "height": 800}
        seen = Seen(browser.new_context(bypass_csp=True, color_scheme=scheme, viewport=viewport).new_page())
        seen.page.goto((site / "index.html").as_uri())
        assert seen.page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(seen.page) == []
        assert (seen.console, [url for url in seen.requests if not url.startswith("file:")]) == ([], [])


def test_a_keyboard_reaches_the_values_of_each_plot_and_each_run(site: Path, browser: Browser) -> None:
    old, new = runs_of(site)
    page = browser.new_context(bypass_csp=True).new_page()
    page.goto((site / "index.html").as_uri())
    reached = []
    for _ in range(3):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('href') || document.activeElement.innerText"))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineWidth") == "2px"
    assert reached == ["Values of dense, newest first", f"{new}.html", f"{old}.html"]
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement === document.body"), "nothing else takes the focus"
    for _ in range(3):
        page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    first, second = page.locator("details li").all_inner_texts()
    assert first.endswith(f": 1.000, 0.000 from run {old}: no step")
    assert second.endswith(": 1.000, the first run of this line")
    assert violations(page) == []
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/{new}.html")


def test_a_site_that_cannot_be_says_why(site: Path, capsys: Capture) -> None:
    shutil.copytree("results/small", "results/other")
    for arguments, message in {
        "--baseline dense": "--site takes one EXPERIMENT",
        "small other": "--site takes one EXPERIMENT",
        "smal": "'smal' is neither an experiment in results nor a folder with runs. Did you mean 'small'?",
        "results": "'results' has several experiments. There are: other, small.",
        "small --metric recall@7": "no run has 'recall@7'; the newest one has: ",
    }.items():
        refused(capsys, "report", "--site", "elsewhere", *arguments.split(), says=message)
    assert not Path("elsewhere").exists()
    refused(capsys, "report", "--site", "experiment.yaml", "small", says="experiment.yaml")
