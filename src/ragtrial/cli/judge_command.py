"""ragtrial judge"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragtrial.cli import completion
from ragtrial.cli.contest_options import ComparisonInputs, contest_options
from ragtrial.cli.terminal import Terminal, common_options
from ragtrial.errors import Fault, InputError, counted

if TYPE_CHECKING:
    from ragtrial.comparison.judge.judgments import ModelJudgment
    from ragtrial.components.endpoints.chat import ChatOptions
    from ragtrial.labelling.judging.judging import Judging, JudgingPlan
    from ragtrial.labelling.judging.texts_to_judge import TextToJudge


@click.command("judge", short_help="Let a model grade what the settings found.")
@contest_options
@completion.settings_option
@click.option("--endpoint", metavar="URL", help="The URL before /chat/completions.")
@click.option("--model", metavar="NAME", help="The model, as the endpoint knows it.")
@click.option("--offline", is_flag=True, help="Grade by shared words instead, a poor judge that needs no model.")
@click.option("--api-key", metavar="VARIABLE", help="The environment variable that holds the key: '${NAME}'.")
@click.option("--prompt", type=click.Path(), metavar="FILE", help="Your own prompt, with {query} and {passage}.")
@click.option("--depth", type=click.IntRange(min=1), metavar="K",
              help="Judge the first K of each setting (default: the metric's cutoff).")  # fmt: skip
@click.option("--queries", type=click.IntRange(min=1), metavar="N", help="Judge N queries, people's first.")
@click.option("--calls", type=click.IntRange(min=1), metavar="N", help="Send at most N requests.")
@click.option("--budget", type=click.FloatRange(min=0), metavar="MONEY", help="Spend at most so much; needs --price.")
@click.option("--price", type=click.FloatRange(min=0), metavar="MONEY", help="Price of a million tokens read.")
@click.option("--output-price", type=click.FloatRange(min=0), metavar="MONEY",
              help="Price of a million tokens written (default: the same).")  # fmt: skip
@click.option("--max-tokens", type=click.IntRange(min=1), default=400, show_default=True, help="Longest reply.")
@click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True,
              help="How freely the model chooses its words.")  # fmt: skip
@click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
              help="Seed of the order of queries, sent to the endpoint as well.")  # fmt: skip
@click.option("--concurrency", type=click.IntRange(1, 256), default=8, show_default=True, help="Requests at once.")
@click.option(
    "--retries", type=click.IntRange(0, 20), default=6, show_default=True, help="Repeats of a failed request."
)
@click.option("--config", metavar="CONFIG", help="The config with the documents, for runs of other tools.")
@click.option("--plan", "only_plan", is_flag=True, help="Say what it would take, and ask nothing.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), default="judgments.llm.jsonl", show_default=True,
              help="The file to write.")  # fmt: skip
@common_options
def command(
    terminal: Terminal, compared: ComparisonInputs, settings: tuple[str, ...], depth: int | None, queries: int | None,
    seed: int, config: str | None, output: str, *, offline: bool, only_plan: bool, **asked: Any,
) -> int:  # fmt: skip
    """Let a model grade, from 0 to 3, the texts that the settings of the REPORTs found, for `ragtrial compare --judge`.

    The judgments go into a file of their own, never into labels. Every reply is kept the moment it arrives: the same
    command goes on where it was stopped. A reply without a grade counts as not judged.
    """
    from ragtrial.labelling.judging.judging import judge_offline, write_judgments
    from ragtrial.labelling.judging.texts_to_judge import texts_to_judge
    from ragtrial.options import expand_user

    file = expand_user(output)
    judging = None if offline else _judging(asked, seed, file)
    if offline and (asked["endpoint"] or asked["model"]):
        raise click.UsageError("--offline asks no model; leave out --endpoint and --model.")
    contest = compared.contest(settings=settings, may_be_one=True, may_be_unlabelled=True).limited_to([])
    place = None if config is None else expand_user(config)
    texts = texts_to_judge(contest, depth, queries, seed, place, terminal.progress())
    terminal.warn(contest.warnings)
    if judging is None:
        rows = judge_offline(texts)
        write_judgments(rows, file)
        return _said(terminal, rows, output, len(texts))
    plan = judging.plan(texts)
    terminal.tell(_planned(plan))
    if only_plan:
        terminal.say_json({"exit_code": 0, "queries": plan.queries, "texts": plan.texts, "kept": plan.kept,
                           "calls": plan.calls, "tokens": list(plan.tokens), "cost": plan.cost})  # fmt: skip
        return 0
    rows = _asked(terminal, judging, plan, texts, asked, file)
    return _said(terminal, rows, output, len(texts))


def _judging(asked: dict[str, Any], seed: int, file: Path) -> Judging:
    from ragtrial.components.endpoints.chat import KeptReplies
    from ragtrial.labelling.judging.judging import Judging
    from ragtrial.labelling.judging.prompt import read_prompt
    from ragtrial.options import expand_user

    if not asked["endpoint"] or not asked["model"]:
        raise click.UsageError("name the judge: --endpoint URL --model NAME (or --offline, to try it without one).")
    if asked["budget"] is not None and asked["price"] is None:
        raise click.UsageError("--budget needs the price of a million tokens: --price.")
    if file.is_dir() or not file.name:
        raise InputError(Fault(str(file), message="is a folder; name a file."))
    prompt = read_prompt(None if asked["prompt"] is None else expand_user(asked["prompt"]))
    kept = file.with_name(f"{file.name.removesuffix('.jsonl')}.replies")
    return Judging(_chat_options(asked, seed), prompt, KeptReplies(kept))


def _chat_options(asked: dict[str, Any], seed: int) -> ChatOptions:
    from ragtrial.components.endpoints.chat import ChatOptions
    from ragtrial.options import validate

    named = {"model": "model", "base_url": "endpoint", "api_key": "api_key", "price": "price",
             "output_price": "output_price", "max_tokens": "max_tokens", "temperature": "temperature",
             "concurrency": "concurrency", "retries": "retries"}  # fmt: skip
    given = {key: asked[name] for key, name in named.items() if asked[name] is not None}
    options = {key: f"--{name.replace('_', '-')}" for key, name in named.items()}

    def fault(where: tuple[str | int, ...], message: str) -> Fault:
        return Fault(options.get(str(where[0]), "judge") if where else "judge", message=message)

    return validate(ChatOptions, {**given, "seed": seed}, InputError, fault)


def _asked(
    terminal: Terminal, judging: Judging, plan: JudgingPlan, texts: list[list[TextToJudge]], asked: dict[str, Any],
    file: Path,
) -> list[ModelJudgment]:  # fmt: skip
    """The judgments; what was answered is written, whatever happens."""
    from ragtrial.labelling.judging.judging import Budget, write_judgments

    progress = terminal.progress()
    progress.begin("judge", plan.texts, "texts")
    try:
        rows = list(judging.judge(texts, Budget(asked["calls"], asked["budget"]), progress.advance))
        progress.finish()
    except BaseException:
        progress.abandon()
        if rows := judging.kept(texts):
            write_judgments(rows, file)
        raise
    if rows:
        write_judgments(rows, file)
    return rows


def _planned(plan: JudgingPlan) -> str:
    read, written = plan.tokens
    cost = "" if plan.cost is None else f", about {plan.cost:.2f} at these prices"
    kept = f", {plan.kept:,} answered before" if plan.kept else ""
    return (
        f"{counted(plan.texts, 'text')} of {counted(plan.queries, 'query', 'queries')}{kept}: "
        f"{counted(plan.calls, 'call')}, about {read:,} tokens read and {written:,} written{cost}"
    )


def _said(terminal: Terminal, rows: list[ModelJudgment], output: str, queries: int) -> int:
    judged = len({row.query for row in rows})
    unparsable = sum(row.grade is None for row in rows)
    costs = [row.cost for row in rows if row.cost is not None]
    cost = sum(costs) if rows and len(costs) == len(rows) else None
    if not rows:
        raise InputError("the budget is too small to judge one query; nothing was asked. Raise --calls or --budget.")
    names = f"; {unparsable:,} replies name no grade" if unparsable else ""
    paid = "" if cost is None else f", {cost:.4f} paid in all"
    left = "" if judged == queries else f" ({queries - judged:,} are left: the same command goes on with more)"
    terminal.tell(
        f"{output}: {counted(len(rows), 'judgment')} of {counted(judged, 'query', 'queries')}{left}{names}{paid}"
    )
    terminal.tell(f"next: ragtrial compare --judge {output}")
    terminal.say_json({"exit_code": 0, "wrote": [output], "judgments": len(rows), "queries": judged,
                       "unparsable": unparsable, "cost": cost})  # fmt: skip
    return 0
