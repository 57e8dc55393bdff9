"""ragtrial questions"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from ragtrial import config as configs
from ragtrial.cli.inputs import ModelInputs, plan_json, plan_line
from ragtrial.cli.options import CONFIG, OVERRIDES, declare, option
from ragtrial.cli.terminal import Answer, Terminal
from ragtrial.errors import InputError, counted, did_you_mean, listed
from ragtrial.labelling import drafting as drafts, label_target, worklist


@declare("questions")
def command(
    terminal: Terminal,
    *,
    config: str = CONFIG,
    overrides: tuple[str, ...] = OVERRIDES,
    drafter: ModelInputs,
    count: int = option("How many to draft.", default=40, at_least=1),
    styles: str = option("Ways to ask, comma-separated.", "NAMES", default="factual,keywords,how-to,reworded"),
    unanswerable: float = option("Share without an answer.", "SHARE", default=0.1, at_least=0, at_most=1),
    output: Path = option("The file to write.", flags="-o --output", default="drafts.json"),
) -> Answer:
    """Let a model draft questions from the documents of CONFIG.

    The drafts go into a separate file, for review with `ragtrial label`. Only drafts that you keep in review become
    labels. Passages are drawn at random, each folder with its share. Every reply is saved the moment it arrives, so the
    same command resumes after an interruption.
    """
    options = drafts.DraftOptions(count, _styles(styles), unanswerable, drafter.seed)
    chat = drafter.chat(output)
    prompt = drafter.template(drafts.DRAFT_PROMPT, drafts.DRAFT_PLACES)
    experiment = configs.load_config(config, overrides)
    drafting = drafts.Drafting(experiment, output, chat, prompt, options, terminal.progress())
    total = len(drafting.planned)
    plan = drafting.plan()
    terminal.tell(plan_line(counted(total, "question"), plan))
    if drafter.only_plan:
        return Answer({"questions": total, **plan_json(plan)})

    with terminal.saving("draft", total, "questions", lambda: drafting.write(drafting.kept())) as advance:
        answered = drafting.draft(drafter.limit(), advance)
    counts, cost = drafting.write(answered), chat.options.cost(reply for _, reply in answered)
    if not counts.replies:
        raise InputError("nothing was sent: one question could cost more than the budget. Raise --calls or --budget.")
    wrote = [str(output)] if counts.drafts else []
    content = {"wrote": wrote, **counts.model_dump(), "drafts": counts.drafts, "questions": total, "cost": cost}
    refusals = [(planned.passage.doc, reply.refusal) for planned, reply in answered if reply.refusal]
    return Answer(content, _lines(output, counts, total, cost, refusals))


def _styles(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in drafts.STYLES]
    if unknown or not names:
        near = did_you_mean(unknown[0], drafts.STYLES) if unknown else ""
        raise click.UsageError(f"--styles is {text!r}; the styles are {listed(list(drafts.STYLES))}.{near}")
    return names


def _lines(
    output: Path, counts: worklist.DraftCounts, total: int, cost: float | None, refusals: Sequence[tuple[str, str]]
) -> list[str]:
    lines = []
    if refusals:
        number = counted(len(refusals), "passage was", "passages were")
        lines.append(f"{number} refused, the first of {refusals[0][0]}: {refusals[0][1]}")
    paid = "" if cost is None else f", total cost {cost:.4f}"
    replies = counted(counts.replies, "reply", "replies")
    lines.append(f"{replies}{paid}: {counted(counts.drafts, 'draft')} to review")
    too_easy = f"too easy (at least {drafts.COPIED:.0%} of the words are copied, and BM25 ranks the passage first)"
    reasons = {
        "could not be parsed": counts.unparsable,
        "with an answer that is not in the passage": counts.not_in_passage,
        "asked before": counts.repeated,
        too_easy: counts.copied,
    }
    if left_out := "; ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count):
        lines.append(f"left out: {left_out}")
    if counts.replies < total:
        lines.append(f"{total - counts.replies:,} not asked yet; the same command with a larger budget continues")
    if counts.drafts:
        lines.append(f"next: {label_target.label_command(worklist.read_worklist(output), output)}")
    return lines
