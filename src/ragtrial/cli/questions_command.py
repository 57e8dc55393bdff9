"""ragtrial questions"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from shlex import quote
from typing import TYPE_CHECKING

import click

from ragtrial.cli.options import ModelInputs, model_options, plan_json, plan_line
from ragtrial.cli.terminal import Terminal, common_options, config_argument, override_option
from ragtrial.errors import InputError, counted, did_you_mean, listed

if TYPE_CHECKING:
    from ragtrial.labelling.drafting import Answered, Drafting
    from ragtrial.labelling.worklist import DraftCounts


@click.command("questions")
@config_argument
@override_option
@model_options(("{task}", "{passage}"))
@click.option("--count", type=click.IntRange(min=1), default=40, show_default=True, help="How many to draft.")
@click.option("--styles", default="factual,keywords,how-to,reworded", show_default=True, metavar="NAMES",
              help="Ways to ask, comma-separated.")  # fmt: skip
@click.option("--unanswerable", type=click.FloatRange(0, 1), default=0.1, show_default=True, metavar="SHARE",
              help="The share of questions that the documents should not answer.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(dir_okay=False), default="drafts.json", show_default=True,
              help="The file to write.")  # fmt: skip
@common_options
def command(
    terminal: Terminal, config: str, overrides: tuple[str, ...], asked: ModelInputs, count: int, styles: str,
    unanswerable: float, output: str,
) -> int:  # fmt: skip
    """Let a model draft questions from passages of the documents of CONFIG, for review with `ragtrial label`.

    The drafts go into a separate file. Only drafts that you keep in review become labels. Passages are drawn at random,
    each folder with its share. Every reply is saved the moment it arrives, so the same command resumes after an
    interruption.
    """
    from ragtrial.config import load_config
    from ragtrial.labelling.drafting import DRAFT_PLACES, DRAFT_PROMPT, DraftFile, Drafting, DraftOptions, PassageSearch
    from ragtrial.options import expand_user

    file = expand_user(output)
    options = DraftOptions(count, _styles(styles), unanswerable, asked.seed)
    chat = asked.chat(file)
    prompt = asked.template(DRAFT_PROMPT, DRAFT_PLACES)
    loaded = load_config(config, overrides)
    drafts = DraftFile(file, loaded)
    search = PassageSearch(loaded, terminal.progress())
    passages = search.sampled(options.count, options.seed)
    drafting = Drafting(chat, prompt, passages, options)
    plan = drafting.plan()
    terminal.tell(plan_line(counted(len(passages), "question"), plan))
    if asked.only_plan:
        terminal.say_json({"exit_code": 0, "questions": len(passages), **plan_json(plan)})
        return 0

    def write(answered: Sequence[Answered]) -> DraftCounts:
        return drafts.write(answered, search, chat.options.model, prompt.hash, options.seed)

    answered = _answered(terminal, drafting, asked, len(passages), write)
    cost = chat.options.cost(reply for _, reply in answered)
    refusals = [(planned.passage.doc, reply.refusal) for planned, reply in answered if reply.refusal]
    if refusals:
        number = counted(len(refusals), "passage was", "passages were")
        terminal.tell(f"{number} refused, the first of {refusals[0][0]}: {refusals[0][1]}")
    return _end(terminal, output, write(answered), len(passages), cost)


def _styles(text: str) -> tuple[str, ...]:
    from ragtrial.labelling.drafting import STYLES

    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in STYLES]
    if unknown or not names:
        near = did_you_mean(unknown[0], STYLES) if unknown else ""
        raise click.UsageError(f"--styles is {text!r}; the styles are {listed(list(STYLES))}.{near}")
    return names


def _answered(
    terminal: Terminal, drafting: Drafting, asked: ModelInputs, total: int,
    write: Callable[[Sequence[Answered]], DraftCounts],
) -> list[Answered]:  # fmt: skip
    """The replies within the budget; replies before an error or an interruption are written."""
    progress = terminal.progress()
    progress.begin("draft", total, "questions")
    try:
        answered = drafting.draft(asked.limit(), progress.advance)
        progress.finish()
    except BaseException:
        progress.abandon()
        write(drafting.kept())
        raise
    return answered


def _end(terminal: Terminal, output: str, counts: DraftCounts, total: int, cost: float | None) -> int:
    from ragtrial.labelling.drafting import COPIED
    from ragtrial.labelling.label_target import label_options
    from ragtrial.labelling.worklist import read_worklist
    from ragtrial.options import expand_user

    if not counts.replies:
        raise InputError("the budget is too small for one question, so nothing was sent. Raise --calls or --budget.")
    reasons = {
        "could not be parsed": counts.unparsable,
        "with an answer that is not in the passage": counts.not_in_passage,
        "asked before": counts.repeated,
        f"too easy (at least {COPIED:.0%} of the words are copied, and BM25 ranks the passage first)": counts.copied,
    }
    left_out = "; ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    paid = "" if cost is None else f", total cost {cost:.4f}"
    terminal.tell(f"{counted(counts.replies, 'reply', 'replies')}{paid}: {counted(counts.drafts, 'draft')} to review")
    if left_out:
        terminal.tell(f"left out: {left_out}")
    if counts.replies < total:
        terminal.tell(f"{total - counts.replies:,} not asked yet; the same command with a larger budget continues")
    if counts.drafts:
        file = expand_user(output)
        terminal.tell(f"next: ragtrial label {quote(output)}{label_options(read_worklist(file), file)}")
    wrote = [output] if counts.drafts else []
    found = {**counts.model_dump(), "drafts": counts.drafts, "questions": total, "cost": cost}
    terminal.say_json({"exit_code": 0, "wrote": wrote, **found})
    return 0
