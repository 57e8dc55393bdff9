"""Questions that were asked of a retriever, drawn at random from its spans, to be labelled."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ragtrial.dataset.faults import Faults
from ragtrial.dataset.locating import plain
from ragtrial.dataset.texts import text_hash
from ragtrial.errors import Fault, InputError
from ragtrial.records import PromptQueries
from ragtrial.runs.formats.spans import NEEDED, read_trace
from ragtrial.runs.streams import Source, name_of


@dataclass(frozen=True)
class Sample:
    """The drawn questions by id, in random order, so that the first of them are a sample, too.

    They are of ``distinct`` questions in ``searches`` of ``spans``, of which ``labelled`` have labels already.
    """

    questions: dict[str, str]
    distinct: int
    labelled: int
    searches: int
    spans: int

    def as_labels(self) -> str:
        """The text of a labels file, in which no question has an answer yet."""
        rows = [{"id": name, "text": text, "relevant_docs": []} for name, text in self.questions.items()]
        return json.dumps({"queries": rows}, indent=2, ensure_ascii=False) + "\n"


def draw_questions(sources: Sequence[Source], count: int, seed: int, labels: PromptQueries | None) -> Sample:
    """Draw ``count`` questions, or all if there are fewer; each distinct one has the same chance.

    Questions that differ in case, white space and typography alone are one; those in ``labels`` are left out, and those
    that another search asked. The same spans in any order give the same questions. Raises InputError.
    """
    traces = [read_trace(source, Faults(name_of(source), InputError)) for source in sources]
    asked = [one.question for trace in traces for one in trace.retrievals if one.question and not one.is_inner]
    distinct = {_key(text): text for text in sorted(asked)}
    known = {_key(query.text) for query in labels.queries} if labels else set()
    left = [text for key, text in distinct.items() if key not in known]
    if not left:
        labelled = f"has no question that is not labelled: all {len(distinct):,} are."
        raise InputError(Fault(name_of(sources[0]), message=labelled if distinct else f"has no question. {NEEDED}"))
    random.Random(seed).shuffle(left)  # noqa: S311 - it is no secret
    questions = {text_hash(text): text for text in left[:count]}
    return Sample(questions, len(distinct), len(distinct) - len(left), len(asked), sum(trace.spans for trace in traces))


def _key(text: str) -> str:
    return " ".join(plain(text).split())
