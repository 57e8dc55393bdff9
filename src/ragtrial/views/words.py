"""The words of a comparison's table: its columns and its verdicts, each in a sentence."""

from __future__ import annotations

COLUMNS = {
    "setting": "The setting that is compared.",
    "against": "The baseline: what the setting is compared with.",
    "verdict": "The conclusion for the setting, compared with the baseline.",
    "baseline": "Mean of the baseline.",
    "mean": "Mean of the setting.",
    "difference": "Mean of the setting less mean of the baseline, over the same queries.",
    "interval": "The differences that are compatible with the data, at this confidence for all comparisons together.",
    "p": "How likely so large a difference is by chance, corrected for the number of comparisons.",
    "won": "Queries for which the setting scores higher.",
    "tied": "Queries for which both score the same.",
    "lost": "Queries for which the baseline scores higher.",
    "n": "Queries that count for both.",
    "smallest": "Smallest detectable difference: the smallest that these queries show with 80% power.",
    "needed": "Questions needed to detect a difference as large as the margin with 80% power; enough: these are.",
}
"""By their titles, or by these without a number at one end."""

VERDICTS = {
    "better": "The whole interval of the difference is above 0.",
    "worse": "The whole interval of the difference is below 0.",
    "worse within the margin": "Worse, but by no more than the margin: the interval lies between -margin and 0.",
    "no worse": "The interval has 0 in it and lies above -margin: the setting is not worse by more than that.",
    "cannot tell": "The interval has 0 in it and reaches below -margin: more questions are needed to know.",
    "too few differences": "The two score differently on fewer than 10 questions: too few for an interval.",
    "identical": "Both score the same on every question.",
}

RUN_COLUMNS = {
    "ms p50": "Milliseconds that half of the queries take at most, one at a time; ~: other programs slowed them.",
    "p50": "Milliseconds that half of the queries take at most, one at a time; ~: other programs slowed them.",
    "p95": "Milliseconds that 95% of the queries take at most.",
    "p99": "Milliseconds that 99% of the queries take at most.",
    "slowest": "Milliseconds of the slowest query; with 100 queries or more p99 is shown instead.",
    "embed s": "Seconds that embedding the chunks took, in the run that did it.",
    "index s": "Seconds that building the index took, in the run that did it.",
    "index mb": "Megabytes of the index on the disk.",
    "tokens": "Tokens of all hits of a ranking, mean over queries.",
    "characters": "Characters of all hits of a ranking, mean over queries.",
    "hits": "Hits that fit into the token budget, mean over queries.",
    "overlap": "The share of the hits of exact search that the index found, mean over queries.",
    "lowest": "The overlap of the query where it is lowest.",
    "unreachable": "Vectors that no search of the index returns.",
    "95% interval": "The mean is compatible with every value in it; for one setting alone, not for comparisons.",
    "judged@10": "The share of the first 10 hits that have a label; the others count as not relevant.",
}
"""Those of the tables of a run."""

OTHERS = {
    "margin": "The difference that would not matter to you (0.02 by default): `ragtrial compare --margin`.",
    "hybrid": "Hybrid search: a retriever of kind fusion that combines dense search and BM25. See "
    "`ragtrial explain fusion`.",
}


def meaning_of(word: str) -> str | None:
    """What a column, a verdict, or another word of a table says, however it is written; None for others."""
    return (COLUMNS | RUN_COLUMNS | VERDICTS | OTHERS).get(" ".join(word.casefold().replace("-", " ").split()))
