"""ragtrial judge"""

from __future__ import annotations

from pathlib import Path

import click

from ragtrial.cli.inputs import ComparisonInputs, ModelInputs, plan_json, plan_line
from ragtrial.cli.options import SETTINGS, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.comparison import judge as judgments
from ragtrial.errors import InputError, counted
from ragtrial.labelling import judging


@declare("judge")
def command(
    terminal: Terminal,
    *,
    compared: ComparisonInputs,
    settings: tuple[str, ...] = SETTINGS,
    judge: ModelInputs,
    offline: bool = option("Grade by shared words instead: a poor judge that needs no model."),
    depth: int | None = option("Judge the first K of each setting (default: the metric's cutoff).", "K", at_least=1),
    queries: int | None = option("Judge N queries, those with people's labels first.", "N", at_least=1),
    config: Path | None = option("The config with the documents, for runs of other tools.", "CONFIG"),
    output: Path = option("The file to write.", flags="-o --output", default="judgments.llm.jsonl"),
) -> Answer:
    """Let a model grade what the settings found.

    Texts that the settings of the REPORTs found are graded from 0 to 3, for `ragtrial compare --judge`. The judgments
    go into a separate file; labels stay as they are. Every reply is saved the moment it arrives, so the same command
    resumes after an interruption. A reply without a grade counts as not judged.
    """
    if offline and (judge.endpoint or judge.model):
        raise click.UsageError("--offline asks no model; leave out --endpoint and --model.")
    chat = None if offline else judge.chat(output, " (or --offline, to try it without a model)")
    prompt = judge.template(judging.JUDGE_PROMPT, judging.JUDGE_PLACES) if chat else None
    model = judging.Judging(chat, prompt) if chat and prompt else None
    inputs = compared.inputs(settings=settings, may_be_one=True, may_be_unlabelled=True).limited_to([])
    _, options = compared.with_options(inputs)
    texts = judging.texts_to_judge(inputs, depth, queries, judge.seed, config, terminal.progress())
    terminal.warn(inputs.warnings)
    if model is None:
        rows = judging.judge_offline(texts)
    else:
        plan = model.plan(texts)
        texts_of_queries = f"{counted(plan.requests, 'text')} of {counted(len(texts), 'query', 'queries')}"
        terminal.tell(plan_line(texts_of_queries, plan))
        if judge.only_plan:
            return Answer({"queries": len(texts), "texts": plan.requests, **plan_json(plan)})
        with terminal.saving(
            "judge", sum(map(len, texts)), "texts", lambda: _write(model.kept(texts), output)
        ) as advance:
            rows = list(model.judge(texts, judge.limit(), advance))
    _write(rows, output)
    if not rows:
        raise InputError("nothing was sent: one query could cost more than the budget. Raise --calls or --budget.")
    return _answer(rows, output, len(texts), options.commands(inputs).compare("--judge", str(output)))


def _write(rows: list[judgments.ModelJudgment], output: Path) -> None:
    if rows:
        judging.write_judgments(rows, output)


def _answer(rows: list[judgments.ModelJudgment], output: Path, queries: int, following: str) -> Answer:
    judged = len({row.query for row in rows})
    unparsable = sum(row.grade is None for row in rows)
    costs = [row.cost for row in rows if row.cost is not None]
    cost = sum(costs) if len(costs) == len(rows) else None
    without = f", {unparsable:,} of them without a grade" if unparsable else ""
    paid = "" if cost is None else f", total cost {cost:.4f}"
    lines = [f"{output}: {counted(len(rows), 'judgment')} of {counted(judged, 'query', 'queries')}{without}{paid}"]
    refused = [row for row in rows if row.refusal is not None]
    if refused:
        texts = counted(len(refused), "text was", "texts were")
        lines.append(f"{texts} refused, the first {refused[0].doc} for {refused[0].query}: {refused[0].refusal}")
    if judged < queries:
        left = counted(queries - judged, "query is", "queries are")
        lines.append(f"{left} not judged yet; the same command with a larger budget continues")
    lines.append(f"next: {following}")
    content = {"wrote": [str(output)], "judgments": len(rows), "queries": judged, "unparsable": unparsable}
    return Answer({**content, "refused": len(refused), "cost": cost}, lines)
