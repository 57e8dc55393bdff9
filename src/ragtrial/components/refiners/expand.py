"""Several wordings of a question asked of one retriever, their rankings fused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner
from ragtrial.components.refiners.fusion import FusingRefiner, Order
from ragtrial.components.retrievers.base import Candidates, Facts, RetrieverContext, place_order
from ragtrial.dataset.chunks import Chunks
from ragtrial.rankings import PADDING, Bools, Counts, Rankings
from ragtrial.records import Question, ReportWarning, WarningCode

_PLACE = "{query}"


def _with_query(template: str) -> str:
    if _PLACE not in template:
        raise ValueError(
            f"has no {_PLACE}, the place of the question's text; write it, like 'A passage about {_PLACE}'."
        )
    return template


@REFINERS.register("expand")
class ExpandRefiner(SingleInputRefiner, FusingRefiner):
    """Query expansion: several wordings of each query are asked of one retriever, and what they find is fused."""

    explanation: ClassVar[str] = "fuses what {parts} finds for several wordings of the question ({method})"

    asks_other_texts: ClassVar[bool] = True

    kind: Literal["expand"] = "expand"
    """Query expansion: several wordings of each query are asked of one retriever, and what they find is fused."""

    method: Literal["rrf", "combsum", "combmnz"] = "rrf"
    """How rankings become one: rrf (reciprocal ranks, whatever the scores), combsum (the sum of the normalised scores),
    combmnz (that sum times the number of wordings that found the hit)."""

    templates: list[Annotated[str, AfterValidator(_with_query)]] = Field(default=[])
    """More wordings, with {query} where the text of the query goes, like `A passage about {query}`."""

    phrasings: bool = True
    """Ask what the labels have under a query's `phrasings`, too."""

    question: bool = True
    """Ask the query as it is, too; without it, where there is no other wording, the query is asked all the same."""

    @model_validator(mode="after")
    def _has_wordings(self) -> Self:
        if self.phrasings or any(template.strip() != _PLACE for template in self.templates):
            return self
        raise ValueError(
            "asks nothing but the query itself; give `templates` that say more than {query}, or leave phrasings: true."
        )

    def wordings(self, question: Question) -> Sequence[Question]:
        """The wordings to ask: the question, those of the labels, then the templates, equal ones once.

        Only the question's own text goes by its id: what was found for that elsewhere, was not found for another text.
        """
        texts = [question.text] if self.question else []
        texts += question.phrasings if self.phrasings else ()
        texts += [template.replace(_PLACE, question.text) for template in self.templates]
        distinct: dict[str, str] = {}
        for text in texts or [question.text]:
            distinct.setdefault(text.strip(), text)
        return [
            replace(question, text=text, phrasings=(), id=question.id if text == question.text else "")
            for text in distinct.values()
        ]

    def asked(self, question: Question) -> Any:
        return [wording.text for wording in self.wordings(question)]

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenExpand(self)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if self.phrasings and facts.get("queries") and facts["queries"] == facts.get("without_phrasings"):
            yield ReportWarning(
                WarningCode.NO_PHRASINGS,
                f"{setting}: no query has `phrasings` in the labels, so nothing but the query"
                f"{' and the templates were' if self.templates else ' was'} asked; write phrasings into the labels, "
                f"{'or set phrasings: false' if self.templates else 'or give templates'}.",
            )


@dataclass
class _OpenExpand:
    options: ExpandRefiner
    _ordered: tuple[Chunks, Order] | None = field(default=None, init=False)

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        counts = np.array([len(self.options.wordings(question)) for question in questions], dtype=np.int64)
        starts = np.cumsum(counts) - counts
        if self._ordered is None or self._ordered[0] is not part.units:
            self._ordered = part.units, Order(place_order(part.units))
        skipped = np.zeros(len(questions), dtype=np.bool_)
        np.logical_or.at(skipped, np.repeat(np.arange(len(questions)), counts), part.skipped)
        lists = [
            _wording(part.rankings, starts + number, (counts > number) & ~skipped)
            for number in range(max(1, int(counts.max(initial=0))))
        ]
        fused = self.options.fuse([self.options.input_name] * len(lists), lists, self._ordered[1])
        return Candidates(part.units, fused.rankings, skipped, self._facts(questions, counts))

    def _facts(self, questions: Sequence[Question], counts: Counts) -> Facts:
        return {
            "queries": len(questions),
            "mean_wordings": float(counts.mean()) if len(counts) else None,
            "without_phrasings": sum(not question.phrasings for question in questions),
        }


def _wording(rankings: Rankings, rows: Counts, asked: Bools) -> Rankings:
    """The ranking of one wording of each question: these ``rows``; nothing where it was not ``asked``."""
    codes = np.full((len(rows), rankings.depth), PADDING, dtype=np.int32)
    scores = np.full(codes.shape, np.nan, dtype=np.float32)
    codes[asked], scores[asked] = rankings.codes[rows[asked]], rankings.scores[rows[asked]]
    return Rankings(codes, scores)
