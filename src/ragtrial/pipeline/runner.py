"""Runs the graph: builds what is not kept, hands artefacts forward, and repairs what turns out to be damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ragtrial.cache.workspace import Workspace
from ragtrial.errors import without_frames
from ragtrial.pipeline.ranking_stage import RankingStage
from ragtrial.pipeline.stage import NotBuiltError, Stage

T = TypeVar("T")

_UNKNOWN = object()


class Runner:
    """Gives the artefacts of stages; each is built once, here or in an earlier run, and loaded once in a run.

    Rankings are large and are held only as long as somebody uses them. What failed fails again, without being tried.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._artefacts: dict[Stage[Any], Any] = {}
        self._rankings: WeakValueDictionary[Stage[Any], Any] = WeakValueDictionary()
        self._failures: dict[Stage[Any], Exception] = {}
        self._built: set[Stage[Any]] = set()

    def artefact(self, stage: Stage[T], *, every_byte: bool = False) -> T:
        """The artefact of ``stage``; with ``every_byte`` its files are checked to be what was written.

        Raises what building it raises, or a stage that it needs; what was finished before is kept.
        """
        known = self._rankings if isinstance(stage, RankingStage) else self._artefacts
        found: Any = known.get(stage, _UNKNOWN)  # looked up once: another thread may let go of rankings
        if found is not _UNKNOWN and not every_byte:
            return found  # type: ignore[no-any-return]  # what is known of a stage is its artefact
        if stage in self._failures:
            raise without_frames(self._failures[stage])
        try:
            made = self._loaded(stage, every_byte=every_byte or stage.is_read_whole)
            while stage.is_incomplete(made) and stage not in self._built:  # another run left it so: try again
                self._drop(stage)
                made = self._loaded(stage, every_byte=every_byte or stage.is_read_whole)
        except MemoryError:
            raise
        except Exception as error:
            self._failures[stage] = without_frames(error)
            raise
        known[stage] = made
        return made

    def forget_failures(self) -> None:
        """Let what failed be tried again."""
        self._failures.clear()

    def run_side_by_side(
        self,
        stages: Iterable[Stage[Any]],
        workers: int,
        failed: Callable[[Stage[Any], Exception], None] = lambda _stage, _error: None,
    ) -> None:
        """Make ``stages``, which come after what they need, at most ``workers`` at a time.

        ``failed`` is told at once of what fails; all that needs it is left. What ``failed`` raises ends the work: no
        other stage is begun.
        """
        done, left, at_work = set[Stage[Any]](), list(stages), dict[Future[object], Stage[Any]]()
        executor = ThreadPoolExecutor(workers, "ragtrial")
        try:
            while left or at_work:
                for stage in [one for one in left if done.issuperset(one.needs)][: workers - len(at_work)]:
                    left.remove(stage)
                    at_work[executor.submit(self.artefact, stage)] = stage
                if not at_work:
                    break  # all that is left needs something that failed
                for future in wait(at_work, return_when=FIRST_COMPLETED).done:
                    stage, error = at_work.pop(future), future.exception()
                    if error is None:
                        done.add(stage)
                    elif isinstance(error, Exception) and not isinstance(error, MemoryError):
                        failed(stage, error)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            # Searches cost most, and others' services: they are not tried again. All else may do better alone.
            self._failures = {one: error for one, error in self._failures.items() if isinstance(one, RankingStage)}

    def _loaded(self, stage: Stage[T], *, every_byte: bool) -> T:
        if not stage.is_kept:
            return stage.load(Path(), *(self.artefact(one) for one in stage.reads))
        made: list[T] = []

        def build() -> str:
            made.clear()
            key, artefact = self._build(stage)
            made.extend(artefact)
            return key

        def read(folder: Path) -> T:
            if made:
                return made.pop()
            if every_byte:
                self.workspace.check(stage.kind, folder.name)
            return stage.load(folder, *(self.artefact(one) for one in stage.reads))

        return self.workspace.read(stage.kind, build, read)

    def _build(self, stage: Stage[T]) -> tuple[str, list[T]]:
        """The name of the finished stage, and its artefact if it was made just now and is at hand."""
        key, made = self._kept_key(stage), list[T]()
        if key is None:
            artefacts = [self._need(stage, need) for need in stage.needs]
            with stage.opened(self) as held:
                # Opening may have built a damaged index again, and another run may have made this stage meanwhile.
                key = self._kept_key(stage)
                if key is None:
                    key = stage.key()
                    self._built.add(stage)

                    def build(folder: Path) -> None:
                        artefact = stage.build(folder, *held, *artefacts)
                        if artefact is not None:
                            made.append(artefact)

                    self.workspace.stage(stage.kind, key, stage.title, build, stage.described)
        self.workspace.mark(stage.kind, key)
        return key, made

    def _kept_key(self, stage: Stage[Any]) -> str | None:
        """The name of the finished stage, if there is one; the indexes that the name depends on are built for that."""
        while True:
            try:
                return stage.kept_key(self.workspace)
            except NotBuiltError as missing:
                self.artefact(missing.stage, every_byte=True)

    def _need(self, stage: Stage[Any], need: Stage[Any]) -> Any:
        try:
            return self.artefact(need)
        except Exception as error:
            said = stage.failure(need, error)
            if said is error:
                raise
            raise said from error

    def _drop(self, stage: Stage[Any]) -> None:
        key = self._kept_key(stage)
        if key is not None:
            self.workspace.drop(stage.kind, key)


def failures_seen(end: Stage[Any], failed: Stage[Any], error: Exception) -> Exception | None:
    """What ``end`` says of ``error`` in ``failed``, which it needs, directly or not; None if it does not need it."""
    if end is failed:
        return error
    for need in end.needs:
        said = failures_seen(need, failed, error)
        if said is not None:
            return end.failure(need, said)
    return None
