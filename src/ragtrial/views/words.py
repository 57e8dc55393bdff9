"""The words of a comparison's table: its columns and its verdicts, each in a sentence."""

from __future__ import annotations

import re
from collections.abc import Sequence

COLUMNS = {
    "setting": "The setting that is compared.",
    "against": "The baseline: what the setting is compared with.",
    "verdict": "The conclusion for the setting, compared with the baseline: better, worse, worse within the margin, no "
    "worse, inconclusive, too few differences, or identical. `ragtrial explain` knows each.",
    "baseline": "Mean of the baseline.",
    "mean": "Mean of the setting.",
    "difference": "Mean of the setting less mean of the baseline, over the same queries.",
    "interval": "The differences that are compatible with the data, at this confidence for all comparisons together.",
    "p": "How likely so large a difference is by chance, corrected for the number of comparisons.",
    "won": "Queries for which the setting scores better.",
    "tied": "Queries for which both score the same.",
    "lost": "Queries for which the baseline scores better.",
    "n": "Queries scored for both settings; in a table of means, queries that the mean is over.",
    "detectable": "Detectable difference: the smallest that these questions detect with 80% power.",
    "questions needed": "Questions needed in all to detect a difference as large as the margin with 80% power; "
    "`enough`: there are that many; `too many`: more than a person could label (300 more, ten times as many).",
}
"""By their titles, or by these without a number at one end."""

VERDICTS = {
    "better": "The whole interval of the difference is on the better side of 0: the difference is not chance.",
    "worse": "The whole interval of the difference is on the worse side of 0: the difference is not chance.",
    "worse within the margin": "Worse, but by less than the margin: no part of the interval is a larger loss.",
    "no worse": "The interval includes 0, and no part of it is a loss above the margin.",
    "inconclusive": "The interval includes 0 and losses above the margin: the setting may be better, equal or worse. "
    "It does not mean equal.",
    "too few differences": "The two settings differ on fewer than 10 questions, or clusters of questions: too few for "
    "an interval.",
    "identical": "Both score the same on every question.",
}

HEADLINES = {
    "best": "The setting with the best mean of the primary metric, where all others are shown to be worse.",
    "leading": "The setting with the best mean, where some of the others are shown to be worse, and some are not.",
    "no setting is shown to be better": "No setting is shown to be worse than the one with the best mean: the order "
    "may be chance.",
    "all identical": "All settings have the same score on every question.",
    "no ranking yet": "Fewer than 10 questions are scored: too few to compare settings.",
    "no setting is shown to be the best": "None is shown to be worse than the one with the best mean, but some are "
    "shown to be worse than another one: the line `shown`.",
    "better than": "The setting on top is shown to be better than these: `ragtrial explain worse`.",
    "worse than": "The setting on top is shown to be worse than these on the questions that count for both.",
    "better, within": "These are shown to be worse than the setting on top, by less than the margin.",
    "worse, within": "Shown to be worse than the baseline, by less than the margin.",
    "no worse within": "No loss above this margin: the interval includes 0, and no part of it is a larger loss.",
    "with the current labels": "Hits without a label count as not relevant. If those all went in favour of one side, "
    "the verdict would be another: `ragtrial compare --unjudged`.",
    "scored": "Questions with a label that counts. The others are searched, and are in no mean.",
    "next": "One thing to do next, and its command.",
    "scenario": "A difference if all hits without a label went in favour of one setting. Labels may lead further: a "
    "scenario is not a limit.",
}
"""The words of a conclusion."""

RUN_COLUMNS = {
    "ms p50": "Milliseconds that half of the queries take at most, one at a time; ~: other programs slowed them.",
    "p95": "Milliseconds that 95% of the queries take at most.",
    "p99": "Milliseconds that 99% of the queries take at most.",
    "slowest": "Milliseconds of the slowest query; with 100 queries or more p99 is shown instead.",
    "embed s": "Seconds that embedding the chunks took, the sum over all runs that embedded some of them. Loading the "
    "model and writing vectors are not in it, but in the seconds of the stage `embeddings` that a run prints.",
    "index s": "Seconds that building the index took, in the run that did it.",
    "index mb": "Megabytes of the index on the disk.",
    "tokens": "Average number of tokens in the hits of one query.",
    "characters": "Average number of characters in the hits of one query.",
    "hits": "Hits that fit into the token budget, mean over questions.",
    "unanswerable": "How well the score of the first hit separates questions that the documents do not answer.",
    "separation": "How often an answerable question has a higher first score than an unanswerable one; 0.5 is chance.",
    "abstaining": "A row per setting: the best score below which not to answer, and what it costs.",
    "threshold": "Answer a question if the score of its first hit is at least this.",
    "false answers": "Unanswerable questions that are answered.",
    "false refusals": "Answerable questions that are not answered.",
    "answered": "Questions that are answered in use.",
    "ann recall": "The share of the hits of exact search that the index found, mean over questions.",
    "lowest": "The ANN recall of the query where it is lowest.",
    "change": "The gain in the primary metric by an approximate index; below 0, it loses.",
    "95% interval": "In `compare`: the differences that are compatible with the data, for all comparisons together. In "
    "`show`: the same for one setting's mean alone, and beside `separation` for one difference alone.",
    "costs": "A row per setting: time, size and, where endpoints are paid, money.",
    "b/vector": "Bytes of one vector in the store.",
    "embed cost": "Price of embedding all chunks, at the prices of the config.",
    "1,000 q": "Price of a thousand queries, at the prices of the config.",
    "index against exact search": "A row per setting whose index is not exact: what it loses against comparing every "
    "vector.",
    "short": "Queries with fewer hits than there should be.",
    "metric": "A row per metric; `ragtrial explain METRIC` has its formula.",
    "passages cut": "Labelled passages that no single chunk holds whole.",
    "share": "The passages that are cut, of all that are labelled.",
    "chunks": "Chunks that the setting searches.",
    "best possible": "The mean of the best order of all judged documents.",
    "highest": "The highest value of a query.",
    "min": "The smallest value.",
    "median": "Half of the values are at most this.",
    "max": "The largest value.",
}
"""The columns of the tables of a run."""

VIEW_COLUMNS = {
    "differences, descriptive": "Differences by other metrics: shown, not tested.",
    "from": "The value of a parameter that the other is compared with.",
    "to": "The value of a parameter that is compared.",
    "pairs": "Pairs of settings that differ in this parameter alone.",
    "note": "Why there is no interval.",
    "by": "In `cache list`, the experiments that use it.",
    "questions by": "How the questions are divided: by tag, number of relevant documents, or length.",
    "slice": "One part of the questions.",
    "questions": "The number of questions.",
    "scenarios": "The difference if all hits without a label went in favour of one setting: two scenarios, not limits.",
    "all against": "The difference if all hits without a label went in favour of the baseline: a scenario.",
    "all for": "The difference if all hits without a label went in favour of the setting: a scenario.",
    "unjudged": "Hits without a label; they count as not relevant.",
    "query": "The id of a labelled question.",
    "text": "The text of the question, or of the label.",
    "judgments": "Labels of the question.",
    "relevant": "Labels of a grade that counts as relevant.",
    "tags": "Tags of the question, by which `compare --slices` divides.",
    "how": "How the text of a label was found in the documents.",
    "labels": "The number of labels.",
    "where": "The document and the characters where the text of a label was found.",
    "date (utc)": "When the run ended.",
    "scored again from": "The run whose rankings were scored again, with other labels.",
    "people": "The grade that people gave.",
    "bias": "How much higher the judge scores the setting than people do.",
    "equal scores": "How far the metric moves if documents with equal scores are in another order.",
    "settings": "The number of settings of a run.",
    "top setting": "The setting with the best mean of the primary metric, which may be chance.",
    "what": "A kind of cached work.",
    "size": "Its size on the disk.",
    "last use": "When a run last used it.",
}
"""The columns of parts of a comparison, and of lists."""
OTHERS = {
    "abstain": "Not to answer a question, because the score of its first hit is below a threshold. The table "
    "`abstaining` of `ragtrial show` has the best one, if there are enough unanswerable questions.",
    "span": "`evaluators: {unit: span}` scores the passages that labels quote, so chunk sizes can be compared.",
    "document": "`evaluators: {unit: document}` scores documents: the best chunk of a document counts for it.",
    "ci": "Confidence interval: the differences that are compatible with the data.",
    "confidence interval": "The differences that are compatible with the data.",
    "mde": "Minimum detectable effect: the column `detectable` of a comparison.",
    "power": "The chance of finding a difference that is there; ragtrial plans with 80%.",
    "max t": "The default test: paired sign flips and a balanced bootstrap-t over all comparisons at once.",
    "bootstrap": "Resampling the questions: how certain the best setting is, and how wide its intervals are.",
    "optimism": "The part of the best setting's score that it owes to having been chosen by it.",
    "corrected": "The score to expect of the best setting on new questions: its mean less the optimism.",
    "chosen": "The share of bootstrap resamples in which the setting is the best.",
    "judged": "The share of the first hits that have a label; the others count as not relevant.",
    "margin": "The difference that would not matter to you (0.02 for scores from 0 to 1): `ragtrial compare --margin`.",
    "group": "Labels of a question with the same `group` are alternatives: any of them answers that part of it.",
    "cluster": "Questions that belong together, by the key `cluster` of the labels: a comparison counts them as one "
    "observation.",
    "hybrid": "Hybrid search: a retriever of kind fusion that combines dense search and BM25. See "
    "`ragtrial explain fusion`.",
}

OPENINGS = {
    "@": "Over that many of the first hits.",
    "effect on": "The effect of a parameter of a sweep, over all pairs of settings that differ in nothing else.",
    "context in": "How much text the first k hits are, mean over questions.",
    "within": "Scores over the first hits that fit into a budget of tokens (`evaluators.budget`).",
    "searched": "The score on the questions that the search looked at; the others decide.",
    "tokens@": "Average number of tokens in the first hits of one query.",
    "characters@": "Average number of characters in the first hits of one query.",
}
"""By the words that a title begins with."""

_ALL = COLUMNS | RUN_COLUMNS | VIEW_COLUMNS | VERDICTS | HEADLINES | OTHERS


def meaning_of(word: str) -> str | None:
    """The meaning of a column, a verdict, or another word of a table, however it is written; None for other words."""
    plain = " ".join(re.split(r"[-_\s]+", word.casefold().strip()))
    without_number = re.sub(r"^[\d.,]+%? | [\d.,]+%?$", "", plain)
    opening = next((start for start in OPENINGS if plain.startswith(start)), "")
    return _ALL.get(plain) or _ALL.get(without_number) or OPENINGS.get(opening)


def meanings_in(sentences: Sequence[str]) -> dict[str, str]:
    """The words of a conclusion that occur in ``sentences``, each with its meaning."""
    text = "\n".join(sentences).casefold()
    return {word: meaning for word, meaning in (HEADLINES | VERDICTS).items() if re.search(rf"\b{word}\b", text)}


def words() -> list[str]:
    """All words that have a meaning here."""
    return list(_ALL)
