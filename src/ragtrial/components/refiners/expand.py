"""Several wordings of a question asked of one retriever, their rankings fused."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import AfterValidator, Field, model_validator

from ragtrial.components.endpoints.chat import PLACE, PROMPTS, ChatOptions, WordingWriter
from ragtrial.components.interfaces import Candidates, Fact, Facts, RetrieverContext, place_keys
from ragtrial.components.refiners.base import REFINERS, OpenRefiner, SingleInputRefiner
from ragtrial.components.refiners.fusion import FusingRefiner
from ragtrial.errors import listed
from ragtrial.rankings import unfilled
from ragtrial.records import Question, ReportWarning


def _with_query(template: str) -> str:
    if PLACE not in template:
        raise ValueError(f"has no {PLACE}, the place of the question's text; write it, like 'A passage about {PLACE}'.")
    return template


@REFINERS.register("expand")
class ExpandRefiner(SingleInputRefiner, FusingRefiner):
    """Query expansion: several wordings of each query are asked of one retriever, and their hits are fused."""

    explanation: ClassVar[str] = "fuses what {parts} finds for several wordings of the question ({method})"

    asks_other_texts: ClassVar[bool] = True

    kind: Literal["expand"] = "expand"
    """Query expansion: several wordings of each query are asked of one retriever, and their hits are fused."""

    method: Literal["rrf", "combsum", "combmnz"] = "rrf"
    """The way to fuse rankings: rrf (reciprocal ranks, without scores), combsum (the sum of the normalised scores),
    combmnz (that sum times the number of wordings that found the hit)."""

    templates: list[Annotated[str, AfterValidator(_with_query)]] = Field(default=[])
    """Extra wordings, with {query} as the placeholder for the query, like `A passage about {query}`."""

    phrasings: bool = True
    """Also ask the `phrasings` that the labels have for a query."""

    endpoint: ChatOptions | None = None
    """A chat model behind an OpenAI-compatible endpoint that writes more wordings of each query; every reply is
    kept."""

    prompt: str = "rewrites"
    """The request to the chat model: rewrites (three other wordings), answer (a passage that answers the query, HyDE),
    or your own text with {query} as the placeholder."""

    lines: bool | None = None
    """Treat each line of a reply as a separate wording, instead of the whole reply as one (default: true, except for
    answer)."""

    question: bool = True
    """Also ask the query itself. With false, it is asked only where there is no other wording."""

    @model_validator(mode="after")
    def _has_wordings(self) -> Self:
        if self.endpoint is not None and self.prompt not in PROMPTS and PLACE not in self.prompt:
            known = ", ".join(PROMPTS)
            raise ValueError(
                f"prompt is {self.prompt[:40]!r}; it must be one of: {known}; or a text with {PLACE} in it."
            )
        if self.endpoint is None and (without := self.model_fields_set & {"prompt", "lines"}):
            raise ValueError(
                f"has {listed(sorted(without))}, but no endpoint to use it; add one: `endpoint: {{model: ...}}`."
            )
        if self.endpoint is not None or self.phrasings or any(template.strip() != PLACE for template in self.templates):
            return self
        raise ValueError(
            "asks nothing but the query itself; give `templates` that say more than {query}, or leave phrasings: true."
        )

    @property
    def writer(self) -> WordingWriter | None:
        if self.endpoint is None:
            return None
        by_line = self.prompt != "answer" if self.lines is None else self.lines
        return WordingWriter(self.endpoint, self.prompt, by_line)

    @property
    def has_latency(self) -> bool:
        """Not with a chat model: measuring latency would pay for each question once more."""
        return self.endpoint is None

    def identity(self) -> dict[str, Any]:
        """Without the options of the chat model; its wordings are part of ``asked``."""
        parts = super().identity()
        for name in ("endpoint", "prompt", "lines"):
            del parts[name]
        return parts if self.writer is None else parts | {"writer": [self.writer.key, self.writer.by_line]}

    def cost(self, facts: Facts) -> float | None:
        read, written = facts.get("input_tokens"), facts.get("output_tokens")
        if self.endpoint is None or read is None or written is None:
            return None
        return self.endpoint.cost_of(float(read), float(written))

    def wordings(self, question: Question) -> Sequence[Question]:
        """The wordings to ask, each once: the question, the labels' wordings, the templates, then a chat model's.

        Only the question's own text keeps its id: rankings kept under the id must not be rankings of another text.
        """
        texts = [question.text] if self.question else []
        texts += question.phrasings if self.phrasings else ()
        texts += [template.replace(PLACE, question.text) for template in self.templates]
        texts += self.writer.texts(question) if self.writer else ()
        distinct: dict[str, str] = {}
        for text in texts or [question.text]:
            distinct.setdefault(text.strip(), text)
        return [
            replace(question, text=text, phrasings=(), written=(), id=question.id if text == question.text else "")
            for text in distinct.values()
        ]

    def asked(self, question: Question) -> Any:
        return [wording.text for wording in self.wordings(question)]

    def open(self, context: RetrieverContext) -> OpenRefiner:
        return _OpenExpand(self)

    def warnings(self, setting: str, facts: Facts) -> Iterator[ReportWarning]:
        if self.writer is not None:
            if facts.get("without_reply"):
                yield ReportWarning(
                    "no-reply",
                    f"{setting}: for {facts['without_reply']:,} of {facts['queries']:,} queries the chat model wrote "
                    "nothing; only the other wordings were asked.",
                )
        elif self.phrasings and facts.get("queries") and facts["queries"] == facts.get("without_phrasings"):
            yield ReportWarning(
                "no-phrasings",
                f"{setting}: no query has `phrasings` in the labels, so nothing but the query"
                f"{' and the templates were' if self.templates else ' was'} asked; write phrasings into the labels, "
                f"{'or set phrasings: false' if self.templates else 'or give templates'}.",
            )


@dataclass(frozen=True)
class _OpenExpand:
    options: ExpandRefiner

    def refine(self, questions: Sequence[Question], parts: Sequence[Candidates]) -> Candidates:
        (part,) = parts
        counts = np.array([len(self.options.wordings(question)) for question in questions], dtype=np.int64)
        starts = np.cumsum(counts) - counts
        skipped = np.zeros(len(questions), dtype=np.bool_)
        np.logical_or.at(skipped, np.repeat(np.arange(len(questions)), counts), part.skipped)
        lists = []  # the rankings of the first wording of each question, then of the second, and so on
        for number in range(max(1, int(counts.max(initial=0)))):
            asked, rankings = (counts > number) & ~skipped, unfilled(len(questions), part.rankings.depth)
            rankings.codes[asked] = part.rankings.codes[starts[asked] + number]
            rankings.scores[asked] = part.rankings.scores[starts[asked] + number]
            lists.append(rankings)
        fused = self.options.fuse([self.options.input_name] * len(lists), lists, partial(place_keys, part.units))
        facts: dict[str, Fact] = {
            "queries": len(questions),
            "mean_wordings": float(counts.mean()) if len(counts) else None,
            "without_phrasings": sum(not question.phrasings for question in questions),
            **self._written(questions),
        }
        return Candidates(part.units, fused.rankings, skipped, facts)

    def _written(self, questions: Sequence[Question]) -> Facts:
        writer = self.options.writer
        if writer is None:
            return {}
        replies = [reply for question in questions for reply in writer.replies(question)]
        facts: dict[str, Fact] = {"without_reply": sum(not writer.texts(question) for question in questions)}
        known = all(reply.input_tokens is not None and reply.output_tokens is not None for reply in replies)
        for name in ("input_tokens", "output_tokens"):
            facts[name] = sum(getattr(reply, name) for reply in replies) if known else None
        return facts
