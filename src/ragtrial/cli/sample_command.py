"""ragtrial sample"""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from pathlib import Path

from ragtrial.cli.options import argument, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.dataset.labels import load_prompt_queries
from ragtrial.errors import Fault, InputError, counted
from ragtrial.labelling import sampling
from ragtrial.runs import streams


@declare("sample")
def command(
    terminal: Terminal,
    *,
    files: tuple[str, ...] = argument("SPANS...", required=True),
    count: int = option("How many questions to draw.", "N", flags="-n --count", default=200, at_least=1),
    labels: Path | None = option("Leave out the questions of these labels.", "FILE"),
    seed: int = option("Random seed of the draw.", default=0, at_least=0),
    output: str = option("The labels file to write; - is standard output.", "FILE", flags="-o --output", required=True),
) -> Answer:
    """Draw questions to label from the spans of a retriever.

    SPANS are files of OpenTelemetry or OpenInference spans, as `ragtrial score` reads them. Each distinct question has
    the same chance, however often it was asked. The questions are written as labels without answers.
    """
    terminal.check_stdout({"-o": output})
    streams.check_folder(output)
    if Path(output).is_file():
        raise InputError(Fault(output, message="already exists; name another file."))
    sample = sampling.draw_questions(files, count, seed, load_prompt_queries(labels) if labels else None)
    with contextlib.redirect_stdout(terminal.out), streams.written(output) as file:
        file.write(sample.as_labels().encode())
    questions = counted(len(sample.questions), "question")
    drawn = f"{questions} of {sample.distinct:,} distinct ones, at random (seed {seed})"
    asked = f"{counted(sample.searches, 'search', 'searches')} in {counted(sample.spans, 'span')}"
    left_out = f"; left out: {sample.labelled:,} that {labels} has" if labels else ""
    terminal.note(f"{output}: {drawn}, of {asked}{left_out}")
    return Answer({"wrote": [output], **asdict(sample), "questions": len(sample.questions)})
