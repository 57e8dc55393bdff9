"""Ranks below the hits that a report shows are read from its rankings, for what other settings show."""

from pathlib import Path

from experiments import DOCUMENTS, QUERIES, write_experiment
from ragtrial import run_experiment
from ragtrial.comparison.comparison_input import ComparisonInput, input_of
from ragtrial.scoring.query_details import load_query
from ragtrial.views.page.blocks import DeepRanks, FoundHits, deep_ranks

DOCS = [f"d{place:02}" for place in range(1, 41)]


def deep_ranks_of(contest: ComparisonInput) -> list[DeepRanks]:
    return deep_ranks(contest.queries, FoundHits(contest))


def test_chunks_have_their_ranks_in_the_stored_rankings(tmp_path: Path) -> None:
    """Under unit: span, where the same document has many chunks."""
    queries = [
        {**one, "relevant_docs": [{**label, "quote": DOCUMENTS[label["doc"]][:30]} for label in one["relevant_docs"]]}
        for one in QUERIES
    ]
    made = write_experiment(
        tmp_path, queries=queries, evaluators={"unit": "span"},
        chunker={"kind": "fixed", "size": 20, "overlap": 0, "unit": "characters"},
        retrievers={"dense": {"kind": "dense", "top_k": 40}, "words": {"kind": "bm25", "top_k": 40}},
    )  # fmt: skip
    contest = input_of([str(run_experiment(made.config()).folder)])
    deep, compared = deep_ranks_of(contest), 0
    for place, query in enumerate(QUERIES):
        rankings = load_query(contest.report, contest.report.settings, query["id"])
        for own, ranking in zip(deep, rankings, strict=True):
            ranks = {(hit.doc, hit.start, hit.end): hit.rank for hit in ranking.hits}
            assert own[place].items() <= ranks.items()
            compared += len(own[place])
    assert compared >= 10
