"""The interface of refiners: rankings of other retrievers go in, a better ranking comes out."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar, Protocol

import numpy as np
from pydantic import ConfigDict, Field

from ragtrial.components.interfaces import Candidates, Ranker, RetrieverContext, place_keys
from ragtrial.rankings import PADDING, Bools, Floats, Rankings, unfilled
from ragtrial.records import Question
from ragtrial.registry import Registry

if TYPE_CHECKING:
    from ragtrial.components.endpoints.chat import WordingWriter


class OpenRefiner(Protocol):
    """A refiner at work."""

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        """One ranking for each question, best first.

        ``parts`` are the rankings of its parts, in their order, each cut at ``candidates``. They have one row for each
        question. With ``wordings``, they have the rows of all wordings of the first question, then the rows for the
        second, and so on. Units of the result may differ from the units of the parts. Raises RunError.
        """
        ...


class Refiner(Ranker):
    """Makes a better ranking from the rankings of other retrievers."""

    model_config = ConfigDict(serialize_by_alias=True)  # its inputs are written as the config has them

    explanation: ClassVar[str] = ""
    """A description of its ranking for readers of a report; ``{parts}`` and options in braces are filled in."""

    asks_other_texts: ClassVar[bool] = False
    """If true, its parts are asked texts other than the query's, and a report does not keep their hits."""

    candidates: Annotated[int, Field(ge=1)] = 100
    """How many hits of each input are used."""

    def wordings(self, question: Question) -> Sequence[Question]:
        """The questions that its parts are asked: ``question`` itself, unless a refiner overrides this."""
        return [question]

    @property
    def writer(self) -> WordingWriter | None:
        """The writer of wordings that its parts are asked, None without one."""
        return None

    @abstractmethod
    def open(self, context: RetrieverContext) -> OpenRefiner:
        """The refiner, ready to work. Raises RunError."""


class SingleInputRefiner(Refiner):
    """A refiner of one ranking."""

    input_name: str = Field(alias="inputs")
    """The name of the retriever or refiner whose hits are refined."""

    @property
    def parts(self) -> tuple[str, ...]:
        return (self.input_name,)


def reordered(part: Candidates, scores: Floats, is_last: Bools | None = None) -> Rankings:
    """The hits of ``part``, row by row, in the order of new ``scores``, shape (hits,), ``is_last`` hits at the end.

    Equal scores are ordered by document id, then by place in the document.
    """
    codes = part.rankings.codes
    is_hit = codes != PADDING
    hits, rows = codes[is_hit], np.nonzero(is_hit)[0]
    last = np.zeros(len(hits), dtype=np.bool_) if is_last is None else is_last
    order = np.lexsort((*place_keys(part.units, hits), -scores, last, rows))
    rankings = unfilled(*codes.shape)
    filled = np.arange(rankings.depth) < part.rankings.lengths[:, np.newaxis]
    rankings.codes[filled], rankings.scores[filled] = hits[order], scores[order]
    return rankings


REFINERS: Registry[type[Refiner]] = Registry("refiner", __package__)
