"""What every stage of the pipeline owes: what it is made from, how it is built, kept, read and estimated."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ragtrial.cache.fingerprints import fingerprint
from ragtrial.cache.workspace import Workspace
from ragtrial.dataset.library import Library
from ragtrial.errors import without_secrets
from ragtrial.options import VARIABLE, Options

T = TypeVar("T")

Inputs = Mapping[str, Any]
"""JSON values by what they are: options by their dotted name in the config, contents by words, with a hash."""


class NotBuiltError(Exception):
    """The key of a stage depends on a build of ``stage``, which does not exist yet."""

    def __init__(self, stage: Stage[Any]) -> None:
        super().__init__(stage.kind)
        self.stage = stage


@dataclass(frozen=True)
class Amount:
    """How many there are of a ``unit``, and how many of these are to do; estimated where they cannot be counted yet.

    ``seconds`` is about how long that takes at the rates measured on this machine; None if none was measured yet.
    ``cost`` is about what endpoints are paid for it; None where no price is known.
    """

    count: int
    unit: str
    to_do: int
    is_estimate: bool = False
    seconds: float | None = None
    cost: float | None = None


class Artefacts(Protocol):
    """Gives the artefact of any stage, building first what is not kept."""

    def artefact(self, stage: Stage[T], *, every_byte: bool = False) -> T:
        """The artefact of ``stage``, whose files are compared with their hashes, once in a run.

        The large files of what ``is_searched`` only with ``every_byte``: whoever opens it for a search asks for that.
        """
        ...


class Known(Protocol):
    """Gives the artefact of a stage that is kept, and None for any other; builds nothing but the ``library``."""

    library: Library

    def __call__(self, stage: Stage[T]) -> T | None: ...


class Stage(ABC, Generic[T]):
    """One step of the pipeline; ``T`` is what it makes, its artefact. Equal stages are made once.

    ``needs`` are the stages that it is built from, ``reads`` those of them whose artefacts ``load`` needs, too.
    """

    kind: ClassVar[str]
    """Its folder in the cache."""

    shown_as: ClassVar[str] = ""
    """What a dry run calls it; empty for a stage that is a detail of those that need it."""

    is_large: ClassVar[bool] = False
    """Whether its artefact is held only while somebody uses it."""

    is_searched: ClassVar[bool] = False
    """Whether its large files are only read by searches."""

    title: str
    """What it is, in words: for locks, warnings and the list of the cache."""

    label: str = ""
    """What tells it from others of its kind in a dry run, in a few words."""

    needs: Sequence[Stage[Any]] = ()
    reads: Sequence[Stage[Any]] = ()

    is_kept: bool = True
    """Whether there is anything to keep: a stage that takes moments is loaded from what it needs."""

    # --- what it is made from

    @abstractmethod
    def inputs(self) -> Inputs:
        """What changes the artefact, beside the stages that it needs. Hashed for the key, named in a dry run."""

    def names(self) -> Inputs:
        """What tells people why inputs differ and is not hashed: the name of a model, whose files are what counts."""
        return {}

    @cached_property
    def all_inputs(self) -> Inputs:
        """Its inputs, asked for once."""
        return self.inputs()

    @cached_property
    def own(self) -> str:
        """The fingerprint of its inputs."""
        return fingerprint([self.kind, dict(self.all_inputs)])

    @cached_property
    def spec(self) -> str:
        """Equal for equal stages, whichever builds of an index these are made from."""
        return fingerprint([self.own, *(need.spec for need in self.needs)])

    def key(self) -> str:
        """Its name in the cache. Raises NotBuiltError where that depends on an index that is not built."""
        return _key(self.own, *(need.identity() for need in self.needs))

    def identity(self) -> str:
        """What the keys of later stages have of this one. Raises NotBuiltError."""
        return self.key()

    def described(self) -> Inputs:
        """All inputs, of the stages that it needs, too, as they may be shown and kept: without secrets."""
        found = dict[str, Any]()
        for one in all_needs(self):
            found |= {**one.names(), **one.all_inputs}
        described: dict[str, Any] = json.loads(
            VARIABLE.sub("***", without_secrets(json.dumps(found, ensure_ascii=False)))
        )
        return described

    # --- how it is made and kept

    def kept_key(self, workspace: Workspace) -> str | None:
        """The name of a finished stage that serves; None if there is none. Raises NotBuiltError."""
        key = self.key()
        return key if workspace.has(self.kind, key) else None

    @contextmanager
    def opened(self, artefacts: Artefacts) -> Iterator[Sequence[Any]]:
        """Hold what building takes beside artefacts, such as open indexes; given to ``build`` before these.

        Entered before the stage is locked, so that whoever waits for it holds nothing that its builder needs.
        """
        yield ()

    def build(self, folder: Path, *artefacts: Any) -> T | None:
        """Fill ``folder``; never asked of a stage that is not kept.

        Gives the artefact where it is at hand, which then is not loaded from ``folder``.
        """

    @abstractmethod
    def load(self, folder: Path, *artefacts: Any) -> T:
        """The artefact that ``build`` has put into ``folder``; ``artefacts`` are those of ``reads``."""

    def is_incomplete(self, artefact: T) -> bool:
        """Whether a part could not be made that another run may make."""
        return False

    def naming(self, need: Stage[Any]) -> AbstractContextManager[None]:
        """Entered while ``need`` is made: an error may be said to be of a part."""
        return nullcontext()

    # --- what it takes

    def amount(self, known: Known) -> Amount:
        """How much there is to do if it has to be made."""
        raise TypeError(f"{self.kind} is not shown by itself")


@lru_cache(maxsize=1000)
def _key(own: str, *identities: str) -> str:
    return fingerprint([own, *identities])


def all_needs(stage: Stage[Any]) -> list[Stage[Any]]:
    """``stage`` and all that it needs, directly or not, each once and after what it needs itself."""
    return list(dict.fromkeys([*(one for need in stage.needs for one in all_needs(need)), stage]))


def dotted_options(prefix: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` by their dotted names, options within options, too."""
    found: dict[str, Any] = {}
    for name, value in options.items():
        dotted = f"{prefix}.{name}"
        found |= dotted_options(dotted, value) if isinstance(value, Mapping) else {dotted: value}
    return found


def options_and_code(prefix: str, options: Options, identity: Mapping[str, Any], code: str) -> dict[str, Any]:
    """``identity`` by dotted names as far as it is ``options``; the rest as one hash under ``code``; and versions."""
    fields = type(options).model_fields
    found = dotted_options(prefix, {name: value for name, value in identity.items() if name in fields})
    found[code] = fingerprint({name: value for name, value in identity.items() if name not in fields})
    return found | versions_of(options)


def versions_of(options: Options) -> dict[str, Any]:
    """The versions of packages that are part of a key; see ``Options.hashed_packages``."""
    return {f"version of {name}": version for name, version in options.versions().items()}
