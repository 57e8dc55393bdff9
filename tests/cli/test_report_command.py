"""The page: written at the end of a run or later, also of one setting, and opened in the browser of the system."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from small_experiment import CONFIG, Capture, ragtrial, small_experiment, succeeded

TWO = CONFIG.replace("latency", "  words: {kind: bm25, top_k: 3}\nlatency")


def test_a_run_writes_the_page_with_its_baseline_and_names_it_last(tmp_path: Path, capsys: Capture) -> None:
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


def test_a_report_of_one_setting_has_a_page(tmp_path: Path, capsys: Capture) -> None:
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
