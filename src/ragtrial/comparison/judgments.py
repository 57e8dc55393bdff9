"""The judgments of a model: JSON lines, apart from the labels of people."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, JsonValue

from ragtrial.cache.untrusted import load_json
from ragtrial.comparison.judged_rankings import Found
from ragtrial.dataset.texts import read_text
from ragtrial.errors import Fault, InputError, counted, listed
from ragtrial.options import Options, validate

HIGHEST = 3
"""The highest grade of the scale: 0 nothing to do with it, 1 related, 2 an answer in part, 3 the answer itself."""

_ON_SCALE = {1: (0, 0, 1, 1), 2: (0, 0, 1, 2)}
"""The grades on the scale of people whose highest grade is 1 or 2: only an answer counts."""

_MOST_FAULTS = 5


class JudgmentsError(InputError):
    """A file of a model's judgments cannot be read, or cannot be used with these labels."""


class ModelJudgment(Options):
    """A model's judgment of a text that a setting found for a query."""

    query: str
    """The id of the query."""

    doc: str
    """The id of the document."""

    start: Annotated[int, Field(ge=0)] | None = None
    """Where the passage begins in the document's normalised text; null where documents are found."""

    end: Annotated[int, Field(ge=0)] | None = None
    """The character behind its last; null as `start` is."""

    grade: Annotated[int, Field(ge=0, le=HIGHEST)] | None
    """From 0 to 3; null where the reply names none, which counts as not judged, never as 0."""

    model: str
    """The model, as its endpoint names it."""

    prompt: str
    """The first 16 hexadecimal digits of the SHA-256 of the prompt's template."""

    parameters: dict[str, JsonValue] = Field(default={})
    """The parameters of the request, such as temperature and seed."""

    reply: str | None = None
    """The reply, without the model's thoughts; null for a judge without text."""

    refusal: str | None = None
    """Why its endpoint refused to judge the text; null where it did not."""

    input_tokens: int | None = None
    """Billed input tokens, if the endpoint reports them."""

    output_tokens: int | None = None
    """Billed output tokens, if the endpoint reports them."""

    cost: float | None = None
    """At the prices given; null without them, 0 where an equal request was paid for another judgment."""

    when: str | None = None
    """The time at which the reply was read, UTC."""

    checksum: str | None = None
    """The CRC-32 checksum of the judgment without this field; null in files of other tools."""

    @property
    def found(self) -> Found:
        """The judged text, in the form of rankings."""
        return self.doc if self.start is None or self.end is None else (self.doc, self.start, self.end)

    @property
    def judge(self) -> str:
        """The identity of the judge: another model, prompt or parameters make another judge."""
        return json.dumps([self.model, self.prompt, self.parameters], sort_keys=True)


@dataclass(frozen=True)
class ModelJudgments:
    """All judgments of one model with one prompt, in a ``file``; of a text that it judged twice the first."""

    file: Path
    rows: Sequence[ModelJudgment]

    @property
    def model(self) -> str:
        return self.rows[0].model

    @property
    def prompt(self) -> str:
        return self.rows[0].prompt

    @cached_property
    def grades(self) -> Mapping[str, Mapping[Found, int | None]]:
        """By query, the grade of each text; None where the reply named none."""
        found: dict[str, dict[Found, int | None]] = {}
        for row in self.rows:
            found.setdefault(row.query, {}).setdefault(row.found, row.grade)
        return found

    @property
    def unparsable(self) -> int:
        """Judgments without a grade."""
        return sum(row.grade is None for row in self.rows)

    @property
    def cost(self) -> float | None:
        """The total cost; None if the cost of any judgment is unknown."""
        costs = [row.cost for row in self.rows]
        return sum(one for one in costs if one is not None) if None not in costs else None


def read_judgments(path: str | Path) -> ModelJudgments:
    """The judgments of the file at ``path``. Raises JudgmentsError with the faults and their lines."""
    file = Path(path)
    faults: list[Fault] = []
    rows: list[ModelJudgment] = []
    for number, line in enumerate(read_text(file, JudgmentsError).split("\n"), 1):
        if not line.strip():
            continue
        try:
            rows.append(_row(line, file, number))
        except JudgmentsError as error:
            faults += error.faults
    if faults:
        more = len(faults) - _MOST_FAULTS
        rest = [Fault(str(file), message=f"and {counted(more, 'more fault')} like these.")] if more > 0 else []
        raise JudgmentsError(*faults[:_MOST_FAULTS], *rest)
    if not rows:
        message = "has no judgments. Make some: ragtrial judge REPORT --endpoint URL --model NAME."
        raise JudgmentsError(Fault(str(file), message=message))
    judges = list(dict.fromkeys(row.judge for row in rows))
    if len(judges) > 1:
        message = (
            f"has judgments of {len(judges)} judges: {listed(_told(judges), 4)}. Model, prompt and parameters must be "
            "the same for all questions, or agreement with people says nothing. Judge all questions again with one of "
            "them, into another file."
        )
        raise JudgmentsError(Fault(str(file), message=message))
    return ModelJudgments(file, rows)


def sealed(judgment: Mapping[str, Any]) -> dict[str, Any]:
    """A judgment as JSON values, with its checksum."""
    bare = {name: value for name, value in judgment.items() if name != "checksum"}
    content = json.dumps(bare, sort_keys=True).encode()
    return {**bare, "checksum": f"{zlib.crc32(content):08x}"}


def on_scale(grade: int, highest: int) -> int:
    """A grade of the judge's on people's scale, whose highest grade is ``highest``."""
    return _ON_SCALE[max(highest, 1)][grade] if highest < HIGHEST else grade


def _row(line: str, file: Path, number: int) -> ModelJudgment:
    def fault(_where: object, message: str) -> Fault:
        return Fault(str(file), number, message=message)

    try:
        value = load_json(line)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise JudgmentsError(fault((), "is not a JSON object, as each judgment is. Remove the line."))
    if "checksum" in value and value != sealed(value):
        message = "has other bytes than were written. Remove the line, or, if you changed it, its checksum."
        raise JudgmentsError(fault((), message))
    return validate(ModelJudgment, value, JudgmentsError, fault)


def _told(judges: Sequence[str]) -> Iterator[str]:
    for model, prompt, parameters in map(json.loads, judges):
        asked = ", ".join(f"{name} {value}" for name, value in parameters.items())
        yield f"{model} (prompt {prompt}{', ' if asked else ''}{asked})"
