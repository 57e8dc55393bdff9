"""A report of somebody else whose files are gone, or hold what no report holds: an error or a warning that says so."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragtrial.config import load_config
from ragtrial.errors import ReportError
from ragtrial.experiment import run_experiment
from ragtrial.report.model import LARGEST_REPORT, load_report
from small_experiment import CONFIG, LABELS, Capture, ragtrial, small_experiment

RETRIEVERS = """retrievers:
  words: {kind: bm25, top_k: 3}
  both: {kind: fusion, inputs: [words, dense], top_k: 3}
  dense: {kind: dense, top_k: 3}
latency: false
"""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("foreign")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        config = CONFIG.partition("retrievers:")[0] + RETRIEVERS
        yield run_experiment(load_config(small_experiment(folder, config=config))).folder.resolve()


@pytest.fixture
def report(written: Path, tmp_path: Path) -> Path:
    """A copy in an empty folder, which is the current one."""
    Path("labels.json").write_text(json.dumps(LABELS), encoding="utf-8")
    return shutil.copytree(written, tmp_path / "foreign")


SHOW, QUERY, PAGE = "show foreign", "show foreign --query q1", "report foreign"
RESCORE, POOL = "rescore foreign --metrics rr@2", "pool foreign --labels labels.json"
COMMANDS = [SHOW, QUERY, PAGE, RESCORE, POOL, "compare foreign"]
NEEDED: dict[str, set[str]] = {
    "texts.jsonl.gz": {QUERY, RESCORE, POOL}, "rankings/words.jsonl.gz": {QUERY, PAGE, RESCORE, POOL},
    "rankings/parts/": set(), "config.yaml": set(),
}  # fmt: skip
"""Which commands cannot do without a file: an error; the others go on, with a warning."""


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", NEEDED)
def test_a_file_that_is_gone_is_named_by_every_command(report: Path, name: str, command: str, capsys: Capture) -> None:
    for path in [*report.glob(f"{name}*")]:
        path.unlink()
    done = ragtrial(capsys, *command.split())
    assert done.code == (2 if command in NEEDED[name] else 0), done.err
    assert name in done.err
    if command == PAGE and not done.code:
        assert "missing: " + name in Path("report.html").read_text(encoding="utf-8")


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change report.json, which then lists no files and has no checksum, as of a version before there were any."""
    value = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    value.update(files={}, sizes={}, checksum="")
    change(value)
    (folder / "report.json").write_text(json.dumps(value), encoding="utf-8")


def _huge(value: dict[str, Any]) -> None:
    for setting, sign in zip(value["settings"], (1, -1, 1), strict=True):
        for name, column in setting["per_query"]["evaluations"].items():
            setting["per_query"]["evaluations"][name] = [sign * 1e308 for _ in column]


CHANGES: dict[str, Callable[[dict[str, Any]], object]] = {
    "values near the end of floats": _huge,
    "an unknown stemmer": lambda value: [
        one["parameters"]["retriever"].update(stemmer="klingon", kind="bm25") for one in value["settings"]
    ],
    "parameters of nothing": lambda value: [one.update(parameters={}) for one in value["settings"]],
    "parts of nothing": lambda value: [one["parameters"].update(parts={"x": {}}) for one in value["settings"]],
    "an unknown refiner": lambda value: [of["parameters"]["retriever"].update(kind="x") for of in value["settings"]],
    "a config of nothing": lambda value: value.update(config={}),
    "a huge count": lambda value: [one["counts"].update(chunks=10**400) for one in value["settings"]],
    "a huge grade": lambda value: value["queries"][0]["relevant_docs"][0].update(relevance=10**30),
    "a huge span": lambda value: value["queries"][0]["relevant_docs"][0].update(spans=[{"start": 0, "end": 10**30}]),
    "no queries": lambda value: value.update(queries=[]),
    "a metric of no name": lambda value: value.update(primary_metric="nonsense"),
}


@pytest.mark.parametrize(
    "command", [*COMMANDS, "show foreign --costs", "compare foreign --queries", "compare foreign --json"]
)
@pytest.mark.parametrize("change", CHANGES)
def test_values_no_report_has_end_in_no_crash(report: Path, change: str, command: str, capsys: Capture) -> None:
    edit(report, CHANGES[change])
    done = ragtrial(capsys, *command.split())
    assert done.code in (0, 2), done.err
    assert "in a way it should not" not in done.err


def test_a_report_that_is_larger_than_any_is_not_read(tmp_path: Path) -> None:
    """The file has no blocks on the disk: to read it would take all memory."""
    with (tmp_path / "report.json").open("wb") as file:
        file.truncate(LARGEST_REPORT + 1)
    with pytest.raises(ReportError, match=r"report\.json: has 8,589,934,593 bytes; a report has at most "):
        load_report(tmp_path)
