"""Damage to a finished stage is seen, said, and made good: the same numbers as before, and a word in the report."""

import json
import logging
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from commands import LONGEST
from experiments import QUERIES, RUN, STAGES, Experiment, write_experiment
from forked import forked
from ragtrial.cache.seals import SEAL, check_bytes
from ragtrial.cache.workspace import Workspace
from ragtrial.config.settings import settings_of
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.corpus import Corpus, Graph
from ragtrial.pipeline.results import SettingResult
from ragtrial.pipeline.written_wordings import WrittenWordings
from ragtrial.progress import Silent
from ragtrial.records import Question
from ragtrial.report.model import Report
from report_hits import numbers_of

QUESTIONS = [query["text"] for query in QUERIES]


def run(experiment: Experiment) -> Report:
    return run_experiment(experiment.config())


def rankings(experiment: Experiment, queries: Sequence[str]) -> tuple[SettingResult, list[str]]:
    """What the first setting finds, and what had to be repaired."""
    config = experiment.config()
    corpus, settings = Corpus(config, Silent()), settings_of(config)[0]
    graph = Graph(corpus, settings, WrittenWordings(list(map(Question, queries))))
    result = graph.result(settings[0])
    return result, corpus.resources.workspace.repaired


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Experiment, Report]:
    """A finished experiment that has stages of every kind."""
    experiment = write_experiment(tmp_path_factory.mktemp("repair") / "first", store={"kind": "chroma"}, latency=True)
    report = run(experiment)
    assert {kind for kind, _ in experiment.stages()} == set(STAGES)
    assert not [warning for warning in report.warnings if warning.code == "repaired"]
    return experiment, report


@pytest.fixture
def experiment(finished: tuple[Experiment, Report], tmp_path: Path) -> Experiment:
    """A copy of it, to be damaged."""
    return Experiment(shutil.copytree(finished[0].folder, tmp_path / "copy"))


def files_of(experiment: Experiment, kind: str) -> Iterator[Path]:
    """The files of all stages of a kind: those that are sealed, and the seals."""
    for folder in sorted((experiment.workspace / kind).glob("[!.]*")):
        yield from (folder / name for name in (*json.loads((folder / SEAL).read_text())["files"], SEAL))


def lengthen(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0")


def overwrite(path: Path) -> None:
    path.write_bytes(b"\xff" * path.stat().st_size)


def number(path: Path) -> None:
    """Valid JSON, and not what it should be."""
    path.write_bytes(b"7" * path.stat().st_size)


NOT_READ = {"chroma.sqlite3", "length.bin", "link_lists.bin", "data_level0.bin", "header.bin", "index_metadata.pickle"}
"""What a run that is finished does not read: damage that keeps the size is found when it does, or on request."""


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize("damage", [Path.unlink, lengthen, overwrite, number])
def test_a_damaged_file_of_any_stage_is_made_again_and_that_is_said(
    finished: tuple[Experiment, Report],
    experiment: Experiment,
    kind: str,
    damage: Callable[[Path], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    for count in range(len(list(files_of(experiment, kind)))):
        path = list(files_of(experiment, kind))[count]  # the graph of a new index goes by another name
        if damage in (overwrite, number) and path.name in NOT_READ:
            continue
        if damage is number and path.suffix != ".json":
            continue
        if damage is lengthen and path.suffix == ".sqlite3":  # which may have grown
            continue
        folder = experiment.workspace / kind / path.relative_to(experiment.workspace / kind).parts[0]
        damage(path)
        caplog.clear()
        report = run(experiment)
        said = [warning.message for warning in report.warnings if warning.code == "repaired"]
        assert len(said) == 1, path
        assert said[0].startswith(f"{folder} is damaged (")
        assert said[0].endswith("); it is made again.")
        assert caplog.record_tuples == [("ragtrial.cache.seals", logging.WARNING, said[0])]
        assert numbers_of(report) == numbers_of(finished[1]), path
    again = run(experiment)
    assert not [warning for warning in again.warnings if warning.code == "repaired"]
    assert numbers_of(again) == numbers_of(finished[1])
    assert not list(experiment.workspace.rglob(".partial-*"))


def test_rankings_of_an_index_that_was_made_again_meanwhile_are_those_of_the_new_one(experiment: Experiment) -> None:
    for kind in ("rankings", "use", "latency", "shares"):
        shutil.rmtree(experiment.workspace / kind)
    overwrite(next(path for path in files_of(experiment, "indexes") if path.name == "data_level0.bin"))
    first = run(experiment)
    assert [warning.code for warning in first.warnings if warning.code == "repaired"] == ["repaired"]
    assert len(list((experiment.workspace / "rankings").glob("[!.]*"))) == 2  # its own, and those of exact search
    assert numbers_of(run(experiment)) == numbers_of(first)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Experiment:
    """A finished experiment whose graph is large enough to have been written to files."""
    words = ("rye", "soup", "oven", "leek", "stock", "onion", "crust", "flour", "basil", "yeast")
    documents = {
        f"{number:04}.txt": f"{words[number % 10]} {words[number // 10 % 10]} {words[number // 100 % 10]} {number}"
        for number in range(1_200)
    }
    queries = [{"id": "one", "text": "rye soup oven", "relevant_docs": [{"doc": "0000.txt"}]}]
    experiment = write_experiment(
        tmp_path_factory.mktemp("large") / "first", documents, queries, store={"kind": "chroma"}
    )
    run(experiment)
    return experiment


@pytest.mark.parametrize(
    "name", ["chroma.sqlite3", "data_level0.bin", "header.bin", "index_metadata.pickle", "length.bin", "link_lists.bin"]
)
def test_other_bytes_in_an_index_are_seen_before_it_is_opened(large: Experiment, tmp_path: Path, name: str) -> None:
    """Chroma itself would end the process, or find nothing without a word."""
    experiment = Experiment(shutil.copytree(large.folder, tmp_path / "copy"))
    first, _ = rankings(experiment, ["rye soup oven"])
    (path,) = experiment.workspace.glob(f"indexes/**/{name}")
    overwrite(path)
    experiment.write_queries([{"id": "two", "text": "leek stock", "relevant_docs": [{"doc": "0043.txt"}]}])
    done = forked(RUN, experiment.file)
    assert done.code == 0, done.err
    assert " is damaged (" in done.err
    assert name in done.err
    assert done.err.count("it is made again.") == 1
    again, repaired = rankings(experiment, ["rye soup oven"])
    assert repaired == []
    assert again.index["id"] != first.index["id"]
    np.testing.assert_array_equal(again.ranked.rankings.scores[0], first.ranked.rankings.scores[0])


def test_an_index_that_was_used_is_whole_to_the_byte(experiment: Experiment, large: Experiment) -> None:
    """Opening a Chroma index changes its database, and nothing else."""
    for used in (experiment, large):
        for number in range(3):
            rankings(used, [*QUESTIONS, f"and {number} more"])
            for folder in (used.workspace / "indexes").glob("[!.]*"):
                check_bytes(folder)


READ_AT_ONCE = """
import sys, time
from pathlib import Path
from ragtrial.cache.workspace import Workspace

def build(folder):
    (folder / "value").write_text("7")

def read(folder):
    time.sleep(0.05)  # as a large file takes
    return int((folder / "value").read_text())

workspace = Workspace(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
print(workspace.load("numbers", "0" * 32, "number", build, read), len(workspace.repaired))
"""


def test_runs_that_find_the_same_damage_mend_it_once_and_all_go_on(tmp_path: Path) -> None:
    def write_seven(folder: Path) -> None:
        (folder / "value").write_text("7")

    Workspace(tmp_path).stage("numbers", "0" * 32, "number", write_seven)
    (tmp_path / "numbers" / ("0" * 32) / "value").write_text("x")
    command = [sys.executable, "-c", READ_AT_ONCE, str(tmp_path)]
    pipe = subprocess.PIPE
    runs = [subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe, stderr=pipe) for _ in range(4)]
    for one in runs:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    for one in runs:
        assert one.stdin is not None
        one.stdin.write("\n")
        one.stdin.flush()
    ended = [one.communicate(timeout=LONGEST) for one in runs]
    assert [one.returncode for one in runs] == [0] * 4, ended
    assert {out.split()[0] for out, _ in ended} == {"7"}
    assert sum(int(out.split()[1]) for out, _ in ended) == 1
