"""Documents with equal scores: in trec_eval's order all numbers are trec_eval's, and the range holds both orders."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

from experiments import write_experiment
from ragtrial.cli.outcome import run as command_line
from ragtrial.components.interfaces import Candidates
from ragtrial.dataset.chunks import Chunks
from ragtrial.dataset.library import NamedDocuments
from ragtrial.errors import ConfigError
from ragtrial.experiment import run_experiment
from ragtrial.pipeline.retrieval import SettingRankings
from ragtrial.rankings import PADDING, Rankings
from ragtrial.report.model import Report, read_rows
from report_hits import values_of

TEXTS = {
    "bread": "Bread is baked in a hot oven for an hour.", "soup": "Soup of leeks keeps for three days in the cold.",
    "tea": "Tea is drunk hot, with milk or without.", "oven": "An oven is hot after ten minutes.",
}  # fmt: skip
COPIES = ("b", "z", "a", "M", "é")
DOCUMENTS = {f"{copy}-{name}.txt": text for name, text in TEXTS.items() for copy in COPIES}
QUERIES: list[dict[str, Any]] = [
    {"id": "q1", "text": "hot oven", "relevant_docs": [{"doc": "z-bread.txt", "relevance": 2}, {"doc": "a-oven.txt"}]},
    {"id": "q2", "text": "how long does soup keep", "relevant_docs": [{"doc": "M-soup.txt"}]},
    {"id": "q3", "text": "tea with milk", "relevant_docs": [{"doc": "é-tea.txt"}, {"doc": "b-tea.txt"}]},
]
SETTINGS = {
    "words": {"kind": "bm25", "top_k": 7},
    "vectors": {"kind": "dense", "top_k": 7},
    "fused": {"kind": "fusion", "inputs": ["words", "vectors"], "top_k": 7},
}
MEASURES = {"ndcg@3": "ndcg_cut_3", "rr@7": "recip_rank", "precision@3": "P_3", "ap@7": "map_cut_7"}
EVALUATORS = {
    "primary_metric": "ndcg@3", "order_unaware": {"metrics": ["precision@3"]},
    "order_aware": {"metrics": ["rr@7", "ap@7"]}, "graded": {"metrics": ["ndcg@3"]},
}  # fmt: skip


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> list[Report]:
    """With ties in our order, and in trec_eval's."""
    folder = tmp_path_factory.mktemp("ties")
    made = write_experiment(folder, DOCUMENTS, QUERIES, retrievers=SETTINGS, evaluators=EVALUATORS)
    return [run_experiment(made.config(f"evaluators.ties={ties}")) for ties in ("first", "trec")]


def by_trec_eval(report: Report, setting: str) -> dict[str, dict[str, float]]:
    """What trec_eval says of the documents and scores of a report, whose order it does not see."""
    qrels = {one["id"]: {label["doc"]: label.get("relevance", 1) for label in one["relevant_docs"]} for one in QUERIES}
    rows = read_rows(report.ranking_file(setting))
    run = {row["query"]: dict(zip(row["docs"], row["scores"], strict=True)) for row in rows}
    found: dict[str, dict[str, float]] = pytrec_eval.RelevanceEvaluator(qrels, set(MEASURES.values())).evaluate(run)
    return found


@pytest.mark.parametrize("setting", SETTINGS)
def test_numbers_are_trec_evals_and_only_equal_scores_change_places(reports: list[Report], setting: str) -> None:
    first, trec = reports
    expected = by_trec_eval(trec, setting)
    for metric, measure in MEASURES.items():
        for query, value in values_of(trec, setting, metric).items():
            assert value == pytest.approx(expected[query][measure], abs=1e-12), (query, metric)
    for one, two in zip(*(read_rows(report.ranking_file(setting)) for report in (first, trec)), strict=True):
        assert one["scores"] == two["scores"]
        assert sorted(one["docs"]) == sorted(two["docs"])
        for score in set(one["scores"]):
            rows = [[doc for doc, own in zip(row["docs"], row["scores"], strict=True) if own == score]
                    for row in (one, two)]  # fmt: skip
            assert rows[0] == sorted(rows[0])
            assert rows[1] == sorted(rows[0], reverse=True)


def test_the_warning_tells_the_range_in_which_both_orders_lie(reports: list[Report]) -> None:
    first, trec = reports
    for report in reports:
        (told,) = [one.message for one in report.warnings if one.code == "ties"]
        name = told.split(" of ")[1].split(" between ")[0]
        low, high = map(float, re.findall(r"\d\.\d{4}", told)[:2])
        means = [one.setting(name).scores["ndcg@3"].mean or 0 for one in (first, trec)]
        assert low - 5e-5 <= min(means) < max(means) <= high + 5e-5
    assert "(evaluators.ties: trec)" in str(first.warnings)
    assert "as in trec_eval" in str(trec.warnings)


@pytest.mark.parametrize("setting", SETTINGS)
def test_an_export_keeps_ordered_scores(
    reports: list[Report], setting: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for report, kept in zip(reports, (False, True), strict=True):
        target = tmp_path / f"{report.run_id}-{kept}.run"
        assert command_line(["export", str(report.folder), str(target), "--run", setting]) == 0
        rows = [line.split() for line in target.read_text(encoding="utf-8").splitlines()]
        written = [(row[0], row[2], float(row[4])) for row in rows]
        own = [
            (row["query"], *hit)
            for row in read_rows(report.ranking_file(setting))
            for hit in zip(row["docs"], row["scores"], strict=True)
        ]
        assert [one[:2] for one in written] == [one[:2] for one in own]
        assert (written == own) == kept
        by_rule = sorted(written, key=lambda one: (one[2], one[1].encode()), reverse=True)
        assert sorted(by_rule, key=lambda one: one[0]) == written, "trec_eval has the same order"
    capsys.readouterr()


@given(
    scores=arrays.arrays(np.float32, (3, 6), elements=st.sampled_from([2.0, 1.0, 0.5, np.nan])),
    lengths=st.tuples(*[st.integers(0, 6)] * 3),
    ids=st.permutations(range(6)),
)
def test_equal_scores_go_by_place_with_their_hits(
    scores: np.ndarray[Any, Any], lengths: tuple[int, ...], ids: list[int]
) -> None:
    scores = -np.sort(-scores, axis=1)  # unknown ones come last
    is_out = np.arange(6) >= np.array(lengths)[:, None]
    codes = np.where(is_out, PADDING, np.tile(np.array(ids, dtype=np.int32), (3, 1)))
    rankings = Rankings(codes, np.where(is_out, np.nan, scores).astype(np.float32))
    units, places = np.where(is_out, PADDING, codes + 10), np.where(is_out, 0, np.arange(1, 7))
    library = NamedDocuments([f"d{number}" for number in range(6)])
    none = Candidates.of(Chunks.of(library, []), Rankings(codes[:, :0], rankings.scores[:, :0]))
    ranked = SettingRankings(none, rankings, units, places, np.array(lengths), "document")
    place = np.array([3, 1, 4, 0, 5, 2])
    made = ranked.with_last_first(place)
    for row, length in enumerate(lengths):
        hits = list(zip(*(one[row, :length].tolist() for one in (rankings.scores, codes, units, places)), strict=True))
        known = [hit for hit in hits if not np.isnan(hit[0])]
        expected = sorted(known, key=lambda hit: (hit[0], place[hit[1]]), reverse=True) + hits[len(known) :]
        columns = (made.rankings.scores, made.rankings.codes, made.units, made.ranks)
        found = list(zip(*(one[row, :length].tolist() for one in columns), strict=True))
        assert [hit[1:] for hit in found] == [hit[1:] for hit in expected]
        assert (made.rankings.codes[row, length:] == PADDING).all()
    assert made.read.tolist() == ranked.read.tolist()


def test_passages_have_no_ties_to_break(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, evaluators={"unit": "span", "ties": "trec"})
    with pytest.raises(ConfigError, match="which orders documents; leave it out under unit: span"):
        experiment.config()
