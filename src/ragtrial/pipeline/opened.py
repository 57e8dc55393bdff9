"""Settings at work: their indexes open, each once, whatever searches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial

from ragtrial.components.refiners import Refiner
from ragtrial.components.retrievers import Candidates, Retriever
from ragtrial.components.stores import Index
from ragtrial.config.settings import Setting
from ragtrial.errors import StoreError
from ragtrial.pipeline.ground import Ground
from ragtrial.pipeline.materials import SettingMaterials
from ragtrial.pipeline.searching import Demand, Ranked, ranked_from, retrieve
from ragtrial.progress import Progress
from ragtrial.records import Question, Unit

Indexes = Mapping[str, Index]
"""Open indexes by the ``index_key`` of the settings that search them."""


class Opened:
    """A setting at work; its parts are put to work when it is asked without their rankings.

    With ``is_fresh`` nothing that depends on a question is read from the disk.
    """

    def __init__(
        self, ground: Ground, setting: Setting, unit: Unit, progress: Progress, indexes: Indexes, *, is_fresh: bool
    ) -> None:
        self._setting = setting
        self._unit = unit
        # Bound to the indexes, not to this: a ring of references would keep the workspace in use when all is done.
        self.index = partial(indexes.__getitem__, setting.index_key)
        """The setting's own index."""
        materials = SettingMaterials(ground, setting, progress, self.index, is_fresh=is_fresh)
        self.kept: Mapping[tuple[str, str], None] = materials.kept
        """Kind and name of the stages that it keeps, those that it has asked for so far."""
        self._at_work = setting.retriever.open(materials) if isinstance(setting.retriever, Retriever) else None
        self._refining = setting.retriever.open(materials) if isinstance(setting.retriever, Refiner) else None
        self._open_part = partial(Opened, ground, unit=unit, progress=progress, indexes=indexes, is_fresh=is_fresh)

    @cached_property
    def _parts(self) -> list[Opened]:
        return [self._open_part(part) for part in self._setting.parts]

    def ranked(self, questions: Sequence[Question], demand: Demand) -> Ranked:
        """The rankings of ``questions``, those of the parts found on the way."""
        if self._at_work is not None:
            return self.retrieved(questions, demand)
        wordings, depth = self._setting.wordings(questions), Demand(candidates=self._setting.depth_of_parts)
        return self.refined(questions, [part.ranked(wordings, depth).candidates for part in self._parts], demand)

    def retrieved(
        self, questions: Sequence[Question], demand: Demand, advance: Callable[[int], None] = lambda _: None
    ) -> Ranked:
        """The rankings of a retriever; ``advance`` is told of every question that is done."""
        if self._at_work is None:
            raise TypeError(f"{self._setting.name} refines the rankings of others")
        return retrieve(self._at_work, questions, demand, self._unit, advance, self._setting.width)

    def refined(self, questions: Sequence[Question], parts: Sequence[Candidates], demand: Demand) -> Ranked:
        """The rankings of a refiner, from those of its parts."""
        if self._refining is None:
            raise TypeError(f"{self._setting.name} refines nothing")
        return ranked_from(self._refining.refine(questions, parts), demand, self._unit)


@contextmanager
def opened_indexes(ground: Ground, settings: Sequence[Setting]) -> Iterator[Indexes]:
    """The indexes of ``settings``, open; no other process has those open meanwhile that do not bear it.

    Settings whose vectors are the same have one, though their ``index_key`` differs: how queries are embedded is no
    part of an index.
    """
    sharing: dict[str, list[Setting]] = {}
    for setting in settings:
        if setting.has_index:
            sharing.setdefault(ground.index(setting, ground.chunks(setting)).folder.name, []).append(setting)
    with ExitStack() as held:
        # In one order for all processes: none waits for another that waits for it.
        for name, (setting, *_) in sorted(sharing.items(), key=lambda one: one[0]):
            if not setting.store.is_exact:
                what = f"the {setting.store.kind} index of {setting.name}"
                held.enter_context(ground.workspace.lock(f"open-{name}", what))
        indexes = {}
        for one_index in sharing.values():
            index = _open(ground, one_index[0])
            held.callback(index.close)
            indexes.update({setting.index_key: index for setting in one_index})
        yield indexes


def _open(ground: Ground, setting: Setting) -> Index:
    chunks = ground.chunks(setting)
    vectors = ground.vectors(setting, chunks)
    # Chroma finds nothing in a graph with other bytes, or ends the process.
    folder = ground.index(setting, chunks, every_byte=True).folder
    try:
        return setting.store.open(vectors, folder)
    except StoreError as error:
        workspace = ground.workspace
        workspace.drop_damaged("indexes", folder.name, workspace.build_id("indexes", folder.name), error)
        return setting.store.open(vectors, ground.index(setting, chunks, every_byte=True).folder)
