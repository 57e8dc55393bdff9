"""Runs the graph: builds what is not kept, hands artefacts forward, and repairs what turns out to be damaged."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from ragtrial.cache.workspace import Workspace
from ragtrial.errors import without_frames
from ragtrial.pipeline.stage import NotBuiltError, Stage

T = TypeVar("T")

_UNKNOWN = object()


class Runner:
    """Gives the artefacts of stages; each is built once, here or in an earlier run, and loaded once in a run.

    Large ones, such as rankings, are held only as long as somebody uses them. What failed fails again, without being
    tried.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._artefacts: dict[Stage[Any], Any] = {}
        self._large: WeakValueDictionary[Stage[Any], Any] = WeakValueDictionary()
        self.failures: dict[Stage[Any], Exception] = {}
        """What failed; once it is cleared, all may be tried again."""
        self._built: dict[Stage[Any], Any] = {}
        """What was built here; the artefact only until it is handed on, and if building gave it."""

        self.kept: set[Stage[Any]] = set()
        """The kept stages that were read here, built here or earlier."""

    @property
    def built(self) -> int:
        """How many stages were built here, and not found finished."""
        return len(self._built)

    def artefact(self, stage: Stage[T], *, every_byte: bool = False) -> T:
        """The artefact of ``stage``, whose files are as they were written; see ``Artefacts.artefact``.

        Raises what building it raises, or a stage that it needs; what was finished before is kept.
        """
        known = self._large if stage.is_large else self._artefacts
        found: Any = known.get(stage, _UNKNOWN)  # looked up once: another thread may let go of rankings
        if found is not _UNKNOWN and not every_byte:
            return found  # type: ignore[no-any-return]  # what is known of a stage is its artefact
        if stage in self.failures:
            raise without_frames(self.failures[stage])
        try:
            made = self._made(stage, every_byte=every_byte)
            while stage.is_incomplete(made) and stage not in self._built:  # another run left it so: try again
                if (name := self._name(stage)) is not None:
                    self.workspace.drop(stage.kind, name)
                made = self._made(stage, every_byte=True)
        except MemoryError:
            raise
        except Exception as error:
            self.failures[stage] = without_frames(error)
            raise
        known[stage] = made
        return made

    def run_side_by_side(
        self,
        stages: Iterable[Stage[Any]],
        workers: int,
        failed: Callable[[Stage[Any], Exception], None] = lambda _stage, _error: None,
    ) -> None:
        """Make ``stages``, which come after what they need, at most ``workers`` at a time.

        ``failed`` is called at once with what fails, and all that needs it is left. What ``failed`` raises ends the
        work: no other stage is begun.
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

    def _made(self, stage: Stage[T], *, every_byte: bool) -> T:
        if not stage.is_kept:
            return stage.load(Path(), *(self.artefact(one) for one in stage.reads))

        def read(folder: Path) -> T:
            if (built := self._built.get(stage)) is not None:
                self._built[stage] = None
                return built  # type: ignore[no-any-return]  # what building a stage gives is its artefact
            self.workspace.check(stage.kind, folder.name, small_only=stage.is_searched and not every_byte)
            return stage.load(folder, *(self.artefact(one) for one in stage.reads))

        return self.workspace.read(stage.kind, lambda: self._built_name(stage), read)

    def _built_name(self, stage: Stage[Any]) -> str:
        """The name of the stage, which is built first if it is not finished."""
        name = self._name(stage)
        if name is None:
            artefacts = []
            for need in stage.needs:
                with stage.naming(need):
                    artefacts.append(self.artefact(need))
            with stage.opened(self) as held:
                # Opening may have built a damaged index again, and another run may have made this stage meanwhile.
                name = self._name(stage)
                if name is None:
                    name = stage.key()
                    self._built[stage] = None

                    def build(folder: Path) -> None:
                        self._built[stage] = stage.build(folder, *held, *artefacts)

                    self.workspace.stage(stage.kind, name, stage.title, build, stage.described)
        self.workspace.mark(stage.kind, name)
        self.kept.add(stage)
        return name

    def _name(self, stage: Stage[Any]) -> str | None:
        """The name of the finished stage, if there is one; the indexes that the name depends on are built for that."""
        while True:
            try:
                return stage.kept_key(self.workspace)
            except NotBuiltError as missing:
                self.artefact(missing.stage, every_byte=True)
