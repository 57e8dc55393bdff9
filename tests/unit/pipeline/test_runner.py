"""Stages side by side: in the order of their needs, never more at once than wanted, whatever fails."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import Experiment, write_experiment
from ragtrial.cache.workspace import Workspace
from ragtrial.pipeline.corpus import Graph
from ragtrial.pipeline.run import Run
from ragtrial.pipeline.stage import Runner, Stage, all_needs

WORKERS = 3


class Work(Stage[int]):
    """A stage that keeps nothing, and does something when it is loaded."""

    kind = "work"
    is_kept = False

    def __init__(self, number: int, needs: Sequence[Stage[int]], do: Callable[[int], None]) -> None:
        self.number, self.needs, self.title = number, needs, f"work {number}"
        self._do = do

    def inputs(self) -> dict[str, int]:
        return {"number": self.number}

    def load(self, folder: Path, *_: int) -> int:
        self._do(self.number)
        return self.number


@dataclass
class Watched:
    """Stages that note what begins and ends, in order; those that ``fail`` raise."""

    needs: list[set[int]]
    failing: set[int]
    events: list[tuple[str, int]] = field(default_factory=list)
    most: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _at_work: int = 0

    def stages(self) -> list[Stage[int]]:
        def work(number: int) -> None:
            with self._lock:
                self.events.append(("begin", number))
                self._at_work += 1
                self.most = max(self.most, self._at_work)
            with self._lock:
                self.events.append(("end", number))
                self._at_work -= 1
            if number in self.failing:
                raise ConnectionError(str(number))

        made: list[Stage[int]] = []
        for number, needs in enumerate(self.needs):
            made.append(Work(number, [made[need] for need in sorted(needs)], work))
        return made

    def possible(self) -> set[int]:
        """What can be run: all whose needs can be, and do not fail."""
        found: set[int] = set()
        for number, needs in enumerate(self.needs):
            if all(need in found and need not in self.failing for need in needs):
                found.add(number)
        return found


@st.composite
def graphs(draw: st.DrawFn) -> Watched:
    """Up to twelve tasks, each in need of some before it, some of which fail."""
    count = draw(st.integers(0, 12))
    needs = [draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set() for number in range(count)]
    return Watched(needs, draw(st.sets(st.integers(0, max(0, count - 1)), max_size=3)))


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    return Runner(Workspace(tmp_path_factory.mktemp("workspace")))


@given(watched=graphs(), workers=st.integers(1, 4))
def test_all_that_can_be_run_is_run_once_after_its_needs_and_never_too_many_at_once(
    runner: Runner, watched: Watched, workers: int
) -> None:
    runner.run_side_by_side(watched.stages(), workers)
    begun = [number for what, number in watched.events if what == "begin"]
    assert Counter(begun) == Counter(watched.possible())
    for number in begun:
        before = watched.events[: watched.events.index(("begin", number))]
        assert all(("end", need) in before for need in watched.needs[number])
    assert watched.most <= workers


def test_stages_that_need_nothing_of_each_other_are_at_work_at_once(runner: Runner) -> None:
    """Each waits until all are there; were they run one by one, the first would wait in vain."""
    together = threading.Barrier(WORKERS, timeout=20)
    met: list[int] = []

    def meet(number: int) -> None:
        together.wait()
        met.append(number)

    runner.run_side_by_side([Work(number, [], meet) for number in range(WORKERS)], WORKERS)
    assert sorted(met) == list(range(WORKERS))


SWEPT = {
    "dense": {"kind": "dense", "top_k": 3},
    "words": {"kind": "bm25", "top_k": 3, "score": False},
    "hybrid": {"kind": "fusion", "inputs": ["dense", "words"], "top_k": 3},
    "whole": {"kind": "parent", "inputs": "dense", "top_k": 2},
    "asked": {"kind": "expand", "inputs": "dense", "templates": ["About {query}"], "top_k": 3},
}


@pytest.fixture
def swept(tmp_path: Path) -> Experiment:
    return write_experiment(
        tmp_path, retrievers=SWEPT, sweep={"matrix": {"chunker.size": [40, 60, 90]}}, store={"kind": "exact"}
    )


def run_of(experiment: Experiment) -> Run:
    return Run.prepare(experiment.config())


def stages_of(graph: Graph) -> list[Stage[Any]]:
    """The stages up to the rankings of all settings, each once, behind what they need."""
    ends = [graph.run_of(setting).ranking for setting in graph.settings]
    return list(dict.fromkeys(stage for end in ends for stage in all_needs(end)))


def hits_of(run: Run) -> dict[str, list[list[int]]]:
    """The ranked documents of each question, by setting."""
    return {setting.name: run.results.ranked(setting).rankings.codes.tolist() for setting in run.settings}


def run_side_by_side(run: Run) -> None:
    run.corpus.runner.run_side_by_side(stages_of(run.graph), WORKERS)


def test_equal_stages_of_settings_are_one_stage_behind_all_that_it_needs(swept: Experiment) -> None:
    stages = stages_of(run_of(swept).graph)
    assert len({stage.definition_fingerprint for stage in stages}) == len(stages)
    for position, stage in enumerate(stages):
        assert set(stage.needs) <= set(stages[:position])
    kinds = Counter(stage.kind for stage in stages)
    # Of each size: rankings of dense, words, hybrid, whole and asked, and those of the wordings that asked asks dense.
    assert kinds == {
        "documents": 1, "chunks": 3, "surroundings": 3, "lengths": 3, "embeddings": 3, "indexes": 3, "rankings": 18,
    }  # fmt: skip


@pytest.mark.slow
def test_side_by_side_each_text_is_embedded_once_and_all_is_there_for_the_run(swept: Experiment) -> None:
    run = run_of(swept)
    run_side_by_side(run)
    embedded = Counter(swept.embedded())
    assert set(embedded.values()) == {1}
    rankings = {one for one in swept.stages() if one[0] == "rankings"}
    assert len([run.results.ranked(setting) for setting in run.settings]) == 12
    assert Counter(swept.embedded()) == embedded
    asked = 3  # the other wordings, asked of the part of each `asked`
    assert {one for one in swept.stages() if one[0] == "rankings"} == rankings
    assert len(rankings) == 15 + asked


@pytest.mark.slow
def test_side_by_side_finds_what_one_after_another_finds(swept: Experiment, tmp_path: Path) -> None:
    alone = hits_of(run_of(swept))
    other = write_experiment(tmp_path / "other", retrievers=SWEPT, sweep={"matrix": {"chunker.size": [40, 60, 90]}})
    run = run_of(other)
    run_side_by_side(run)
    assert hits_of(run) == alone
