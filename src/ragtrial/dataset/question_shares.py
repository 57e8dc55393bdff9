"""How many questions have no answer yet; how many a model drafted, and how many of these people reviewed."""

from __future__ import annotations

from ragtrial.errors import counted
from ragtrial.records import DRAFTED, NOT_REVIEWED, UNANSWERABLE, PromptQueries, ReportWarning, WarningCode


def drafted_sentence(queries: int, drafted: int, reviewed: int) -> str:
    """How many of how many, and what is known of such questions."""
    verb = "was" if drafted == 1 else "were"
    return (
        f"{drafted:,} of {counted(queries, 'question')} {verb} drafted by a model; people reviewed {reviewed:,} of "
        f"these ({reviewed / drafted:.0%}). Questions made from passages share their words, which favours lexical "
        "retrievers."
    )


def drafted_share(labels: PromptQueries) -> ReportWarning | None:
    """What a reader of scores should know of drafted questions; None where there are none."""
    tags = [query.tags for query in labels.queries if DRAFTED in query.tags]
    if not tags:
        return None
    reviewed = sum(NOT_REVIEWED not in one for one in tags)
    return ReportWarning(WarningCode.DRAFTED_QUESTIONS, drafted_sentence(len(labels.queries), len(tags), reviewed))


def unlabelled_sentence(queries: int, unlabelled: int) -> str:
    """How many of how many have no answer yet, what that means, and how to change it."""
    have = "has" if unlabelled == 1 else "have"
    of_all = f"{unlabelled:,} of {counted(queries, 'question')} {have} no answer yet"
    return f"{of_all} (searched, not scored): add answers, or the tag `unanswerable`."


def unlabelled_share(labels: PromptQueries, threshold: int = 1) -> ReportWarning | None:
    """A note of the questions without a relevant document that are not tagged as unanswerable; None without any."""
    count = sum(
        UNANSWERABLE not in query.tags and all(one.relevance < threshold for one in query.relevant_docs)
        for query in labels.queries
    )
    return ReportWarning(WarningCode.NO_RELEVANT, unlabelled_sentence(len(labels.queries), count)) if count else None
