"""A stage of the pipeline: its inputs, how it is built, kept, read and estimated; and the runner of all stages."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakValueDictionary

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import DAMAGE, Workspace
from ragtrial.dataset.library import Library
from ragtrial.errors import without_frames, without_secrets
from ragtrial.options import VARIABLE, Options
from ragtrial.pipeline.resources import Resources

T = TypeVar("T")

_UNKNOWN = object()

Inputs = Mapping[str, Any]
"""JSON values by name: an option by its dotted name in the config, a content by a phrase, with its hash."""


class NotBuiltError(Exception):
    """The key of a stage depends on a build of ``stage``, which does not exist yet."""

    def __init__(self, stage: Stage[Any]) -> None:
        super().__init__(stage.kind)
        self.stage = stage


@dataclass(frozen=True)
class Amount:
    """The amount of work of a stage: ``count`` of a ``unit``, and how many are to do; an estimate if not countable yet.

    ``seconds`` is about how long that takes at the rates of this machine; None if no rate was measured. ``cost`` is
    about the price that endpoints charge; None if no price is known.
    """

    count: int
    unit: str
    to_do: int
    is_estimate: bool = False
    seconds: float | None = None
    cost: float | None = None


@dataclass(frozen=True)
class PlannedStage:
    """A stage as a dry run shows it, once for all ``settings`` that need it.

    ``why`` is the reason why it is to do, empty if it is cached. ``missing`` are the stages that a run would build for
    it, by folder of the workspace and name; None for a name that depends on a stage to do.
    """

    kind: str
    what: str
    settings: tuple[str, ...]
    why: str
    amount: Amount
    missing: tuple[tuple[str, str | None], ...] = ()

    @property
    def is_cached(self) -> bool:
        return not self.missing


@dataclass(eq=False)
class Stage(ABC, Generic[T]):
    """One step of the pipeline; ``T`` is the type of its artefact. Equal stages are built once.

    ``needs`` are the stages that it is built from; ``reads`` are the needs whose artefacts ``load`` takes, too.
    """

    kind: ClassVar[str]
    """Its folder in the cache."""

    shown_as: ClassVar[str] = ""
    """Its name in a dry run; empty for a stage that is a detail of others."""

    is_large: ClassVar[bool] = False
    """True if its artefact is released as soon as it is not in use."""

    is_searched: ClassVar[bool] = False
    """True if only searches read its large files."""

    is_counted: ClassVar[bool] = True
    """False for a measurement of hits, which is no step towards rankings: a run does not count it among its stages."""

    resources: Resources

    title: str = field(init=False, default="")
    """Its description for locks, warnings and the list of the cache."""

    label: str = field(init=False, default="")
    """A few words that distinguish it from others of its kind in a dry run."""

    needs: Sequence[Stage[Any]] = field(init=False, default=())
    reads: Sequence[Stage[Any]] = field(init=False, default=())

    is_kept: bool = field(init=False, default=True)
    """True if its artefact is kept: a stage that takes moments is loaded from its needs."""

    # --- identity

    @abstractmethod
    def inputs(self) -> Inputs:
        """The inputs that change the artefact, apart from its needs. Hashed for the key, named in a dry run."""

    def unhashed_inputs(self) -> Inputs:
        """Inputs shown in a dry run but not hashed, such as a model's name (its files are hashed instead)."""
        return {}

    @cached_property
    def _input_fingerprint(self) -> str:
        return fingerprint([self.kind, dict(self.inputs())])

    @cached_property
    def build_free_fingerprint(self) -> str:
        """Equal for equal stages, independent of the builds of an index."""
        return fingerprint([self._input_fingerprint, *(need.build_free_fingerprint for need in self.needs)])

    def key(self) -> str:
        """Its name in the cache. Raises NotBuiltError if that depends on an index that is not built."""
        return _key(self._input_fingerprint, *(need.key_for_dependents() for need in self.needs))

    def key_for_dependents(self) -> str:
        """The part of this stage that dependent stages include in their keys. Raises NotBuiltError."""
        return self.key()

    def shown_inputs(self) -> Inputs:
        """All inputs, also of its needs, without secrets."""
        inputs = dict[str, Any]()
        for stage in all_needs(self):
            inputs |= {**stage.unhashed_inputs(), **stage.inputs()}
        shown: dict[str, Any] = json.loads(VARIABLE.sub("***", without_secrets(json.dumps(inputs, ensure_ascii=False))))
        return shown

    # --- building and reading

    def kept_key(self, workspace: Workspace) -> str | None:
        """The name of a finished stage that serves; None if there is none. Raises NotBuiltError."""
        key = self.key()
        return key if workspace.has(self.kind, key) else None

    @contextmanager
    def held_for_build(self, runner: Runner) -> Iterator[Sequence[Any]]:
        """Hold resources for the build, such as open indexes; ``build`` gets them before the artefacts.

        Entered before locking, so a waiting process cannot deadlock the builder.
        """
        yield ()

    def build(self, folder: Path, *artefacts: Any) -> T | None:
        """Fill ``folder``; never called for a stage that is not kept.

        May return the artefact, which then is not loaded from ``folder``.
        """

    @abstractmethod
    def load(self, folder: Path, *artefacts: Any) -> T:
        """The artefact that ``build`` has put into ``folder``; ``artefacts`` are the artefacts of ``reads``."""

    def is_incomplete(self, artefact: T) -> bool:
        """True if something failed that a later run may succeed at."""
        return False

    def error_context(self, need: Stage[Any]) -> AbstractContextManager[None]:
        """A context manager around building ``need``; it may add the part's name to errors."""
        return nullcontext()

    # --- estimates

    def amount(self, kept: KeptArtefacts) -> Amount:
        """The amount of work if it has to be built."""
        raise TypeError(f"{self.kind} is not shown by itself")


@lru_cache(maxsize=1000)
def _key(inputs: str, *identities: str) -> str:
    return fingerprint([inputs, *identities])


def all_needs(stage: Stage[Any]) -> list[Stage[Any]]:
    """``stage`` and all its needs, direct and indirect, each once and after its own needs."""
    return list(dict.fromkeys([*(below for need in stage.needs for below in all_needs(need)), stage]))


def dotted_options(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` by their dotted names, also options within options."""
    dotted: dict[str, Any] = {}
    for name, value in options.items():
        path = f"{prefix}.{name}"
        dotted |= dotted_options(path, value) if isinstance(value, Mapping) else {path: value}
    return dotted


def component_inputs(section: str, component: Options, parts: Mapping[str, Any], rest: str) -> dict[str, Any]:
    """The inputs of a component in a ``section`` of the config, from its hashed ``parts``.

    They are its options by dotted names, one hash of the other parts under the name ``rest``, and versions.
    """
    options = type(component).model_fields
    inputs = dotted_options(section, {name: part for name, part in parts.items() if name in options})
    inputs[rest] = fingerprint({name: part for name, part in parts.items() if name not in options})
    return inputs | versions_of(component)


def versions_of(options: Options) -> dict[str, Any]:
    """The versions of packages that are part of a key; see ``Options.hashed_packages``."""
    return {f"version of {name}": version for name, version in options.versions().items()}


class KeptArtefacts:
    """Reads the artefacts of finished stages; builds nothing but ``library``, the documents."""

    def __init__(self, workspace: Workspace, library: Library) -> None:
        self._workspace = workspace
        self.library = library
        self._artefacts: dict[Stage[Any], Any] = {}

    def get(self, stage: Stage[T]) -> T | None:
        """The artefact of ``stage``; None if it is not kept."""
        if stage not in self._artefacts:
            self._artefacts[stage] = None
            reads = [self.get(need) for need in stage.reads]
            with suppress(NotBuiltError, *DAMAGE):
                name = stage.kept_key(self._workspace) if stage.is_kept else ""
                if name is not None and all(artefact is not None for artefact in reads):
                    self._artefacts[stage] = stage.load(self._workspace.path(stage.kind, name), *reads)
        artefact: T | None = self._artefacts[stage]
        return artefact


class Runner:
    """Gives the artefacts of stages: each is built once, here or in an earlier run, and loaded once in a run.

    It repairs damaged stages. Large artefacts, such as rankings, are released after use. A failed stage fails again
    without a new attempt.
    """

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self._artefacts: dict[Stage[Any], Any] = {}
        self._large: WeakValueDictionary[Stage[Any], Any] = WeakValueDictionary()
        self.failures: dict[Stage[Any], Exception] = {}
        """The error of each failed stage; once cleared, all may be tried again."""
        self._built: dict[Stage[Any], Any] = {}
        """The stages built here; with the artefact, if building gave it, until it is handed on."""

        self.kept: set[Stage[Any]] = set()
        """The counted stages that were read here, built here or earlier."""

    @property
    def built(self) -> int:
        """The number of stages that were built here, rather than found finished."""
        return len(self._built)

    def artefact(self, stage: Stage[T], *, every_byte: bool = False) -> T:
        """The artefact of ``stage``, whose files are compared with their hashes, once in a run.

        Large index files are verified only if ``every_byte`` is set, as it is before a search. Raises the errors of
        building the stage or its needs; finished stages are kept.
        """
        known = self._large if stage.is_large else self._artefacts
        artefact: Any = known.get(stage, _UNKNOWN)
        if artefact is not _UNKNOWN and not every_byte:
            return artefact  # type: ignore[no-any-return]  # the known value of a stage is its artefact
        if stage in self.failures:
            raise without_frames(self.failures[stage])
        try:
            artefact = self._loaded(stage, every_byte=every_byte)
            while stage.is_incomplete(artefact) and stage not in self._built:  # another run left it so: try again
                if (name := self._name(stage)) is not None:
                    self.workspace.drop(stage.kind, name)
                artefact = self._loaded(stage, every_byte=True)
        except MemoryError:
            raise
        except Exception as error:
            self.failures[stage] = without_frames(error)
            raise
        known[stage] = artefact
        return artefact  # type: ignore[no-any-return]

    def _loaded(self, stage: Stage[T], *, every_byte: bool) -> T:
        if not stage.is_kept:
            return stage.load(Path(), *(self.artefact(need) for need in stage.reads))

        def read(folder: Path) -> T:
            if (built := self._built.get(stage)) is not None:
                self._built[stage] = None
                return built  # type: ignore[no-any-return]  # a build returns the artefact of its stage
            self.workspace.check(stage.kind, folder.name, small_only=stage.is_searched and not every_byte)
            return stage.load(folder, *(self.artefact(need) for need in stage.reads))

        return self.workspace.read(stage.kind, lambda: self._built_name(stage), read)

    def _built_name(self, stage: Stage[Any]) -> str:
        """The name of the stage, which is built first if it is not finished."""
        name = self._name(stage)
        if name is None:
            artefacts = []
            for need in stage.needs:
                with stage.error_context(need):
                    artefacts.append(self.artefact(need))
            with stage.held_for_build(self) as held:
                # Opening may have rebuilt a damaged index, and another run may have built this stage meanwhile.
                name = self._name(stage)
                if name is None:
                    name = stage.key()
                    self._built[stage] = None

                    def build(folder: Path) -> None:
                        self._built[stage] = stage.build(folder, *held, *artefacts)

                    self.workspace.stage(stage.kind, name, stage.title, build, stage.shown_inputs)
        self.workspace.mark(stage.kind, name)
        if stage.is_counted:
            self.kept.add(stage)
        return name

    def _name(self, stage: Stage[Any]) -> str | None:
        """The name of the finished stage, if there is one; indexes that the name depends on are built for that."""
        while True:
            try:
                return stage.kept_key(self.workspace)
            except NotBuiltError as missing:
                self.artefact(missing.stage, every_byte=True)
