"""ragtrial judge"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragtrial.cli import completion
from ragtrial.cli.options import ComparisonInputs, ModelInputs, contest_options, model_options, plan_json, plan_line
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import InputError, counted

if TYPE_CHECKING:
    from ragtrial.comparison.judge import ModelJudgment
    from ragtrial.labelling.judging import Judging
    from ragtrial.labelling.worklist import TextToGrade


@click.command("judge")
@contest_options
@completion.settings_option
@model_options(("{query}", "{passage}"))
@click.option("--offline", is_flag=True, help="Grade by shared words instead: a poor judge that needs no model.")
@click.option("--depth", type=click.IntRange(min=1), metavar="K",
              help="Judge the first K of each setting (default: the metric's cutoff).")  # fmt: skip
@click.option("--queries", type=click.IntRange(min=1), metavar="N",
              help="Judge N queries, those with people's labels first.")  # fmt: skip
@click.option("--config", metavar="CONFIG", help="The config with the documents, for runs of other tools.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), default="judgments.llm.jsonl", show_default=True,
              help="The file to write.")  # fmt: skip
@common_options
def command(
    terminal: Terminal, compared: ComparisonInputs, asked: ModelInputs, settings: tuple[str, ...], depth: int | None,
    queries: int | None, config: str | None, output: str, *, offline: bool,
) -> int:  # fmt: skip
    """Let a model grade, from 0 to 3, the texts that the settings of the REPORTs found, for `ragtrial compare --judge`.

    The judgments go into a separate file; labels stay as they are. Every reply is saved the moment it arrives, so the
    same command resumes after an interruption. A reply without a grade counts as not judged.
    """
    from ragtrial.labelling.judging import (
        JUDGE_PLACES,
        JUDGE_PROMPT,
        Judging,
        judge_offline,
        texts_to_judge,
        write_judgments,
    )
    from ragtrial.options import expand_user

    file = expand_user(output)
    if offline and (asked.endpoint or asked.model):
        raise click.UsageError("--offline asks no model; leave out --endpoint and --model.")
    chat = None if offline else asked.chat(file, " (or --offline, to try it without a model)")
    judging = None if chat is None else Judging(chat, asked.template(JUDGE_PROMPT, JUDGE_PLACES))
    contest = compared.contest(settings=settings, may_be_one=True, may_be_unlabelled=True).limited_to([])
    place = None if config is None else expand_user(config)
    texts = texts_to_judge(contest, depth, queries, asked.seed, place, terminal.progress())
    terminal.warn(contest.warnings)
    if judging is None:
        rows = judge_offline(texts)
        write_judgments(rows, file)
        return _end(terminal, rows, output, len(texts), compared)
    plan = judging.plan(texts)
    of_queries = counted(len(texts), "query", "queries")
    terminal.tell(plan_line(f"{counted(plan.requests, 'text')} of {of_queries}", plan))
    if asked.only_plan:
        terminal.say_json({"exit_code": 0, "queries": len(texts), "texts": plan.requests, **plan_json(plan)})
        return 0
    return _end(terminal, _judged(terminal, judging, texts, asked, file), output, len(texts), compared)


def _judged(
    terminal: Terminal, judging: Judging, texts: list[list[TextToGrade]], asked: ModelInputs, file: Path
) -> list[ModelJudgment]:
    """The judgments; they are written even if an error or an interruption ends the work."""
    from ragtrial.labelling.judging import write_judgments

    progress = terminal.progress()
    progress.begin("judge", sum(map(len, texts)), "texts")
    try:
        rows = list(judging.judge(texts, asked.limit(), progress.advance))
        progress.finish()
    except BaseException:
        progress.abandon()
        if rows := judging.kept(texts):
            write_judgments(rows, file)
        raise
    if rows:
        write_judgments(rows, file)
    return rows


def _end(terminal: Terminal, rows: list[ModelJudgment], output: str, queries: int, compared: ComparisonInputs) -> int:
    judged = len({row.query for row in rows})
    unparsable = sum(row.grade is None for row in rows)
    costs = [row.cost for row in rows if row.cost is not None]
    cost = sum(costs) if rows and len(costs) == len(rows) else None
    if not rows:
        raise InputError("the budget is too small for one query, so nothing was sent. Raise --calls or --budget.")
    without = f", {unparsable:,} of them without a grade" if unparsable else ""
    paid = "" if cost is None else f", total cost {cost:.4f}"
    terminal.tell(f"{output}: {counted(len(rows), 'judgment')} of {counted(judged, 'query', 'queries')}{without}{paid}")
    refused = [row for row in rows if row.refusal is not None]
    if refused:
        texts = counted(len(refused), "text was", "texts were")
        terminal.tell(f"{texts} refused, the first {refused[0].doc} for {refused[0].query}: {refused[0].refusal}")
    if judged < queries:
        left = counted(queries - judged, "query is", "queries are")
        terminal.tell(f"{left} not judged yet; the same command with a larger budget continues")
    terminal.tell(f"next: {compared.command('compare', '--judge', output)}")
    terminal.say_json({"exit_code": 0, "wrote": [output], "judgments": len(rows), "queries": judged,
                       "unparsable": unparsable, "refused": len(refused), "cost": cost})  # fmt: skip
    return 0
