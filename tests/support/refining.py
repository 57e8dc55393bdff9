"""Refiners at work on candidates that are written down, with the real materials of a small experiment."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments import Experiment, write_experiment
from ragtrial.components.interfaces import Candidates
from ragtrial.components.refiners.base import Refiner
from ragtrial.config.settings import setting_of
from ragtrial.dataset.chunks import Chunks
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.corpus_stages import ChunkStage
from ragtrial.pipeline.ranking_stage import SettingContext
from ragtrial.progress import Progress, Silent
from ragtrial.rankings import from_rows
from ragtrial.records import Question

Place = tuple[str, int, int]
"""A document's id, and characters of it."""


@dataclass(frozen=True)
class Bench:
    """An experiment whose entry ``refined`` is the refiner under test, over ``dense``."""

    experiment: Experiment

    def refiner(self, *overrides: str) -> Refiner:
        made = self.experiment.config(*overrides).retrievers["refined"]
        assert isinstance(made, Refiner)
        return made

    def materials(self, *overrides: str, progress: Progress | None = None, is_fresh: bool = False) -> SettingContext:
        config = self.experiment.config(*overrides)
        corpus, setting = Corpus(config, progress or Silent()), setting_of(config, "refined")
        stages = corpus.stages(setting)
        return SettingContext(corpus.resources, stages, corpus.runner, is_fresh=is_fresh)

    def refined(
        self,
        questions: Sequence[str],
        candidates: Candidates,
        *overrides: str,
        progress: Progress | None = None,
        is_fresh: bool = False,
    ) -> Candidates:
        materials = self.materials(*overrides, progress=progress, is_fresh=is_fresh)
        opened = self.refiner(*overrides).open(materials)
        return opened.refine([Question(text) for text in questions], [candidates])

    def chunks(self, *overrides: str) -> Chunks:
        """The chunks of the refiner's own chunker, or else the config's."""
        config = self.experiment.config(*overrides)
        corpus, setting = Corpus(config, Silent()), setting_of(config, "refined")
        return corpus.runner.artefact(ChunkStage(corpus.resources, corpus.documents, setting))

    def units(self, places: Sequence[Place]) -> Chunks:
        """Units at these places, in this order."""
        library = self.materials().library
        return Chunks.of(library, [(library.positions[name], start, end) for name, start, end in places])


def write_bench(folder: Path, refiner: Mapping[str, Any], **changes: Any) -> Bench:
    """An experiment with the options of a refiner over ``dense``."""
    entries = {"dense": {"kind": "dense", "top_k": 3}, "refined": {"inputs": "dense", "top_k": 3, **refiner}}
    return Bench(write_experiment(folder, retrievers=entries, **changes))


def candidates(units: Chunks, rows: Sequence[Sequence[int]]) -> Candidates:
    """Positions in ``units``, best first; the scores fall from 1 in steps of a hundredth."""
    return Candidates.of(units, from_rows(rows, [[1 - rank / 100 for rank in range(len(row))] for row in rows]))


def rows_of(found: Candidates) -> list[list[int]]:
    return [[code for code in row if code >= 0] for row in found.rankings.codes.tolist()]


def places_of(found: Candidates) -> list[list[Place]]:
    """Document, start and end of each hit."""
    units = found.units
    return [
        [(units.document_id(code), int(units.start[code]), int(units.end[code])) for code in row]
        for row in rows_of(found)
    ]
