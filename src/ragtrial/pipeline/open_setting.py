"""Settings at work: their indexes open, each once, whatever searches it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property, partial

from ragtrial.components.refiners import Refiner
from ragtrial.components.retrievers import Candidates, Retriever
from ragtrial.dataset.library import Library
from ragtrial.pipeline.index_stage import OpenIndexes, open_indexes
from ragtrial.pipeline.resources import Resources
from ragtrial.pipeline.retrieval import Depth, Ranked, ranked_from, retrieve
from ragtrial.pipeline.retriever_context import SettingContext
from ragtrial.pipeline.setting_stages import SettingStages
from ragtrial.pipeline.stage import Artefacts
from ragtrial.records import Question, Unit


class OpenSetting:
    """A setting at work; its parts are put to work when it is asked without their rankings.

    With ``is_fresh`` nothing that depends on a question is read from the disk.
    """

    def __init__(
        self,
        resources: Resources,
        library: Library,
        stages: SettingStages,
        artefacts: Artefacts,
        indexes: OpenIndexes,
        unit: Unit,
        *,
        is_fresh: bool = False,
    ) -> None:
        self._setting = stages.setting
        self._unit: Unit = unit
        # Bound to the indexes, not to this: a ring of references would keep the workspace in use when all is done.
        self.index = partial(indexes.__getitem__, stages.index) if stages.index else None
        """Gives the setting's own index."""
        context = SettingContext(resources, library, stages, artefacts, self.index, is_fresh=is_fresh)
        self.kept: Mapping[tuple[str, str], None] = context.kept
        """Kind and name of the stages that it keeps, those that it has asked for so far."""
        retriever = stages.setting.retriever
        self._searching = retriever.open(context) if isinstance(retriever, Retriever) else None
        self._refining = retriever.open(context) if isinstance(retriever, Refiner) else None
        self._open_parts = [
            partial(OpenSetting, resources, library, part, artefacts, indexes, unit, is_fresh=is_fresh)
            for part in stages.parts
        ]

    @cached_property
    def _parts(self) -> list[OpenSetting]:
        return [open_part() for open_part in self._open_parts]

    def ranked(self, questions: Sequence[Question], depth: Depth) -> Ranked:
        """The rankings of ``questions``, those of the parts found on the way."""
        if self._searching is not None:
            return self.retrieved(questions, depth)
        wordings, looked_at = self._setting.wordings(questions), Depth(candidates=self._setting.depth_of_parts)
        return self.refined(questions, [part.ranked(wordings, looked_at).candidates for part in self._parts], depth)

    def retrieved(
        self, questions: Sequence[Question], depth: Depth, advance: Callable[[int], None] = lambda _: None
    ) -> Ranked:
        """The rankings of a retriever; ``advance`` is told of every question that is done."""
        if self._searching is None:
            raise TypeError(f"{self._setting.name} refines the rankings of others")
        return retrieve(self._searching, questions, depth, self._unit, advance, self._setting.width)

    def refined(self, questions: Sequence[Question], parts: Sequence[Candidates], depth: Depth) -> Ranked:
        """The rankings of a refiner, from those of its parts."""
        if self._refining is None:
            raise TypeError(f"{self._setting.name} refines nothing")
        return ranked_from(self._refining.refine(questions, parts), depth, self._unit)


@contextmanager
def open_setting(
    resources: Resources,
    library: Library,
    stages: SettingStages,
    artefacts: Artefacts,
    unit: Unit,
    *,
    with_parts: bool = True,
    is_fresh: bool = False,
) -> Iterator[OpenSetting]:
    """A setting at work with its index, and with those of its parts unless their rankings are there already."""
    searched = stages.tree() if with_parts else [stages]
    indexes = list(dict.fromkeys(one.index for one in searched if one.index is not None))
    with open_indexes(artefacts, resources.workspace.lock, indexes) as opened:
        yield OpenSetting(resources, library, stages, artefacts, opened, unit, is_fresh=is_fresh)
