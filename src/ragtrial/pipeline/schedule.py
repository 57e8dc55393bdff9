"""Stages side by side: those that need nothing of each other are made at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.config.settings import Setting
from ragtrial.pipeline.demands import demand_of_parts, own_demand, search_for
from ragtrial.pipeline.plan import Plan
from ragtrial.pipeline.searching import Demand
from ragtrial.records import Question

_NOBODY: Mapping[Setting, Setting] = MappingProxyType({})


@dataclass(frozen=True)
class Task:
    """A stage to be made when those that it ``needs`` are there.

    ``settings`` are those that cannot be without it, each with the one of its tree whose stage it is.
    """

    name: str
    needs: frozenset[str]
    run: Callable[[], object]
    settings: Mapping[Setting, Setting] = field(default_factory=lambda: _NOBODY)


def tasks_of(plan: Plan, settings: Sequence[Setting], questions: Sequence[Question]) -> list[Task]:
    """The stages up to the rankings of ``settings``, each once, those that are needed before those that need them.

    What is embedded by one embedder is embedded one after another: texts that two chunkings share are then found in
    the cache. Rankings of a refiner's parts that are asked in other words are made with the refiner's own.
    """
    tasks: dict[str, Task] = {}
    last_of: dict[str, str] = {}
    needed: dict[str, dict[Setting, Setting]] = {}
    for setting in settings:
        for whose, task in _tasks(plan, setting, questions, own_demand(setting), last_of, tasks):
            tasks.setdefault(task.name, task)
            needed.setdefault(task.name, {}).setdefault(setting, whose)
    return [replace(task, settings=needed[name]) for name, task in tasks.items()]


def make_side_by_side(
    tasks: Sequence[Task], workers: int, failed: Callable[[Task, Exception], None] = lambda _task, _error: None
) -> None:
    """Run ``tasks``, at most ``workers`` at a time.

    What fails is told to ``failed`` at once, and left, with all that needs it: whoever wants its result makes it again,
    and is told why that fails. What ``failed`` raises ends the work: no other task is begun.
    """
    done: set[str] = set()
    left, at_work = list(tasks), dict[Future[object], Task]()
    executor = ThreadPoolExecutor(workers, "ragtrial")
    try:
        while left or at_work:
            for task in [task for task in left if task.needs <= done][: workers - len(at_work)]:
                left.remove(task)
                at_work[executor.submit(task.run)] = task
            if not at_work:
                break  # all that is left needs something that failed
            for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                task, error = at_work.pop(future), future.exception()
                if error is None:
                    done.add(task.name)
                elif isinstance(error, Exception) and not isinstance(error, MemoryError):
                    failed(task, error)
    finally:
        executor.shutdown(wait=False, cancel_futures=True)


def _tasks(
    plan: Plan,
    setting: Setting,
    questions: Sequence[Question],
    demand: Demand,
    last_of: dict[str, str],
    known: Mapping[str, Task],
) -> Iterator[tuple[Setting, Task]]:
    """The tasks of ``setting`` and its parts, each with whose it is.

    ``last_of`` has the last task that embeds with each embedder.
    """
    ground = plan.ground
    needs = set()
    for part in setting.parts:
        if setting.wordings(questions) == list(questions):
            of_part = demand_of_parts(setting)
            yield from _tasks(plan, part, questions, of_part, last_of, known)
            needs.add(_ranking(part, of_part))
    if "chunker" in setting.retriever.reached_by:
        chunks = Task(
            _key("chunks", setting, "chunker", "context", "embedder"), _nothing(), lambda: ground.chunks(setting)
        )
        yield setting, chunks
        needs.add(chunks.name)
    if setting.has_index:
        embedder = _key("embedder", setting, "embedder")
        name = _key("embeddings", setting, "chunker", "context", "embedder")
        if name in known:
            yield setting, known[name]
        else:
            after = {last_of[embedder]} - {name} if embedder in last_of else set()
            last_of[embedder] = name
            embeddings = frozenset(needs | after)
            yield setting, Task(name, embeddings, lambda: ground.embeddings(setting, ground.chunks(setting)))
        index = _named("index", setting.index_key)
        yield setting, Task(index, frozenset({name}), lambda: ground.index(setting, ground.chunks(setting)))
        needs.add(index)
    ranking = _ranking(setting, demand)
    yield setting, Task(ranking, frozenset(needs), lambda: plan.ranked(setting, questions, demand))


def _ranking(setting: Setting, demand: Demand) -> str:
    return _named("ranking", "{} {}".format(*search_for(setting, demand)))


def _nothing() -> frozenset[str]:
    return frozenset()


def _named(kind: str, key: str) -> str:
    return f"{kind} {key}"


def _key(kind: str, setting: Setting, *names: str) -> str:
    options: list[Any] = [getattr(setting, name).model_dump(mode="json") for name in names]
    return _named(kind, fingerprint(options))
