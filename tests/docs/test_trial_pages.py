"""The commands of pages run in a project as `ragtrial init` writes it, and print what the page says of them."""

import re
import shutil
from pathlib import Path

import pytest

from pages import fenced
from scripts import run_script

DOCS = Path(__file__).parents[2] / "docs"

PRINTED = {
    "cache": ["damaged"],
    "comparing-sweeps": ["questions by", "effect on", "costs "],
    "labels": ["new query 'refunds', 1 judgment written", "ndcg@5"],
    "query-by-query": [" won, ", "all against"],
    "report-page": ["report.html\ndifferences.svg\ndifferences.png\nrecall.svg\n"],
    "scoring": ["(best possible)"],
}
"""Parts of the output, by page."""

ELSEWHERE = r"--label$|labels convert|forbidden@"
"""Commands that ask in a terminal, or that need other labels: other tests run them."""


@pytest.fixture(scope="module")
def trial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the project after two runs, the second of a sweep, and its cache."""
    folder = tmp_path_factory.mktemp("trial")
    sweep = "--set 'sweep.matrix.retrievers.hybrid.rank_constant=[10, 60]'"
    commands = f"ragtrial init trial\ncd trial\nragtrial run -q\nragtrial run -q {sweep}"
    run_script(commands, folder, RAGTRIAL_WORKSPACE=str(folder / "cache"))
    return folder


def printed_in(trial: Path, commands: str, folder: Path) -> str:
    """The output of commands in a copy of the project, all of which succeed."""
    project = shutil.copytree(trial / "trial", folder / "trial")
    ran = run_script(commands, project, COLUMNS="160", RAGTRIAL_WORKSPACE=str(trial / "cache"))
    return ran.out.replace(f"{project}/", "")


@pytest.mark.parametrize("page", PRINTED)
def test_the_commands_of_a_page_print_what_it_names(page: str, trial: Path, tmp_path: Path) -> None:
    lines = "".join(fenced(DOCS / f"{page}.md", "sh")).replace("/mnt/shared", str(tmp_path / "shared")).splitlines()
    printed = printed_in(trial, "\n".join(line for line in lines if not re.search(ELSEWHERE, line)), tmp_path)
    assert [part for part in PRINTED[page] if part not in printed] == []
    written = re.findall(r"^\S+\.(?:html|svg|png)$", printed, re.MULTILINE)
    assert all((tmp_path / "trial" / name).stat().st_size > 1000 for name in written)


def test_the_worklists_of_the_page_on_labelling_are_written_and_described(trial: Path, tmp_path: Path) -> None:
    page = DOCS / "labelling.md"
    pool, rescore, *_ = fenced(page, "sh")
    printed = printed_in(trial, pool + rescore, tmp_path)
    assert all((tmp_path / "trial" / name).is_file() for name in ("more.json", "one-setting.json"))
    assert words(printed)[: len(words(fenced(page, "text")[0]))] == words(fenced(page, "text")[0])


def words(text: str) -> list[str]:
    """The words of a text, whatever its numbers are."""
    return re.sub(r"\d[\d,.]*", "N", text).split()
