"""Retrievers by tokens at work on small corpora, and what their models' own library makes of the same texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from experiments import Experiment
from ragtrial.components.interfaces import Candidates, Retriever
from ragtrial.components.token_vectors import TokenVectors
from ragtrial.config.settings import setting_of
from ragtrial.pipeline.corpus import Corpus
from ragtrial.pipeline.ranking_stage import SettingContext
from ragtrial.progress import Progress, Silent
from ragtrial.records import Question
from refining import rows_of


@dataclass(frozen=True)
class Asked:
    """What an entry of an experiment found, with what it was handed."""

    context: SettingContext
    candidates: Candidates

    @property
    def texts(self) -> list[str]:
        """What is indexed for each chunk."""
        return list(self.context.texts().indexed_texts())

    def rows(self) -> list[list[int]]:
        return rows_of(self.candidates)

    def scores(self, row: int) -> npt.NDArray[np.float32]:
        found: npt.NDArray[np.float32] = self.candidates.rankings.scores[row, : len(self.rows()[row])]
        return found


def asked(
    experiment: Experiment,
    entry: str,
    questions: Sequence[str],
    depth: int = 100,
    *overrides: str,
    progress: Progress | None = None,
    is_fresh: bool = False,
) -> Asked:
    """What an entry that retrieves finds for some questions."""
    config = experiment.config(*overrides)
    corpus, setting = Corpus(config, progress or Silent()), setting_of(config, entry)
    context = SettingContext(corpus.resources, corpus.stages(setting), corpus.runner, is_fresh=is_fresh)
    retriever = setting.retriever
    assert isinstance(retriever, Retriever)
    retriever.check(context, [Question(text) for text in questions])
    return Asked(context, retriever.open(context).search([Question(text) for text in questions], depth))


def library_scores(kind: str, folder: Path, questions: Sequence[str], texts: Sequence[str]) -> npt.NDArray[Any]:
    """The scores (questions, texts) that sentence-transformers gives by itself."""
    from sentence_transformers import MultiVectorEncoder, SparseEncoder

    model: Any = SparseEncoder(str(folder), device="cpu") if kind == "sparse" else MultiVectorEncoder(str(folder))
    options = {"convert_to_sparse_tensor": False} if kind == "sparse" else {}
    queries, documents = model.encode_query(list(questions), **options), model.encode_document(list(texts), **options)
    found: npt.NDArray[Any] = model.similarity(queries, documents).cpu().numpy()
    return found


def terms(**weights: float) -> TokenVectors:
    """A sparse vector: ``terms(t3=0.5)`` weighs term 3 by a half."""
    ids = np.array([int(name[1:]) for name in weights], dtype=np.int32)
    return TokenVectors(ids, np.array(list(weights.values()), dtype=np.float32)[:, np.newaxis])


def tokens(*vectors: Sequence[float]) -> TokenVectors:
    """The vectors of the tokens of a text."""
    return TokenVectors(np.arange(len(vectors), dtype=np.int32), np.array(vectors, dtype=np.float32))
